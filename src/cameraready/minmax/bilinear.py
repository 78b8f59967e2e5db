"""Bilinear saddle points."""

from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.minmax.arrays import is_tensor
from cameraready.minmax.inclusion import TwoPlayer, Variable, join

__all__ = ["Bilinear"]


class Bilinear(TwoPlayer):
    """min over x in X, max over y in Y of x'Ay + b'x - c'y.

    As an inclusion: F(x, y) = (Ay + b, c - A'x), monotone with L = |A| (the spectral norm).

    Parameters
    ----------
    A : matrix, (m, n)
        Numpy array, torch tensor or scipy sparse matrix.
    b : vector, (m,), optional
        Zero by default.
    c : vector, (n,), optional
        Zero by default.
    X, Y : object with ``prox(z, step)``, optional
        Resolvents of the two players; without one a player is unconstrained.
    x0, y0 : vector, optional
        Starting point; zero by default, projected on X and Y.
    radius, diameter : float, optional
        Bounds on the distance to a solution from z0, and from any feasible point.

    Raises
    ------
    ValueError
        If A is empty or has not two dimensions, or a vector does not fit it.

    Examples
    --------
    >>> problem = Bilinear(np.array([[2.0]]), b=np.array([1.0]), x0=[1.0], y0=[1.0])
    >>> problem.operator(problem.z0).tolist()
    [3.0, -2.0]
    """

    def __init__(
        self,
        A: Any,  # noqa: N803
        b: Any = None,
        c: Any = None,
        X: Any = None,  # noqa: N803
        Y: Any = None,  # noqa: N803
        *,
        x0: Any = None,
        y0: Any = None,
        radius: float | None = None,
        diameter: float | None = None,
    ) -> None:
        self.A = check_matrix("A", A)
        m, n = self.A.shape
        self._transposed = self.A.T
        self.b, self.c = self._fitting("b", b, m), self._fitting("c", c, n)
        x = Variable("x0", self._zeros(m) if x0 is None else self._fitting("x0", x0, m), X)
        y = Variable("y0", self._zeros(n) if y0 is None else self._fitting("y0", y0, n), Y)
        super().__init__(x, y, radius=radius, diameter=diameter)
        if x0 is None and y0 is None:
            self.note = ""  # the start was not the user's

    def _zeros(self, size: int) -> Any:
        return self.A.new_zeros(size) if is_tensor(self.A) else np.zeros(size, self.A.dtype)

    def _fitting(self, name: str, vector: Any, size: int) -> Any:
        if vector is None:
            return None
        if is_tensor(self.A):
            import torch

            vector = torch.as_tensor(vector, dtype=self.A.dtype, device=self.A.device)
        else:
            try:
                vector = np.asarray(vector, dtype=self.A.dtype)
            except (TypeError, ValueError):
                raise TypeError(f"{name} must be a vector of real numbers") from None
        if tuple(vector.shape) != (size,):
            raise ValueError(
                f"{name} has the shape {tuple(vector.shape)}, but A of shape "
                f"{tuple(self.A.shape)} asks for ({size},)"
            )
        return vector

    def operator_x(self, y: Any) -> Any:
        """The x-part of F, Ay + b; not counted."""
        return self.A @ y if self.b is None else self.A @ y + self.b

    def operator_y(self, x: Any) -> Any:
        """The y-part of F, c - A'x; not counted."""
        return -(self._transposed @ x) if self.c is None else self.c - self._transposed @ x

    @override
    def _evaluate(self, z: Any) -> Any:
        n = self.split
        return join(self.operator_x(z[n:]), self.operator_y(z[:n]))


def check_matrix(name: str, matrix: Any) -> Any:
    """A dense or sparse matrix of finite real numbers, in floating point.

    Raises
    ------
    TypeError
        If its entries are not real numbers.
    ValueError
        If it is empty, has not two dimensions, or holds NaN or infinity; the message names where.
    """
    if is_tensor(matrix):
        matrix = matrix.detach() if matrix.is_floating_point() else matrix.double()
        shown: Any = matrix.cpu().numpy()
    elif hasattr(matrix, "tocsr"):
        matrix = matrix.tocsr().astype(float)
        shown = matrix
    else:
        matrix = shown = _real_matrix(name, matrix)
    if len(matrix.shape) != 2:
        raise ValueError(f"{name} must have two dimensions, not {len(matrix.shape)}")
    if 0 in matrix.shape:
        raise ValueError(f"{name} is empty: its shape is {tuple(matrix.shape)}")
    entries = shown.data if hasattr(shown, "tocoo") else shown
    if not np.isfinite(entries).all():
        rows, columns = shown.nonzero()  # NaN and infinity are not zero
        bad = ~np.isfinite(np.asarray(shown[rows, columns]).reshape(-1))
        row, column = int(rows[bad][0]), int(columns[bad][0])
        raise ValueError(
            f"{name} must hold finite numbers only, but row {row}, column {column} (counted from "
            f"0) is {float(shown[row, column])}"
        )
    return matrix


def _real_matrix(name: str, matrix: Any) -> np.ndarray:
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise ValueError(f"{name} must be a matrix: all rows equally long") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers only, not {_first_other(array)}")
    return array if array.dtype.kind == "f" else array.astype(float)


def _first_other(matrix: Any) -> str:
    if matrix.dtype.kind == "c":
        return "complex ones"
    for place, entry in np.ndenumerate(matrix):
        try:
            float(entry)
        except (TypeError, ValueError):
            where = ", ".join(
                f"{word} {index}" for word, index in zip(("row", "column"), place, strict=False)
            )
            return f"{entry!r} in {where} (counted from 0)"
    return f"entries of type {matrix.dtype}"
