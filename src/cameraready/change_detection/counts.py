"""Proportions and rates: conjugate mixtures."""

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.confidence_sequence import ConfidenceSequence, RangeError
from cameraready.common.checks import check_positive

__all__ = ["Bernoulli", "ConjugateSequence", "Poisson"]


class ConjugateSequence(ConfidenceSequence):
    """What the mixtures over a conjugate prior share."""

    def __init__(self, a: float = 1.0, b: float = 1.0, alpha: float = 0.05) -> None:
        self.a = check_positive("a", a)
        self.b = check_positive("b", b)
        super().__init__(alpha)

    @override
    def parameters(self) -> np.ndarray:
        return np.array([self.a, self.b])

    @override
    def template(self) -> np.ndarray:
        return self._row(2)


class Bernoulli(ConjugateSequence):
    """A success probability: all p whose Beta-binomial mixture e-value stays below 1/alpha.

    e(p) = B(a+S, b+m-S) / (B(a, b) p^S (1-p)^(m-S)).

    Parameters
    ----------
    a, b : float
        Parameters of the Beta mixture.
    alpha : float
        One minus the level.

    References
    ----------
    Robbins 1970; Howard et al., Annals of Statistics 2021, section 3.

    Examples
    --------
    >>> lower, upper = Bernoulli(alpha=0.05).run([0] * 7 + [1] * 3, nested=False)
    >>> round(float(lower[-1]), 8), round(float(upper[-1]), 8)
    (0.03664029, 0.73325947)
    """

    kind = kernels.BERNOULLI
    bounds = (0.0, 1.0)

    @override
    def accepts(self, x: float) -> bool:
        return x == 0 or x == 1

    @override
    def check(self, observations: np.ndarray) -> np.ndarray:
        fault = super().check(observations)
        fault[(fault == 0) & ((observations != 0.0) & (observations != 1.0)).any(axis=1)] = 3
        return fault

    @override
    def complaint(self, value: np.ndarray, fault: int, index: int) -> RangeError:
        if fault == 1:
            return super().complaint(value, fault, index)
        return RangeError(
            f"Bernoulli expects 0/1, but observation {index} = {value[0]:g}", index, float(value[0])
        )


class Poisson(ConjugateSequence):
    """The rate of counts: all rates whose Gamma mixture e-value stays below 1/alpha.

    e(r) = Gamma(a+S) b^a / (Gamma(a) (b+m)^(a+S)) / (r^S exp(-m r)).

    Parameters
    ----------
    a, b : float
        Shape and rate of the Gamma mixture; a/b is the rate that is expected beforehand.
    alpha : float
        One minus the level.
    """

    kind = kernels.POISSON
    bounds = (0.0, float("inf"))

    @override
    def accepts(self, x: float) -> bool:
        return super().accepts(x) and x == int(x)

    @override
    def check(self, observations: np.ndarray) -> np.ndarray:
        fault = super().check(observations)
        fault[(fault == 0) & (observations != np.floor(observations)).any(axis=1)] = 3
        return fault

    @override
    def complaint(self, value: np.ndarray, fault: int, index: int) -> RangeError:
        if fault == 1:
            return super().complaint(value, fault, index)
        return RangeError(
            f"Poisson expects counts 0, 1, 2, …, but observation {index} = {value[0]:g}",
            index,
            float(value[0]),
        )
