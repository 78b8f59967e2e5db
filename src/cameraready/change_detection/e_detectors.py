"""E-detectors: Shiryaev-Roberts and CUSUM recursions of e-values.

If E_n has conditional mean at most 1 before the change, M_n = (1 + M_{n-1}) E_n satisfies
E[M_T] <= E[T] for every stopping time, so that the alarm at M_n >= arl comes after `arl`
observations on average at the earliest. CUSUM, M_n = max(1, M_{n-1}) E_n, is never larger.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cameraready.change_detection.base import Numbers, SequentialDetector
from cameraready.change_detection.bounded import Betting, check_fractions
from cameraready.change_detection.cells import FRACTIONS, KINDS, CellEngine, bets
from cameraready.change_detection.compiled import compiled
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.change_detection.engine import (
    ALARM,
    COUNTERS,
    DIRECTIONS,
    TIME,
    Engine,
    known_ends,
)
from cameraready.common.checks import check_choice, check_greater, check_interval, check_positive

__all__ = ["BettingIncrement", "CompositeEDetector", "EDetector", "GaussianIncrement"]

LARGEST = 1e300


@dataclass(frozen=True)
class GaussianIncrement:
    """Likelihood ratios of N(mean + shift, sigma^2) against N(mean, sigma^2), one a shift.

    An e-value for every pre-change class whose noise is sub-Gaussian with scale `sigma`.

    Parameters
    ----------
    mean, sigma : float
        Before the change.
    shifts : sequence of float
        Shifts of the mean to look for.
    """

    mean: float
    sigma: float
    shifts: Sequence[float]

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        shifts = np.asarray(self.shifts, dtype=float)
        if shifts.ndim != 1 or not len(shifts) or not np.isfinite(shifts).all():
            raise ValueError("shifts must be finite numbers, at least one")

    def __call__(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n shifts"]:
        """The e-values of each observation."""
        shifts = np.asarray(self.shifts, dtype=float)
        exponent = (x[:, None] - self.mean - shifts / 2.0) * shifts / self.sigma**2
        return np.exp(np.minimum(exponent, math.log(LARGEST)))


@dataclass(frozen=True)
class BettingIncrement:
    """Bets against a mean that lies in [low, high] before the change, for bounded values.

    Half of the bets say that the mean rises above `high`, half that it falls below `low`.

    Parameters
    ----------
    low, high : float
        Bounds of the mean before the change.
    range : tuple of float
        Ends of the interval that holds every observation.
    fractions : sequence of float
        Fractions of the wealth that are bet, in (0, 1).
    """

    low: float
    high: float
    range: tuple[float, float] = (0.0, 1.0)
    fractions: Sequence[float] = FRACTIONS

    def __post_init__(self) -> None:
        check_fractions(self.fractions)
        least, largest = check_interval("range", self.range)
        if not least <= self.low <= self.high <= largest:
            raise ValueError("low and high must lie within range, low first")

    def __call__(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n bets"]:
        """The e-values of each observation."""
        least, largest = self.range
        if ((x < least) | (x > largest)).any():
            raise ValueError(f"an observation lies outside the declared range {self.range}")
        cell = (np.array([[self.low, self.high]]) - least) / (largest - least)
        constants, slopes = bets(cell, np.array(self.fractions))[:, :, 0]
        return constants + slopes * ((x - least) / (largest - least))[:, None]


@compiled
def advance_increments(values, kind, arl, wealth, counters, trace):
    """The recursion for every column of e-values, (n, bets); how many rows were taken."""
    for i in range(values.shape[0]):
        counters[TIME] += 1
        total = 0.0
        for k in range(values.shape[1]):
            before = 1.0 + wealth[k] if kind == 0 else max(1.0, wealth[k])
            wealth[k] = min(before * values[i, k], LARGEST)
            total += wealth[k]
        if trace.shape[0] > 0:
            trace[i] = total / values.shape[1]
        if total >= arl * values.shape[1]:
            counters[ALARM] = counters[TIME]
            return i + 1
    return values.shape[0]


class _IncrementEngine(Engine):
    saved = ("wealth", "counters")
    growing: ClassVar[dict[str, int]] = {"wealth": 0}

    def __init__(self, increment: Callable, kind: int, arl: float) -> None:
        self.increment, self.kind, self.arl = increment, kind, arl
        self.counters = np.zeros(COUNTERS, np.int64)
        self.wealth = np.zeros(0)

    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        x = observations[:, 0]
        values = np.asarray(self.increment(x), dtype=float)
        if values.shape[:1] != x.shape or values.ndim > 2 or values.size < len(x):
            raise ValueError(
                f"increment must return an array of shape ({len(x)},) or ({len(x)}, bets) for "
                f"{len(x)} observations, not {values.shape}"
            )
        values = values.reshape(len(x), -1)
        if np.isnan(values).any() or (values < 0).any():
            raise ValueError("increment must return e-values: numbers from 0 on")
        if not len(self.wealth):
            self.wealth = np.zeros(values.shape[1])
        if len(self.wealth) != values.shape[1]:
            raise ValueError("increment must return the same number of bets every time")
        averages = np.empty(len(trace))
        trace[:, 0] = 0.0
        taken = advance_increments(
            np.ascontiguousarray(values),
            self.kind,
            self.arl,
            self.wealth,
            self.counters,
            averages,
        )
        if len(trace):
            trace[:taken, 1, 0] = averages[:taken]
        return taken

    @property
    def ends(self) -> np.ndarray:
        """Zero and the e-detector's value."""
        return np.array([[0.0], [self.wealth.mean() if len(self.wealth) else 0.0]])

    @property
    def active(self) -> int:
        """Bets that are followed."""
        return len(self.wealth)


