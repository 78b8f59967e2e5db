"""Resolvents from elsewhere: pyproximal's operators, objects with ``prox``, plain functions."""

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.minmax.arrays import is_tensor
from cameraready.minmax.resolvent import Resolvent

__all__ = ["Foreign", "PyProximal", "by_rows"]


def by_rows(function: Callable[[np.ndarray], np.ndarray], z: Any) -> Any:
    """``function`` of every vector of ``z``, (..., size), through numpy.

    Raises
    ------
    ValueError
        If a gradient through ``z`` is asked for: numpy has none.
    """
    if is_tensor(z):
        import torch

        if z.requires_grad and torch.is_grad_enabled():
            raise ValueError("z must not require a gradient: this resolvent is computed by numpy")
        result = by_rows(function, z.detach().cpu().numpy())
        return torch.as_tensor(result, dtype=z.dtype, device=z.device)
    if z.ndim <= 1:
        return np.asarray(function(z))
    rows = [function(row) for row in z.reshape(-1, z.shape[-1])]
    return np.reshape(rows, z.shape)


class Foreign(Resolvent):
    """A function of (z, step), or the method ``prox`` of an object that has one.

    Parameters
    ----------
    function : callable
        ``function(z, step)`` returns J(z), in the shape of ``z``.
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        result = self.function(z, step)
        if np.shape(result) != tuple(z.shape):
            raise ValueError(
                f"a resolvent must keep the shape of z, {tuple(z.shape)}, "
                f"but this one returned {tuple(np.shape(result))}"
            )
        return result


class PyProximal(Resolvent):
    """An operator of pyproximal, for vectors and batches of them.

    Parameters
    ----------
    operator : pyproximal.ProxOperator
        The operator, with ``prox(x, tau)`` for one vector.
    """

    def __init__(self, operator: Any) -> None:
        self.operator = operator

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        each = step[..., 0].reshape(-1).tolist() if getattr(step, "ndim", 0) else None
        steps = iter(each) if each is not None else repeat(step)

        def one(row: np.ndarray) -> np.ndarray:
            result = np.asarray(self.operator.prox(row, next(steps)))
            if result.shape != row.shape:
                raise ValueError(
                    f"a resolvent must keep the shape of z, {row.shape}, "
                    f"but {type(self.operator).__name__} returned {result.shape}"
                )
            return result

        return by_rows(one, z)
