"""The library of resolvents: sets, functions, their products, and operators from elsewhere.

Each has ``prox(z, step)``, the resolvent J of step times A, for numpy arrays and torch tensors
alike; for a set it is the projection. The last axis holds the vector, axes before it are a batch.

Examples
--------
>>> import numpy as np
>>> strategies = Product([(Simplex(), 2), (Simplex(), 3)])
>>> strategies.prox(np.array([2.0, 1.0, 0.0, 0.0, 0.0]), 1.0).round(3)
array([1.   , 0.   , 0.333, 0.333, 0.333])
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.minmax.arrays import namespace
from cameraready.minmax.foreign import Foreign, PyProximal
from cameraready.minmax.polytope import Polytope
from cameraready.minmax.projections import (
    AffineSet,
    Ball,
    Box,
    CappedSimplex,
    Halfspace,
    L1Ball,
    Nonnegative,
    PSDCone,
    SecondOrderCone,
    Simplex,
)
from cameraready.minmax.proximal import L1, GroupL2, L2Squared, Nuclear
from cameraready.minmax.resolvent import ConvexSet, Resolvent, check_size

__all__ = [
    "L1",
    "AffineSet",
    "Ball",
    "Box",
    "CappedSimplex",
    "ConvexSet",
    "FreeSpace",
    "GroupL2",
    "Halfspace",
    "L1Ball",
    "L2Squared",
    "Nonnegative",
    "Nuclear",
    "PSDCone",
    "Polytope",
    "Product",
    "Resolvent",
    "SecondOrderCone",
    "Simplex",
    "as_resolvent",
]


class FreeSpace(ConvexSet):
    """All z: A = 0, and the resolvent returns ``z`` itself."""

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        return z


class Product(Resolvent):
    """Resolvents side by side, each on its own stretch of the vector.

    Parameters
    ----------
    blocks : sequence of (resolvent, size)
        What `as_resolvent` takes, and how many entries it gets, in the vector's order.

    Raises
    ------
    ValueError
        If there is no block or a size is not a whole number from 1 on.
    """

    def __init__(self, blocks: Sequence[tuple[Any, int]]) -> None:
        self.blocks: list[tuple[Resolvent, int]] = []
        try:
            pairs = [(operator, size) for operator, size in blocks]
        except (TypeError, ValueError):
            raise ValueError(f"blocks must be pairs (resolvent, size), not {blocks!r}") from None
        for operator, size in pairs:
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise ValueError(f"blocks: a size must be a whole number from 1 on, not {size!r}")
            self.blocks.append((as_resolvent(operator, "blocks"), int(size)))
        if not self.blocks:
            raise ValueError("blocks must not be empty")
        ends = np.cumsum([size for _, size in self.blocks]).tolist()
        self._slices = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        self.size = ends[-1]

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        if getattr(step, "ndim", 0):
            step = step[..., 0]  # each block puts the axis back
        check_size("blocks", z, self.size)
        parts = [
            block.prox(z[..., where], step)
            for (block, _), where in zip(self.blocks, self._slices, strict=True)
        ]
        return namespace(z).concatenate(parts, axis=-1)


def as_resolvent(operator: Any, name: str = "A") -> Resolvent:
    """``operator`` as a `Resolvent`.

    Parameters
    ----------
    operator
        A `Resolvent`; an operator of pyproximal; an object with ``prox(z, step)``; a function of
        (z, step); or None for no constraint.
    name
        The argument's name, for the message.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if operator is None:
        return FreeSpace()
    if isinstance(operator, Resolvent):
        return operator
    if any(kind.__module__.split(".")[0] == "pyproximal" for kind in type(operator).__mro__):
        return PyProximal(operator)
    prox = getattr(operator, "prox", operator)
    if not callable(prox) or isinstance(operator, type):
        raise TypeError(
            f"{name} must be an object with prox(z, step), a function of (z, step) or None, "
            f"not {operator!r}"
        )
    return Foreign(prox)