class EDetector(SequentialDetector):
    """Shiryaev-Roberts or CUSUM of one-step e-values for a known pre-change class.

    Parameters
    ----------
    increment : callable
        From observations, (n,), to their e-values, (n,) or (n, bets): each column has conditional
        mean at most 1 before the change. Columns are averaged *after* the recursion. See
        `GaussianIncrement`, `BettingIncrement`.
    kind : {"sr", "cusum"}
    arl : float
        At most one false alarm per `arl` observations on average; > 1.
    on_nan : {"raise", "skip"}
        What to do with values that are not finite.
    history : int
        How many of the latest observations are held to locate the change.

    Attributes
    ----------
    upper_ : float
        The e-detector's value; the alarm is raised at `arl`. Others as for
        `ConfidenceSequenceDetector`; there are no witnesses.

    References
    ----------
    Shin, Ramdas, Rinaldo, E-detectors: a nonparametric framework for sequential change detection,
    New England Journal of Statistics in Data Science 2024.

    Examples
    --------
    >>> detector = EDetector(GaussianIncrement(0.0, 1.0, shifts=[1.0]), arl=1000)
    >>> detector.detect([0.0] * 50 + [1.5] * 20).index
    56
    """

    on_range = "raise"

    def __init__(
        self,
        increment: Callable[[np.ndarray], np.ndarray],
        kind: str = "sr",
        arl: float = 10_000,
        on_nan: str = "raise",
        history: int = 4096,
    ) -> None:
        super().__init__()
        self.increment = increment
        self.kind = kind
        self.arl = arl
        self.on_nan = on_nan
        self.history = history
        check_greater("arl", arl, 1)
        check_choice("kind", kind, KINDS)
        if not callable(increment):
            raise TypeError(f"increment must be a function of the observations, not {increment!r}")
        self._start()

    def _observed(self) -> ConfidenceSequence:
        return Numbers(1.0 / self.arl)

    def _engine(self, sequence: ConfidenceSequence) -> Engine:
        return _IncrementEngine(self.increment, KINDS[self.kind], float(self.arl))


class CompositeEDetector(SequentialDetector):
    """An e-detector for the mean of bounded values, with nothing known of the level before.

    One Shiryaev-Roberts (or CUSUM) process for every cell of candidate means; a cell is out when
    its average over the bets reaches `arl`; the alarm is raised when all cells are out. The cell
    that holds the true mean is out no earlier than a valid e-detector alarms, hence the mean
    number of observations to a false alarm is at least `arl`.

    It dominates the repeated betting sequence: a sum over starts is at least its maximum. With
    ``kind="sr"`` the guarantee is *used up*: expect one false alarm per one or two `arl`
    observations. ``kind="cusum"`` is far more conservative and slower.

    Parameters
    ----------
    arl : float
        At most one false alarm per `arl` observations on average; > 1.
    range : tuple of float
        Ends of the interval that holds every observation.
    cells : int
        Into how many cells the range is cut; at least 2.
    kind : {"sr", "cusum"}
    fractions : sequence of float
        Fractions of the wealth that are bet, in (0, 1).
    theta0 : float or tuple, optional
        The mean before the change, if known: a value, or a tuple (low, high).
    direction : {"both", "up", "down"}
        Which changes raise an alarm: by the side of the evidence that came last.
    on_range : {"raise", "clip", "skip"}
    on_nan : {"raise", "skip"}
    history : int
        How many of the latest observations are held to locate the change.

    Attributes
    ----------
    lower_, upper_ : float
        Ends of the cells that stand. Others as for `ConfidenceSequenceDetector`; an e-detector
        looks at all starts at once, so that there are no witnesses and `n_active_` is 1.

    Examples
    --------
    >>> detector = CompositeEDetector(arl=1000)
    >>> result = detector.detect([0.2, 0.3] * 100 + [0.7, 0.8] * 20)
    >>> result.alarm, 200 < result.index < 215, result.change_point
    (True, True, 200)
    """

    def __init__(
        self,
        arl: float = 10_000,
        range: tuple[float, float] = (0.0, 1.0),
        cells: int = 100,
        kind: str = "sr",
        fractions: Sequence[float] = FRACTIONS,
        theta0: Any = None,
        direction: str = "both",
        on_range: str = "raise",
        on_nan: str = "raise",
        history: int = 4096,
    ) -> None:
        super().__init__()
        self.arl = arl
        self.range = range
        self.cells = cells
        self.kind = kind
        self.fractions = fractions
        self.theta0 = theta0
        self.direction = direction
        self.on_range = on_range
        self.on_nan = on_nan
        self.history = history
        check_greater("arl", arl, 1)
        check_choice("kind", kind, KINDS)
        check_choice("direction", direction, DIRECTIONS)
        self._start()

    def _observed(self) -> ConfidenceSequence:
        return Betting(self.range, self.cells, self.fractions, 1.0 / self.arl)

    def _engine(self, sequence: ConfidenceSequence) -> Engine:
        assert isinstance(sequence, Betting)
        known = known_ends(self.theta0, 1, sequence.range)
        return CellEngine(
            sequence.cut(known),
            sequence.fractions,
            KINDS[self.kind],
            sequence.alpha,
            sequence.range,
            DIRECTIONS[self.direction],
        )
