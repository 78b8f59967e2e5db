import importlib
import sys

import numpy as np
import ot
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from cameraready import lightsb
from cameraready.lightsb import baselines
from cameraready.lightsb.baselines import (
    DSBM,
    SF2M,
    BridgeMatching,
    SinkhornBridge,
    bridge_correlation,
    imf_correlations,
)
from cameraready.lightsb.baselines.drift_network import (
    DriftNetwork,
    bridge_matching_loss,
)
from cameraready.lightsb.metrics import gaussian_w2_squared
from cameraready.lightsb.mixtures import make_eot_mixture

QUICK = {"max_iter": 6, "batch_size": 16, "n_steps": 5, "hidden": (8,)}
ALL = [
    SinkhornBridge(0.5, random_state=0),
    BridgeMatching(0.5, random_state=0, **QUICK),
    BridgeMatching(0.5, plan="minibatch", random_state=0, **QUICK),
    DSBM(0.5, n_projections=3, random_state=0, **QUICK),
    SF2M(0.5, random_state=0, **QUICK),
    SF2M(0.5, plan="sinkhorn", random_state=0, **QUICK),
]
RNG = np.random.default_rng(0)
X0, X1 = RNG.normal(size=(40, 2)), RNG.normal(size=(30, 2)) + 1


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_shapes_seeds_and_ends(model):
    model = clone(model).fit(X0, X1)
    mapped = model.transform(X0)
    assert isinstance(mapped, np.ndarray)
    assert mapped.shape == (40, 2)
    assert model.transform(X0[:7], n_samples=3).shape == (7, 3, 2)
    np.testing.assert_array_equal(mapped, model.transform(X0))
    np.testing.assert_array_equal(mapped, clone(model).fit(X0, X1).transform(X0))
    other = clone(model).set_params(random_state=1).fit(X0, X1)
    assert not np.array_equal(mapped, other.transform(X0))
    paths = model.sample_paths(X0, [0.0, 0.3, 0.9])
    assert paths.shape == (40, 3, 2)
    np.testing.assert_allclose(paths[:, 0], X0, rtol=1e-6)
    assert np.isfinite(paths).all()
    mean, covariance = model.conditional_moments(X0[:4], n_samples=20)
    assert mean.shape == (4, 2)
    assert covariance.shape == (4, 2, 2)
    assert (np.linalg.eigvalsh(covariance) > -1e-9).all()


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_global_seeds_are_left_alone(model):
    np_state, torch_state = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    clone(model).fit(X0, X1).transform(X0)
    assert all(map(np.array_equal, np_state, np.random.get_state()))  # noqa: NPY002
    assert torch.equal(torch_state, torch.get_rng_state())


@pytest.mark.parametrize("model", [SinkhornBridge(), BridgeMatching(max_iter=1)], ids=repr)
def test_bad_input(model):
    with pytest.raises(NotFittedError):
        model.transform(X0)
    with pytest.raises(ValueError, match=r"shapes \(40, 2\) and \(30, 1\)"):
        model.fit(X0, X1[:, :1])
    with pytest.raises(ValueError, match="X1 has NaN"):
        model.fit(X0, np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="eps must be"):
        clone(model).set_params(eps=-1.0).fit(X0, X1)
    model = clone(model).set_params(eps=5.0).fit(X0, X1)
    with pytest.raises(ValueError, match="X0 has 1 features"):
        model.transform(X0[:, :1])
    with pytest.raises(ValueError, match="n_samples"):
        model.transform(X0, 0)
    with pytest.raises(ValueError, match="n_samples"):
        BridgeMatching.conditional_moments(model, X0, 1)
    for times in ([], [0.5, 0.2], [-0.1, 0.5], [0.5, 1.5]):
        with pytest.raises(ValueError, match="times"):
            model.sample_paths(X0, times)


def test_plans_and_projections_are_checked():
    with pytest.raises(ValueError, match="plan must be one of"):
        BridgeMatching(plan="paired").fit(X0, X1)
    with pytest.raises(ValueError, match="plan must be one of"):
        SF2M(plan="independent").fit(X0, X1)
    with pytest.raises(ValueError, match="n_projections"):
        DSBM(n_projections=0).fit(X0, X1)


