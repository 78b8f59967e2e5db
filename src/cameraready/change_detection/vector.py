"""Means of vectors, coordinate by coordinate."""

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.bounded import Betting
from cameraready.change_detection.confidence_sequence import ConfidenceSequence, RangeError

__all__ = ["VectorMean"]


class VectorMean(ConfidenceSequence):
    """The mean of vectors: a sequence for every coordinate at level alpha/d.

    Parameters
    ----------
    coordinate : ConfidenceSequence
        The sequence for one coordinate (any for single numbers but `Betting` and grids).
    dimension : int
        How many coordinates an observation has.
    alpha : float
        One minus the level of all together.

    Examples
    --------
    >>> from cameraready.change_detection import cs
    >>> lower, upper = VectorMean(cs.Gaussian(), 2).run([(0.0, 5.0)] * 50)
    >>> lower.shape
    (50, 2)
    """

    def __init__(self, coordinate: ConfidenceSequence, dimension: int, alpha: float = 0.05) -> None:
        scalar = isinstance(coordinate, ConfidenceSequence) and not isinstance(coordinate, Betting)
        if not scalar or coordinate.entries != 1 or not coordinate.ready or coordinate.ends != 1:
            raise ValueError("coordinate must be a confidence sequence for single numbers")
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise ValueError(f"dimension must be a whole number from 1 on, not {dimension!r}")
        self.coordinate = coordinate
        self.dimension = dimension
        self.entries = dimension
        self.kind = kernels.VECTOR + coordinate.kind
        self.bounds = coordinate.bounds
        super().__init__(alpha)

    @property
    @override
    def ends(self) -> int:
        return self.dimension

    def _share(self) -> ConfidenceSequence:
        return self.coordinate.with_alpha(self.alpha / self.dimension)

    @override
    def parameters(self) -> np.ndarray:
        return self._share().parameters()

    @override
    def template(self) -> np.ndarray:
        return np.tile(self._share().template(), self.dimension)

    @override
    def check(self, observations: np.ndarray) -> np.ndarray:
        return np.stack(
            [self.coordinate.check(observations[:, [j]]) for j in range(self.dimension)]
        ).max(axis=0)

    @override
    def complaint(self, value: np.ndarray, fault: int, index: int) -> RangeError:
        return super().complaint(value, min(fault, 2), index)

    @override
    def estimate(self, observations: np.ndarray) -> np.ndarray:
        return observations.mean(axis=0)

    def run(self, array, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As for every sequence, with ends of shape (n, dimension)."""
        return self._advance(self._checked(array, 0), self.template(), nested)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """The running box: two arrays with an entry a coordinate."""
        return self._lower.copy(), self._upper.copy()
