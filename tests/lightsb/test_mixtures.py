import numpy as np
import pytest
import torch

from cameraready.lightsb.mixtures import make_eot_mixture

DRAWS = 20_000


@pytest.mark.parametrize(("dim", "eps", "radius"), [(2, 0.1, 1.5 * 2**0.5), (20, 1.0, 5.0)])
def test_components(dim, eps, radius):
    truth = make_eot_mixture(dim, eps, n_components=4, seed=1).truth
    np.testing.assert_allclose(truth.means.detach().norm(dim=1), radius)
    s = truth.log_scales.detach().mul(2).exp()
    assert 0.2 <= s.min() <= s.max() <= 1.0
    assert truth.log_alpha.logsumexp(0).item() == pytest.approx(0, abs=1e-12)
    assert truth.means.dtype == torch.float64


@pytest.mark.parametrize("source_scale", [1.0, 4.0])
def test_each_component_is_drawn_equally_often(source_scale):
    problem = make_eot_mixture(2, 0.1, seed=3, source_scale=source_scale)
    x0 = torch.from_numpy(problem.sample_x0(DRAWS, 5))
    shares = problem.truth.responsibilities(x0).detach()
    error = shares.std(0) * (1 / DRAWS + 1 / 8192) ** 0.5  # balanced on 8192 others
    assert ((shares.mean(0) - 0.2).abs() < 4 * error).all()
    assert x0.std().item() == pytest.approx(source_scale, rel=0.02)


def test_one_component_has_a_gaussian_target():
    problem = make_eot_mixture(3, 0.5, n_components=1, seed=0)
    s = problem.truth.log_scales.detach().mul(2).exp().numpy()[0]
    r = problem.truth.means.detach().numpy()[0]
    # x1 = r + s x0 + sqrt(eps s) z.
    x0, x1 = problem.sample_pair(DRAWS, 1)
    variance = s**2 + 0.5 * s
    np.testing.assert_allclose(x1.mean(0), r, atol=4 * (variance.max() / DRAWS) ** 0.5)
    np.testing.assert_allclose(x1.var(0), variance, rtol=4 * (2 / DRAWS) ** 0.5)
    np.testing.assert_allclose((x0 * (x1 - r)).mean(0), s, atol=6 / DRAWS**0.5)
    mean, covariance = problem.conditional_moments(x0[:4])
    np.testing.assert_allclose(mean, r + s * x0[:4])
    np.testing.assert_allclose(covariance, np.tile(np.diag(0.5 * s), (4, 1, 1)), atol=1e-12)


def test_pairs_have_the_moments_of_the_plan():
    problem = make_eot_mixture(2, 1.0, seed=2)
    x0, x1 = problem.sample_pair(DRAWS, 4)
    mean, covariance = problem.conditional_moments(x0)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (x1 - mean)[..., None])[..., 0]
    np.testing.assert_allclose(whitened.mean(0), 0, atol=4 / DRAWS**0.5)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(2), atol=0.05)


def test_seeds():
    problem = make_eot_mixture(2, 1.0, seed=7)
    again = make_eot_mixture(2, 1.0, seed=7)
    np.testing.assert_array_equal(problem.sample_x1(5, 1), again.sample_x1(5, 1))
    assert not np.array_equal(problem.sample_x1(5, 1), problem.sample_x1(5, 2))
    generator = np.random.default_rng(0)
    assert not np.array_equal(problem.sample_x1(5, generator), problem.sample_x1(5, generator))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"dim": 0}, "dim"),
        ({"eps": 0.0}, "eps"),
        ({"n_components": 0}, "n_components"),
        ({"source_scale": -1.0}, "source_scale"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        make_eot_mixture(**{"dim": 2, "eps": 1.0, **arguments})
