"""Projections on convex sets: the resolvents of their normal cones.

The formulas are in N. Parikh, S. Boyd, Proximal Algorithms, Foundations and Trends in Optimization
1 (2014), chapter 6, but where a class names another source.
"""

from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.common.checks import check_positive
from cameraready.minmax.arrays import clip, is_tensor, namespace, positive_part, sort_descending
from cameraready.minmax.resolvent import (
    ConvexSet,
    check_array,
    check_number_or_array,
    check_size,
    check_trailing,
)

__all__ = [
    "AffineSet",
    "Ball",
    "Box",
    "CappedSimplex",
    "Halfspace",
    "L1Ball",
    "Nonnegative",
    "PSDCone",
    "SecondOrderCone",
    "Simplex",
]


class Box(ConvexSet):
    """All z with low <= z <= high, entry by entry.

    Parameters
    ----------
    low, high : float or array, (size,)
        The bounds; infinity may be.

    Raises
    ------
    ValueError
        If low exceeds high or their shapes do not fit.

    Examples
    --------
    >>> Box(-1, 1).prox(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-1. ,  0.5,  1. ])
    """

    def __init__(self, low: Any, high: Any) -> None:
        low, high = check_number_or_array("low", low), check_number_or_array("high", high)
        if not (isinstance(low, float) and isinstance(high, float)):
            try:
                low, high = (np.array(end) for end in np.broadcast_arrays(low, high))
            except ValueError:
                raise ValueError(
                    f"low and high must have one shape, not {np.shape(low)} and {np.shape(high)}"
                ) from None
        if np.any(np.greater(low, high)):
            raise ValueError("low must not exceed high in any entry")
        if np.any(np.equal(low, np.inf)) or np.any(np.equal(high, -np.inf)):
            raise ValueError("low must be below infinity and high above minus infinity")
        self.low = low
        self.high = high

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_trailing("low and high", z, self.low)
        return clip(z, self._constant("low", z), self._constant("high", z))


class Nonnegative(ConvexSet):
    """All z with z >= 0, entry by entry.

    Examples
    --------
    >>> Nonnegative().prox(np.array([-3.0, 0.5]), 1.0)
    array([0. , 0.5])
    """

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        return positive_part(z)


class Ball(ConvexSet):
    """All z with ‖z - centre‖ <= radius.

    Parameters
    ----------
    radius : float
        The radius, positive.
    centre : float or array, (size,)
        The centre; a number stands for every entry.

    Raises
    ------
    ValueError
        If the radius is not positive.

    Examples
    --------
    >>> Ball(5.0).prox(np.array([6.0, 8.0]), 1.0)
    array([3., 4.])
    """

    def __init__(self, radius: float = 1.0, centre: Any = 0.0) -> None:
        self.radius = check_positive("radius", radius)
        self.centre = check_array("centre", centre, np.ndim(centre))
        if self.centre.ndim > 1:
            raise ValueError(f"centre must be a number or a vector, not {self.centre.shape}")

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_trailing("centre", z, self.centre)
        centre = self._constant("centre", z)
        offset = z - centre
        norm = namespace(z).linalg.norm(offset, axis=-1, keepdims=True)
        return centre + offset * (self.radius / clip(norm, self.radius, np.inf))


class Halfspace(ConvexSet):
    """All z with ⟨a, z⟩ <= b.

    Parameters
    ----------
    a : array, (size,)
        The outer normal, not zero.
    b : float
        The bound.

    Raises
    ------
    ValueError
        If the normal is zero.

    Examples
    --------
    >>> Halfspace([1.0, 1.0], 1.0).prox(np.array([1.0, 2.0]), 1.0)
    array([0., 1.])
    """

    def __init__(self, a: Any, b: float) -> None:
        self.a = check_array("a", a, 1)
        if not self.a.any():
            raise ValueError("a must not be zero")
        self.b = float(check_array("b", b, 0))
        self._squared_norm = float(self.a @ self.a)

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_size("a", z, self.a.size)
        a = self._constant("a", z)
        excess = positive_part((z @ a)[..., None] - self.b)
        return z - excess * (a / self._squared_norm)


