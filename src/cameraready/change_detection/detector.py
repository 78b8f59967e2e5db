"""The repeated confidence sequence detector."""

from typing import Any

import numpy as np

from cameraready.change_detection import cells
from cameraready.change_detection.base import Numbers, SequentialDetector
from cameraready.change_detection.bounded import Betting, EmpiricalBernstein, Hoeffding
from cameraready.change_detection.confidence_sequence import (
    ConfidenceSequence,
    CustomConfidenceSequence,
)
from cameraready.change_detection.counts import Bernoulli, Poisson
from cameraready.change_detection.custom import CustomEngine
from cameraready.change_detection.distribution import CDF
from cameraready.change_detection.engine import (
    DIRECTIONS,
    ENGINES,
    Engine,
    check_window,
    known_ends,
)
from cameraready.change_detection.hull import HullEngine
from cameraready.change_detection.regression import EllipsoidEngine, LinearRegression
from cameraready.change_detection.repeated import RepeatedEngine
from cameraready.change_detection.two_sample import TwoSampleMean
from cameraready.common.checks import check_choice, check_greater

__all__ = ["ConfidenceSequenceDetector"]

BOUNDED = {"bounded": EmpiricalBernstein, "betting": Betting, "hoeffding": Hoeffding}
COUNTS = {"bernoulli": Bernoulli, "poisson": Poisson}


