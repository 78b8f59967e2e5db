"""Means of vectors, coordinate by coordinate."""

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.bounded import EmpiricalBernstein, Hoeffding
from cameraready.change_detection.confidence_sequence import ConfidenceSequence, RangeError
from cameraready.change_detection.counts import ConjugateSequence
from cameraready.change_detection.gaussian import Gaussian
from cameraready.change_detection.heavy_tails import Catoni

__all__ = ["VectorMean"]

COORDINATES = (Gaussian, Hoeffding, EmpiricalBernstein, ConjugateSequence, Catoni)


class VectorMean(ConfidenceSequence):
    """The mean of vectors: a sequence for every coordinate at level alpha/d.

    Parameters
    ----------
    coordinate : ConfidenceSequence
        The sequence for one coordinate: any for single numbers but `Betting` and `Quantile`.
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
        if not isinstance(coordinate, COORDINATES):
            raise ValueError(
                "coordinate must be Gaussian, SubGaussian, Hoeffding, EmpiricalBernstein, "
                f"Bernoulli, Poisson or Catoni, not {coordinate!r}"
            )
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
    def accepts(self, x: float) -> bool:
        return self.coordinate.accepts(x)

    @override
    def complaint(self, value: np.ndarray, fault: int, index: int) -> RangeError:
        faults = [int(self.coordinate.check(value[None, [j]])[0]) for j in range(self.dimension)]
        j = faults.index(fault)
        error = self.coordinate.complaint(value[[j]], fault, index)
        return RangeError(f"coordinate {j + 1}: {error}", index, value.tolist())

    @override
    def estimate(self, observations: np.ndarray) -> np.ndarray:
        return observations.mean(axis=0)

    def run(self, array, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As for every sequence, with ends of shape (n, dimension)."""
        return self._advance(self._checked(array, 0), self.template(), nested)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """The running box: two arrays with an entry a coordinate."""
        return self._lower.copy(), self._upper.copy()
