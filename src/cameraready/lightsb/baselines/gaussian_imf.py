"""Iterative Markovian fitting between standard normal variables, without error of estimation."""

import math

import numpy as np
from jaxtyping import Float

from cameraready.common.checks import check_positive

__all__ = ["bridge_correlation", "imf_correlations"]


def bridge_correlation(eps: float) -> float:
    """Correlation of the ends of the Schrödinger bridge from N(0, 1) to N(0, 1).

    Parameters
    ----------
    eps : float
        Variance rate of the reference process.

    Examples
    --------
    >>> round(bridge_correlation(1.0), 6)
    0.618034
    """
    eps = check_positive("eps", eps)
    return 2 / (math.sqrt(4 + eps**2) + eps)


def imf_correlations(
    eps: float, rho0: float, n_projections: int
) -> Float[np.ndarray, " n_projections"]:
    """Correlations of the ends after each Markovian projection, from N(0, 1) to N(0, 1).

    The mixture of Brownian bridges over a normal plan of correlation rho has the Markovian
    projection dX = beta(t) X dt + sqrt(eps) dW, with

        beta(t) = ((2 t - 1)(1 - rho) - eps t) / sigma²(t),
        sigma²(t) = (1 - t)² + t² + 2 t (1 - t) rho + eps t (1 - t),

    whose ends have the correlation exp of the integral of beta. The first projection is ordinary
    bridge matching.

    Parameters
    ----------
    eps : float
        Variance rate of the reference process.
    rho0 : float
        Correlation of the plan to start from, -1 to 1; 0 is the independent plan.
    n_projections : int
        How many.

    References
    ----------
    Shi et al., Diffusion Schrödinger Bridge Matching, NeurIPS 2023, Definition 1 (the projection);
    the formula is worked out for this case.

    Examples
    --------
    >>> imf_correlations(1.0, 0.0, 4).round(5).tolist()
    [0.54629, 0.61114, 0.61739, 0.61797]
    """
    from scipy.integrate import quad

    eps = check_positive("eps", eps)
    if not -1 <= rho0 <= 1:
        raise ValueError(f"rho0 must be a correlation, from -1 to 1, not {rho0!r}")
    rho, correlations = float(rho0), []

    def beta(t: float) -> float:
        variance = (1 - t) ** 2 + t**2 + 2 * t * (1 - t) * rho + eps * t * (1 - t)
        return ((2 * t - 1) * (1 - rho) - eps * t) / variance

    for _ in range(n_projections):
        rho = math.exp(quad(beta, 0, 1, epsabs=1e-12, epsrel=1e-12, points=[0.5])[0])
        correlations.append(rho)
    return np.array(correlations)