def test_imf_converges_to_the_bridge():
    for eps in (0.1, 1.0, 10.0):
        rho = bridge_correlation(eps)
        # The bridge's variance given x0, eps rho, and that of x1 are rho² + eps rho = 1.
        assert rho**2 + eps * rho == pytest.approx(1)
        assert imf_correlations(eps, rho, 1)[0] == pytest.approx(rho, abs=1e-12)
        assert imf_correlations(eps, -1.0, 60)[-1] == pytest.approx(rho, abs=1e-6)


def test_one_projection_against_simulation_of_its_moments():
    # d cov(X_t, X_0) = beta(t) cov dt, with beta by the regression of the bridge's drift on X_t.
    eps, rho, steps = 0.7, -0.4, 20_000
    t = (np.arange(steps) + 0.5) / steps
    variance = (1 - t) ** 2 + t**2 + 2 * t * (1 - t) * rho + eps * t * (1 - t)
    drift = ((1 - t) * rho + t - variance) / (1 - t)  # cov((x1 - x_t)/(1 - t), x_t)
    expected = np.exp(np.mean(drift / variance))
    assert imf_correlations(eps, rho, 1)[0] == pytest.approx(expected, abs=1e-6)


def test_imf_arguments():
    assert imf_correlations(1.0, 0.0, 0).shape == (0,)
    with pytest.raises(ValueError, match="rho0"):
        imf_correlations(1.0, 1.5, 1)
    with pytest.raises(ValueError, match="eps"):
        bridge_correlation(0)


def _correlation(model, x0):
    mapped = model.transform(x0[:, None])
    return np.corrcoef(x0, mapped[:, 0])[0, 1]


@pytest.fixture(scope="module")
def normals():
    generator = np.random.default_rng(3)
    return generator.normal(size=(20_000, 1)), generator.normal(size=(20_000, 1))


SETTINGS = {"hidden": (32,), "batch_size": 256, "n_steps": 50, "lr": 1e-2, "random_state": 0}


def test_bridge_matching_is_one_projection(normals):
    model = BridgeMatching(1.0, max_iter=1500, **SETTINGS).fit(*normals)
    x0 = np.random.default_rng(4).normal(size=40_000)
    found = _correlation(model, x0)
    assert found == pytest.approx(imf_correlations(1.0, 0.0, 1)[0], abs=0.02)
    assert bridge_correlation(1.0) - found > 0.05


@pytest.mark.parametrize("projections", [2, 3])
def test_dsbm_is_iterated_projection(normals, projections):
    model = DSBM(1.0, n_projections=projections, max_iter=500 * projections, **SETTINGS)
    x0 = np.random.default_rng(4).normal(size=40_000)
    found = _correlation(model.fit(*normals), x0)
    assert found == pytest.approx(imf_correlations(1.0, 0.0, projections)[-1], abs=0.02)


def test_sf2m_transports_between_normals(normals):
    x0, x1 = normals
    settings = {**SETTINGS, "batch_size": 128, "hidden": (64, 64), "lr": 5e-3}
    model = SF2M(1.0, plan="sinkhorn", max_iter=400, **settings).fit(x0, x1 + 2)
    mapped = model.transform(x0)
    assert mapped.mean() == pytest.approx(2, abs=0.05)
    assert mapped.std() == pytest.approx(1, abs=0.05)
    assert _correlation(model, x0[:, 0]) == pytest.approx(bridge_correlation(1.0), abs=0.03)


