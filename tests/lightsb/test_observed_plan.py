"""The plan between points that were seen, against its definition and against known fates."""

import numpy as np
import pytest
import torch

from cameraready.lightsb import LightSB, LightSBModule
from cameraready.lightsb.observed_plan import ObservedPlan
from cameraready.lightsb.scaling import Scaling


def bridge_of(module, **settings):
    """A LightSB that was not fitted but given its potential."""
    bridge = LightSB(scale="none", eps=module.eps, device="cpu", **settings)
    bridge.module_, bridge.scaling_ = module, Scaling(np.zeros(module.dim), 1.0)
    bridge.n_features_in_ = module.dim
    return bridge


@pytest.fixture
def two_fates():
    """Two components far apart, one much narrower than the other."""
    s = torch.tensor([[0.02], [0.5]], dtype=torch.float64).expand(2, 2)
    means = torch.tensor([[-8.0, 0.0], [8.0, 0.0]], dtype=torch.float64)
    log_alpha = torch.tensor([0.3, 0.0], dtype=torch.float64)
    return LightSBModule(log_alpha, means, 0.5 * s.log(), eps=8.0)


def samples(module, n, seed):
    rng = np.random.default_rng(seed)
    x0, start = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    generator = torch.Generator().manual_seed(seed)
    end = module.sample_conditional(torch.from_numpy(start), 1, generator)[:, 0]
    return x0, end.numpy()


def test_the_definition_by_brute_force(two_fates):
    rng = np.random.default_rng(0)
    x0, x1 = samples(two_fates, 30, 1)
    x1 = x1[:20]
    a, b = rng.random(30), rng.random(20)
    a, b = a / a.sum(), b / b.sum()
    density = np.array(
        [
            two_fates.conditional_log_prob(
                torch.from_numpy(x0), torch.from_numpy(x).expand(30, 2)
            ).tolist()
            for x in x1
        ]
    ).T
    density = np.exp(density)
    ratio = density / (a @ density)
    forward = b * ratio / (ratio @ b)[:, None]
    backward = (a[:, None] * ratio).T
    plan = ObservedPlan(bridge_of(two_fates), x0, x1, a, b)
    np.testing.assert_allclose(plan.transitions(), forward, rtol=1e-9)
    values = rng.random((20, 3))
    np.testing.assert_allclose(plan.expect(values), forward @ values, rtol=1e-9)
    np.testing.assert_allclose(plan.push(a), a @ forward, rtol=1e-9)
    np.testing.assert_allclose(plan.pull(b), b @ backward, rtol=1e-9)
    np.testing.assert_allclose(backward.sum(1), 1, rtol=1e-9)


def test_going_back_is_what_the_bridge_says(two_fates):
    x0, x1 = samples(two_fates, 40, 2)
    bridge = bridge_of(two_fates)
    plan = ObservedPlan(bridge, x0, x1)
    for j in (0, 7):
        np.testing.assert_allclose(
            plan.pull(np.eye(40)[j]), bridge.ancestors(x1[j : j + 1], x0)[0], rtol=1e-9
        )


def test_known_fates(two_fates):
    x0, x1 = samples(two_fates, 4000, 3)
    truth = two_fates.responsibilities(torch.from_numpy(x0)).detach().numpy()
    arrived = np.stack([x1[:, 0] < 0, x1[:, 0] > 0], 1).astype(float)
    found = ObservedPlan(bridge_of(two_fates), x0, x1).expect(arrived)
    assert np.abs(found - truth).max() < 0.03
    # With densities for probabilities the narrow component would have nearly everything.
    some = torch.from_numpy(x0[:50]), torch.from_numpy(x1)
    density = torch.stack(
        [two_fates.conditional_log_prob(x.expand(4000, 2), some[1]) for x in some[0]]
    )
    naive = density.softmax(1).detach().numpy() @ arrived
    assert np.abs(naive - truth[:50]).max() > 0.3


def test_chunks_change_nothing(two_fates):
    x0, x1 = samples(two_fates, 60, 4)
    whole = ObservedPlan(bridge_of(two_fates), x0, x1)
    parts = ObservedPlan(bridge_of(two_fates, max_memory=0.01), x0, x1)
    np.testing.assert_allclose(whole.transitions(), parts.transitions(), rtol=1e-9)
    mass = np.full(60, 1 / 60)
    np.testing.assert_allclose(whole.push(mass), parts.push(mass), rtol=1e-9)
    np.testing.assert_allclose(whole.pull(mass), parts.pull(mass), rtol=1e-9)


def test_points_without_weight_are_never_reached(two_fates):
    x0, x1 = samples(two_fates, 20, 5)
    plan = ObservedPlan(bridge_of(two_fates), x0, x1, weights1=np.arange(20) % 2)
    assert (plan.transitions()[:, ::2] == 0).all()
    np.testing.assert_allclose(plan.transitions().sum(1), 1)


def test_far_points_still_go_somewhere(two_fates):
    x0, x1 = samples(two_fates, 20, 6)
    x0[0] = 1e4
    plan = ObservedPlan(bridge_of(two_fates), x0, x1)
    np.testing.assert_allclose(plan.transitions().sum(1), 1)


def test_bad_points(two_fates):
    with pytest.raises(ValueError, match="x1 has 3 features"):
        ObservedPlan(bridge_of(two_fates), np.zeros((4, 2)), np.zeros((4, 3)))
    with pytest.raises(ValueError, match="weights0"):
        ObservedPlan(bridge_of(two_fates), np.zeros((4, 2)), np.zeros((4, 2)), -np.ones(4))