class ConfidenceSequenceDetector(SequentialDetector):
    """Alarms when confidence sequences started at different times contradict each other.

    At every time a new sequence of level 1 - 1/arl is started; the alarm is raised at the first
    time at which the intersection of all their sets is empty. If the parameter never changes, the
    mean number of observations to an alarm is at least `arl`, whatever the distribution and the
    level of the parameter; dependence is allowed where the sequence allows it.

    Parameters
    ----------
    cs : str or ConfidenceSequence or object
        What is watched and under which assumption: "bounded" (mean of values in `range`, by
        `EmpiricalBernstein`), "betting" (the same, by `Betting` on 100 cells), "hoeffding",
        "bernoulli", "poisson", any of the sequences in `cs` (their `alpha` is replaced by
        1/arl), or an object of your own with start(), update(state, x), interval(state).
    arl : float
        At most one false alarm per `arl` observations on average; > 1.
    range : tuple of float
        Ends of the interval that holds every observation, for the named bounded sequences.
    theta0 : float, array or tuple, optional
        The parameter before the change, if known: a value, or a tuple (low, high). It is taken for
        the level in every cycle, so that alarms come again until the stream is back there.
    direction : {"both", "up", "down"}
        Which changes raise an alarm. A change the other way begins a new cycle without one.
    engine : {"geometric", "exact", "window", "hull"}
        Which starts are kept: O(log n), all, the latest `window`, or all through convex hulls
        (`Hoeffding` with `lam` only). Leaving starts out never harms the guarantee.
    growth : float
        Ratio of the geometric engine's ages; > 1.
    window : int
        For ``engine="window"``.
    guarantee : {"arl", "pfa"}
        "pfa" bounds the probability that a cycle *ever* raises a false alarm by 1/arl: the
        sequence started at m has alpha_m = (1/arl) 6 / (pi^2 m^2).
    on_range : {"raise", "clip", "skip"}
        What to do with values outside the range.
    on_nan : {"raise", "skip"}
        What to do with values that are not finite.
    history : int
        How many of the latest observations are held to locate the change.

    Attributes
    ----------
    n_ : int
        Observations taken in.
    n_active_, n_skipped_ : int
        Sequences being updated; observations left out.
    lower_, upper_, estimate_
        Ends of the intersection, and a plain estimate.
    witness_, change_interval_, change_point_
        Where the change was; see `Detection`. All count from 1.
    alarms_ : list of int
        Observations that raised alarms.

    References
    ----------
    Shekhar, Ramdas, Reducing sequential change detection to sequential estimation, ICML 2024,
    Definition 2.1 and Theorem 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from cameraready.change_detection import ConfidenceSequenceDetector, cs
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(0, 1, 300), rng.normal(1, 1, 300)])
    >>> detector = ConfidenceSequenceDetector(cs.Gaussian(sigma=1.0), arl=1000)
    >>> result = detector.detect(x)
    >>> result.alarm, 300 < result.index < 360, abs(result.change_point - 300) < 10
    (True, True, True)
    """

    def __init__(
        self,
        cs: Any = "bounded",
        arl: float = 10_000,
        range: tuple[float, float] = (0.0, 1.0),
        theta0: Any = None,
        direction: str = "both",
        engine: str = "geometric",
        growth: float = 1.2,
        window: int = 100,
        guarantee: str = "arl",
        on_range: str = "raise",
        on_nan: str = "raise",
        history: int = 4096,
    ) -> None:
        super().__init__()
        self.cs = cs
        self.arl = arl
        self.range = range
        self.theta0 = theta0
        self.direction = direction
        self.engine = engine
        self.growth = growth
        self.window = window
        self.guarantee = guarantee
        self.on_range = on_range
        self.on_nan = on_nan
        self.history = history
        check_greater("arl", arl, 1)
        check_greater("growth", growth, 1)
        check_choice("direction", direction, DIRECTIONS)
        check_choice("engine", engine, (*ENGINES, "hull"))
        check_choice("guarantee", guarantee, ("arl", "pfa"))
        check_window(window)
        self._start()

    def _observed(self) -> ConfidenceSequence:
        alpha = 1.0 / self.arl
        if isinstance(self.cs, str):
            check_choice("cs", self.cs, (*BOUNDED, *COUNTS))
            if self.cs in BOUNDED:
                sequence = BOUNDED[self.cs](range=self.range, alpha=alpha)
            else:
                sequence = COUNTS[self.cs](alpha=alpha)
        elif isinstance(self.cs, ConfidenceSequence):
            sequence = self.cs.with_alpha(alpha)
        elif isinstance(self.cs, CustomConfidenceSequence):
            if self.guarantee != "arl":
                raise ValueError(
                    "guarantee='pfa' needs a level for every start, which a sequence of your own "
                    "has not: use guarantee='arl'"
                )
            sequence = Numbers(alpha)
        else:
            raise TypeError(
                "cs must be a name, a confidence sequence, or an object with start(), "
                f"update(state, x) and interval(state), not {self.cs!r}"
            )
        linear = isinstance(sequence, Hoeffding) and sequence.lam is not None
        if self.engine == "hull" and not (linear and self.guarantee == "arl"):
            raise ValueError(
                "engine='hull' needs a linear boundary, cs.Hoeffding(range, lam=...), "
                "and guarantee='arl'"
            )
        if self.theta0 is not None and isinstance(sequence, CDF) and not sequence.ready:
            raise ValueError("theta0 of a distribution function needs the points: pass CDF(grid=)")
        if self.direction != "both" and (sequence.ends > 1 or isinstance(sequence, CDF)):
            raise ValueError("direction must be 'both' unless one number is watched")
        return sequence

    def _engine(self, sequence: ConfidenceSequence) -> Engine:
        direction = DIRECTIONS[self.direction]
        settings = np.array(
            [self.growth, self.window, float(self.guarantee == "pfa"), direction], dtype=float
        )
        known = known_ends(self.theta0, sequence.ends, sequence.parameter_bounds)
        if isinstance(sequence, Numbers):
            return CustomEngine(self.cs, ENGINES[self.engine], settings, known)
        if self.engine == "hull":
            return HullEngine(sequence.parameters(), sequence.alpha, direction, known)
        engine = ENGINES[self.engine]
        betting = sequence.difference if isinstance(sequence, TwoSampleMean) else sequence
        if isinstance(betting, Betting):
            return cells.RepeatedCellEngine(
                betting.cut(known),
                betting.fractions,
                sequence.alpha,
                betting.range,
                engine,
                settings,
            )
        # With one regressor the ellipsoid is the interval.
        pairs = (
            isinstance(sequence, LinearRegression)
            and sequence.contrasts is None
            and sequence.dimension > 1
        )
        made = EllipsoidEngine if pairs else RepeatedEngine
        return made(
            sequence.kind, sequence.parameters(), sequence.template(), engine, settings, known
        )
