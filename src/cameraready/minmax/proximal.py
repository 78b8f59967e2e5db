"""Proximal maps of convex functions: the resolvents of their subdifferentials.

prox(z) = argmin_x g(x) + ‖x - z‖² / (2 step); the formulas are in N. Parikh, S. Boyd, Proximal
Algorithms, Foundations and Trends in Optimization 1 (2014), chapter 6.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.minmax.arrays import is_tensor, namespace, positive_part
from cameraready.minmax.resolvent import (
    Resolvent,
    check_number_or_array,
    check_trailing,
)

__all__ = ["L1", "GroupL2", "L2Squared", "Nuclear"]


def _check_weight(weight: Any) -> float | np.ndarray:
    checked = check_number_or_array("weight", weight, 0.0)
    if not np.isfinite(checked).all():
        raise ValueError(f"weight must be finite, not {weight!r}")
    return checked


class L1(Resolvent):
    """g(z) = Σ weight_i |z_i|: soft thresholding.

    Parameters
    ----------
    weight : float or array, (size,)
        The weights, not negative.

    Examples
    --------
    >>> L1(2.0).prox(np.array([-3.0, 0.5]), 0.5)
    array([-2.,  0.])
    """

    def __init__(self, weight: Any = 1.0) -> None:
        self.weight = _check_weight(weight)

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_trailing("weight", z, self.weight)
        xp = namespace(z)
        return xp.sign(z) * positive_part(xp.abs(z) - step * self._constant("weight", z))


class L2Squared(Resolvent):
    """g(z) = ½ Σ weight_i z_i²: shrinking.

    Parameters
    ----------
    weight : float or array, (size,)
        The weights, not negative.

    Examples
    --------
    >>> L2Squared(2.0).prox(np.array([-4.0, 1.0]), 0.5)
    array([-2. ,  0.5])
    """

    def __init__(self, weight: Any = 1.0) -> None:
        self.weight = _check_weight(weight)

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_trailing("weight", z, self.weight)
        return z / (1.0 + step * self._constant("weight", z))


class GroupL2(Resolvent):
    """g(z) = Σ weight_g ‖z_g‖ over groups of entries: the group lasso.

    Parameters
    ----------
    groups : sequence of sequences of int
        The entries of each group; no entry is in two. Entries in none are left alone.
    weight : float or array, (groups,)
        The weights, not negative.

    Raises
    ------
    ValueError
        If groups overlap, are empty or do not match the weights; if z is too short for them.

    Examples
    --------
    >>> GroupL2([[0, 1], [2]], 5.0).prox(np.array([6.0, 8.0, 1.0, 1.0]), 1.0)
    array([3., 4., 0., 1.])
    """

    def __init__(self, groups: Sequence[Sequence[int]], weight: Any = 1.0) -> None:
        members = [np.asarray(group) for group in groups]
        if not members or any(
            group.ndim != 1 or group.size == 0 or group.dtype.kind not in "iu" or group.min() < 0
            for group in members
        ):
            raise ValueError("groups must be lists of entry numbers from 0 on, none of them empty")
        self._entries = np.concatenate(members)
        if len(np.unique(self._entries)) != len(self._entries):
            raise ValueError("groups must not overlap: an entry is in two of them")
        sizes = [group.size for group in members]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._labels = np.repeat(np.arange(len(members)), sizes)
        weight = _check_weight(weight)
        if isinstance(weight, np.ndarray) and weight.shape != (len(members),):
            raise ValueError(
                f"weight must be a number or have {len(members)} entries, one a group, "
                f"not the shape {weight.shape}"
            )
        self.weight = weight

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        needed = int(self._entries.max()) + 1
        if z.ndim == 0 or z.shape[-1] < needed:
            raise ValueError(
                f"z must have {needed} entries or more along its last axis, as groups says, "
                f"but has the shape {tuple(z.shape)}"
            )
        xp = namespace(z)
        entries, labels = self._constant("_entries", z), self._constant("_labels", z)
        part = z[..., entries]
        if is_tensor(z):
            squares = z.new_zeros((*z.shape[:-1], len(self._starts)))
            squares = squares.index_add(-1, labels, part * part)
        else:
            squares = np.add.reduceat(part * part, self._starts, axis=-1)
        limit = step * self._constant("weight", z)
        kept = squares > limit * limit
        # The square root's slope at zero must not reach a gradient, so it is taken elsewhere.
        norm = xp.sqrt(xp.where(kept, squares, xp.ones_like(squares)))
        factor = xp.where(kept, 1.0 - limit / norm, xp.zeros_like(squares))
        shrunk = part * factor[..., labels]
        if is_tensor(z):
            return z.index_copy(-1, entries, shrunk)
        result = z.copy()
        result[..., entries] = shrunk
        return result


class Nuclear(Resolvent):
    """g(Z) = weight times the sum of the singular values of Z: they are soft thresholded.

    Parameters
    ----------
    shape : (rows, columns)
        The matrix's. z may have the shape (..., rows · columns) or (..., rows, columns).
    weight : float
        The weight, not negative.

    Examples
    --------
    >>> Nuclear((2, 2), 1.0).prox(np.array([3.0, 0.0, 0.0, 0.5]), 1.0)
    array([2., 0., 0., 0.])
    """

    def __init__(self, shape: tuple[int, int], weight: float = 1.0) -> None:
        try:
            rows, columns = shape
        except (TypeError, ValueError):
            raise ValueError(f"shape must be (rows, columns), not {shape!r}") from None
        if not all(isinstance(n, int) and n > 0 for n in (rows, columns)):
            raise ValueError(f"shape must be two whole numbers from 1 on, not {shape!r}")
        self.shape = (rows, columns)
        checked = _check_weight(weight)
        if not isinstance(checked, float):
            raise ValueError(f"weight must be one number, not {weight!r}")
        self.weight = checked

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        shape, (rows, columns) = tuple(z.shape), self.shape
        if shape[-2:] != self.shape:
            if not shape or shape[-1] != rows * columns:
                raise ValueError(
                    f"z must have {rows * columns} entries along its last axis, as shape says, "
                    f"but has the shape {shape}"
                )
            z = z.reshape((*shape[:-1], rows, columns))
        elif getattr(step, "ndim", 0):
            raise ValueError("step must be one number where z has the matrices' shape")
        limit = step * self.weight
        if is_tensor(z):
            from cameraready.minmax.spectral import shrink_singular_values

            return shrink_singular_values(z, limit).reshape(shape)
        u, s, vt = np.linalg.svd(z, full_matrices=False)
        return ((u * positive_part(s - limit)[..., None, :]) @ vt).reshape(shape)
