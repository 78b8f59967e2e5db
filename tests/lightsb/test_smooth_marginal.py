"""The density at the target, against closed forms and quadrature."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.mixture import GaussianMixture

from cameraready.lightsb import LightSB
from cameraready.lightsb.mixtures import make_eot_mixture
from cameraready.lightsb.smooth_marginal import fit_source, smooth_marginal_log_prob


def bridge_of(module, source):
    """A bridge with a known potential, in the units of the source."""
    made = LightSB(module.n_components, module.eps, scale="none", max_iter=1, dtype="float64")
    made.fit(source, np.random.default_rng(0).normal(size=source.shape))
    made.module_ = module
    return made


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_one_gaussian_and_one_component_are_exact(covariance_type):
    rng = np.random.default_rng(0)
    # So far apart that the source's points tell nothing, and the draws have to.
    x0 = 100 * rng.normal(size=(40, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 0.5]])
    bridge = LightSB(
        1, 0.01, covariance_type=covariance_type, scale="none", dtype="float64", max_iter=5,
        random_state=0,
    ).fit(x0, rng.normal(size=(40, 3)))  # fmt: skip
    source = GaussianMixture(1, random_state=0).fit(x0)
    noise = bridge.module_.covariances()[0].detach().numpy()
    slope = noise / bridge.eps
    expected = multivariate_normal(
        bridge.module_.means[0].detach().numpy() + slope @ source.means_[0],
        slope @ source.covariances_[0] @ slope.T + noise,
    )
    x1 = expected.rvs(50, random_state=1)
    found = smooth_marginal_log_prob(bridge, source, torch.from_numpy(x1))
    np.testing.assert_allclose(found, expected.logpdf(x1), atol=1e-6)


@pytest.mark.parametrize("eps", [0.02, 0.3, 3.0])
def test_several_components_against_quadrature(eps):
    problem = make_eot_mixture(1, eps, n_components=3, seed=1)
    bridge = bridge_of(problem.truth, problem.sample_x0(2000, 0))
    source = GaussianMixture(1).fit(np.array([[-1.0], [1.0]]))  # N(0, 1)
    assert source.covariances_[0, 0, 0] == pytest.approx(1.0, abs=1e-3)
    x1 = problem.sample_x1(300, 2)
    grid = np.linspace(-8, 8, 4001)
    with torch.no_grad():
        plan = problem.truth.conditional_log_prob(
            torch.from_numpy(np.tile(grid, len(x1))[:, None]),
            torch.from_numpy(np.repeat(x1, len(grid), 0)),
        ).numpy()
    terms = plan.reshape(len(x1), -1) + norm.logpdf(grid) + np.log(grid[1] - grid[0])
    exact = logsumexp(terms, 1)
    found = smooth_marginal_log_prob(bridge, source, torch.from_numpy(x1))
    # 200 draws, or 2000 points of the source.
    assert abs((found - exact).mean()) < 0.02
    assert np.abs(found - exact).max() < 0.6


def test_sparse_points_are_not_taken_for_the_source():
    problem = make_eot_mixture(16, 0.1, seed=0)
    x0, x1 = problem.sample_x0(2000, 0), problem.sample_x1(200, 1)
    bridge = bridge_of(problem.truth, x0)
    found = smooth_marginal_log_prob(bridge, fit_source(x0, 0), torch.from_numpy(x1)).mean()
    # What the points alone give is out by ten nats.
    assert bridge.marginal_log_prob(x1).mean() < found - 5
    # The density of pairs, less that of x0 given x1 at most, is not far below.
    assert found < 0


def test_the_source_is_described_as_its_criterion_says():
    rng = np.random.default_rng(0)
    one = rng.normal(size=(500, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
    assert (fit_source(one, 0).n_components, fit_source(one, 0).covariance_type) == (1, "full")
    two = rng.normal(size=(500, 2)) + 8 * rng.integers(0, 2, (500, 1))
    assert fit_source(two, 0).n_components == 2
    assert fit_source(rng.normal(size=(4, 3)), 0).n_components >= 1


def test_a_bridge_without_source_is_refused():
    x = np.random.default_rng(0).normal(size=(64, 2))
    bridge = LightSB(2, scale="none", max_iter=4).partial_fit([(x, x)])
    with pytest.raises(ValueError, match="no source"):
        smooth_marginal_log_prob(bridge, fit_source(x, 0), torch.from_numpy(x))
