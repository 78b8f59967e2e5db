"""Runs that show where they are, can be interrupted, and go on later."""

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cameraready.minmax.arrays import like, to_numpy
from cameraready.minmax.inclusion import Inclusion
from cameraready.minmax.result import ConvergenceWarning, Iteration, Result, SolverState
from cameraready.minmax.solving import solve

__all__ = ["LongRun"]

_SAVE_EVERY = 30.0  # seconds
_SHOW_EVERY = 0.2


@dataclass
class LongRun:
    """One call of `solve` with progress on standard error and, with a file, a state to go on from.

    Parameters
    ----------
    resume
        The state's file: gone on from where it is there, written at the end, on Ctrl-C or SIGTERM,
        and every half minute.
    until
        Stops the run as converged when it returns True.
    """

    resume: Path | None = None
    until: Callable[[Iteration], bool] | None = None
    signal: int = 0  # that has ended the run
    reached: bool = False

    def solve(
        self, problem: Inclusion, method: str, *, max_iter: int, **settings: Any
    ) -> tuple[Result, str]:
        """Run; the result of this call, all its parts together, and its status.

        Raises
        ------
        OSError, ValueError
            If the state cannot be read or written, or is of another problem or method.
        """
        state = self._load(problem, method)
        results: list[Result] = []
        with self._signals(), self._progress() as show, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the status says so
            last = time.monotonic()
            done = 0

            def look(iteration: Iteration) -> bool:
                show(done + iteration.number, iteration.residual)
                self.reached = self.until is not None and self.until(iteration)
                due = self.resume is not None and time.monotonic() - last > _SAVE_EVERY
                return self.reached or bool(self.signal) or due

            while True:
                result = solve(
                    problem,
                    method,
                    max_iter=max_iter - done,
                    callback=look,
                    resume=state,
                    **settings,
                )
                results.append(result)
                done += len(result.residual_history)
                state = result.state
                if self.resume is not None:
                    state.save(self.resume)
                    last = time.monotonic()
                if result.status != "stopped" or self.reached or self.signal or done >= max_iter:
                    break
        status = "converged" if self.reached else result.status
        if status == "stopped" and not self.signal:
            status = "max_iter"  # the last save fell on the last iteration
        if self.signal and self.resume is not None:
            print(
                f"interrupted: the state is in {self.resume}, the same command goes on from there",
                file=sys.stderr,
            )
        return _together(results), status

    def code(self, status: str) -> int:
        """The exit code."""
        if status == "converged":
            return 0
        return 128 + self.signal if self.signal else 1

    def _load(self, problem: Inclusion, method: str) -> SolverState | None:
        if self.resume is None:
            return None
        if not self.resume.exists():
            if not self.resume.parent.is_dir():
                raise ValueError(f"--resume: there is no folder {self.resume.parent}")
            return None
        state = SolverState.load(self.resume)
        if state.method != method:
            raise ValueError(
                f"{self.resume} holds a state of method {state.method!r}: add --method"
            )
        z, stored = state.state.z, np.asarray(state.state.value)
        fits = tuple(z.shape) == tuple(problem.z0.shape)
        if fits:
            value = to_numpy(problem.operator(like(z, problem.z0)))
            fits = np.allclose(value, stored, rtol=1e-6, atol=1e-9 * (1.0 + abs(stored).max()))
        if not fits:
            raise ValueError(f"{self.resume} holds a state of another problem")
        print(f"going on from {os.fspath(self.resume)}", file=sys.stderr)
        return state

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        """With a file for the state, let Ctrl-C and SIGTERM end the run after its iteration."""
        if self.resume is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: Any) -> None:
            self.signal = number
            signal.signal(number, before[number])  # a second one ends it at once

        before: dict[int, Any] = {
            number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _progress(self) -> Generator[Callable[[int, float], None]]:
        if not sys.stderr.isatty():
            yield lambda number, residual: None
            return
        from rich.console import Console

        last = time.monotonic()
        with Console(stderr=True).status("solving") as status:

            def show(number: int, residual: float) -> None:
                nonlocal last
                if time.monotonic() - last > _SHOW_EVERY:
                    last = time.monotonic()
                    status.update(f"iteration {number}: residual {residual:.3g}")

            yield show


def _together(results: list[Result]) -> Result:
    """The last result with the history and the counts of all."""
    return replace(
        results[-1],
        residual_history=np.concatenate([result.residual_history for result in results]),
        n_grad=sum(result.n_grad for result in results),
        n_prox=sum(result.n_prox for result in results),
        resets=sum(result.resets for result in results),
    )
