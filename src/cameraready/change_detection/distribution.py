"""Whole distributions and quantiles, for independent observations."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.confidence_sequence import ConfidenceSequence, check_level

__all__ = ["CDF", "GridSequence", "Quantile"]


# How far a learned grid goes beyond the observations, in units of their spread: a change, or a
# quantile far out, may lie where none was seen.
REACH = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


class GridSequence(ConfidenceSequence):
    """A sequence that counts observations below the points of a grid.

    The grid holds quantiles of the first `window` observations, and points beyond them, unless it
    is given; until it is known the set is everything. The band holds at all points of the line at
    once, so that it does not matter that the grid was read from the data.

    Parameters
    ----------
    assume_iid : bool
        Must be True: the user's word that observations are independent and alike.
    grid : sequence of float, optional
        Points at which the distribution function is watched, increasing.
    points : int
        How many points a learned grid has.
    window : int
        From how many first observations it is learned.
    alpha : float
        One minus the level.
    """

    def __init__(
        self,
        assume_iid: bool = False,
        grid: Sequence[float] | None = None,
        points: int = 64,
        window: int = 100,
        alpha: float = 0.05,
    ) -> None:
        if assume_iid is not True:
            raise ValueError(
                f"{type(self).__name__} is valid for independent observations only: "
                "pass assume_iid=True if yours are"
            )
        if grid is not None:
            values = np.asarray(grid, dtype=float)
            if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
                raise ValueError("grid must be a list of finite numbers")
            if (np.diff(values) <= 0).any():
                raise ValueError("grid must increase strictly")
        for name, value in (("points", points), ("window", window)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 2:
                raise ValueError(f"{name} must be a whole number from 2 on, not {value!r}")
        self.assume_iid = assume_iid
        self.grid = None if grid is None else np.asarray(grid, dtype=float)
        self.points = int(points)
        self.window = int(window)
        super().__init__(alpha)

    @property
    @override
    def ready(self) -> bool:
        return self.grid is not None

    @property
    @override
    def learning_length(self) -> int:
        return 0 if self.ready else self.window

    @override
    def learned(self, observations: np.ndarray) -> Self:
        if self.ready:
            return self
        reach = np.array(REACH[: max(0, (self.points - 4) // 2)])
        inner = self.points - 2 * len(reach)
        levels = np.arange(1, inner + 1) / (inner + 1)
        low, high = observations.min(), observations.max()
        spread = high - low
        values = np.concatenate(
            [
                low - spread * reach,
                np.quantile(observations, levels, method="inverted_cdf"),
                high + spread * reach,
            ]
        )
        return self.with_grid(np.unique(values))

    def with_grid(self, grid: np.ndarray) -> Self:
        """A fresh copy with this grid."""
        other = self.with_alpha(self.alpha)
        other.grid = grid
        other.reset()
        return other

    @property
    def _grid(self) -> np.ndarray:
        assert self.grid is not None, "a sequence is only begun once its grid is known"
        return self.grid


class CDF(GridSequence):
    """The distribution function on a grid: the Dvoretzky-Kiefer-Wolfowitz band with a union.

    F_m ± sqrt(log(2 m^2 pi^2 / (6 alpha)) / (2 m)), Massart's constant at every m.

    Parameters are those of `GridSequence`.

    Examples
    --------
    >>> lower, upper = CDF(assume_iid=True, grid=[0.5]).run([0.0, 1.0] * 50, nested=False)
    >>> round(float(upper[-1, 0]) - 0.5, 8)
    0.25881383
    """

    kind = kernels.CDF
    parameter_bounds = (0.0, 1.0)

    @property
    @override
    def ends(self) -> int:
        return 1 if self.grid is None else len(self.grid)

    def run(self, array, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As for every sequence, with ends of shape (n, points of the grid)."""
        values = self._checked(array, 0)
        active = self.learned(values[: self.window])
        return active._advance(values, active.template(), nested)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """The running band: two arrays with an entry a grid point."""
        return self._lower.copy(), self._upper.copy()

    @override
    def parameters(self) -> np.ndarray:
        return self._grid

    @override
    def template(self) -> np.ndarray:
        return self._row(len(self._grid))

    @override
    def series(self, observations: np.ndarray, coordinate: int) -> np.ndarray:
        return (observations[:, 0] <= self._grid[coordinate]).astype(float)

    @override
    def estimate(self, observations: np.ndarray) -> np.ndarray:
        return (observations <= self._grid).mean(axis=0)


class Quantile(GridSequence):
    """The p-quantile, from the band of `CDF` inverted on the grid.

    Parameters
    ----------
    p : float
        Which quantile, in (0, 1).
    assume_iid, grid, points, window, alpha
        As for `GridSequence`.
    """

    kind = kernels.QUANTILE

    def __init__(
        self,
        p: float,
        assume_iid: bool = False,
        grid: Sequence[float] | None = None,
        points: int = 64,
        window: int = 100,
        alpha: float = 0.05,
    ) -> None:
        self.p = check_level("p", p)
        super().__init__(assume_iid, grid, points, window, alpha)

    @override
    def parameters(self) -> np.ndarray:
        return np.concatenate([[self.p], self._grid])

    @override
    def template(self) -> np.ndarray:
        return self._row(len(self._grid))

    @override
    def series(self, observations: np.ndarray, coordinate: int) -> np.ndarray:
        return (observations[:, 0] <= np.quantile(observations, self.p)).astype(float)

    @override
    def estimate(self, observations: np.ndarray) -> float:
        return float(np.quantile(observations, self.p, method="inverted_cdf"))
