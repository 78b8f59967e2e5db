"""Lorden's reduction: a power-one test at every time."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cameraready.change_detection.base import Numbers, SequentialDetector
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.change_detection.custom import CustomEngine
from cameraready.change_detection.engine import ENGINES, Engine, check_window, known_ends
from cameraready.change_detection.gaussian import tuned_rho
from cameraready.common.checks import check_choice, check_greater, check_positive

__all__ = ["LordenDetector", "NormalMixtureTest", "SequentialTest"]


@runtime_checkable
class SequentialTest(Protocol):
    """A test of the pre-change class that may be looked at after every observation.

    P(rejects(state, alpha) at any time) <= alpha as long as nothing has changed.
    """

    def start(self) -> Any:
        """The state before the first observation."""

    def update(self, state: Any, x: Any) -> Any:
        """The state after one more observation."""

    def rejects(self, state: Any, alpha: float) -> bool:
        """True if the pre-change class is rejected at level alpha."""


@dataclass(frozen=True)
class NormalMixtureTest:
    """Tests a known mean with the normal mixture: the test behind `cs.Gaussian`.

    Parameters
    ----------
    mean, sigma : float
        Mean before the change, and the noise's (sub-Gaussian) scale.
    rho : float, optional
        The mixture's scale; by default the tightest at 100 observations, as for `cs.Gaussian`.
    """

    mean: float
    sigma: float
    rho: float | None = None

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        if self.rho is not None:
            check_positive("rho", self.rho)

    def start(self) -> list[float]:
        """[observations, sum of the standardised observations]."""
        return [0.0, 0.0]

    def update(self, state: list[float], x: float) -> list[float]:
        """The state after one more observation."""
        return [state[0] + 1.0, state[1] + (float(x) - self.mean) / self.sigma]

    def rejects(self, state: list[float], alpha: float) -> bool:
        """True if the mixture's e-value has reached 1/alpha."""
        m, total = state
        rho = tuned_rho(alpha, 100.0) if self.rho is None else self.rho
        log_e = total**2 / (2.0 * (m + rho)) - 0.5 * np.log((m + rho) / rho)
        return bool(log_e >= -np.log(alpha))


class _Test:
    """A test as a sequence of sets: everything until it rejects, then nothing."""

    def __init__(self, test: SequentialTest, alpha: float) -> None:
        self.test, self.alpha = test, alpha

    def start(self) -> Any:
        return self.test.start()

    def update(self, state: Any, x: Any) -> Any:
        return self.test.update(state, x)

    def interval(self, state: Any) -> tuple[float, float]:
        rejected = self.test.rejects(state, self.alpha)
        return (np.inf, -np.inf) if rejected else (-np.inf, np.inf)


class LordenDetector(SequentialDetector):
    """Starts a level-1/arl test at every time and alarms at the first rejection.

    With the test "theta0 lies in the confidence sequence" this is `ConfidenceSequenceDetector`
    with ``theta0=``: repeated confidence sequences are the same idea with estimation in the place
    of testing. Mean number of observations to a false alarm at least `arl`.

    Parameters
    ----------
    test : SequentialTest
        For the pre-change class; `NormalMixtureTest`, or an object of your own.
    arl : float
        At most one false alarm per `arl` observations on average; > 1.
    engine : {"geometric", "exact", "window"}
    growth : float
    window : int
        As for `ConfidenceSequenceDetector`.
    on_nan : {"raise", "skip"}
    history : int

    References
    ----------
    Lorden, Procedures for reacting to a change in distribution, Annals of Mathematical Statistics
    1971, Theorem 2.

    Examples
    --------
    >>> detector = LordenDetector(NormalMixtureTest(0.0, 1.0, rho=10.0), arl=20)
    >>> detector.detect([0.0] * 20 + [3.0] * 10).index
    24
    """

    on_range = "raise"

    def __init__(
        self,
        test: SequentialTest,
        arl: float = 10_000,
        engine: str = "geometric",
        growth: float = 1.2,
        window: int = 100,
        on_nan: str = "raise",
        history: int = 4096,
    ) -> None:
        super().__init__()
        self.test = test
        self.arl = arl
        self.engine = engine
        self.growth = growth
        self.window = window
        self.on_nan = on_nan
        self.history = history
        check_greater("arl", arl, 1)
        check_greater("growth", growth, 1)
        check_choice("engine", engine, ENGINES)
        check_window(window)
        if not isinstance(test, SequentialTest):
            raise TypeError("test must have start(), update(state, x) and rejects(state, alpha)")
        self._start()

    def _observed(self) -> ConfidenceSequence:
        return Numbers(1.0 / self.arl)

    def _engine(self, sequence: ConfidenceSequence) -> Engine:
        settings = np.array([self.growth, self.window, 0.0, 0.0])
        test = _Test(self.test, sequence.alpha)
        return CustomEngine(test, ENGINES[self.engine], settings, known_ends(None, 1))
