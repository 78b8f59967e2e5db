"""What a resolvent is: one method, ``prox(z, step)``, for numpy arrays and torch tensors.

The resolvent of an operator A with step eta is J(z) = (I + eta A)^-1 (z). For the normal cone of a
closed convex set it is the projection on the set, whatever the step; for the subdifferential of a
convex function g it is the proximal map argmin_x g(x) + |x - z|^2 / (2 eta).
"""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from cameraready.minmax.arrays import is_tensor

__all__ = ["ConvexSet", "Resolvent"]


class Resolvent(ABC):
    """The resolvent of a maximally monotone operator A.

    A vector is the last axis of an array; axes before it are a batch. A subclass says in
    ``_resolve`` what happens to an array of floating-point numbers.
    """

    def prox(self, z: Any, step: Any = 1.0) -> Any:
        """J(z), the resolvent of ``step`` times A.

        Parameters
        ----------
        z : array or tensor, (..., size)
            Where to take it. A tensor may be on any device; the result is differentiable where
            the map is. Half precision is computed in single.
        step : float, or array of shape (...)
            The step, positive; an array has one for every vector of the batch.

        Returns
        -------
        array or tensor, (..., size)
            Of the kind, type and device of ``z``.

        Raises
        ------
        ValueError
            If the step is not positive or the shape does not fit.
        """
        if isinstance(step, Real):
            if not step > 0:
                raise ValueError(f"step must be a positive number, not {step!r}")
        elif step.ndim:
            if step.shape != z.shape[:-1]:
                raise ValueError(
                    f"step must be a number or have the shape {tuple(z.shape[:-1])} of the batch, "
                    f"not {tuple(step.shape)}"
                )
            step = step[..., None]
        if is_tensor(z):
            if z.is_floating_point() and z.dtype.itemsize >= 4:
                return self._resolve(z, step)
            result = self._resolve(z.float(), step)
            return result.to(z.dtype) if z.is_floating_point() else result
        z = np.asarray(z)
        if z.dtype.kind != "f" or z.dtype.itemsize < 4:
            z = z.astype(float)
        return self._resolve(z, step)

    @abstractmethod
    def _resolve(self, z: Any, step: Any) -> Any:
        """J(z); ``step`` broadcasts against ``z``."""

    def _constant(self, name: str, z: Any) -> Any:
        """The attribute ``name`` in the type and on the device of ``z``; a number stays one."""
        value = getattr(self, name)
        if isinstance(value, float):
            return value
        if not is_tensor(z):
            keep = value.dtype == z.dtype or value.dtype.kind != "f"
            return value if keep else value.astype(z.dtype)
        copies = self.__dict__.setdefault("_copies", {})
        key = (name, z.dtype, z.device)
        if key not in copies:
            import torch

            dtype = z.dtype if value.dtype.kind == "f" else None
            copies[key] = torch.as_tensor(value, dtype=dtype, device=z.device)
        return copies[key]


class ConvexSet(Resolvent):
    """The normal cone of a closed convex set: its resolvent is the projection, for every step."""

    def project(self, z: Any) -> Any:
        """The point of the set that is nearest to ``z``, (..., size)."""
        return self.prox(z, 1.0)


def check_array(name: str, value: Any, ndim: int) -> np.ndarray:
    """``value`` as a finite float64 array of ``ndim`` axes, none of them empty.

    Raises
    ------
    ValueError
        If it is none.
    """
    array = _as_array(name, value)
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be {ndim}-dimensional, not empty and finite, not of shape {array.shape}"
            + ("" if np.isfinite(array).all() else " with NaN or infinity")
        )
    return array


def check_number_or_array(name: str, value: Any, minimum: float = -np.inf) -> float | np.ndarray:
    """``value`` as a float or float64 array of numbers not below ``minimum``; infinity may be.

    Raises
    ------
    ValueError
        If it is NaN or below.
    """
    array = _as_array(name, value)
    if array.size == 0 or not (array >= minimum).all():
        bound = "" if minimum == -np.inf else f" not below {minimum:g}"
        raise ValueError(f"{name} must be a number or an array of numbers{bound}, not {value!r}")
    return float(array) if array.ndim == 0 else array


def check_size(name: str, z: Any, size: int) -> None:
    """Refuse a ``z`` whose last axis has not ``size`` entries.

    Raises
    ------
    ValueError
        If it has another number; the message names the argument ``name`` that fixes the size.
    """
    if z.ndim == 0 or z.shape[-1] != size:
        raise ValueError(
            f"z must have {size} entries along its last axis, as {name} says, "
            f"but has the shape {tuple(z.shape)}"
        )


def check_trailing(name: str, z: Any, value: Any) -> None:
    """Refuse a ``z`` whose last axes have not the shape of the array ``value``."""
    if not isinstance(value, float) and z.shape[z.ndim - value.ndim :] != value.shape:
        raise ValueError(
            f"z must end in the shape {value.shape} of {name}, but has the shape {tuple(z.shape)}"
        )


def _as_array(name: str, value: Any) -> np.ndarray:
    if is_tensor(value):
        value = value.detach().cpu().numpy()
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must consist of numbers, not {value!r}") from None
