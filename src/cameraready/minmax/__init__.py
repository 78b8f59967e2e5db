"""Constrained min-max problems and inclusions, at the optimal rate in the last iterate.

Cai, Oikonomou, Zheng, "Accelerated Algorithms for Constrained Nonconvex-Nonconcave Min-Max
Optimization and Comonotone Inclusion", ICML 2024: anchored extragradient methods whose last
iterate has a residual of order 1/k, with constraints, also where the problem is mildly nonconvex
and nonconcave. Each iterate comes with a certified bound on its residual, which is the stopping
test.

>>> from cameraready.minmax import VI, Box, MatrixGame, kuhn_poker, solve
>>> result = solve(MatrixGame(kuhn_poker(), maximize=True), tol=1e-8)
>>> result.converged, result.gap < 1e-7
(True, True)
>>> import numpy as np
>>> a, b = -0.4, 0.84**0.5  # a rotation that drives every usual method away
>>> problem = VI(lambda z: np.array([a * z[0] + b * z[1], a * z[1] - b * z[0]]), np.ones(2))
>>> result = solve(problem, lipschitz=1.0, rho=-0.4, tol=1e-2)
>>> result.status, bool(result.residual <= 1e-2)
('converged', True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cameraready.minmax.bilinear import Bilinear
from cameraready.minmax.certificates import (
    Certificate,
    RunHistory,
    Verification,
    certify,
    verify_run,
)
from cameraready.minmax.estimates import (
    Comonotonicity,
    estimate_comonotonicity,
    estimate_lipschitz,
)
from cameraready.minmax.games import MatrixGame, kuhn_poker
from cameraready.minmax.inclusion import VI, Inclusion, MinMax
from cameraready.minmax.linear_program import LPErrors, LPSaddle
from cameraready.minmax.resolvents import (
    L1,
    AffineSet,
    Ball,
    Box,
    CappedSimplex,
    FreeSpace,
    GroupL2,
    Halfspace,
    L1Ball,
    L2Squared,
    Nonnegative,
    Nuclear,
    Polytope,
    Product,
    PSDCone,
    SecondOrderCone,
    Simplex,
)
from cameraready.minmax.result import ConvergenceWarning, Iteration, Result, SolverState
from cameraready.minmax.robust import DRO, KL, ChiSquare, CVaR, LogisticLosses
from cameraready.minmax.solving import METHODS, solve

if TYPE_CHECKING:
    from cameraready.minmax.batched import BatchedResult, solve_batched
    from cameraready.minmax.growing_batch import GrowingBatchSampler
    from cameraready.minmax.optimizers import EAG, FEG, OGDA, ExtraGradient

__all__ = [
    "DRO",
    "EAG",
    "FEG",
    "KL",
    "L1",
    "METHODS",
    "OGDA",
    "VI",
    "AffineSet",
    "Ball",
    "BatchedResult",
    "Bilinear",
    "Box",
    "CVaR",
    "CappedSimplex",
    "Certificate",
    "ChiSquare",
    "Comonotonicity",
    "ConvergenceWarning",
    "ExtraGradient",
    "FreeSpace",
    "GroupL2",
    "GrowingBatchSampler",
    "Halfspace",
    "Inclusion",
    "Iteration",
    "L1Ball",
    "L2Squared",
    "LPErrors",
    "LPSaddle",
    "LogisticLosses",
    "MatrixGame",
    "MinMax",
    "Nonnegative",
    "Nuclear",
    "PSDCone",
    "Polytope",
    "Product",
    "Result",
    "RunHistory",
    "SecondOrderCone",
    "Simplex",
    "SolverState",
    "Verification",
    "certify",
    "estimate_comonotonicity",
    "estimate_lipschitz",
    "kuhn_poker",
    "solve",
    "solve_batched",
    "verify_run",
]

# These need torch, which users of numpy need not wait for: loaded when they are first named.
_WITH_TORCH = {
    "BatchedResult": "batched",
    "EAG": "optimizers",
    "ExtraGradient": "optimizers",
    "FEG": "optimizers",
    "GrowingBatchSampler": "growing_batch",
    "OGDA": "optimizers",
    "solve_batched": "batched",
}


def __getattr__(name: str) -> Any:
    if name in _WITH_TORCH:
        return getattr(import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WITH_TORCH})
