"""Thousands of streams side by side, in one array program."""

import copy
from typing import Any

import numba
import numpy as np

from cameraready.change_detection.base import SequentialDetector
from cameraready.change_detection.cells import CellEngine, advance_e_detector
from cameraready.change_detection.confidence_sequence import describe
from cameraready.change_detection.engine import ACTIVE, ALARM, decode_array, encode_array
from cameraready.change_detection.repeated import RepeatedEngine, advance_one, slots_needed
from cameraready.common.checks import check_choice

__all__ = ["MultiStream"]


@numba.njit(cache=True, parallel=True, error_model="numpy")
def advance_streams(
    kind,
    engine,
    xs,
    params,
    template,
    settings,
    order,
    starts,
    rows,
    counters,
    extremes,
    witnesses,
    known,
    alarms,
):
    """`repeated.advance_one` for xs, (times, streams); NaN is no observation."""
    for s in numba.prange(xs.shape[1]):
        for t in range(xs.shape[0]):
            if np.isnan(xs[t, s]):
                continue
            if counters[s, ALARM] > 0:
                counters[s] = 0
                extremes[s] = known
                witnesses[s] = 0
            alarms[t, s] = advance_one(
                kind,
                engine,
                xs[t, s : s + 1],
                params,
                template,
                settings,
                order[s],
                starts[s],
                rows[s],
                counters[s],
                extremes[s],
                witnesses[s],
                known,
            )


@numba.njit(cache=True, parallel=True, error_model="numpy")
def advance_cell_streams(
    xs, low, width, table, kind, threshold, direction, wealth, counters, span, records, alarms
):
    """`cells.advance_e_detector` for xs, (times, streams); NaN is no observation."""
    for s in numba.prange(xs.shape[1]):
        untraced = np.empty((0, 2), np.int64)
        for t in range(xs.shape[0]):
            if np.isnan(xs[t, s]):
                continue
            if counters[s, ALARM] > 0:
                counters[s] = 0
                span[s, 0], span[s, 1] = 0, table.shape[2]
                records[s] = 0
            advance_e_detector(
                xs[t, s : s + 1],
                low,
                width,
                table,
                kind,
                threshold,
                direction,
                wealth[s],
                counters[s],
                span[s],
                records[s],
                untraced,
            )
            alarms[t, s] = counters[s, ALARM] > 0