class AffineSet(ConvexSet):
    """All z with A z = b.

    Parameters
    ----------
    A : array, (equations, size)
        The equations; they may depend on each other.
    b : array, (equations,)
        The right side.

    Raises
    ------
    ValueError
        If no z satisfies the equations.

    Examples
    --------
    >>> AffineSet([[1.0, 1.0]], [1.0]).prox(np.array([1.0, 1.0]), 1.0)
    array([0.5, 0.5])
    """

    def __init__(self, A: Any, b: Any) -> None:  # noqa: N803  the field's name
        matrix, b = check_array("A", A, 2), check_array("b", b, 1)
        if len(b) != len(matrix):
            raise ValueError(f"b must have {len(matrix)} entries, one a row of A, not {len(b)}")
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        rank = int((s > s[0] * max(matrix.shape) * np.finfo(float).eps).sum())
        self._rows = vt[:rank]  # an orthonormal basis of what the equations fix
        self._point = self._rows.T @ ((u[:, :rank].T @ b) / s[:rank])
        if np.linalg.norm(matrix @ self._point - b) > 1e-9 * (1.0 + np.linalg.norm(b)):
            raise ValueError("A z = b must have a solution: the rows of A and b contradict")

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_size("A", z, self._point.size)
        rows = self._constant("_rows", z)
        return z - ((z - self._constant("_point", z)) @ rows.T) @ rows


class SecondOrderCone(ConvexSet):
    """All z = (t, x) with ‖x‖ <= t.

    Examples
    --------
    >>> SecondOrderCone().prox(np.array([0.0, 3.0, 4.0]), 1.0)
    array([2.5, 1.5, 2. ])
    """

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        if z.ndim == 0 or z.shape[-1] < 2:
            raise ValueError(
                f"z must be laid out as (t, x) with two entries or more along its last axis, "
                f"but has the shape {tuple(z.shape)}"
            )
        xp = namespace(z)
        t, x = z[..., :1], z[..., 1:]
        norm = xp.linalg.norm(x, axis=-1, keepdims=True)
        # Where both branches are evaluated, none may divide by zero: gradients would be NaN.
        safe = xp.where(norm > 0, norm, xp.ones_like(norm))
        mean = (norm + t) / 2
        edge = xp.concatenate([mean, x * (mean / safe)], axis=-1)
        return xp.where(norm <= t, z, xp.where(norm <= -t, xp.zeros_like(z), edge))


class PSDCone(ConvexSet):
    """All symmetric positive semi-definite matrices, flattened; others are symmetrised first.

    Parameters
    ----------
    size : int, optional
        The matrices' number of rows. When given, z may have the shape (..., size, size) as well
        as (..., size²).

    Examples
    --------
    >>> PSDCone().prox(np.array([1.0, 0.0, 0.0, -2.0]), 1.0)
    array([1., 0., 0., 0.])
    """

    def __init__(self, size: int | None = None) -> None:
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"size must be a whole number from 1 on, not {size!r}")
        self.size = size

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        shape, size = tuple(z.shape), self.size
        if size is None or shape[-2:] != (size, size):
            side = round(shape[-1] ** 0.5) if shape else 0
            if side * side != (shape or (0,))[-1] or side < 1 or size not in (None, side):
                wanted = "a square number of" if size is None else str(size * size)
                raise ValueError(
                    f"z must have {wanted} entries along its last axis, but has the shape {shape}"
                )
            z = z.reshape((*shape[:-1], side, side))
        symmetric = (z + z.swapaxes(-1, -2)) / 2
        if is_tensor(z):
            from cameraready.minmax.spectral import positive_semidefinite_part

            return positive_semidefinite_part(symmetric).reshape(shape)
        values, vectors = np.linalg.eigh(symmetric)
        scaled = vectors * np.maximum(values, 0.0)[..., None, :]
        return (scaled @ vectors.swapaxes(-1, -2)).reshape(shape)


def _simplex_threshold(z: Any, total: float) -> Any:
    """The theta with sum(max(z - theta, 0)) = total: the greatest of (u_1 + … + u_k - total) / k.

    u is z sorted, the greatest first; see J. Duchi et al., ICML 2008. Shifting by u_1 keeps the
    digits that matter where z is far from zero.
    """
    xp = namespace(z)
    if not is_tensor(z):
        u = sort_descending(z)
        top = u[..., :1]
        ranks = np.arange(1, u.shape[-1] + 1)
        return top + np.amax((np.cumsum(u - top, axis=-1) - total) / ranks, -1, keepdims=True)
    u = sort_descending(z.detach())
    top = u[..., :1]
    ranks = xp.arange(1, u.shape[-1] + 1, device=z.device)
    rough = xp.amax((xp.cumsum(u - top, axis=-1) - total) / ranks, axis=-1, keepdims=True)
    # Once it is known which entries stay positive, the threshold is their mean: with a gradient.
    shifted = z - top
    free = shifted > rough
    inside = xp.where(free, shifted, xp.zeros_like(shifted))
    return top + (inside.sum(-1)[..., None] - total) / free.sum(-1)[..., None]


