"""What a method is: a state, a pure step from state to state, and its step size."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cameraready.minmax.inclusion import Inclusion

__all__ = ["MOST_HALVINGS", "SHORTER", "Method", "Trial", "resolve"]

# Backtracking takes off a tenth at least and a half at most, and gives up after so many in a row.
SHORTER, MOST_HALVINGS = 0.9, 60


class Trial(NamedTuple):
    """Two points at which one step has evaluated F: shows whether its size fits F there."""

    first: Any
    first_value: Any
    second: Any
    second_value: Any


def _one(scaled_rho: float) -> float:
    return 1.0


@dataclass(frozen=True)
class Method:
    """A method with the two verbs init and step, and what its driver must know.

    Every state is a named tuple with the fields `z`, `value` = F(z), `correction` = c in A(z),
    `residual` = F(z) + c, and `k`, the steps since its start.

    Parameters
    ----------
    name : str
        As in ``solve(method=...)``.
    init : callable
        init(problem, z) -> state.
    step : callable
        step(problem, state, step, rho) -> (state, Trial). It changes nothing but the counters.
    default : callable
        The default step size times L, as a function of rho L.
    largest : float
        The largest step size times L for which the method is known to converge.
    anchored : bool
        The anchor may be reset: a state k = 0 at the present point.
    takes_rho : bool
        The step depends on rho.
    has_potential : bool
        `cameraready.minmax.anchored.potential` never rises.
    """

    name: str
    init: Callable[[Inclusion, Any], Any]
    step: Callable[[Inclusion, Any, float, float], tuple[Any, Trial]]
    default: Callable[[float], float] = _one
    largest: float | None = None
    anchored: bool = False
    takes_rho: bool = False
    has_potential: bool = False


def resolve(problem: Inclusion, y: Any, step: float) -> tuple[Any, Any, Any, Any]:
    """(z, F(z), c, F(z) + c) for z = J_{step A}(y), with c = (y - z)/step in A(z) for free."""
    z = problem.resolvent(y, step)
    correction = y - z
    correction /= step
    value = problem.operator(z)
    return z, value, correction, value + correction