class MultiStream:
    """The same detector on many streams, each with its own state.

    Gives the alarms that `n_streams` copies of the detector would, on all cores. Across machines
    streams part trivially: a `MultiStream` for each share of them.

    Parameters
    ----------
    detector : ConfidenceSequenceDetector or CompositeEDetector
        For single numbers, with ``engine="geometric"`` or ``"window"``.
    n_streams : int
    guarantee : {"all", "each"}
        Whether `arl` bounds the false alarms of all streams together (each then has
        ``arl * n_streams``) or of each stream.
    on_nan : {"skip", "raise"}
        NaN means that a stream has no observation at a time.

    Attributes
    ----------
    alarmed_ : ndarray of bool, (n_streams,)
        Streams that alarmed at the latest time.
    n_ : int
        Times taken in.
    lower_, upper_ : ndarray, (n_streams,)
        Ends of each stream's intersection.

    Examples
    --------
    >>> from cameraready.change_detection import CompositeEDetector
    >>> streams = MultiStream(CompositeEDetector(arl=1000), n_streams=3, guarantee="each")
    >>> x = np.full((300, 3), 0.5)
    >>> x[200:, 1] = 0.9
    >>> streams.update_many(x)[:1]
    [(212, 1)]
    """

    def __init__(
        self,
        detector: SequentialDetector,
        n_streams: int,
        guarantee: str = "all",
        on_nan: str = "skip",
    ) -> None:
        if isinstance(n_streams, bool) or not isinstance(n_streams, int) or n_streams < 1:
            raise ValueError(f"n_streams must be a whole number from 1 on, not {n_streams!r}")
        check_choice("guarantee", guarantee, ("all", "each"))
        check_choice("on_nan", on_nan, ("skip", "raise"))
        if not isinstance(detector, SequentialDetector):
            raise TypeError(f"detector must be one of this module's detectors, not {detector!r}")
        self.detector = detector
        self.n_streams = n_streams
        self.guarantee = guarantee
        self.on_nan = on_nan
        share = n_streams if guarantee == "all" else 1
        single = detector.clone()
        single.arl = detector.arl * share
        single._start()
        engine = single._engine_
        plain = type(engine) is RepeatedEngine and engine.engine != 0 and single.sequence.ends == 1
        if single.sequence.entries != 1 or not (plain or isinstance(engine, CellEngine)):
            raise ValueError(
                "detector must watch single numbers with engine='geometric' or 'window', "
                "or be a CompositeEDetector"
            )
        self._sequence = single.sequence
        self._on_range = detector.on_range
        self._single = engine
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.n_ = 0
        self.alarmed_ = np.zeros(self.n_streams, dtype=bool)
        self._arrays = {
            name: np.repeat(getattr(self._single, name)[None], self.n_streams, axis=0)
            for name in self._single.saved
        }

    def update(self, x: Any) -> np.ndarray:
        """Take one observation of every stream in.

        Parameters
        ----------
        x : array_like, (n_streams,)
            NaN: none.

        Returns
        -------
        ndarray of bool, (n_streams,)
            Streams that alarm.

        Raises
        ------
        RangeError
            If a value is out of range; nothing has changed.
        ValueError
            If the shape does not fit.
        """
        self.update_many(np.asarray(x, dtype=float)[None])
        return self.alarmed_

    def update_many(self, array: Any) -> list[tuple[int, int]]:
        """Take observations, (times, n_streams), in; alarms as (time from 1, stream from 0)."""
        xs = self._checked(np.asarray(array, dtype=float))
        alarms = np.zeros(xs.shape, dtype=bool)
        single, arrays = self._single, self._arrays
        if isinstance(single, CellEngine):
            advance_cell_streams(
                xs,
                single.low,
                single.width,
                single.table,
                single.kind,
                single.threshold,
                single.direction,
                arrays["wealth"],
                arrays["counters"],
                arrays["span"],
                arrays["records"],
                alarms,
            )
        else:
            self._reserve(single, len(xs))
            advance_streams(
                single.kind,
                single.engine,
                xs,
                single.parameters,
                single.template,
                single.settings,
                arrays["order"],
                arrays["starts"],
                arrays["rows"],
                arrays["counters"],
                arrays["extremes"],
                arrays["witnesses"],
                single.known,
                alarms,
            )
        before, self.n_ = self.n_, self.n_ + len(xs)
        if len(xs):
            self.alarmed_ = alarms[-1]
        return [(before + int(t) + 1, int(s)) for t, s in np.argwhere(alarms)]

    def _checked(self, xs: np.ndarray) -> np.ndarray:
        if xs.ndim != 2 or xs.shape[1] != self.n_streams:
            raise ValueError(
                f"expected an array of shape (times, {self.n_streams}), not {xs.shape}"
            )
        fault = self._sequence.check(xs.reshape(-1, 1)).reshape(xs.shape)
        if not fault.any():
            return np.ascontiguousarray(xs)
        xs = xs.copy()
        if self.on_nan == "skip":
            xs[fault == 1] = np.nan
            fault[fault == 1] = 0
        outside = fault >= 2
        if self._on_range == "clip":
            xs[fault == 2] = np.clip(xs[fault == 2], *self._sequence.bounds)
            fault[fault == 2] = 0
        elif self._on_range == "skip":
            xs[outside] = np.nan
            fault[outside] = 0
        if fault.any():
            t, s = (int(i) for i in np.argwhere(fault)[0])
            error = self._sequence.complaint(xs[t, s : s + 1], int(fault[t, s]), self.n_ + t + 1)
            raise type(error)(f"stream {s}: {error}", error.index, error.value)
        return xs

    def _reserve(self, single: RepeatedEngine, incoming: int) -> None:
        arrays = self._arrays
        slots = arrays["order"].shape[1]
        active = int(arrays["counters"][:, ACTIVE].max())
        needed = slots_needed(single.engine, single.settings, active, self.n_, incoming)
        if needed > slots:
            more = max(needed, 2 * slots) - slots
            free = np.broadcast_to(np.arange(slots, slots + more), (self.n_streams, more))
            arrays["order"] = np.concatenate([arrays["order"], free], axis=1)
            arrays["starts"] = np.pad(arrays["starts"], ((0, 0), (0, more)))
            width = more * len(single.template)
            arrays["rows"] = np.pad(arrays["rows"], ((0, 0), (0, width)))

    def _ends(self) -> np.ndarray:
        """Ends of every stream's intersection, (n_streams, 2)."""
        single = self._single
        if not isinstance(single, CellEngine):
            return self._arrays["extremes"][:, :, 0]
        one = copy.copy(single)
        ends = np.empty((self.n_streams, 2))
        for s in range(self.n_streams):
            one.span, one.records = self._arrays["span"][s], self._arrays["records"][s]
            ends[s] = one.ends[:, 0]
        return ends

    @property
    def lower_(self) -> np.ndarray:
        """Lower end of each stream's intersection."""
        return self._ends()[:, 0]

    @property
    def upper_(self) -> np.ndarray:
        """Upper end of each stream's intersection."""
        return self._ends()[:, 1]

    def _settings(self) -> dict[str, Any]:
        return {
            "detector": self.detector.settings(),
            "n_streams": self.n_streams,
            "guarantee": self.guarantee,
            "on_nan": describe(self.on_nan),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere with identical alarms; JSON-able."""
        arrays = {name: encode_array(array) for name, array in self._arrays.items()}
        return {
            "format": 1,
            "settings": self._settings(),
            "n": self.n_,
            "alarmed": np.flatnonzero(self.alarmed_).tolist(),
            "arrays": arrays,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken.

        Raises
        ------
        ValueError
            If the state is of another configuration or damaged.
        """
        theirs = state.get("settings") if isinstance(state, dict) else None
        if not isinstance(theirs, dict) or state.get("format") != 1:
            raise ValueError("the state is damaged: it is not one that state_dict() wrote")
        mine = self._settings()
        differing = sorted(name for name in mine if mine[name] != theirs.get(name))
        if differing:
            raise ValueError(
                f"the state is of another configuration; it differs in {', '.join(differing)}"
            )
        try:
            arrays = {name: decode_array(state["arrays"][name]) for name in self._arrays}
            self._check_arrays(arrays)
            n, alarmed = int(state["n"]), np.zeros(self.n_streams, dtype=bool)
            alarmed[np.array(state["alarmed"], dtype=np.int64)] = True
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"the state is damaged: {error}") from error
        self._arrays, self.n_, self.alarmed_ = arrays, n, alarmed

    def _check_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Every stream's share must be what a single detector would take."""
        one = copy.copy(self._single)
        if any(len(array) != self.n_streams for array in arrays.values()):
            raise ValueError("it is of another number of streams")
        for s in range(self.n_streams):
            one.load_arrays({name: array[s] for name, array in arrays.items()}, self._single)
