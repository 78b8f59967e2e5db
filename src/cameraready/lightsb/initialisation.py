"""Where training starts: a potential made from the data."""

import math
import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.lightsb.potential import LightSBModule

__all__ = ["COVARIANCE_TYPES", "INITS", "initial_potential", "nearest_squares"]

INITS = ("kmeans++", "random")
COVARIANCE_TYPES = ("diag", "full", "spherical", "tied_full", "lowrank")

# As many rows of the target as the centres and distances are taken from.
_ROWS = 10_000
_LLOYD_STEPS = 10
_SMALLEST_SCALE = 0.1


def initial_potential(
    x0_mean: Float[np.ndarray, " features"],
    x1: Float[np.ndarray, "n features"],
    weights: Float[np.ndarray, " n"] | None,
    *,
    n_components: int,
    eps: float,
    covariance_type: str,
    rank: int,
    init: str,
    init_scale: str | float,
    dtype: torch.dtype,
    rng: np.random.Generator,
) -> LightSBModule:
    """Components centred in clusters of the target, all of the same spherical covariance.

    Parameters
    ----------
    x0_mean : array of shape (D,)
        The source's mean; the components share its responsibility equally.
    x1 : array of shape (n, D)
        The target.
    weights : array of shape (n,), optional
        The weights of the target's rows.
    n_components, eps, covariance_type, rank, init, init_scale, dtype
        As in `LightSB`. "auto" sets the eigenvalue s of every S_k to the mean squared distance to
        the nearest centre over D eps, clipped to [0.1, 1].
    rng : numpy.random.Generator
        Chooses the centres.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if len(x1) > _ROWS:
        rows = rng.choice(len(x1), _ROWS, replace=False)
        x1, weights = x1[rows], None if weights is None else weights[rows]
    if weights is not None and np.count_nonzero(weights) < n_components:
        raise ValueError(
            f"n_components={n_components} is more than the rows of X1 with a positive weight "
            f"({np.count_nonzero(weights)}); take at most as many"
        )
    if init == "kmeans++":
        kmeans = KMeans(
            n_components, n_init=1, max_iter=_LLOYD_STEPS, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            # Fewer distinct rows than components is no harm.
            warnings.simplefilter("ignore", ConvergenceWarning)
            centres = kmeans.fit(x1, sample_weight=weights).cluster_centers_
    else:
        centres = x1[rng.choice(len(x1), n_components, replace=False, p=weights)]
    dim = x1.shape[1]
    if init_scale == "auto":
        nearest = nearest_squares(x1, centres)
        mean = np.average(nearest, weights=weights)
        s = float(np.clip(mean / (dim * eps), _SMALLEST_SCALE, 1.0))
    else:
        s = float(init_scale)
    # The plan's components are r_k + S_k x0: at the source's mean they are at the centres.
    means = centres - s * x0_mean
    log_alpha = -(means @ x0_mean) / eps - math.log(n_components)
    columns = {"spherical": 1, "lowrank": rank + 1}.get(covariance_type, dim)
    rotations: Tensor | None = None
    if covariance_type == "full":
        rotations = torch.eye(dim, dtype=dtype).repeat(n_components, 1, 1)
    elif covariance_type == "tied_full":
        rotations = torch.eye(dim, dtype=dtype)[None]
    elif covariance_type == "lowrank":
        rotations = torch.as_tensor(_principal_axes(x1, weights, rank), dtype=dtype)
    return LightSBModule(
        torch.as_tensor(log_alpha, dtype=dtype),
        torch.as_tensor(means, dtype=dtype),
        torch.full((n_components, columns), 0.5 * math.log(s), dtype=dtype),
        eps,
        rotations,
    )


def nearest_squares(
    points: Float[np.ndarray, "n features"], centres: Float[np.ndarray, "k features"] | None = None
) -> Float[np.ndarray, " n"]:
    """Squared distances to the nearest centre, or to the nearest other point."""
    from sklearn.neighbors import NearestNeighbors

    if centres is None:
        distances, _ = NearestNeighbors(n_neighbors=1).fit(points).kneighbors()
    else:
        distances, _ = NearestNeighbors(n_neighbors=1).fit(centres).kneighbors(points)
    return distances[:, 0] ** 2


def _principal_axes(
    points: Float[np.ndarray, "n features"], weights: Float[np.ndarray, " n"] | None, rank: int
) -> Float[np.ndarray, "features rank"]:
    centred = points - np.average(points, axis=0, weights=weights)
    if weights is not None:
        centred = centred * np.sqrt(weights)[:, None]
    _, axes = np.linalg.eigh(centred.T @ centred)
    return axes[:, ::-1][:, :rank].copy()