def test_sf2m_says_how_to_get_torchcfm(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcfm", None)
    with pytest.raises(ImportError, match="pip install --no-deps torchcfm torchdyn"):
        SF2M().fit(X0, X1)


def test_torchcfm_is_loaded_only_when_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcfm", None)
    monkeypatch.setattr(lightsb, "baselines", lightsb.baselines)
    for name in [name for name in sys.modules if name.startswith(baselines.__name__)]:
        monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module(baselines.__name__) is not baselines


def test_sinkhorn_rows_are_those_of_pots_plan():
    eps = 0.3
    model = SinkhornBridge(eps, tol=1e-12, random_state=0).fit(X0, X1)
    uniform = np.full(40, 1 / 40), np.full(30, 1 / 30)
    # POT's plan for the squared distance has reg = 2 eps.
    plan = ot.sinkhorn(*uniform, ot.dist(X0, X1), 2 * eps, stopThr=1e-12, numItermax=20_000)
    rows = plan / plan.sum(1, keepdims=True)
    mean, covariance = model.conditional_moments(X0)
    np.testing.assert_allclose(mean, rows @ X1, atol=1e-8)
    for row, found in zip(rows, covariance, strict=True):
        np.testing.assert_allclose(found, np.cov(X1.T, aweights=row, ddof=0), atol=1e-8)
    samples = model.transform(X0[:3], n_samples=20_000)
    np.testing.assert_allclose(samples.mean(1), mean[:3], atol=0.04)
    assert {tuple(point) for point in samples[0]} <= {tuple(point) for point in X1}


def test_sinkhorn_maps_new_points_as_the_gaussian_bridge():
    generator = np.random.default_rng(5)
    eps, s2 = 0.5, 0.25
    x0, x1 = generator.normal(size=(1500, 1)), 2 + s2**0.5 * generator.normal(size=(1500, 1))
    mean, covariance = SinkhornBridge(eps).fit(x0, x1).conditional_moments([[-1.0], [0.0], [1.0]])
    slope = (s2 + eps**2 / 4) ** 0.5 - eps / 2
    np.testing.assert_allclose(mean[:, 0], 2 + slope * np.array([-1, 0, 1]), atol=0.05)
    np.testing.assert_allclose(covariance[:, 0, 0], eps * slope, rtol=0.15)


def test_sinkhorn_paths_are_brownian_bridges():
    model = SinkhornBridge(0.4, random_state=0).fit(np.zeros((1, 1)), np.ones((1, 1)))
    paths = model.sample_paths(np.zeros((50_000, 1)), [0.25, 0.5, 1.0])[..., 0]
    np.testing.assert_allclose(paths.mean(0), [0.25, 0.5, 1.0], atol=0.01)
    expected = 0.4 * np.array([[0.25 * 0.75, 0.25 * 0.5], [0.25 * 0.5, 0.25]])
    np.testing.assert_allclose(np.cov(paths[:, :2].T), expected, atol=0.005)
    np.testing.assert_array_equal(paths[:, 2], 1.0)


def test_sinkhorn_says_when_it_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or eps"):
        SinkhornBridge(0.001, max_iter=2).fit(X0, X1)


def test_the_loss_is_least_at_the_projection():
    generator = torch.Generator().manual_seed(0)
    x0, x1 = torch.randn(2, 200_000, 1, generator=generator, dtype=torch.float64)
    eps = 1.0

    def loss(slope):
        def drift(x, t):
            t = t[:, None]
            variance = (1 - t) ** 2 + t**2 + eps * t * (1 - t)
            return slope * ((2 * t - 1) - eps * t) / variance * x

        noise = torch.Generator().manual_seed(1)
        return bridge_matching_loss(drift, x0, x1, eps, noise).item()

    assert loss(1.0) < min(loss(0.9), loss(1.1))


def test_the_network_is_indifferent_to_units():
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(50, 2, generator=generator, dtype=torch.float64)
    drifts = []
    for shift, scale in ((0.0, 1.0), (3.0, 100.0)):
        network = DriftNetwork(
            shift + scale * data, (8,), torch.Generator().manual_seed(1)
        ).double()
        torch.nn.init.ones_(network.layers[-1].weight)
        drifts.append(network(shift + scale * data, torch.full((50,), 0.3)) / scale)
    torch.testing.assert_close(*drifts, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("column", [0.0, 5.0])
def test_constant_data(column):
    data = np.full((20, 1), column)
    mapped = BridgeMatching(0.5, random_state=0, **QUICK).fit(data, data).transform(data)
    assert np.isfinite(mapped).all()


def test_a_trained_rival_beats_independence_on_a_known_plan():
    problem = make_eot_mixture(2, 1.0, seed=0)
    x0, x1, points = (
        problem.sample_x0(4000, 1),
        problem.sample_x1(4000, 2),
        problem.sample_x0(50, 3),
    )
    true = problem.conditional_moments(points)
    independent = np.tile(x1.mean(0), (50, 1)), np.tile(np.cov(x1.T), (50, 1, 1))
    model = SinkhornBridge(1.0, tol=1e-4).fit(x0[:800], x1[:800])
    found = gaussian_w2_squared(*model.conditional_moments(points), *true).mean()
    assert found < 0.05 * gaussian_w2_squared(*independent, *true).mean()
