"""What a user passes in, checked, and given back in the same kind."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["check_count", "check_points", "check_times", "check_weights", "in_chunks", "like_input"]


# Chunks beyond this gain nothing: they leave the processor's cache, and memory has to be fetched.
_CACHED = 32e6


def check_points(name: str, points: Any, dim: int | None = None) -> Float[Tensor, "n features"]:
    """The points as a tensor, sharing memory where it can.

    Parameters
    ----------
    name : str
        The argument's name, for messages.
    points : array-like or Tensor of shape (n, D)
        What was passed.
    dim : int, optional
        The D that is wanted.

    Raises
    ------
    TypeError
        If the points are a sparse matrix, or not numbers.
    ValueError
        If the shape is wrong or a number is not finite.
    """
    from scipy.sparse import issparse

    if issparse(points):
        raise TypeError(f"{name} is a sparse matrix: reduce it first (TruncatedSVD or PCA)")
    if not isinstance(points, Tensor):
        array = np.asarray(points)
        if array.dtype.kind not in "fiub":
            try:
                array = array.astype(float)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{name} must hold numbers, not {array.dtype}; drop or encode other columns"
                ) from None
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(float)
        # torch warns of arrays that it may not write to, and cannot hold negative strides.
        points = torch.from_numpy(
            array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()
        )
    points = points.detach()
    if not points.is_floating_point():
        points = points.double()
    if points.ndim != 2 or not points.shape[0] or not points.shape[1]:
        raise ValueError(
            f"{name} must have the shape (n, features) with n > 0, not {tuple(points.shape)}. "
            "Reshape your data with reshape(-1, 1) if it has one feature"
        )
    if dim is not None and points.shape[1] != dim:
        raise ValueError(
            f"{name} has {points.shape[1]} features, but LightSB is expecting {dim} features as "
            "input, as in fit"
        )
    finite = torch.isfinite(points).all(1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise ValueError(
            f"{name} has NaN or infinity in row {row}: drop or impute such rows before"
        )
    return points


def check_count(name: str, value: Any) -> int:
    """A whole number of at least one.

    Raises
    ------
    TypeError, ValueError
        If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value!r}")
    return int(value)


def check_weights(name: str, weights: Any, rows: int) -> Float[np.ndarray, " n"] | None:
    """Weights of rows, summing to one; None where all are the same.

    Raises
    ------
    ValueError
        If they are negative, not finite, all zero, or too many or few.
    """
    if weights is None:
        return None
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().numpy()
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (rows,):
        raise ValueError(
            f"{name} must have one number a row: its shape is {weights.shape}, not ({rows},)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError(f"{name} must be finite, not negative, and not all zero")
    return weights / weights.sum()


def check_times(times: Any) -> Float[np.ndarray, " times"]:
    """Increasing times from 0 to 1.

    Raises
    ------
    ValueError
        If they are not.
    """
    if isinstance(times, Tensor):
        times = times.detach().cpu().numpy()
    times = np.asarray(times, dtype=float)
    good = times.ndim == 1 and times.size and np.isfinite(times).all()
    if not good or times.min() < 0 or times.max() > 1 or (np.diff(times) <= 0).any():
        raise ValueError("times must be increasing numbers from 0 to 1")
    return times


def like_input(values: Tensor, points: Any) -> Any:
    """``values`` in the kind and on the device of the points that were passed in."""
    if isinstance(points, Tensor):
        return values.to(points.device)
    return values.cpu().numpy()


def in_chunks(
    function: Callable[[slice], Tensor], rows: int, row_bytes: int, max_bytes: float
) -> Tensor:
    """``function`` of one slice of rows after the other, concatenated.

    The slices are as long as `max_bytes` allows. Where a GPU has less memory than that, they are
    halved until they fit.

    Raises
    ------
    torch.OutOfMemoryError
        If a single row does not fit.
    """
    size = max(1, min(rows, int(min(max_bytes, _CACHED) // row_bytes)))
    out: Tensor | None = None
    start = 0
    while start < rows:
        part = slice(start, min(rows, start + size))
        try:
            values = function(part)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = -(-size // 2)
            continue
        if out is None:
            if part.stop == rows:
                return values
            out = values.new_empty((rows, *values.shape[1:]))
        out[part] = values
        start = part.stop
    assert out is not None
    return out
