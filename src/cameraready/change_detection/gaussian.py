"""Means of Gaussian and sub-Gaussian observations: the normal mixture."""

import math
from functools import cache
from typing import Any

import numpy as np
from scipy.special import lambertw
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.common.checks import check_positive

__all__ = ["Gaussian", "SubGaussian", "tuned_rho"]


@cache
def tuned_rho(alpha: float, tune_at: float) -> float:
    """The mixture's rho that makes the interval tightest after `tune_at` observations.

    rho = m / (u - 1), with u - log u = 1 + log(1/alpha^2), that is u = -W_{-1}(-alpha^2 / e).
    """
    u = -lambertw(-(alpha**2) / math.e, k=-1).real
    return tune_at / (u - 1.0)


class Gaussian(ConfidenceSequence):
    """Mean of observations whose noise is (sub-)Gaussian with known scale.

    S/m ± sigma sqrt((m + rho) log((m + rho) / (rho alpha^2))) / m.

    Valid under dependence, as long as the conditional mean is constant.

    Parameters
    ----------
    sigma : float
        Standard deviation, or sub-Gaussian scale; for values in [a, b] it is (b - a)/2. In the
        observations' unit.
    rho : float, optional
        The mixture's scale; by default the tightest at `tune_at` observations.
    tune_at : float
        The sample size at which the interval shall be tightest. For short series choose it small.
    alpha : float
        One minus the level.

    References
    ----------
    Robbins, Statistical methods related to the law of the iterated logarithm, 1970; Howard,
    Ramdas, McAuliffe, Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences,
    Annals of Statistics 2021, eq. (14).

    Examples
    --------
    >>> lower, upper = Gaussian(sigma=1.0, rho=10.0, alpha=0.05).run([0.0] * 100)
    >>> round(float(upper[-1]), 8)
    0.3037811
    """

    kind = kernels.GAUSSIAN

    def __init__(
        self,
        sigma: float = 1.0,
        rho: float | None = None,
        tune_at: float = 100.0,
        alpha: float = 0.05,
    ) -> None:
        self.sigma = check_positive("sigma", sigma)
        self.rho = None if rho is None else check_positive("rho", rho)
        self.tune_at = check_positive("tune_at", tune_at)
        super().__init__(alpha)

    @override
    def parameters(self) -> np.ndarray:
        rho = tuned_rho(self.alpha, self.tune_at) if self.rho is None else self.rho
        return np.array([self.sigma, rho])

    @override
    def template(self) -> np.ndarray:
        return self._row(2)

    def half_width(self, m: Any) -> Any:
        """Half the length of the interval after m observations (without intersection)."""
        sigma, rho = self.parameters()
        m = np.asarray(m, dtype=float)
        return sigma * np.sqrt((m + rho) * (np.log((m + rho) / rho) - 2 * math.log(self.alpha))) / m


class SubGaussian(Gaussian):
    """Mean of observations with a sub-Gaussian scale: the same sets as `Gaussian`."""
