"""All methods on one problem, at equally many evaluations of F."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from cameraready.minmax.inclusion import Inclusion
from cameraready.minmax.solving import METHODS, Iteration, Result, solve

__all__ = ["Trace", "compare_methods"]

_NEXT = 1.05  # a point of a trace lies at least so many times further than the last one


@dataclass(frozen=True)
class Trace:
    """One method's last iterate against evaluations of F, at points spread over a log axis."""

    method: str
    restart: str
    evaluations: Int[np.ndarray, " points"]
    residual: Float[np.ndarray, " points"]
    gap: Float[np.ndarray, " points"]
    result: Result

    @property
    def name(self) -> str:
        """The method, and whether its anchor was reset."""
        return f"{self.method}, restart" if self.restart == "anchor" else self.method


def compare_methods(
    make: Callable[[], Inclusion], budget: int, lipschitz: float
) -> Iterator[Trace]:
    """Run every method, each with its default step for L, until it has used the budget up.

    "feg" runs with and without restarts; the others without. A method stops earlier when its
    residual vanishes or is no longer finite.

    Parameters
    ----------
    make
        Returns the problem; called once a method. A problem with no gap has NaN for it.
    budget
        Evaluations of F.
    lipschitz
        F's Lipschitz constant.

    Yields
    ------
    Trace
    """
    for method in METHODS:
        for restart in ("none", "anchor") if method == "feg" else ("none",):
            yield _trace(make(), method, restart, budget, lipschitz)


def _trace(problem: Inclusion, method: str, restart: str, budget: int, lipschitz: float) -> Trace:
    points: list[tuple[int, float, float]] = []
    started = problem.n_grad

    def look(iteration: Iteration) -> bool:
        used = problem.n_grad - started
        over = used >= budget or iteration.residual == 0.0
        if over or not points or used >= _NEXT * points[-1][0]:
            gap = problem.gap(iteration.state.z)
            points.append((used, iteration.residual, math.nan if gap is None else gap))
        return over

    result = solve(
        problem,
        method,
        lipschitz=lipschitz,
        tol=0.0,
        max_iter=budget,
        restart=restart,
        callback=look,
    )
    used, residual, gap = zip(*points, strict=True) if points else ((), (), ())
    return Trace(method, restart, np.array(used, int), np.array(residual), np.array(gap), result)
