"""Two streams side by side: difference of means, distance of distributions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.bounded import Betting, EmpiricalBernstein, Hoeffding
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.change_detection.distribution import GridSequence
from cameraready.common.checks import check_choice, check_interval

__all__ = ["TwoSampleKS", "TwoSampleMean"]

METHODS = {"bounded": EmpiricalBernstein, "betting": Betting, "hoeffding": Hoeffding}


class TwoSampleMean(ConfidenceSequence):
    """E[x] - E[y] from pairs (x, y), by a sequence for the mean of x - y.

    Parameters
    ----------
    range : tuple of float
        Ends of the interval that holds every x and every y; of no account where `method` is a
        sequence.
    method : {"bounded", "betting", "hoeffding"} or ConfidenceSequence
        The sequence for x - y; one of your own choice brings its own assumptions, as
        ``cs.Gaussian(sigma)``.
    alpha : float
        One minus the level.

    Examples
    --------
    >>> lower, upper = TwoSampleMean(alpha=0.05).run([(0.9, 0.1)] * 100)
    >>> bool(lower[-1] > 0)
    True
    """

    entries = 2

    def __init__(
        self,
        range: tuple[float, float] = (0.0, 1.0),
        method: str | ConfidenceSequence = "bounded",
        alpha: float = 0.05,
    ) -> None:
        self.range = check_interval("range", range)
        self.method = method
        if not isinstance(method, ConfidenceSequence):
            check_choice("method", method, METHODS)
            self.bounds = self.range
        elif method.entries != 1 or method.ends != 1 or not method.ready:
            raise ValueError("method must be a confidence sequence for single numbers")
        super().__init__(alpha)
        if not isinstance(self._difference, Betting):
            self.kind = self._difference.kind

    @property
    @override
    def parameter_bounds(self) -> tuple[float, float]:
        return self._difference.bounds

    @property
    def difference(self) -> ConfidenceSequence:
        """The sequence for the mean of x - y."""
        if isinstance(self.method, ConfidenceSequence):
            return self.method.with_alpha(self.alpha)
        width = self.range[1] - self.range[0]
        return METHODS[self.method](range=(-width, width), alpha=self.alpha)

    @override
    def check(self, observations: np.ndarray) -> np.ndarray:
        fault = super().check(observations)
        fine = fault == 0
        fault[fine] = self._difference.check(self.transform(observations[fine]))
        return fault

    @override
    def parameters(self) -> np.ndarray:
        return self._difference.parameters()

    @override
    def template(self) -> np.ndarray:
        return self._difference.template()

    @override
    def transform(self, observations: np.ndarray) -> np.ndarray:
        return observations[:, :1] - observations[:, 1:]

    @override
    def series(self, observations: np.ndarray, coordinate: int) -> np.ndarray:
        return observations[:, 0] - observations[:, 1]

    @override
    def estimate(self, observations: np.ndarray) -> float:
        return float((observations[:, 0] - observations[:, 1]).mean())

    @override
    def reset(self) -> None:
        super().reset()
        self._difference = self.difference

    def _advance(
        self, values: np.ndarray, state: np.ndarray, nested: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._difference._advance(values, state, nested)

    def run(self, array: Any, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As for every sequence; with ``method="betting"`` only ``nested=True``."""
        values = self.observations(array)
        self._checked(array, 0)
        return self.difference.run(values[:, 0] - values[:, 1], nested)


class TwoSampleKS(GridSequence):
    """The largest distance of two distribution functions, over a grid, from pairs (x, y).

    max over the grid of |F_x - F_y|, ± the sum of both bands' half-widths at alpha/2 each.

    Parameters are those of `GridSequence`; a learned grid holds quantiles of x and y together.
    """

    kind = kernels.KOLMOGOROV_SMIRNOV
    entries = 2
    parameter_bounds = (0.0, 1.0)

    def __init__(
        self,
        assume_iid: bool = False,
        grid: Sequence[float] | None = None,
        points: int = 64,
        window: int = 100,
        alpha: float = 0.05,
    ) -> None:
        super().__init__(assume_iid, grid, points, window, alpha)

    @override
    def parameters(self) -> np.ndarray:
        return self._grid

    @override
    def template(self) -> np.ndarray:
        return self._row(2 * len(self._grid))

    def series(self, observations: np.ndarray, coordinate: int) -> np.ndarray:
        """The indicator difference where the two distributions differ most."""
        below = observations[:, :, None] <= self._grid
        widest = int(np.abs(below.mean(axis=0)[0] - below.mean(axis=0)[1]).argmax())
        return below[:, 0, widest].astype(float) - below[:, 1, widest]

    @override
    def estimate(self, observations: np.ndarray) -> float:
        below = (observations[:, :, None] <= self._grid).mean(axis=0)
        return float(np.abs(below[0] - below[1]).max())
