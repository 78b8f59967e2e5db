"""How often a detector errs and how fast it is, by simulation."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cameraready.change_detection.base import SequentialDetector
from cameraready.common.checks import check_positive

__all__ = ["DelayEstimate", "RunLengths", "restricted_mean", "simulate_arl", "simulate_delay"]

Sampler = Callable[[np.random.Generator, int], np.ndarray]
ChangeSampler = Callable[[np.random.Generator, int, int], np.ndarray]


@dataclass(frozen=True)
class RunLengths:
    """Observations to the alarm on streams that do not change.

    Attributes
    ----------
    mean : float
        Mean of min(run length, horizon): never more than the mean run length.
    standard_error : float
    lower : float
        95 % lower confidence bound of it that assumes nothing; see `restricted_mean`.
    run_lengths : ndarray of int
        min(run length, horizon) of each stream.
    alarmed : ndarray of bool
        Whether the stream alarmed within the horizon.
    horizon : int
    """

    mean: float
    standard_error: float
    lower: float
    run_lengths: np.ndarray = field(repr=False)
    alarmed: np.ndarray = field(repr=False)
    horizon: int = 0

    def survival(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps of the Kaplan-Meier curve: times, share of streams without alarm after them."""
        times = np.unique(self.run_lengths[self.alarmed])
        left = np.array([(self.run_lengths > t).mean() for t in times])
        return np.concatenate([[0], times]), np.concatenate([[1.0], left])


@dataclass(frozen=True)
class DelayEstimate:
    """Observations from the change to the alarm.

    Attributes
    ----------
    mean, standard_error : float
        Of the delays of streams without an earlier alarm; a stream that has not alarmed by the end
        counts with all its observations after the change, so that the mean is a lower bound if
        `missed` is above 0.
    missed : float
        Share of those streams that did not alarm.
    false_alarms : float
        Share of all streams that alarmed before the change.
    delays : ndarray
        One a stream; NaN where the alarm came before the change.
    """

    mean: float
    standard_error: float
    missed: float
    false_alarms: float
    delays: np.ndarray = field(repr=False)


def restricted_mean(run_lengths: np.ndarray, horizon: int, level: float = 0.95) -> float:
    """A lower confidence bound of E[min(T, horizon)] from the survival curve.

    The Kaplan-Meier curve (every stream is watched to the same horizon), lowered by the one-sided
    Dvoretzky-Kiefer-Wolfowitz margin sqrt(log(1/(1 - level)) / (2 n)) and integrated; valid for
    every n and every distribution (Massart, Annals of Probability 1990, for level >= 1/2).

    Examples
    --------
    >>> restricted_mean(np.full(1000, 50), horizon=100) < 50
    True
    """
    ordered = np.sort(np.minimum(run_lengths, horizon))
    n = len(ordered)
    margin = math.sqrt(-math.log(1.0 - level) / (2.0 * n))
    # Between the i-th and the next ordered length a share 1 - i/n has not alarmed.
    steps = np.diff(np.concatenate([[0], ordered]))
    return float(np.sum(steps * np.maximum(1.0 - np.arange(n) / n - margin, 0.0)))


def simulate_arl(
    detector: SequentialDetector,
    sampler: Sampler,
    n_rep: int = 200,
    horizon: int = 2000,
    seed: int | np.random.Generator | None = None,
) -> RunLengths:
    """Run lengths on streams that do not change.

    Parameters
    ----------
    detector : SequentialDetector
        Is reset for every stream.
    sampler : callable
        ``sampler(generator, n)`` draws a stream of n observations.
    n_rep, horizon : int
        Streams, and observations of each.
    seed : int, Generator or None

    Examples
    --------
    >>> from cameraready.change_detection import CompositeEDetector
    >>> found = simulate_arl(
    ...     CompositeEDetector(arl=20), lambda rng, n: rng.random(n), n_rep=400, seed=0
    ... )
    >>> found.lower >= 20
    True
    """
    n_rep, horizon = int(check_positive("n_rep", n_rep)), int(check_positive("horizon", horizon))
    generator = np.random.default_rng(seed)
    lengths = np.full(n_rep, horizon)
    alarmed = np.zeros(n_rep, dtype=bool)
    for i in range(n_rep):
        result = detector.detect(sampler(generator, horizon), trace=False)
        if result.index is not None:
            lengths[i], alarmed[i] = result.index, True
    return RunLengths(
        float(lengths.mean()),
        float(lengths.std(ddof=1) / math.sqrt(n_rep)) if n_rep > 1 else math.nan,
        restricted_mean(lengths, horizon),
        lengths,
        alarmed,
        horizon,
    )


def simulate_delay(
    detector: SequentialDetector,
    sampler: ChangeSampler,
    change: int = 400,
    n_rep: int = 100,
    horizon: int = 1500,
    seed: int | np.random.Generator | None = None,
) -> DelayEstimate:
    """Delays on streams that change once.

    Parameters
    ----------
    detector : SequentialDetector
        Is reset for every stream.
    sampler : callable
        ``sampler(generator, n_before, n_after)`` draws a stream.
    change, horizon : int
        Observations before and after the change.
    n_rep : int
        Streams.
    seed : int, Generator or None
    """
    n_rep, horizon = int(check_positive("n_rep", n_rep)), int(check_positive("horizon", horizon))
    change = int(check_positive("change", change))
    generator = np.random.default_rng(seed)
    alarms: list[Any] = [
        detector.detect(sampler(generator, change, horizon), trace=False).index
        for _ in range(n_rep)
    ]
    return summarise_delays(alarms, change, horizon)


def summarise_delays(alarms: list[int | None], change: int, horizon: int) -> DelayEstimate:
    """Delays from the first alarm of each stream (None: it stayed silent)."""
    delays = np.array([horizon if a is None else a - change for a in alarms], dtype=float)
    missed = np.array([a is None for a in alarms])
    early = delays <= 0
    delays[early] = np.nan
    kept = delays[~early]
    return DelayEstimate(
        float(kept.mean()) if len(kept) else math.nan,
        float(kept.std(ddof=1) / math.sqrt(len(kept))) if len(kept) > 1 else math.nan,
        float(missed[~early].mean()) if len(kept) else math.nan,
        float(early.mean()),
        delays,
    )
