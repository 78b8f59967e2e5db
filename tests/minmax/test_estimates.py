import numpy as np
import pytest

from cameraready.minmax import (
    VI,
    Bilinear,
    MinMax,
    Nonnegative,
    estimate_comonotonicity,
    estimate_lipschitz,
)


def linear(M):  # noqa: N803
    return VI(lambda z: M @ z, np.zeros(len(M)))


@pytest.mark.parametrize("size", [3, 40])
def test_the_norm_of_a_linear_f_is_found(size):
    M = np.random.default_rng(0).normal(size=(size, size))  # noqa: N806
    assert estimate_lipschitz(linear(M)) == pytest.approx(np.linalg.norm(M, 2), rel=1e-6)


def test_power_iteration_finds_the_norm_of_a_min_max_problem():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 20))  # noqa: N806
    assert estimate_lipschitz(Bilinear(A), seed=1) == pytest.approx(np.linalg.norm(A, 2), rel=5e-3)
    H, K = rng.normal(size=(5, 5)), rng.normal(size=(4, 4))  # noqa: N806
    H, K = H @ H.T, -K @ K.T  # noqa: N806
    C = rng.normal(size=(5, 4))  # noqa: N806
    problem = MinMax(
        None, np.zeros(5), np.zeros(4), jac=lambda x, y: (H @ x + C @ y, C.T @ x + K @ y)
    )
    expected = np.linalg.norm(np.block([[H, C], [-C.T, -K]]), 2)
    assert estimate_lipschitz(problem) == pytest.approx(expected, rel=1e-3)


def test_autograd_gives_the_transpose_for_torch():
    torch = pytest.importorskip("torch")
    M = np.random.default_rng(0).normal(size=(6, 6))  # noqa: N806
    matrix = torch.tensor(M)
    problem = VI(lambda z: matrix @ z, torch.zeros(6, dtype=torch.float64))
    assert estimate_lipschitz(problem, n_iter=2000) == pytest.approx(np.linalg.norm(M, 2), rel=1e-3)


@pytest.mark.parametrize("a", [-0.4, 0.0, 0.3])
def test_the_comonotonicity_of_a_rotation_is_exact(a):
    b = (1 - a * a) ** 0.5
    found = estimate_comonotonicity(linear(np.array([[a, b], [-b, a]])), 20)
    assert found.rho == pytest.approx(a, abs=1e-9)


def test_the_comonotonicity_of_blocks_is_approached_from_above():
    M = np.zeros((6, 6))  # noqa: N806
    M[:2, :2] = [[-0.3, 0.9], [-0.9, -0.3]]
    M[2:, 2:] = np.eye(4)
    exact = -0.3 / (0.3**2 + 0.9**2)
    found = estimate_comonotonicity(linear(M), 3000, seed=0)
    assert exact - 1e-9 <= found.rho <= 0.9 * exact
    z, other = found.pair
    u, difference = M @ (z - other), z - other
    assert u @ difference / (u @ u) == pytest.approx(found.rho)


def test_constraints_are_part_of_the_estimate():
    problem = VI(lambda z: 1.0 + 0.0 * z, np.ones(3), Nonnegative())
    assert estimate_comonotonicity(problem, 50).rho >= 0
    with pytest.raises(ValueError, match="n_pairs must be at least 1"):
        estimate_comonotonicity(problem, 0)
