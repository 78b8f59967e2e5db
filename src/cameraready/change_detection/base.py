"""The interface every detector here has: river's, with a batch path and a state to save."""

import inspect
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cameraready.change_detection.confidence_sequence import ConfidenceSequence, describe
from cameraready.change_detection.distribution import GridSequence
from cameraready.change_detection.engine import (
    Engine,
    Witness,
    decode_array,
    encode_array,
    known_ends,
)
from cameraready.change_detection.localisation import change_interval, change_point
from cameraready.common.checks import check_choice

if TYPE_CHECKING:
    from cameraready.change_detection.drift_detector import DriftDetector
else:
    try:
        from river.base import DriftDetector
    except ModuleNotFoundError:
        from cameraready.change_detection.drift_detector import DriftDetector

__all__ = ["Detection", "DetectionResult", "Numbers", "SequentialDetector"]

NO_TRACE = np.empty((0, 2, 0))
FIRST_PART = 256


@dataclass(frozen=True)
class Detection:
    """One alarm. Everything counts from 1.

    Attributes
    ----------
    index : int
        The observation at which the alarm was raised.
    change_point : int or None
        The most likely number of observations before the change.
    change_interval : tuple of int or None
        Least and greatest number of observations before the change, if the two contradicting
        segments are disjoint.
    witness : tuple or None
        ((start, end), (start, end)) of the segments that gave the lower and the upper end.
    before, after : float, array or None
        Plain estimates of the parameter on both sides of `change_point`.
    direction : {"up", "down"} or None
        Which way the parameter moved (for one number).
    """

    index: int
    change_point: int | None
    change_interval: tuple[int, int] | None
    witness: Witness | None
    before: Any = None
    after: Any = None
    direction: str | None = None


@dataclass(frozen=True)
class DetectionResult:
    """What one cycle over an array gave.

    Attributes
    ----------
    alarm : bool
    index : int or None
        The observation at which the alarm was raised, counted from 1.
    change_interval, change_point
        See `Detection`.
    trace : tuple of ndarray
        Lower and upper ends of the intersection after each observation up to the alarm.
    detection : Detection or None
    """

    alarm: bool
    index: int | None
    change_interval: tuple[int, int] | None
    change_point: int | None
    trace: tuple[np.ndarray, np.ndarray] = field(repr=False)
    detection: Detection | None = field(repr=False, default=None)


