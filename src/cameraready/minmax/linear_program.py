"""Linear programs as saddle points."""

import math
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from cameraready.minmax.bilinear import Bilinear, check_matrix
from cameraready.minmax.resolvents import Box

__all__ = ["LPErrors", "LPSaddle"]


class LPErrors(NamedTuple):
    """How far a point is from solving a linear program.

    The last three are relative: the gap to 1 + |primal| + |dual|, the infeasibilities to
    1 + |right-hand sides| and 1 + |c|.
    """

    primal_objective: float
    dual_objective: float
    gap: float
    primal_infeasibility: float
    dual_infeasibility: float


class LPSaddle(Bilinear):
    """min c'x subject to A_ub x <= b_ub, A_eq x = b_eq and bounds, as a saddle point.

    min over x in the bounds, max over y = (multipliers >= 0, multipliers free) of
    c'x + y'(Gx - h), where G and h hold all rows. The arguments are those of
    `scipy.optimize.linprog`.

    Parameters
    ----------
    c : vector, (n,)
        Costs.
    A_ub, A_eq : matrix, optional
        Numpy arrays or scipy sparse matrices with n columns.
    b_ub, b_eq : vector, optional
        Right-hand sides.
    bounds : pair or sequence of pairs
        (low, high) for all variables, or one pair each; None is no bound.
    scale : bool
        Solve for scaled variables: rows and columns of G are brought to the size 1 (Ruiz), and
        costs and right-hand sides to the same norm, which balances primal and dual. A vector z of
        this problem is in the scaled variables; `players` gives x and y in the program's units,
        `vector` goes the other way.

    Raises
    ------
    TypeError, ValueError
        If there is no variable or no row, or shapes do not fit.

    Examples
    --------
    >>> program = LPSaddle([1.0, 1.0], A_ub=[[-1.0, -2.0]], b_ub=[-2.0])
    >>> round(program.errors(program.vector([0.0, 1.0], [0.5])).gap, 12)
    0.0
    """

    polyhedral = True

    def __init__(
        self,
        c: Any,
        A_ub: Any = None,  # noqa: N803
        b_ub: Any = None,
        A_eq: Any = None,  # noqa: N803
        b_eq: Any = None,
        bounds: Any = (0, None),
        *,
        scale: bool = True,
    ) -> None:
        costs = _numbers("c", c)
        n = len(costs)
        if n == 0:
            raise ValueError("c is empty: a linear program needs at least one variable")
        matrices, sides = [], []
        for name, matrix, side in (("ub", A_ub, b_ub), ("eq", A_eq, b_eq)):
            if matrix is None:
                if side is not None:
                    raise ValueError(f"b_{name} is given without A_{name}")
                continue
            matrix = check_matrix(f"A_{name}", matrix)
            if matrix.shape[1] != n:
                raise ValueError(f"A_{name} has {matrix.shape[1]} columns, but c has {n} entries")
            if side is None:
                raise ValueError(f"A_{name} is given without b_{name}")
            side = _numbers(f"b_{name}", side)
            if len(side) != matrix.shape[0]:
                raise ValueError(
                    f"b_{name} has {len(side)} entries, but A_{name} has {matrix.shape[0]} rows"
                )
            matrices.append(matrix)
            sides.append(side)
        if not matrices:
            raise ValueError(
                "A_ub and A_eq are both missing: with bounds alone, each variable lies at an end"
            )
        self.n_ub = 0 if A_ub is None else matrices[0].shape[0]
        self.costs, self.G, self.h = costs, _stack(matrices), np.concatenate(sides)
        self.low, self.high = _bounds(bounds, n)
        self.x_unit, self.y_unit = np.ones(n), np.ones(len(self.h))
        if scale:
            self.x_unit, self.y_unit = _units(self.G, self.costs, self.h)
        free = np.full(len(self.h), np.inf)
        multipliers = -free
        multipliers[: self.n_ub] = 0.0
        super().__init__(
            _scaled(self.G, self.y_unit, self.x_unit).T,
            b=self.x_unit * self.costs,
            c=self.y_unit * self.h,
            X=Box(self.low / self.x_unit, self.high / self.x_unit),
            Y=Box(multipliers, free),
        )

    @override
    def players(self, z: Any) -> tuple[Any, Any]:
        return self.x_unit * z[: self.split], self.y_unit * z[self.split :]

    def vector(self, x: Any, y: Any) -> np.ndarray:
        """The vector z of a primal and a dual point in the program's units."""
        return np.concatenate((np.asarray(x) / self.x_unit, np.asarray(y) / self.y_unit))

    def objective(self, z: Any) -> float:
        """The costs c'x."""
        return float(self.costs @ self.players(z)[0])

    def errors(self, z: Any) -> LPErrors:
        """The errors of primal and dual solution together."""
        x, y = self.players(z)
        excess = self.G @ x - self.h
        excess[: self.n_ub] = np.maximum(excess[: self.n_ub], 0.0)
        reduced = self.costs + self.G.T @ y
        end = np.where(reduced > 0, self.low, self.high)
        free = ~np.isfinite(end)
        primal = float(self.costs @ x)
        dual = float(reduced[~free] @ end[~free] - self.h @ y)
        return LPErrors(
            primal,
            dual,
            abs(primal - dual) / (1.0 + abs(primal) + abs(dual)),
            float(np.linalg.norm(excess) / (1.0 + np.linalg.norm(self.h))),
            float(np.linalg.norm(reduced[free]) / (1.0 + np.linalg.norm(self.costs))),
        )

    @override
    def gap(self, z: Any) -> float:
        """The largest of the relative gap and the two relative infeasibilities."""
        return max(self.errors(z)[2:])

    def highs(self, *, presolve: bool = True) -> Any:
        """The solution by HiGHS: what `scipy.optimize.linprog` returns."""
        from scipy.optimize import linprog

        rows, k = self.G, self.n_ub
        return linprog(
            self.costs,
            A_ub=rows[:k] if k else None,
            b_ub=self.h[:k] if k else None,
            A_eq=rows[k:] if k < len(self.h) else None,
            b_eq=self.h[k:] if k < len(self.h) else None,
            bounds=np.stack([self.low, self.high], axis=1),
            method="highs",
            options={"presolve": presolve},
        )

    @override
    def diagnose(self) -> tuple[str, str] | None:
        """What HiGHS says, if there is no solution."""
        solution = self.highs()
        if solution.status == 4:  # numerical trouble, or presolve could not tell the two apart
            solution = self.highs(presolve=False)
        status = {2: "infeasible", 3: "unbounded"}.get(solution.status)
        return None if status is None else (status, f"HiGHS: {solution.message}")


