"""Repeated sequences of a user's own making, in plain Python."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from cameraready.change_detection.engine import (
    ACTIVE,
    ALARM,
    BEGUN,
    COORDINATE,
    COUNTERS,
    RESTARTS,
    TIME,
    Engine,
    Witness,
)

__all__ = ["CustomEngine", "prune"]


def prune(starts: list[int], engine: int, growth: float, window: int, now: int) -> list[int]:
    """Which of the starts stay: positions in the list, by the rule of the compiled engines."""
    count = len(starts)
    if engine == 1 and count > 2:
        kept = [0]
        for i in range(1, count - 1):
            older, newer = now - starts[kept[-1]] + 1, now - starts[i + 1] + 1
            if older > growth * newer + 2.0:
                kept.append(i)
        return [*kept, count - 1]
    if engine == 2 and count > window + 1:
        return [0, *range(count - window, count)]
    return list(range(count))


class CustomEngine(Engine):
    """Repeated sequences given by the three functions start, update and interval.

    Parameters
    ----------
    sequence : CustomConfidenceSequence
    engine, settings, known
        As for `RepeatedEngine`.
    """

    saved = ("starts", "counters", "extremes", "witnesses")
    growing: ClassVar[dict[str, int]] = {"starts": 0}

    def __init__(self, sequence: Any, engine: int, settings: np.ndarray, known: np.ndarray) -> None:
        self.sequence, self.engine, self.settings, self.known = sequence, engine, settings, known
        self.counters = np.zeros(COUNTERS, np.int64)
        self.extremes = known.copy()
        self.witnesses = np.zeros((4, known.shape[1]), np.int64)
        self.starts = np.zeros(0, np.int64)
        self._states: list[Any] = []
        self._step: Callable[[Any, Any], Any] = sequence.update

    @override
    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        for i, row in enumerate(observations):
            alarm = self._take(row[0] if len(row) == 1 else row)
            if len(trace):
                trace[i] = self.extremes
            if alarm:
                return i + 1
        return len(observations)

    def _take(self, x: Any) -> bool:
        growth, window, direction = self.settings[0], int(self.settings[1]), self.settings[3]
        # All of the user's functions first, so that one that raises leaves everything as it was.
        states = [self._step(state, x) for state in (*self._states, self.sequence.start())]
        intervals = [
            tuple(np.atleast_1d(end) for end in self.sequence.interval(state)) for state in states
        ]
        self.counters[TIME] += 1
        now = int(self.counters[TIME])
        self.starts, self._states = np.append(self.starts, now), states
        self.counters[ACTIVE] = len(states)
        for start, (low, high) in zip(self.starts, intervals, strict=True):
            better = low > self.extremes[0]
            self.extremes[0, better] = low[better]
            self.witnesses[0, better], self.witnesses[1, better] = start, now
            better = high < self.extremes[1]
            self.extremes[1, better] = high[better]
            self.witnesses[2, better], self.witnesses[3, better] = start, now
        gaps = self.extremes[0] - self.extremes[1]
        if (gaps > 0).any():
            if direction:
                rises = [tuple(w[:2]) > tuple(w[2:]) for w in self.witnesses.T]
                gaps = np.where(np.array(rises) == (direction > 0), gaps, 0.0)
            if (gaps > 0).any():
                self.counters[ALARM] = now
                self.counters[COORDINATE] = int(gaps.argmax())
                return True
            self.counters[RESTARTS] += 1
            self.counters[BEGUN] = now
            self.starts, self._states = np.zeros(0, np.int64), []
            self.extremes, self.witnesses = self.known.copy(), np.zeros_like(self.witnesses)
        kept = prune(self.starts.tolist(), self.engine, growth, window, now)
        self.starts, self._states = self.starts[kept], [self._states[i] for i in kept]
        self.counters[ACTIVE] = len(kept)
        return False

    @property
    @override
    def ends(self) -> np.ndarray:
        return self.extremes

    @property
    @override
    def witness(self) -> Witness | None:
        a, b, c, d = self.witnesses[:, self.coordinate].tolist()
        return (a, b), (c, d)

    def state(self) -> dict[str, Any]:
        """Arrays, and the sequences' states as they are: JSON only if the user's states are."""
        return {**super().state(), "states": copy.deepcopy(self._states)}

    @override
    def load(self, state: dict[str, Any]) -> None:
        self._states = copy.deepcopy(list(state["states"]))
        super().load(state)

    @override
    def consistent(self) -> bool:
        fits = len(self._states) == len(self.starts) == self.active
        return super().consistent() and fits and self.coordinate < self.known.shape[1]
