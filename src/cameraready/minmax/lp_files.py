"""Linear programs from MPS and LP files, read by HiGHS."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.minmax.linear_program import LPSaddle

__all__ = ["LPModel", "read_lp"]


@dataclass(frozen=True)
class LPModel:
    """A linear program as it stands in a file: rows between two bounds, either sense.

    Parameters
    ----------
    highs
        The `highspy.Highs` that has read it.
    variables, rows
        Their names.
    """

    highs: Any
    variables: list[str]
    rows: list[str]

    @property
    def sign(self) -> float:
        """-1 for a maximum, as the saddle point is always a minimum in x."""
        import highspy

        return -1.0 if self.highs.getLp().sense_ == highspy.ObjSense.kMaximize else 1.0

    @property
    def hopeless(self) -> bool:
        """There is no variable, or the bounds of one leave it nothing."""
        lp = self.highs.getLp()
        return not lp.num_col_ or bool((np.array(lp.col_lower_) > np.array(lp.col_upper_)).any())

    def saddle(self) -> LPSaddle:
        """The saddle point whose `x` are the variables.

        Raises
        ------
        ValueError
            If there is no variable, or bounds leave nothing.
        """
        lp = self.highs.getLp()
        matrix = self._matrix()
        low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
        equal, above, below = self._kinds()
        if not len(equal) + len(above) + len(below):
            # Bounds alone: 0'x <= 0 makes it a saddle point like any other.
            ub, side = np.zeros((1, lp.num_col_)), np.zeros(1)
        else:
            ub = _stacked([matrix[above], -matrix[below]])
            side = np.concatenate([high[above], -low[below]])
        return LPSaddle(
            self.sign * np.array(lp.col_cost_),
            A_ub=ub if ub.shape[0] else None,
            b_ub=side if ub.shape[0] else None,
            A_eq=matrix[equal] if len(equal) else None,
            b_eq=low[equal] if len(equal) else None,
            bounds=np.stack([lp.col_lower_, lp.col_upper_], axis=1),
        )

    def objective(self, value: float) -> float:
        """The file's objective for a value of the saddle point's."""
        return self.sign * value + self.highs.getLp().offset_

    def duals(self, y: np.ndarray) -> np.ndarray:
        """The rows' duals: by how much the objective changes with the row's bound, as in HiGHS."""
        equal, above, below = self._kinds()
        found = np.zeros(len(self.rows))
        n = len(above) + len(below)
        if n + len(equal):
            found[above] -= y[: len(above)]
            found[below] += y[len(above) : n]
            found[equal] -= y[n:]
        return self.sign * found + 0.0

    def solve(self) -> tuple[str, float | None]:
        """HiGHS's own word for the outcome, and the objective if there is an optimum."""
        import highspy

        self.highs.run()
        status = self.highs.getModelStatus()
        optimal = status == highspy.HighsModelStatus.kOptimal
        value = float(self.highs.getInfo().objective_function_value) if optimal else None
        return self.highs.modelStatusToString(status), value

    def _kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows are equations, which have an upper and which a lower bound."""
        lp = self.highs.getLp()
        low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
        equal = low == high
        return (
            np.flatnonzero(equal),
            np.flatnonzero(~equal & np.isfinite(high)),
            np.flatnonzero(~equal & np.isfinite(low)),
        )

    def _matrix(self) -> Any:
        import highspy
        from scipy.sparse import csc_array, csr_array

        lp = self.highs.getLp()
        stored = lp.a_matrix_
        by_rows = stored.format_ == highspy.MatrixFormat.kRowwise
        kind = csr_array if by_rows else csc_array
        parts = (stored.value_, stored.index_, stored.start_)
        return kind(
            tuple(np.array(part) for part in parts), shape=(lp.num_row_, lp.num_col_)
        ).tocsr()


def read_lp(path: Path) -> LPModel:
    """Read a linear program.

    Parameters
    ----------
    path
        An MPS or LP file, also compressed (.gz).

    Raises
    ------
    OSError
        If it cannot be opened.
    ValueError
        If HiGHS cannot read it, or it is not linear and continuous.
    """
    import highspy

    path.open("rb").close()  # for the system's word on a file that is not there
    if not path.name.lower().removesuffix(".gz").endswith((".mps", ".lp")):
        raise ValueError(f"{path} must be named .mps or .lp: its name says how it is read")

    class Silent(highspy.Highs):
        """Silent from the start: its constructor already writes to standard output."""

        @override
        def enableCallbacks(self) -> None:
            self.silent()
            super().enableCallbacks()

    highs = Silent()
    if highs.readModel(str(path)) == highspy.HighsStatus.kError:
        raise ValueError(f"{path}: HiGHS cannot read this as a model in the format of its name")
    lp = highs.getLp()
    if any(kind != highspy.HighsVarType.kContinuous for kind in lp.integrality_):
        raise ValueError(f"{path} has integer variables: only continuous models are solved here")
    if highs.getHessianNumNz():
        raise ValueError(f"{path} has a quadratic objective: only linear models are solved here")
    names = [
        name or f"{letter}{i}"
        for letter, found, n in (
            ("x", lp.col_names_, lp.num_col_),
            ("r", lp.row_names_, lp.num_row_),
        )
        for i, name in enumerate(list(found) or [""] * n)
    ]
    return LPModel(highs, names[: lp.num_col_], names[lp.num_col_ :])


def _stacked(matrices: list[Any]) -> Any:
    from scipy.sparse import vstack

    return vstack(matrices, format="csr")
