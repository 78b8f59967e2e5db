"""What every confidence sequence shares: checked observations, a row of state, running ends."""

import copy
import inspect
import math
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from jaxtyping import Float

from cameraready.change_detection import kernels

__all__ = [
    "ConfidenceSequence",
    "CustomConfidenceSequence",
    "RangeError",
    "check_level",
    "describe",
]


class RangeError(ValueError):
    """An observation lies outside the declared range, or is not finite.

    Attributes
    ----------
    index : int
        Position of the observation, counted from 1.
    value : object
        The observation.
    """

    def __init__(self, message: str, index: int = 0, value: Any = None) -> None:
        super().__init__(message)
        self.index = index
        self.value = value


def check_level(name: str, value: Any) -> float:
    """``value`` as a probability strictly between 0 and 1.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(value, (int, float, np.number)) or not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be strictly between 0 and 1, not {value!r}")
    return float(value)


@runtime_checkable
class CustomConfidenceSequence(Protocol):
    """A confidence sequence of a user's own: any object with these three methods.

    Its level is the object's own affair: for a detector with ``arl=A`` it must be 1 - 1/A.
    """

    def start(self) -> Any:
        """The state before the first observation."""

    def update(self, state: Any, x: Any) -> Any:
        """The state after one more observation."""

    def interval(self, state: Any) -> tuple[float, float]:
        """The ends of the set for this state."""


class ConfidenceSequence:
    """Random intervals that all contain the parameter at once, with probability 1 - alpha.

    Subclasses describe themselves to the compiled engines: an integer `kind`, the numbers it needs
    (`parameters`) and the row of state a sequence begins with (`template`).

    Parameters
    ----------
    alpha : float
        One minus the level. A detector sets it to ``1 / arl``.
    """

    kind: int
    entries: int = 1  # numbers in one observation
    bounds: tuple[float, float] = (-math.inf, math.inf)  # of an observation

    def __init__(self, alpha: float = 0.05) -> None:
        self.alpha = check_level("alpha", alpha)
        self.reset()

    # What a subclass says of itself.

    @property
    def parameter_bounds(self) -> tuple[float, float]:
        """Ends of where the parameter can be."""
        return self.bounds

    @property
    def ends(self) -> int:
        """How many intervals a sequence has (one, or one a coordinate)."""
        return 1

    def parameters(self) -> np.ndarray:
        """The numbers that the compiled step needs."""
        raise TypeError(f"{type(self).__name__} has no compiled step")

    def template(self) -> np.ndarray:
        """The row of state before the first observation."""
        raise TypeError(f"{type(self).__name__} has no compiled step")

    def _row(self, sums: int) -> np.ndarray:
        """A row of zeros for `sums` sums, its first entry log(1/alpha)."""
        row = np.zeros(2 + sums)
        row[0] = -math.log(self.alpha)
        return row

    # What they all do.

    @property
    def ready(self) -> bool:
        """False while the sequence must still see data before it can begin (a grid to learn)."""
        return True

    @property
    def learning_length(self) -> int:
        """How many observations it must see before it can begin."""
        return 0

    def learned(self, observations: np.ndarray) -> Self:
        """A copy that has learned from these observations what it needs to begin."""
        return self

    def with_alpha(self, alpha: float) -> Self:
        """A fresh copy at another level."""
        other = copy.copy(self)
        other.alpha = check_level("alpha", alpha)
        other.reset()
        return other

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, for a state file."""
        names = list(inspect.signature(type(self)).parameters)
        return {name: describe(getattr(self, name)) for name in names if name != "alpha"}

    def accepts(self, x: float) -> bool:
        """True if one number is surely a valid observation (the quick way through)."""
        return self.bounds[0] <= x <= self.bounds[1] and -math.inf < x < math.inf

    def check(self, observations: np.ndarray) -> np.ndarray:
        """What is wrong with each observation: 0 nothing, 1 not finite, 2 out of range."""
        low, high = self.bounds
        fault = np.zeros(len(observations), dtype=np.int64)
        fault[((observations < low) | (observations > high)).any(axis=1)] = 2
        fault[~np.isfinite(observations).all(axis=1)] = 1
        return fault

    def complaint(self, value: Any, fault: int, index: int) -> RangeError:
        """The error for an observation with this fault."""
        shown = value.item() if np.size(value) == 1 else np.asarray(value).tolist()
        if fault == 1:
            reason = "is not finite; pass on_nan='skip' to leave such values out"
        else:
            low, high = self.bounds
            reason = (
                f"lies outside the declared range [{low:g}, {high:g}]; "
                "declare a wider range, or pass on_range='clip' or 'skip'"
            )
        return RangeError(f"observation {index} = {shown} {reason}", index, shown)

    def shape_error(self, shape: tuple[int, ...]) -> ValueError:
        """The error for observations of the wrong shape."""
        expected = "(observations,)" if self.entries == 1 else f"(observations, {self.entries})"
        return ValueError(
            f"{type(self).__name__} expects an array of shape {expected}, not {shape}"
        )

    def observations(self, array: Any) -> np.ndarray:
        """``array`` as float64 of shape (observations, entries).

        Raises
        ------
        ValueError
            If the shape does not fit.
        """
        values = np.asarray(array, dtype=np.float64)
        if self.entries == 1 and values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != self.entries:
            raise self.shape_error(np.shape(array))
        return np.ascontiguousarray(values)

    def transform(self, observations: np.ndarray) -> np.ndarray:
        """Observations as the compiled step wants them."""
        return observations

    def series(self, observations: np.ndarray, coordinate: int) -> Float[np.ndarray, " n"]:
        """A scalar series whose mean moves when the parameter does, to locate a change."""
        return observations[:, coordinate]

    def estimate(self, observations: np.ndarray) -> float | np.ndarray:
        """A plain estimate of the parameter from these observations."""
        return float(observations[:, 0].mean())

    def reset(self) -> None:
        """Forget all observations."""
        self._state: np.ndarray | None = None
        self._seen: list[np.ndarray] = []
        self._active: ConfidenceSequence = self
        ends = self.ends if self.ready else 0
        self._lower, self._upper = np.full(ends, -np.inf), np.full(ends, np.inf)
        self.n_ = 0

    def update(self, x: Any) -> Self:
        """Take one observation in.

        Raises
        ------
        RangeError
            If it is not finite or out of range; the sequence is as it was before.
        ValueError
            If its shape does not fit.

        Examples
        --------
        >>> from cameraready.change_detection import cs
        >>> sequence = cs.Gaussian(sigma=1.0, rho=10.0)
        >>> lower, upper = sequence.update(0.0).interval()
        >>> round(upper, 8)
        8.18257429
        """
        values = self._checked([x], self.n_)
        self.n_ += 1
        if not self._active.ready:
            self._seen.append(values)
            if self.n_ < self.learning_length:
                return self
            self._active = self.learned(np.concatenate(self._seen))
            values, self._seen = np.concatenate(self._seen), []
        active = self._active
        if self._state is None:
            self._state = active.template()
            self._lower = np.full(active.ends, -np.inf)
            self._upper = np.full(active.ends, np.inf)
        lower, upper = active._advance(values, self._state, True)
        self._lower = np.maximum(self._lower, lower[-1])
        self._upper = np.minimum(self._upper, upper[-1])
        return self

    def interval(self) -> tuple[Any, Any]:
        """The running intersection: two floats, or two arrays for several coordinates."""
        if not len(self._lower):
            return -math.inf, math.inf
        if self._lower.shape[0] == 1 and self.ends == 1:
            return float(self._lower[0]), float(self._upper[0])
        return self._lower.copy(), self._upper.copy()

    def run(self, array: Any, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The sequence over a whole array.

        Parameters
        ----------
        array : array_like, (n,) or (n, entries)
            Observations in order.
        nested : bool
            True for the running intersection, which is a confidence sequence as well; False for
            the ends of each time alone.

        Returns
        -------
        lower, upper : ndarray, (n,) or (n, ends)

        Raises
        ------
        RangeError
            If an observation is not finite or out of range.
        ValueError
            If the shape does not fit.

        Examples
        --------
        >>> from cameraready.change_detection import cs
        >>> lower, upper = cs.Bernoulli(alpha=0.05).run([0] * 10)
        >>> round(float(upper[-1]), 6)
        0.41688
        """
        values = self._checked(array, 0)
        active = self if self.ready else self.learned(values[: self.learning_length])
        lower, upper = active._advance(values, active.template(), nested)
        return (lower[:, 0], upper[:, 0]) if active.ends == 1 and self.ends == 1 else (lower, upper)

    def _checked(self, array: Any, before: int) -> np.ndarray:
        values = self.observations(array)
        fault = self.check(values)
        if fault.any():
            first = int(np.flatnonzero(fault)[0])
            raise self.complaint(values[first], int(fault[first]), before + first + 1)
        return self.transform(values)

    def _advance(
        self, values: np.ndarray, state: np.ndarray, nested: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        lower = np.empty((len(values), self.ends))
        upper = np.empty((len(values), self.ends))
        kernels.run_one(self.kind, values, self.parameters(), state, nested, lower, upper)
        return lower, upper

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({shown}, alpha={self.alpha:g})"


def describe(value: Any) -> Any:
    """A setting as JSON holds it, equal for equal settings."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [describe(entry) for entry in value]
    if isinstance(value, ConfidenceSequence):
        return {"class": type(value).__name__, **value.settings()}
    if inspect.isroutine(value):
        return {"function": f"{value.__module__}.{value.__qualname__}"}
    public = {k: describe(v) for k, v in vars(value).items() if not k.startswith("_")}
    return {"class": type(value).__qualname__, **public}
