"""What the compiled engines share: named arrays that are the whole state."""

import base64
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "ENGINES",
    "Engine",
    "check_window",
    "decode_array",
    "encode_array",
    "known_ends",
    "slots_fit",
]

ENGINES = {"exact": 0, "geometric": 1, "window": 2}
DIRECTIONS = {"both": 0.0, "up": 1.0, "down": -1.0}
FIRST_CAPACITY = 64

# Entries of the counters.
TIME, ACTIVE, ALARM, COORDINATE, RESTARTS, BEGUN = range(6)
COUNTERS = 6

Witness = tuple[tuple[int, int], tuple[int, int]]


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON holds it, bit for bit."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def decode_array(encoded: dict[str, Any]) -> np.ndarray:
    """The array that `encode_array` wrote.

    Raises
    ------
    ValueError
        If the text does not hold the array that it announces.
    """
    dtype = np.dtype(encoded["dtype"])
    if dtype.kind not in "fi":
        raise ValueError(f"a saved array must hold numbers, not {dtype}")
    data = base64.b64decode(encoded["data"], validate=True)
    return np.frombuffer(data, dtype).reshape(encoded["shape"]).copy()


class Engine:
    """One cycle of a detector: takes observations in until it alarms.

    Attributes are arrays named in `saved`; together they are its state.
    """

    saved: tuple[str, ...] = ()
    # Which axis of which array may be longer than at the start.
    growing: ClassVar[dict[str, int]] = {}
    counters: np.ndarray

    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        """Take observations in until an alarm; how many were taken.

        Parameters
        ----------
        observations : float64 array, (n, entries)
        trace : float64 array, (n or 0, 2, ends)
            Receives the intersection after each observation.
        """
        raise NotImplementedError

    @property
    def ends(self) -> np.ndarray:
        """Lower and upper ends of the intersection, (2, ends)."""
        raise NotImplementedError

    @property
    def time(self) -> int:
        """Observations taken in."""
        return int(self.counters[TIME])

    @property
    def active(self) -> int:
        """Sequences that are being updated."""
        return int(self.counters[ACTIVE])

    @property
    def alarmed(self) -> bool:
        """True if the last observation raised the alarm."""
        return self.counters[ALARM] > 0

    @property
    def coordinate(self) -> int:
        """The end whose interval became empty."""
        return int(self.counters[COORDINATE])

    @property
    def restarts(self) -> int:
        """How often a change in the direction that is not watched was passed over."""
        return int(self.counters[RESTARTS])

    @property
    def begun(self) -> int:
        """Observations before the latest such restart (0: there was none)."""
        return int(self.counters[BEGUN])

    @property
    def witness(self) -> Witness | None:
        """(start, time) of the sequences that gave the lower and the upper end."""
        return None

    def state(self) -> dict[str, Any]:
        """All arrays, for JSON."""
        return {name: encode_array(getattr(self, name)) for name in self.saved}

    def load(self, state: dict[str, Any]) -> None:
        """Take the arrays that `state` wrote, into an engine that is fresh.

        Raises
        ------
        ValueError
            If they are not such arrays: compiled loops trust their sizes.
        KeyError
            If one is missing.
        """
        self.load_arrays({name: decode_array(state[name]) for name in self.saved}, self)

    def load_arrays(self, arrays: dict[str, np.ndarray], like: "Engine") -> None:
        """Take arrays of the kind that a fresh engine `like` this one has.

        Raises
        ------
        ValueError
            If they are not such arrays.
        """
        for name, array in arrays.items():
            mine = getattr(like, name)
            shape, wanted = list(array.shape), list(mine.shape)
            if name in self.growing and len(shape) == len(wanted):
                axis = self.growing[name]
                if shape[axis] >= wanted[axis]:
                    shape[axis] = wanted[axis]
            if array.dtype != mine.dtype or shape != wanted:
                raise ValueError(f"{name} has the wrong size or type")
        for name, array in arrays.items():
            setattr(self, name, array)
        if not self.consistent():
            raise ValueError("its arrays contradict each other")

    def consistent(self) -> bool:
        """True if what the arrays say of each other's use can be."""
        return bool((self.counters >= 0).all() and self.counters[BEGUN] <= self.counters[TIME])


def slots_fit(order: np.ndarray, starts: np.ndarray, active: int) -> bool:
    """True if a list of slots, with the starts in them, can be one."""
    count = len(order)
    return (
        len(starts) == count
        and 0 <= active <= count
        and bool((np.sort(order) == np.arange(count)).all())
    )


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """The array with its first axis lengthened to `size`, new entries zero."""
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def grown_order(order: np.ndarray, size: int) -> np.ndarray:
    """A list of slots lengthened by the new, free ones."""
    return np.concatenate([order, np.arange(len(order), size)])


def known_ends(
    theta0: Any, ends: int, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> np.ndarray:
    """What is known of the parameter beforehand, as ends of shape (2, ends).

    `theta0` is None, a value (one number, or one a coordinate), or a tuple (low, high) of those.

    Raises
    ------
    ValueError
        If it is anything else, or lies outside the bounds.
    """
    if theta0 is None:
        return np.stack([np.full(ends, -np.inf), np.full(ends, np.inf)])
    wanted = "a value or a tuple (low, high) with low <= high"
    if isinstance(theta0, tuple) and len(theta0) != 2:
        raise ValueError(f"theta0 must be {wanted}, not {theta0!r}")
    pair = theta0 if isinstance(theta0, tuple) else (theta0, theta0)
    try:
        known = np.stack([np.broadcast_to(np.asarray(end, dtype=float), (ends,)) for end in pair])
    except (TypeError, ValueError):
        shape = "one number" if ends == 1 else f"numbers of shape ({ends},)"
        raise ValueError(f"theta0 must be {wanted}, each {shape}, not {theta0!r}") from None
    if not np.isfinite(known).all() or (known[0] > known[1]).any():
        raise ValueError(f"theta0 must be {wanted}, all finite, not {theta0!r}")
    if (known < bounds[0]).any() or (known > bounds[1]).any():
        raise ValueError(f"theta0 must lie in [{bounds[0]:g}, {bounds[1]:g}], not {theta0!r}")
    return known


def check_window(window: Any) -> int:
    """``window`` as a whole number from 1 on.

    Raises
    ------
    ValueError
        If it is not.
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise ValueError(f"window must be a whole number from 1 on, not {window!r}")
    return window
