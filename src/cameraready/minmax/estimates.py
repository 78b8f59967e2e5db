"""Estimates of what a problem's theory needs: L and rho."""

import math
from typing import Any, NamedTuple

import numpy as np

from cameraready.minmax.arrays import is_tensor
from cameraready.minmax.inclusion import VI, Inclusion

__all__ = ["Comonotonicity", "estimate_comonotonicity", "estimate_lipschitz", "local_lipschitz"]

_LARGEST_JACOBIAN = 256


def local_lipschitz(problem: Inclusion, z: Any, value: Any) -> float:
    """|F(z + d) - F(z)|/|d| for a small d along F(z): a lower bound on L, one evaluation."""
    direction = value if float(value @ value) > 0 else 0.0 * value + 1.0
    return _norm(_derivative(problem, z, value, direction)) / _norm(direction)


def estimate_lipschitz(
    problem: Inclusion, z: Any = None, *, n_iter: int = 200, seed: int | None = None
) -> float:
    """The Lipschitz constant of F near a point: the spectral norm of its Jacobian J there.

    Power iteration on J'J. For min-max problems J is symmetric up to signs, so that J' needs no
    code of its own; for a `VI` of torch tensors J' comes from autograd. For a `VI` in numpy J is
    formed column by column up to dimension 256; beyond, the iteration is on J itself, and the
    estimate may be too low when F is far from (skew-)symmetric.

    Parameters
    ----------
    problem : Inclusion
    z : vector, optional
        The point, as the solvers see it; by default the starting point. For a linear F it does
        not matter; otherwise L elsewhere may be larger.
    n_iter : int
        The largest number of iterations; fewer when the estimate settles to 1e-5.
    seed : int, optional
        For the first vector.

    Returns
    -------
    float
        An estimate from below.

    Examples
    --------
    >>> rotation = VI(lambda z: np.array([3.0 * z[1], -3.0 * z[0]]), np.array([1.0, 0.0]))
    >>> round(estimate_lipschitz(rotation, seed=0), 6)
    3.0
    """
    z = problem.z0 if z is None else z
    value = problem.operator(z)
    if isinstance(problem, VI) and not is_tensor(z) and len(z) <= _LARGEST_JACOBIAN:
        columns = [_derivative(problem, z, value, row) for row in np.eye(len(z))]
        return float(np.linalg.norm(np.stack(columns), 2))
    vector = _normal(z, np.random.default_rng(0 if seed is None else seed))
    vector = vector / _norm(vector)
    estimate = 0.0
    for _ in range(n_iter):
        image = _derivative(problem, z, value, vector)
        if problem.symmetric:
            image = _flip(problem, image)
        elif is_tensor(z) and isinstance(problem, VI):
            image = _pull_back(problem, z, image)
            image = image / math.sqrt(_norm(image) or 1.0)  # |J'Jv| is the square of what is asked
        last, estimate = estimate, _norm(image)
        if not (math.isfinite(estimate) and estimate > 0):
            return estimate
        vector = image / estimate
        if abs(estimate - last) <= 1e-5 * estimate:
            break
    return estimate


class Comonotonicity(NamedTuple):
    """An estimate of rho, and the two points that show it."""

    rho: float
    pair: tuple[Any, Any]


def estimate_comonotonicity(
    problem: Inclusion, n_pairs: int = 1000, *, radius: float = 1.0, seed: int | None = None
) -> Comonotonicity:
    """The smallest <u - u', z - z'>/|u - u'|² found, for u in (F + A)(z), u' in (F + A)(z').

    Half of the pairs are drawn around the starting point; the other half are small changes of the
    worst pair so far. The true rho is at most the estimate: a negative one shows that the problem
    is not monotone, a positive one proves nothing.

    Parameters
    ----------
    problem : Inclusion
    n_pairs : int
        Pairs of points; two evaluations of F and two resolvents each.
    radius : float
        Standard deviation of the points around the starting point, per coordinate.
    seed : int, optional
        For the points.

    Returns
    -------
    Comonotonicity
        `rho`, and `pair` = (z, z') as vectors.

    Examples
    --------
    >>> problem = VI(lambda z: -0.5 * z, np.zeros(2))
    >>> round(estimate_comonotonicity(problem, 10, seed=0).rho, 6)
    -2.0
    """
    if n_pairs < 1:
        raise ValueError(f"n_pairs must be at least 1, not {n_pairs}")
    rng = np.random.default_rng(0 if seed is None else seed)
    best, start = math.inf, None
    pair: tuple[Any, Any] = (problem.z0, problem.z0)
    scale = 0.3 * radius
    for i in range(n_pairs):
        if start is None or i < (n_pairs + 1) // 2:
            ends = tuple(problem.z0 + radius * _normal(problem.z0, rng) for _ in range(2))
        else:
            ends = tuple(end + scale * _normal(end, rng) for end in start)
        points, images = zip(*(_on_graph(problem, end) for end in ends), strict=True)
        difference = images[0] - images[1]
        size = float(difference @ difference)
        if not size > 0:
            continue
        rho = float(difference @ (points[0] - points[1])) / size
        if rho < best:
            best, start, pair = rho, ends, points
            scale *= 1.5
        elif i >= (n_pairs + 1) // 2:
            scale *= 0.95
    return Comonotonicity(best, pair)


def _on_graph(problem: Inclusion, y: Any) -> tuple[Any, Any]:
    """A point z and an element of (F + A)(z)."""
    z = problem.resolvent(y, 1.0)
    return z, problem.operator(z) + (y - z)


def _derivative(problem: Inclusion, z: Any, value: Any, direction: Any) -> Any:
    """J(z) direction, by one finite difference of F."""
    epsilon = float(np.finfo(str(z.dtype).rpartition(".")[2]).eps)
    t = math.sqrt(epsilon) * (1.0 + _norm(z)) / _norm(direction)
    return (problem.operator(z + t * direction) - value) / t


def _flip(problem: Any, image: Any) -> Any:
    """J' = S J S for S = diag(1, -1): one sign is enough, as the iteration is on S J."""
    image = image + 0.0
    image[problem.split :] *= -1.0
    return image


def _pull_back(problem: VI, z: Any, image: Any) -> Any:
    import torch

    problem.n_grad += 1
    with torch.enable_grad():
        leaf = z.detach().clone().requires_grad_(True)
        output = problem.F(problem.variable.unpack(leaf))
        parts = list(output.values()) if isinstance(output, dict) else [output]
        if isinstance(output, dict):
            parts = [output[key] for key in problem.variable.keys or ()]
        flat = torch.cat([part.reshape(-1) for part in parts])
        if not flat.requires_grad:  # a constant, or F detaches: the Jacobian alone has to do
            return image * _norm(image)
        (pulled,) = torch.autograd.grad(flat, leaf, image)
    return pulled


def _norm(vector: Any) -> float:
    return math.sqrt(vector @ vector)


def _normal(like: Any, rng: np.random.Generator) -> Any:
    draws = rng.standard_normal(len(like))
    if is_tensor(like):
        import torch

        return torch.as_tensor(draws, dtype=like.dtype, device=like.device)
    return draws.astype(like.dtype)
