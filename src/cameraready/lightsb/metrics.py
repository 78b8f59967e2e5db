"""How far samples or plans are from what they should be."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

__all__ = [
    "bw2_uvp",
    "conditional_bw2_uvp",
    "energy_distance",
    "gaussian_w2_squared",
    "mmd_rbf",
    "sliced_w2",
]

_CHUNK_BYTES = 2**26  # of pairwise distances, or of projections
_MEDIAN_ROWS = 1000


def gaussian_w2_squared(
    mean_a: Float[np.ndarray, "*batch features"],
    covariance_a: Float[np.ndarray, "*batch features features"],
    mean_b: Float[np.ndarray, "*batch features"],
    covariance_b: Float[np.ndarray, "*batch features features"],
) -> Float[np.ndarray, "*batch"]:
    """Squared 2-Wasserstein (Bures-Wasserstein) distance between Gaussians, W2².

    Parameters
    ----------
    mean_a, mean_b : ndarray of shape (..., D)
    covariance_a, covariance_b : ndarray of shape (..., D, D)
        Positive semidefinite up to rounding.

    Returns
    -------
    ndarray of shape (...)
        |mean_a - mean_b|² + tr A + tr B - 2 tr (A^½ B A^½)^½.
    """
    values, vectors = np.linalg.eigh(covariance_a)
    root = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
    # A = root rootᵀ, so that rootᵀ B root has the eigenvalues of A^½ B A^½.
    inner = np.linalg.eigvalsh(np.swapaxes(root, -1, -2) @ covariance_b @ root)
    overlap = np.sqrt(np.maximum(inner, 0)).sum(-1)
    gap = np.square(np.asarray(mean_a) - mean_b).sum(-1)
    spread = np.trace(covariance_a, axis1=-2, axis2=-1) + np.trace(covariance_b, axis1=-2, axis2=-1)
    return np.maximum(gap + spread - 2 * overlap, 0)


def bw2_uvp(samples: Float[Any, "n features"], target: Float[Any, "m features"]) -> float:
    """Unexplained variance of the target, in percent, as seen by means and covariances.

    100 · BW2²(samples, target) / (½ Var target), where the field takes the half cost: BW2² is
    half the squared 2-Wasserstein distance between Gaussians with the samples' moments, and Var
    the trace of the covariance, so that the halves cancel. 0 is perfect; putting all samples on
    the target's mean gives 100.

    Parameters
    ----------
    samples : array of shape (n, D)
    target : array of shape (m, D)

    References
    ----------
    Korotin et al., Do Neural Optimal Transport Solvers Work?, NeurIPS 2021, Section 5; Gushchin
    et al., Building the Bridge of Schrödinger, NeurIPS 2023, Section 5.
    """
    samples, target = _pair(samples, target)
    covariances = [np.atleast_2d(np.cov(points, rowvar=False)) for points in (samples, target)]
    distance = gaussian_w2_squared(samples.mean(0), covariances[0], target.mean(0), covariances[1])
    return 100 * float(distance / np.trace(covariances[1]))


def conditional_bw2_uvp(
    moments: tuple[Float[Any, "n features"], Float[Any, "n ..."]],
    true_moments: tuple[Float[Any, "n features"], Float[Any, "n ..."]],
    target_variance: float | None = None,
) -> float:
    """Unexplained variance of the conditional plans, in percent, from their moments.

    For each x0, BW2² between Gaussians with the moments of the model's and of the true plan given
    x0; its mean over the x0, over half the variance of the target (see `bw2_uvp` for the halves,
    which cancel).

    Parameters
    ----------
    moments, true_moments : (ndarray, ndarray)
        Means, (n, D), and covariances, (n, D, D) or only their diagonals (n, D), of x1 given each
        x0; as `conditional_moments` returns them.
    target_variance : float, optional
        Trace of the covariance of x1. Without it, it is that of the mixture of the true plans
        over these x0.

    Raises
    ------
    ValueError
        If shapes do not fit.

    References
    ----------
    Gushchin et al., Building the Bridge of Schrödinger, NeurIPS 2023, Section 5 (cBW2-UVP).
    """
    mean, covariance = _moments("moments", moments)
    true_mean, true_covariance = _moments("true_moments", true_moments)
    if mean.shape != true_mean.shape:
        raise ValueError(
            f"moments are of {mean.shape} points and features, true_moments of {true_mean.shape}"
        )
    if target_variance is None:
        within = np.trace(true_covariance, axis1=1, axis2=2).mean()
        target_variance = float(within + true_mean.var(axis=0).sum())
    distance = gaussian_w2_squared(mean, covariance, true_mean, true_covariance)
    return 100 * float(distance.mean() / target_variance)


def energy_distance(
    X: Float[Any, "n features"],  # noqa: N803
    Y: Float[Any, "m features"],  # noqa: N803
    *,
    unbiased: bool = True,
) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'|, which is 0 only between equal distributions.

    This is the definition of Székely and Rizzo. Some take half of it, and
    `scipy.stats.energy_distance` is the root of its biased estimate.

    Parameters
    ----------
    X, Y : array of shape (n, D), (m, D)
    unbiased : bool
        Leave the distances of points to themselves out of the means, so that few points do not
        look far from each other; the estimate may then be slightly negative. Otherwise it is the
        energy distance of the two empirical distributions.

    References
    ----------
    Székely, Rizzo, Energy statistics, Journal of Statistical Planning and Inference 2013.
    """
    x, y = _pair(X, Y)
    return _two_sample(x, y, lambda distance: -distance, 0.0, unbiased)