class SequentialDetector(DriftDetector):
    """A detector that works in cycles: from the start, or from the last alarm, to the next.

    Subclasses say how an observation looks (`sequence`) and make the engine of a cycle.
    """

    arl: float
    theta0: Any = None
    on_range: str
    on_nan: str
    history: int

    def _start(self) -> None:
        check_choice("on_range", self.on_range, ("raise", "clip", "skip"))
        check_choice("on_nan", self.on_nan, ("raise", "skip"))
        if isinstance(self.history, bool) or not isinstance(self.history, int) or self.history < 0:
            raise ValueError(f"history must be a whole number from 0 on, not {self.history!r}")
        self.sequence: ConfidenceSequence = self._observed()
        self._single = self.sequence.entries == 1
        self._one = np.empty((1, 1))
        self.reset()

    # What a subclass says.

    def _observed(self) -> ConfidenceSequence:
        """The sequence that says how observations look and what is estimated."""
        raise NotImplementedError

    def _engine(self, sequence: ConfidenceSequence) -> Engine:
        """The engine of a fresh cycle."""
        raise NotImplementedError

    # The river interface.

    def reset(self) -> None:
        """Forget everything, alarms included."""
        self._reset()
        self.n_ = 0
        self.n_skipped_ = 0
        self.alarms_: list[int] = []
        self.detections_: list[Detection] = []
        self._batch: np.ndarray | None = None
        self._begin_cycle()

    def _begin_cycle(self) -> None:
        self._drift_detected = False
        self._offset = self.n_
        self._past: deque[Any] = deque(maxlen=self.history)
        self._learning: list[np.ndarray] = []
        self._current = self.sequence
        self._engine_: Engine | None = self._engine(self.sequence) if self.sequence.ready else None

    def update(self, x: Any) -> None:
        """Take one observation in; `drift_detected` tells whether it raised the alarm.

        After an alarm the next update begins a new cycle; what was seen before is forgotten.

        Parameters
        ----------
        x : float, or array_like of the sequence's entries

        Raises
        ------
        RangeError
            If it is not finite or out of range (see `on_nan`, `on_range`); nothing has changed.
        ValueError
            If its shape does not fit; nothing has changed.
        """
        if isinstance(x, (int, float)) and self._single and self.sequence.accepts(x):
            values, skipped = self._one, 0
            values[0, 0] = x
        else:
            values, kept = self._take_in([x], self.n_ + self.n_skipped_)
            skipped = 0 if kept is None else 1 - len(kept)
        before = dict(self.__dict__) if self._drift_detected else None
        try:
            if before is not None:
                self._begin_cycle()
            engine = self._engine_
            if engine is not None and self._single and not skipped:
                # The same as `_advance`, without what only pays off for many values.
                engine.advance(values, NO_TRACE)
                self.n_ += 1
                self._past.append(float(values[0, 0]))
                if engine.alarmed:
                    self._alarm()
            elif not skipped:
                self._advance(values, False)
        except Exception:
            if before is not None:
                self.__dict__.update(before)
            raise
        self.n_skipped_ += skipped
        self._batch = None

    def update_many(self, array: Any) -> list[int]:
        """Take observations in one after the other; where alarms were raised, counted from 1.

        The same as `update` on each, and fast.
        """
        values, kept = self._take_in(array, self.n_ + self.n_skipped_)
        self.n_skipped_ += 0 if kept is None else len(array) - len(kept)
        self._batch = None
        alarms = len(self.alarms_)
        if self._drift_detected and len(array):
            self._begin_cycle()
        taken = 0
        while taken < len(values):
            if self._drift_detected:
                self._begin_cycle()
            taken += self._run(values[taken:], False)[0]
        if kept is not None and len(kept) and kept[-1] + 1 < len(array) and self._drift_detected:
            self._begin_cycle()
        return self.alarms_[alarms:]

    def detect(self, array: Any, trace: bool = True) -> DetectionResult:
        """One cycle over an array, from a fresh start to the first alarm.

        Parameters
        ----------
        array : array_like, (n,) or (n, entries)
        trace : bool
            Whether to keep the intersection after each observation.

        Raises
        ------
        RangeError, ValueError
            As `update`.
        """
        values, kept = self._take_in(array, 0)
        self.reset()
        taken, traced = self._run(values, trace)
        if kept is not None:
            self.n_skipped_ = len(array) - len(kept)
            if self._drift_detected:
                self.n_skipped_ = int(kept[taken - 1]) + 1 - taken
        self._batch = values[:taken]
        lower, upper = traced[:, 0], traced[:, 1]
        if self._current.ends == 1:
            lower, upper = lower[:, :1].ravel(), upper[:, :1].ravel()
        detection = self.detections_[-1] if self._drift_detected else None
        return DetectionResult(
            detection is not None,
            detection.index if detection else None,
            detection.change_interval if detection else None,
            detection.change_point if detection else None,
            (lower, upper),
            detection,
        )

    def detect_all(self, array: Any, restart: str = "after_alarm") -> list[int]:
        """Every change in an array: how many observations precede each.

        Parameters
        ----------
        array : array_like, (n,) or (n, entries)
        restart : {"after_alarm", "at_change"}
            Where the next cycle begins: after the observation that alarmed, or already after
            `change_point`, so that the observations since the change are used again. The bound on
            false alarms then holds for the first alarm only: a place found from the data is no
            stopping time, and later false alarms come up to about twice as often.

        Returns
        -------
        list of int
            Change points. `alarms_` and `detections_` tell the rest.
        """
        check_choice("restart", restart, ("after_alarm", "at_change"))
        values, kept = self._take_in(array, 0)
        self.reset()
        self.n_skipped_ = 0 if kept is None else len(array) - len(kept)
        while self.n_ < len(values):
            if self._drift_detected:
                if restart == "at_change" and self.change_point_ is not None:
                    # Never behind the last start, so that every cycle moves on.
                    self.n_ = max(self.change_point_, self._offset + 1)
                self._begin_cycle()
            self._run(values[self.n_ :], False)
        return [
            detection.index if detection.change_point is None else detection.change_point
            for detection in self.detections_
        ]

    def _take_in(self, array: Any, before: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Checked observations, clipped or left out as `on_range` and `on_nan` say.

        The second result is None, or the places of those that are kept if any is left out.
        """
        sequence = self.sequence
        values = sequence.observations(array)
        fault = sequence.check(values)
        if not fault.any():
            return values, None
        clipped = (fault == 2) & (self.on_range == "clip")
        skipped = ((fault == 1) & (self.on_nan == "skip")) | (
            (fault >= 2) & (self.on_range == "skip")
        )
        wrong = np.flatnonzero((fault > 0) & ~clipped & ~skipped)
        if len(wrong):
            first = int(wrong[0])
            raise sequence.complaint(values[first], int(fault[first]), before + first + 1)
        if clipped.any():
            values = np.clip(values, *sequence.bounds)
        return (values[~skipped], np.flatnonzero(~skipped)) if skipped.any() else (values, None)

    def _run(self, values: np.ndarray, traced: bool) -> tuple[int, np.ndarray]:
        """Take observations in until an alarm; how many were taken, and the trace.

        In parts of growing length, so that an early alarm has not prepared all of the rest.
        """
        taken, size = 0, FIRST_PART
        traces: list[np.ndarray] = []
        while taken < len(values) and not self._drift_detected:
            learning = self._engine_ is None
            part, trace = self._advance(values[taken : taken + size], traced)
            # Once a sequence has learned what it needs, the trace begins with what it learned from.
            traces = [trace] if learning and self._engine_ is not None else [*traces, trace]
            taken, size = taken + part, 2 * size
        if not traced:
            return taken, NO_TRACE
        return taken, np.concatenate(traces) if traces else np.empty((0, 2, self._current.ends))

    def _advance(self, values: np.ndarray, traced: bool) -> tuple[int, np.ndarray]:
        """One part of `_run`."""
        sequence = self._current
        if self._engine_ is None:
            return self._learn(values, traced)
        trace = np.empty((len(values), 2, sequence.ends)) if traced else NO_TRACE
        taken = self._engine_.advance(sequence.transform(values), trace)
        self.n_ += taken
        if self.history:
            latest = values[max(0, taken - self.history) : taken]
            self._past.extend(latest[:, 0].tolist() if self._single else latest.copy())
        if self._engine_.alarmed:
            self._alarm()
        return taken, trace[:taken]

    def _learn(self, values: np.ndarray, traced: bool) -> tuple[int, np.ndarray]:
        """Collect what the sequence must see before it can begin, then begin with all of it."""
        missing = self.sequence.learning_length - len(self._learning)
        part = values[:missing]
        self._learning.extend(part.copy())
        self.n_ += len(part)
        if len(part) < missing:
            ends = self.sequence.ends
            vague = np.stack([np.full(ends, -np.inf), np.full(ends, np.inf)])
            return len(part), np.broadcast_to(vague, (len(part), 2, ends))
        seen, self._learning = np.array(self._learning), []
        self._current = self.sequence.learned(seen)
        self._engine_ = self._engine(self._current)
        self.n_ -= len(seen)
        taken, trace = self._advance(seen, traced)
        if self._drift_detected:
            # The alarm is heard now, with the observation that made the beginning possible.
            self.n_ += len(seen) - taken
            self.alarms_[-1] = self.n_
            self.detections_[-1] = replace(self.detections_[-1], index=self.n_)
            if traced:
                trace = np.concatenate([trace, np.repeat(trace[-1:], len(seen) - taken, axis=0)])
        return len(part), trace

    def _alarm(self) -> None:
        self._drift_detected = True
        self.alarms_.append(self.n_)
        self.detections_.append(self._locate())

    def _held(self) -> np.ndarray:
        """The observations still held of this cycle, (n, entries).

        A change the way that is not watched begins it anew without an alarm.
        """
        begun = self._offset + (self._engine_.begun if self._engine_ else 0)
        past = np.array(self._past, dtype=float).reshape(len(self._past), self.sequence.entries)
        return past[max(0, len(past) - (self.n_ - begun)) :]

    def _locate(self) -> Detection:
        """What can be said of the change, from the witnesses and the observations still held."""
        witness = self.witness_
        past = self._held()
        held = self.n_ - len(past)  # observations before the first one held
        point = before = after = None
        earliest = held
        if witness is not None and witness[0] != witness[1]:
            starts = [start for start, _ in witness]
            # An end that was known beforehand has no segment: the change may be anywhere.
            earliest = max(held, min(starts) - 1) if min(starts) > 0 else held
        window = past[earliest - held :]
        if len(window) >= 2:
            coordinate = self._engine_.coordinate if self._engine_ else 0
            k = change_point(self._current.series(window, coordinate))
            point = earliest + k
            before = self._current.estimate(window[:k])
            after = self._current.estimate(window[k:])
        direction = None
        if isinstance(before, float) and isinstance(after, float) and before != after:
            direction = "up" if after > before else "down"
        return Detection(
            self.n_, point, change_interval(witness), witness, before, after, direction
        )

    # What is known now, or was at the alarm.

    @property
    def n_active_(self) -> int:
        """Sequences that are being updated."""
        return self._engine_.active if self._engine_ else 0

    def _end(self, which: int) -> Any:
        if self._engine_ is None:
            return -np.inf if which == 0 else np.inf
        ends = self._engine_.ends[which]
        return float(ends[0]) if len(ends) == 1 else ends.copy()

    @property
    def lower_(self) -> Any:
        """Lower end of the intersection (a float, or an array with an entry a coordinate)."""
        return self._end(0)

    @property
    def upper_(self) -> Any:
        """Upper end of the intersection."""
        return self._end(1)

    @property
    def estimate_(self) -> Any:
        """A plain estimate of the parameter from the observations of this cycle still held."""
        held = self._held()
        return self._current.estimate(held) if len(held) else None

    @property
    def witness_(self) -> Witness | None:
        """((start, end), (start, end)) of the segments that gave the lower and the upper end."""
        witness = self._engine_.witness if self._engine_ else None
        if witness is None:
            return None
        (a, b), (c, d) = witness
        shift = self._offset
        return (
            (a + shift if a else 0, b + shift if b else 0),
            (c + shift if c else 0, d + shift if d else 0),
        )

    @property
    def change_interval_(self) -> tuple[int, int] | None:
        """Of the alarm just raised, else None; see `Detection`."""
        return self.detections_[-1].change_interval if self._drift_detected else None

    @property
    def change_point_(self) -> int | None:
        """Of the alarm just raised, else None; see `Detection`."""
        return self.detections_[-1].change_point if self._drift_detected else None

    def confidence_set(self, level: float = 0.95) -> np.ndarray:
        """All places where the change could have been; see `change_set.confidence_set`.

        Raises
        ------
        ValueError
            If the last thing done was not `detect` with an alarm.
        """
        from cameraready.change_detection.change_set import confidence_set  # it uses a detector

        if self._batch is None or not self._drift_detected:
            raise ValueError(
                "confidence_set needs the observations up to an alarm: call detect(array) first"
            )
        sequence = self._current
        if isinstance(sequence, Numbers):
            raise ValueError(
                "this detector estimates nothing: call the function confidence_set(array, level, "
                "cs) with a confidence sequence"
            )
        values = self._batch[:, 0] if sequence.entries == 1 else self._batch
        return confidence_set(values, level, sequence)

    # Saving.

    def settings(self) -> dict[str, Any]:
        """The detector's configuration, as JSON holds it."""
        settings = {
            name: describe(getattr(self, name)) for name in inspect.signature(type(self)).parameters
        }
        if settings.get("theta0") is not None:
            settings["theta0"] = known_ends(self.theta0, self.sequence.ends).tolist()
        return {"detector": type(self).__name__, **settings}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere with identical alarms; JSON-able."""
        grid = self._current.grid if isinstance(self._current, GridSequence) else None
        past = np.array(self._past, dtype=float).reshape(len(self._past), self.sequence.entries)
        learning = np.array(self._learning, dtype=float)
        return {
            "format": 1,
            "settings": self.settings(),
            "n": self.n_,
            "n_skipped": self.n_skipped_,
            "offset": self._offset,
            "drift_detected": self._drift_detected,
            "alarms": list(self.alarms_),
            "detections": [describe(detection) for detection in self.detections_],
            "past": encode_array(past),
            "learning": encode_array(learning.reshape(len(learning), self.sequence.entries)),
            "grid": None if grid is None else encode_array(grid),
            "engine": None if self._engine_ is None else self._engine_.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises
        ------
        ValueError
            If the state is of another configuration (the differing fields are named; nothing has
            changed) or damaged (the detector is as if new).
        """
        theirs = state.get("settings") if isinstance(state, dict) else None
        if not isinstance(theirs, dict) or state.get("format") != 1:
            raise ValueError("the state is damaged: it is not one that state_dict() wrote")
        mine = self.settings()
        differing = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
        if differing:
            listed = ", ".join(
                f"{name} (saved {theirs.get(name)!r}, here {mine.get(name)!r})"
                for name in differing
            )
            raise ValueError(f"the state is of another configuration; it differs in {listed}")
        self.reset()
        try:
            self._load(state)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            self.reset()
            raise ValueError(f"the state is damaged: {error}") from error

    def _load(self, state: dict[str, Any]) -> None:
        if state["grid"] is not None and isinstance(self.sequence, GridSequence):
            self._current = self.sequence.with_grid(decode_array(state["grid"]))
        if (state["engine"] is not None) != self._current.ready:
            raise ValueError("it does not say how far the cycle is")
        if state["engine"] is not None:
            self._engine_ = self._engine(self._current)
            self._engine_.load(state["engine"])
        past, learning = (
            decode_array(state[name]).reshape(-1, self.sequence.entries)
            for name in ("past", "learning")
        )
        self._past.extend(past[:, 0].tolist() if self._single else past)
        self._learning = list(learning)
        self.n_, self.n_skipped_ = int(state["n"]), int(state["n_skipped"])
        self._offset = int(state["offset"])
        self._drift_detected = bool(state["drift_detected"])
        self.alarms_ = [int(index) for index in state["alarms"]]
        self.detections_ = [_detection(saved) for saved in state["detections"]]
        time = self._engine_.time if self._engine_ else len(learning)
        # An alarm among what was learned from is heard only when all of it has been seen.
        learned = self._drift_detected and state["grid"] is not None
        fits = self.n_ == self._offset + (
            max(time, self.sequence.learning_length) if learned else time
        )
        if self._offset < 0 or not fits or self.n_skipped_ < 0:
            raise ValueError("its counts contradict each other")
        if self._drift_detected and not self.detections_:
            raise ValueError("it has an alarm but no detection")


class Numbers(ConfidenceSequence):
    """Stands where no interval is estimated: single numbers, whose mean locates a change."""


def _detection(saved: dict[str, Any]) -> Detection:
    """The detection that `describe` wrote."""
    witness, interval = saved["witness"], saved["change_interval"]
    values = {name: saved[name] for name in ("before", "after")}
    return Detection(
        int(saved["index"]),
        saved["change_point"],
        None if interval is None else (int(interval[0]), int(interval[1])),
        None if witness is None else (tuple(witness[0]), tuple(witness[1])),
        **{k: np.array(v) if isinstance(v, list) else v for k, v in values.items()},
        direction=saved["direction"],
    )
