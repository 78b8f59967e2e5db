"""What a run hands out: each iteration, the result, and a state to go on from."""

import json
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cameraready.common.files import atomic_write
from cameraready.minmax.anchored import AnchoredState
from cameraready.minmax.arrays import to_numpy
from cameraready.minmax.baselines import BaselineState
from cameraready.minmax.inclusion import Inclusion

__all__ = ["ConvergenceWarning", "Growth", "Iteration", "Result", "SolverState"]

_STATES: dict[str, Any] = {kind.__name__: kind for kind in (AnchoredState, BaselineState)}


class ConvergenceWarning(UserWarning):
    """The largest number of iterations was reached before the tolerance."""


class Growth(NamedTuple):
    """When backtracking next considers a longer step.

    `steepest` is the largest share of what F allows that the step has used since the last look;
    the next look is at k = `look_at`, the first one after a reset at k = `least`. `tried` is true
    while the last change of the step was a longer one.
    """

    steepest: float
    look_at: int
    least: int
    tried: bool


class SolverState(NamedTuple):
    """Where a run is: `solve` goes on from it exactly as if it had not stopped.

    `state` is the method's own state; the rest belongs to the driver.
    """

    method: str
    state: Any
    step: float
    rho: float
    rung: int  # on the ladder of rho="auto"
    first: float | None  # residual after the first step since the last reset
    potential: float | None
    moved: bool  # the anchor is no longer the starting point
    growth: Growth
    auto_step: bool = True  # the step is found by backtracking
    auto_rho: bool = False
    rose: bool = False  # the potential was seen to rise
    certified: bool = True  # a step has been taken, so that the state's c lies in A(z)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to an .npz file, whole or not at all."""
        arrays, plain = {}, {}
        for name, part in self.state._asdict().items():
            if isinstance(part, int):
                plain[name] = part
            else:
                arrays[name] = to_numpy(part)
        settings = self._asdict() | {"state": plain, "state_type": type(self.state).__name__}
        with atomic_write(path, "wb") as file:
            np.savez(file, settings=np.array(json.dumps(settings)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SolverState":
        """Read a state from an .npz file.

        Raises
        ------
        ValueError
            If the file holds no such state.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                settings = json.loads(str(file["settings"]))
                kind = _STATES[settings.pop("state_type")]
                fields = settings["state"] | {
                    name: file[name] for name in kind._fields if name in file
                }
            settings |= {"state": kind(**fields), "growth": Growth(*settings["growth"])}
            return cls(**settings)
        except (KeyError, TypeError, ValueError, EOFError) as error:
            raise ValueError(f"{os.fspath(path)} holds no state of a solver") from error


class Iteration(NamedTuple):
    """What `callback` sees after each iteration.

    `state` is the method's state, with `z`, `correction`, `residual`, `k` since the last reset.
    """

    number: int
    state: Any
    residual: float
    step: float
    rho: float
    problem: Inclusion


@dataclass(frozen=True)
class Result:
    """What `solve` returns.

    Attributes
    ----------
    x, y
        The players' variables, in the form they were given; None where there are no players.
    z
        The solution: in the form of z0 for a `VI`, otherwise x and y in one vector.
    residual : float
        |F(z) + c| with c in A(z): a certified bound on the tangent residual at z. Infinite where
        not a single step has been taken.
    residual_history : array, (iterations,)
        The same after each iteration.
    gap : float or None
        Duality gap of a game, largest relative error of a linear program.
    n_grad, n_prox : int
        Evaluations of F and of the resolvent in this call, all counted.
    converged : bool
        residual <= tol.
    status : str
        "converged", "max_iter", "diverged", "stopped" (by the callback), "failed", "infeasible"
        or "unbounded".
    step, rho : float
        As used last.
    message : str
        What happened, in words.
    certificate_bound : float or None
        The a-priori bound on the residual, 2 distance / ((step + 2 rho) k) with k counted from
        the last reset: for "feg", when L is known or the step has been checked by backtracking,
        and the problem knows a bound on the distance. None under ``rho="auto"``, after the
        potential was seen to rise, and where L is an estimate at one point and F not linear.
    resets : int
        How often the anchor was reset.
    state : SolverState
        For ``solve(problem, resume=result.state)``.
    """

    x: Any
    y: Any
    z: Any
    residual: float
    residual_history: np.ndarray
    gap: float | None
    n_grad: int
    n_prox: int
    converged: bool
    status: str
    step: float
    rho: float
    message: str
    certificate_bound: float | None
    resets: int
    state: SolverState