class Simplex(ConvexSet):
    """All z >= 0 with the sum ``total``, by sorting.

    Parameters
    ----------
    total : float
        The sum, positive.

    Raises
    ------
    ValueError
        If the sum is not positive.

    Examples
    --------
    >>> Simplex().prox(np.array([0.5, 1.0, -1.0]), 1.0)
    array([0.25, 0.75, 0.  ])
    """

    def __init__(self, total: float = 1.0) -> None:
        self.total = check_positive("total", total)

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        _check_vector(z)
        return positive_part(z - _simplex_threshold(z, self.total))


class L1Ball(ConvexSet):
    """All z with |z_1| + … + |z_size| <= radius.

    Parameters
    ----------
    radius : float
        The radius, positive.

    Raises
    ------
    ValueError
        If the radius is not positive.

    Examples
    --------
    >>> L1Ball(1.0).prox(np.array([1.0, -1.5]), 1.0)
    array([ 0.25, -0.75])
    """

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = check_positive("radius", radius)

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        _check_vector(z)
        xp = namespace(z)
        size = xp.abs(z)
        # Inside the ball the threshold is negative: nothing is taken off.
        threshold = positive_part(_simplex_threshold(size, self.radius))
        return xp.sign(z) * positive_part(size - threshold)


class CappedSimplex(ConvexSet):
    """All z with 0 <= z <= cap, entry by entry, and the sum ``total``, by bisection.

    The worst distributions of the conditional value at risk: with cap = 1 / (alpha size) they put
    all weight on the alpha share of the greatest losses.

    Parameters
    ----------
    total : float
        The sum, positive.
    cap : float or array, (size,)
        The greatest entries, positive and finite, their sum not below ``total``.

    Raises
    ------
    ValueError
        If no z is in the set.

    Examples
    --------
    >>> CappedSimplex(1.0, 0.5).prox(np.array([3.0, 0.1, 0.2]), 1.0).round(6)
    array([0.5, 0.2, 0.3])
    """

    def __init__(self, total: float = 1.0, cap: Any = 1.0) -> None:
        self.total = check_positive("total", total)
        array = check_array("cap", cap, np.ndim(cap))
        if array.ndim > 1 or not (array > 0).all():
            raise ValueError(f"cap must be a positive number or a vector of such, not {cap!r}")
        self.cap = float(array) if array.ndim == 0 else array
        if array.ndim == 1:
            self._check_sum(float(array.sum()))

    def _check_sum(self, most: float) -> None:
        if most < self.total * (1 - 1e-12):
            raise ValueError(
                f"cap allows a sum of {most:g} at most, below total = {self.total:g}; raise cap"
            )

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        _check_vector(z)
        check_trailing("cap", z, self.cap)
        if isinstance(self.cap, float):
            self._check_sum(self.cap * z.shape[-1])
        xp = namespace(z)
        cap = xp.zeros_like(z) + self._constant("cap", z)
        zero = xp.zeros_like(z)
        point = z.detach() if is_tensor(z) else z
        low = xp.amin(point - cap, axis=-1, keepdims=True)
        high = xp.amax(point, axis=-1, keepdims=True)
        for _ in range(64 if z.dtype.itemsize == 8 else 32):
            middle = (low + high) / 2
            above = clip(point - middle, zero, cap).sum(-1)[..., None] > self.total
            low, high = xp.where(above, middle, low), xp.where(above, high, middle)
        threshold = (low + high) / 2
        # Bisection has found which entries are free; these give the threshold exactly.
        free = (point - threshold > 0) & (point - threshold < cap)
        full = point - threshold >= cap
        count = free.sum(-1)[..., None]
        fixed = xp.where(full, cap, zero).sum(-1)[..., None] - self.total
        exact = (xp.where(free, z, zero).sum(-1)[..., None] + fixed) / clip(count, 1, z.shape[-1])
        return clip(z - xp.where(count > 0, exact, threshold), zero, cap)


def _check_vector(z: Any) -> None:
    if z.ndim == 0 or z.shape[-1] == 0:
        raise ValueError(
            f"z must have an entry or more along its last axis, but has the shape {tuple(z.shape)}"
        )
