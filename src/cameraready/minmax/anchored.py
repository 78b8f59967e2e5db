"""Anchored methods: the fast extragradient method and two extra anchored gradient methods.

Cai, Oikonomou, Zheng, "Accelerated Algorithms for Constrained Nonconvex-Nonconcave Min-Max
Optimization and Comonotone Inclusion", ICML 2024.
"""

import math
from typing import Any, NamedTuple

from cameraready.minmax.inclusion import Inclusion
from cameraready.minmax.method import Method, Trial, resolve

__all__ = [
    "EAG",
    "EAG2",
    "FEG",
    "RESTART_AFTER",
    "RESTART_FACTOR",
    "AnchoredState",
    "anchored_init",
    "eag2_step",
    "eag_step",
    "feg_bound",
    "feg_step",
    "potential",
    "reset",
]

# With restarts, the anchor is reset when the residual has fallen by this factor in at least so many
# steps.
RESTART_FACTOR, RESTART_AFTER = 4.0, 8


class AnchoredState(NamedTuple):
    """Where an anchored method is.

    z is the iterate, `value` F(z), `correction` c in A(z), `residual` F(z) + c; `anchor` is where
    it started, k steps ago. Where k = 0, c need not lie in A(z).
    """

    z: Any
    value: Any
    correction: Any
    residual: Any
    anchor: Any
    k: int


def anchored_init(problem: Inclusion, z: Any) -> AnchoredState:
    """The state at the start: one evaluation of F, and c = 0."""
    value = problem.operator(z)
    return AnchoredState(z, value, 0.0 * z, value, z, 0)


def reset(state: AnchoredState) -> AnchoredState:
    """The same point as a new anchor; its residual is kept, the next step does not use it."""
    return state._replace(anchor=state.z, k=0)


def feg_step(
    problem: Inclusion, state: AnchoredState, step: float, rho: float
) -> tuple[AnchoredState, Trial]:
    """One step of Composite-FEG: two evaluations of F, one resolvent.

    With beta = 1/(k+1), v = F(z) + c (and no v where k = 0)::

        half = z + beta (anchor - z) - (1 - beta) (step + 2 rho) v
        y    = z + beta (anchor - z) - step F(half) - 2 rho (1 - beta) v
        z    = J_{step A}(y),   c = (y - z)/step

    `half` may lie outside the constraints.
    """
    z, value, _, residual, anchor, k = state
    if k == 0:
        half, half_value, y = z, value, z - step * value
    else:
        beta = 1.0 / (k + 1)
        pulled = z + beta * (anchor - z)
        half = pulled - ((1.0 - beta) * (step + 2.0 * rho)) * residual
        half_value = problem.operator(half)
        y = pulled - step * half_value
        if rho:
            y -= (2.0 * rho * (1.0 - beta)) * residual
    new = resolve(problem, y, step)
    return AnchoredState(*new, anchor, k + 1), Trial(half, half_value, new[0], new[1])


def eag_step(
    problem: Inclusion, state: AnchoredState, step: float, rho: float
) -> tuple[AnchoredState, Trial]:
    """One step of Composite-EAG, form C: two evaluations of F, one resolvent.

    As `feg_step`, but with the look-ahead
    half = z + beta (anchor - z) - (step + 2 rho (1 - beta)) v.
    """
    z, value, _, residual, anchor, k = state
    if k == 0:
        half, half_value, y = z, value, z - step * value
    else:
        beta = 1.0 / (k + 1)
        pulled = z + beta * (anchor - z)
        half = pulled - (step + 2.0 * rho * (1.0 - beta)) * residual
        half_value = problem.operator(half)
        y = pulled - step * half_value
        if rho:
            y -= (2.0 * rho * (1.0 - beta)) * residual
    new = resolve(problem, y, step)
    return AnchoredState(*new, anchor, k + 1), Trial(half, half_value, new[0], new[1])


def eag2_step(
    problem: Inclusion, state: AnchoredState, step: float, rho: float
) -> tuple[AnchoredState, Trial]:
    """One step of Composite-EAG, form P: two evaluations of F, two resolvents, all feasible.

    For monotone problems. With beta = 1/(k+2)::

        half = J_{step A}(z + beta (anchor - z) - step F(z))
        z    = J_{step A}(z + beta (anchor - z) - step F(half))
    """
    z, value, _, _, anchor, k = state
    pulled = z + (1.0 / (k + 2)) * (anchor - z)
    half = problem.resolvent(pulled - step * value, step)
    half_value = problem.operator(half)
    new = resolve(problem, pulled - step * half_value, step)
    return AnchoredState(*new, anchor, k + 1), Trial(half, half_value, new[0], new[1])


def potential(state: AnchoredState, step: float, rho: float) -> float:
    """V_k = (k² (step + 2 rho)/2 - k rho) |v|² + k <v, z - anchor>.

    Along `feg_step` it never rises, and V_1 <= 0, whenever F + A is rho-comonotone between
    consecutive iterates and F is 1/step-Lipschitz between half and new points.
    """
    k, v = state.k, state.residual
    size = float(v @ v)
    inner = float(v @ (state.z - state.anchor))
    return (k * k * (step + 2.0 * rho) / 2.0 - k * rho) * size + k * inner


def feg_bound(distance: float, k: int, step: float, rho: float) -> float:
    """The a-priori bound on |F(z_k) + c_k|: 2 |z_0 - z*| / ((step + 2 rho) k)."""
    return 2.0 * distance / ((step + 2.0 * rho) * k)


def _eag_default(scaled_rho: float) -> float:
    if scaled_rho >= 0:
        return 1.0 / math.sqrt(3.0)
    return (1.0 + max(0.6, -2.0 * scaled_rho)) / 2.0


FEG = Method(
    "feg",
    anchored_init,
    feg_step,
    largest=1.0,
    anchored=True,
    takes_rho=True,
    has_potential=True,
)
EAG = Method(
    "eag", anchored_init, eag_step, _eag_default, largest=1.0, anchored=True, takes_rho=True
)
EAG2 = Method(
    "eag2",
    anchored_init,
    eag2_step,
    lambda scaled_rho: 1.0 / math.sqrt(3.0),
    largest=1.0 / math.sqrt(3.0),
    anchored=True,
)