def mmd_rbf(
    X: Float[Any, "n features"],  # noqa: N803
    Y: Float[Any, "m features"],  # noqa: N803
    *,
    bandwidth: float | None = None,
    unbiased: bool = True,
) -> float:
    """Squared maximum mean discrepancy with the kernel exp(-|x - y|² / (2 bandwidth²)).

    Parameters
    ----------
    X, Y : array of shape (n, D), (m, D)
    bandwidth : float, optional
        The median distance between the points of both, at most 1000 of each, if not given.
    unbiased : bool
        As in `energy_distance`.

    References
    ----------
    Gretton et al., A Kernel Two-Sample Test, JMLR 2012, Equations 3 and 5.
    """
    x, y = _pair(X, Y)
    if bandwidth is None:
        some = [points[:: -(-len(points) // _MEDIAN_ROWS)] for points in (x, y)]
        both = np.concatenate(some)
        bandwidth = float(np.median(cdist(both, both)[np.triu_indices(len(both), 1)])) or 1.0
    elif not bandwidth > 0:
        raise ValueError(f"bandwidth must be greater than 0, not {bandwidth!r}")

    def kernel(distance: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.square(distance / bandwidth))

    return _two_sample(x, y, kernel, 1.0, unbiased)


def sliced_w2(
    X: Float[Any, "n features"],  # noqa: N803
    Y: Float[Any, "m features"],  # noqa: N803
    *,
    n_projections: int = 128,
    seed: int | None = None,
) -> float:
    """Sliced 2-Wasserstein distance: the root of the mean squared distance of projections.

    Parameters
    ----------
    X, Y : array of shape (n, D), (m, D)
    n_projections : int
        How many random directions.
    seed : int, optional
        For the directions.

    References
    ----------
    Bonneel et al., Sliced and Radon Wasserstein Barycenters of Measures, JMIV 2015.
    """
    import ot

    x, y = _pair(X, Y)
    directions = ot.sliced.get_random_projections(x.shape[1], n_projections, seed)
    step = max(1, _CHUNK_BYTES // (8 * (len(x) + len(y))))
    total = 0.0
    for start in range(0, n_projections, step):
        some = directions[:, start : start + step]
        total += ot.sliced_wasserstein_distance(x, y, projections=some) ** 2 * some.shape[1]
    return float(np.sqrt(total / n_projections))


def _two_sample(x: np.ndarray, y: np.ndarray, kernel: Any, itself: float, unbiased: bool) -> float:
    """E k(X, X') + E k(Y, Y') - 2 E k(X, Y)."""
    total = 0.0
    for points in (x, y):
        n = len(points)
        if unbiased and n < 2:
            raise ValueError("X and Y must have two rows at least; or take unbiased=False")
        within = _kernel_sum(points, points, kernel)
        total += (within - n * itself) / (n * (n - 1)) if unbiased else within / n**2
    return total - 2 * _kernel_sum(x, y, kernel) / (len(x) * len(y))


def _kernel_sum(x: np.ndarray, y: np.ndarray, kernel: Any) -> float:
    rows = max(1, _CHUNK_BYTES // (8 * len(y)))
    chunks = (x[start : start + rows] for start in range(0, len(x), rows))
    return sum(float(kernel(cdist(chunk, y)).sum()) for chunk in chunks)


def _points(name: str, points: Any) -> np.ndarray:
    table = np.asarray(points, dtype=float)
    if table.ndim != 2 or not len(table):
        raise ValueError(f"{name} must have the shape (n, features), not {table.shape}")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite")
    return table


def _pair(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = _points("the first sample", a), _points("the second sample", b)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"the samples have different features: shapes {a.shape} and {b.shape}")
    return a, b


def _moments(name: str, moments: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    mean = _points(f"{name}[0]", moments[0])
    covariance = np.asarray(moments[1], dtype=float)
    if covariance.shape == mean.shape:
        covariance = covariance[..., None] * np.eye(mean.shape[1])
    if covariance.shape != (*mean.shape, mean.shape[1]):
        raise ValueError(
            f"{name}[1] must hold covariances of shape {(*mean.shape, mean.shape[1])} or their "
            f"diagonals, not {covariance.shape}"
        )
    return mean, covariance
