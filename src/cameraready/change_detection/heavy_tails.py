"""Means under heavy tails: Catoni's M-estimator."""

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.common.checks import check_positive

__all__ = ["Catoni"]


class Catoni(ConfidenceSequence):
    """Mean of observations of which only a bound on the variance is known.

    All theta with |sum phi(lambda_i (x_i - theta))| < log(2/alpha) + variance sum lambda_i^2 / 2,
    phi(x) = sign(x) log(1 + |x| + x^2/2), lambda_i = sqrt(2 log(2/alpha) / (i variance)).

    The sum has no short state: a sequence keeps its observations, and stops after `window` of
    them, holding the interval it has reached.

    Parameters
    ----------
    variance : float
        Bound on the (conditional) variance, in the observations' unit squared.
    window : int
        How many observations a sequence uses.
    alpha : float
        One minus the level.

    References
    ----------
    Wang, Ramdas, Catoni-style confidence sequences for heavy-tailed mean estimation, Stochastic
    Processes and their Applications 2023, Theorem 9.
    """

    kind = kernels.CATONI

    def __init__(self, variance: float, window: int = 400, alpha: float = 0.05) -> None:
        self.variance = check_positive("variance", variance)
        if isinstance(window, bool) or not isinstance(window, int) or window < 2:
            raise ValueError(f"window must be a whole number from 2 on, not {window!r}")
        self.window = window
        super().__init__(alpha)

    @override
    def parameters(self) -> np.ndarray:
        return np.array([self.variance, float(self.window)])

    @override
    def template(self) -> np.ndarray:
        return self._row(self.window)
