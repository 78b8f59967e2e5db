"""Projection on a polytope given by inequalities, by a quadratic program."""

from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from typing_extensions import override

from cameraready.minmax.foreign import by_rows
from cameraready.minmax.resolvent import ConvexSet, check_array, check_size

__all__ = ["Polytope"]


class Polytope(ConvexSet):
    """All z with G z <= h, by OSQP, which starts from the last projection.

    The projection is exact where z is in the set and good to about 1e-8 elsewhere. The work is
    done by numpy on the CPU; a tensor comes back as a tensor, but has no gradient.

    Parameters
    ----------
    G : array or sparse matrix, (inequalities, size)
        The left sides.
    h : array, (inequalities,)
        The right sides.

    Raises
    ------
    ValueError
        If no z satisfies the inequalities.
    ImportError
        If osqp is not installed.

    Examples
    --------
    >>> triangle = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    >>> triangle.prox(np.array([1.0, 1.0]), 1.0).round(6)
    array([0.5, 0.5])
    """

    def __init__(self, G: Any, h: Any) -> None:  # noqa: N803  the field's name
        matrix = G if scipy.sparse.issparse(G) else check_array("G", G, 2)
        self._matrix = scipy.sparse.csc_matrix(matrix, dtype=float)
        if not np.isfinite(self._matrix.data).all():
            raise ValueError("G must be finite")
        self._bound = check_array("h", h, 1)
        rows, self._size = self._matrix.shape
        if len(self._bound) != rows:
            raise ValueError(f"h must have {rows} entries, one a row of G, not {len(self._bound)}")
        feasible = scipy.optimize.linprog(
            np.zeros(self._size), A_ub=self._matrix, b_ub=self._bound, bounds=(None, None)
        )
        if feasible.status == 2:
            raise ValueError("G z <= h must have a solution: the rows of G and h contradict")
        self._solver: Any = None

    def _set_up(self) -> Any:
        try:
            import osqp
        except ImportError as error:
            raise ImportError("Polytope needs osqp: pip install osqp") from error
        solver = osqp.OSQP()
        solver.setup(
            P=scipy.sparse.csc_matrix(scipy.sparse.identity(self._size)),
            q=np.zeros(self._size),
            A=self._matrix,
            l=np.full(len(self._bound), -np.inf),
            u=self._bound,
            eps_abs=1e-9,
            eps_rel=1e-9,
            max_iter=200_000,
            polishing=True,
            warm_starting=True,
            verbose=False,
        )
        return solver

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        check_size("G", z, self._size)
        return by_rows(self._project_vector, z)

    def _project_vector(self, z: np.ndarray) -> np.ndarray:
        if not np.isfinite(z).all():
            return np.full_like(z, np.nan)
        if (self._matrix @ z <= self._bound).all():
            return z.copy()
        if self._solver is None:
            self._solver = self._set_up()
        self._solver.update(q=-z)
        result = self._solver.solve(raise_error=False)
        if not result.info.status.startswith("solved"):
            raise RuntimeError(
                f"OSQP did not find the projection on the polytope ({result.info.status}); "
                "scale the rows of G to a like size"
            )
        return np.asarray(result.x)