def _numbers(name: str, vector: Any) -> np.ndarray:
    try:
        vector = np.asarray(vector, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a vector of real numbers") from None
    if vector.ndim != 1:
        raise ValueError(f"{name} must be a vector, not of {vector.ndim} dimensions")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must hold finite numbers only")
    return vector


def _stack(matrices: list[Any]) -> Any:
    if len(matrices) == 1:
        return matrices[0]
    if any(hasattr(matrix, "tocsr") for matrix in matrices):
        import scipy.sparse

        return scipy.sparse.vstack(matrices, format="csr")
    return np.vstack(matrices)


def _scaled(matrix: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    if hasattr(matrix, "tocsr"):
        return matrix.multiply(rows[:, None]).multiply(columns[None, :]).tocsr()
    return rows[:, None] * matrix * columns[None, :]


def _units(matrix: Any, costs: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Units of x and y: ten rounds of Ruiz's equilibration, then equal norms of costs and sides."""
    rows, columns = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    for _ in range(10):
        size = abs(_scaled(matrix, rows, columns))
        for units, axis in ((rows, 1), (columns, 0)):
            largest = size.max(axis=axis)
            largest = largest.toarray() if hasattr(largest, "toarray") else largest
            largest = np.asarray(largest, dtype=float).reshape(-1)
            units /= np.sqrt(np.where(largest > 0, largest, 1.0))
    cost, side = np.linalg.norm(columns * costs), np.linalg.norm(rows * sides)
    balance = math.sqrt(cost / side) if cost > 0 and side > 0 else 1.0
    return columns / balance, rows * balance


def _bounds(bounds: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        table = np.array([bounds] if np.ndim(bounds) == 1 else bounds, dtype=object)
        if table.ndim != 2 or table.shape[1] != 2 or table.shape[0] not in (1, n):
            raise ValueError
        low = np.array([-np.inf if end is None else float(end) for end in table[:, 0]])
        high = np.array([np.inf if end is None else float(end) for end in table[:, 1]])
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a pair (low, high) or {n} such pairs, with None for no bound"
        ) from None
    low, high = np.broadcast_to(low, n).copy(), np.broadcast_to(high, n).copy()
    wrong = np.flatnonzero(~(low <= high) | np.isposinf(low) | np.isneginf(high))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"bounds leave nothing for variable {i} (counted from 0): ({low[i]:g}, {high[i]:g})"
        )
    return low, high
