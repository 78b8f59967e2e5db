import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics.pairwise import rbf_kernel

from cameraready.lightsb import metrics
from cameraready.lightsb.metrics import (
    bw2_uvp,
    conditional_bw2_uvp,
    energy_distance,
    gaussian_w2_squared,
    mmd_rbf,
    sliced_w2,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 3)), RNG.normal(size=(60, 3)) * 0.5 + 1


def _covariance(generator, dim):
    root = generator.normal(size=(dim, dim))
    return root @ root.T


def test_gaussian_distance_as_pot_has_it():
    for dim in (1, 2, 7):
        means = RNG.normal(size=(2, dim))
        covariances = [_covariance(RNG, dim) for _ in range(2)]
        expected = ot.gaussian.bures_wasserstein_distance(*means, *covariances) ** 2
        found = gaussian_w2_squared(means[0], covariances[0], means[1], covariances[1])
        assert found == pytest.approx(expected, rel=1e-9)


def test_gaussian_distance_between_degenerate_covariances():
    flat = np.diag([1.0, 0.0]) - 1e-17 * np.eye(2)  # an eigenvalue below zero by rounding
    assert gaussian_w2_squared(np.zeros(2), flat, np.zeros(2), flat) == pytest.approx(0, abs=1e-12)
    point = np.zeros((2, 2))
    assert gaussian_w2_squared(np.zeros(2), flat, np.ones(2), point) == pytest.approx(3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_gaussian_distance_is_symmetric_and_zero_only_between_equals(seed, dim):
    generator = np.random.default_rng(seed)
    a, b = _covariance(generator, dim), _covariance(generator, dim)
    m, n = generator.normal(size=(2, dim))
    there, back = gaussian_w2_squared(m, a, n, b), gaussian_w2_squared(n, b, m, a)
    assert there == pytest.approx(back, rel=1e-6, abs=1e-9)
    assert there > 0
    assert gaussian_w2_squared(m, a, m, a) == pytest.approx(0, abs=1e-6 * np.trace(a))


def test_bw2_uvp_of_known_cases():
    variance = np.trace(np.cov(Y, rowvar=False))
    assert bw2_uvp(Y, Y) == pytest.approx(0, abs=1e-9)
    assert bw2_uvp(np.tile(Y.mean(0), (5, 1)), Y) == pytest.approx(100)
    assert bw2_uvp(Y + np.array([0.3, 0, 0]), Y) == pytest.approx(100 * 0.09 / variance)
    half = Y.mean(0) + (Y - Y.mean(0)) / 2  # standard deviations halved
    assert bw2_uvp(half, Y) == pytest.approx(25)
    assert bw2_uvp(2 * Y[:, :1], 2 * Y[:, :1]) == pytest.approx(0, abs=1e-9)


def test_conditional_bw2_uvp_by_hand():
    mean, true_mean = np.array([[1.0, 0], [0, 0]]), np.array([[0.0, 0], [0, 2]])
    true = np.tile(np.eye(2), (2, 1, 1))
    # W2² is 1 and 4 by the means, 2·(2 - 1)² by the covariances 4 I and I.
    found = conditional_bw2_uvp((mean, 4 * true), (true_mean, true), target_variance=8.0)
    assert found == pytest.approx(100 * (0.5 * (1 + 4) + 2) / 8)
    # Total variance: 2 within, and 1 between means 0 and 2.
    found = conditional_bw2_uvp((mean, 4 * np.ones((2, 2))), (true_mean, np.ones((2, 2))))
    assert found == pytest.approx(100 * (0.5 * (1 + 4) + 2) / 3)


def test_conditional_bw2_uvp_refuses_other_shapes():
    mean, covariance = np.zeros((2, 3)), np.ones((2, 3))
    with pytest.raises(ValueError, match=r"moments\[1\] must hold covariances"):
        conditional_bw2_uvp((mean, covariance[:1]), (mean, covariance))
    with pytest.raises(ValueError, match="true_moments of"):
        conditional_bw2_uvp((mean, covariance), (mean[:1], covariance[:1]))


def test_energy_distance_in_one_dimension_as_scipy_has_it():
    x, y = X[:, :1], Y[:, :1]
    expected = stats.energy_distance(x[:, 0], y[:, 0]) ** 2
    assert energy_distance(x, y, unbiased=False) == pytest.approx(expected)


def test_energy_distance_between_normals():
    # E|X - Y| of N(0, 1) and N(m, 1) is the mean of a folded normal of variance 2.
    generator = np.random.default_rng(1)
    m = 1.0
    across = stats.foldnorm(m / 2**0.5, scale=2**0.5).mean()
    expected = 2 * across - 2 * stats.foldnorm(0, scale=2**0.5).mean()
    found = [
        energy_distance(generator.normal(size=(30, 1)), generator.normal(m, size=(30, 1)))
        for _ in range(300)
    ]
    error = np.std(found) / 300**0.5
    assert abs(np.mean(found) - expected) < 3 * error
    assert error < 0.05 * expected  # the biased estimate would be off by more


def test_energy_distance_of_equal_samples():
    assert energy_distance(X, X, unbiased=False) == pytest.approx(0, abs=1e-12)
    assert energy_distance(X, X) < 0


@pytest.mark.parametrize("unbiased", [True, False])
def test_mmd_by_its_definition(unbiased):
    h = 0.8
    xx, yy, xy = (rbf_kernel(a, b, 1 / (2 * h**2)) for a, b in ((X, X), (Y, Y), (X, Y)))
    if unbiased:
        within = [(k.sum() - len(k)) / (len(k) * (len(k) - 1)) for k in (xx, yy)]
    else:
        within = [xx.mean(), yy.mean()]
    expected = sum(within) - 2 * xy.mean()
    assert mmd_rbf(X, Y, bandwidth=h, unbiased=unbiased) == pytest.approx(expected)


def test_mmd_takes_the_median_distance():
    from scipy.spatial.distance import pdist

    h = np.median(pdist(np.concatenate([X, Y])))
    assert mmd_rbf(X, Y) == pytest.approx(mmd_rbf(X, Y, bandwidth=h))
    assert mmd_rbf(np.ones((4, 2)), np.ones((5, 2))) == pytest.approx(0)
    with pytest.raises(ValueError, match="bandwidth"):
        mmd_rbf(X, Y, bandwidth=0)


def test_sliced_w2_as_pot_has_it():
    expected = ot.sliced_wasserstein_distance(X, Y, n_projections=40, seed=3)
    assert sliced_w2(X, Y, n_projections=40, seed=3) == pytest.approx(expected)


def test_sliced_w2_of_a_shift():
    # The mean squared projection of a vector on a random direction is |v|²/D.
    distance = sliced_w2(X, X + np.array([0, 3, 4]), n_projections=4000, seed=0)
    assert distance == pytest.approx(5 / 3**0.5, rel=0.02)


def test_chunks_change_nothing(monkeypatch):
    def measure():
        return [energy_distance(X, Y), mmd_rbf(X, Y), sliced_w2(X, Y, seed=1)]

    whole = measure()
    monkeypatch.setattr(metrics, "_CHUNK_BYTES", 8 * 200)
    assert measure() == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("metric", [bw2_uvp, energy_distance, mmd_rbf, sliced_w2])
def test_bad_samples(metric):
    with pytest.raises(ValueError, match=r"different features: shapes \(80, 3\) and \(60, 2\)"):
        metric(X, Y[:, :2])
    with pytest.raises(ValueError, match=r"must have the shape \(n, features\)"):
        metric(X, Y[0])
    with pytest.raises(ValueError, match="finite"):
        metric(X, np.full((2, 3), np.nan))


def test_a_single_point_has_no_unbiased_estimate():
    with pytest.raises(ValueError, match="unbiased=False"):
        energy_distance(X, Y[:1])
    assert energy_distance(Y[:1], Y[:1], unbiased=False) == 0
