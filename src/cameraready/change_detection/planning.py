"""What to expect before a stream is watched: delays, and how much must come before a change."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cameraready.change_detection.bounded import Bounded, EmpiricalBernstein, Hoeffding
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.change_detection.counts import Bernoulli
from cameraready.change_detection.gaussian import Gaussian
from cameraready.common.checks import check_greater, check_positive

__all__ = ["Plan", "delay_bound", "detectable_shift", "diameters", "plan"]

LONGEST = 100_000  # observations that are considered unless said otherwise


@dataclass(frozen=True)
class Plan:
    """What a repeated confidence sequence detector can do about one shift.

    Attributes
    ----------
    arl, shift : float
    minimum_before : int or None
        Observations that must come before the change for it to be detectable at all (None: more
        than were considered).
    before : int
        Observations before the change that `delay_bound` supposes.
    delay_bound : float
        Bound on the mean delay, (growth u + 2) / (1 - 1/arl), where the sequence started first has
        covered the parameter up to the change: u is the least n with
        diameter(n) + diameter(before) < shift. Infinite if there is none. With all starts kept,
        u itself takes the place of growth u + 2.
    delay_bound_known : float
        The same if the parameter before the change is known (``theta0=``).
    exact : bool
        Whether lengths do not depend on the data; otherwise the bounds are estimates.
    """

    arl: float
    shift: float
    minimum_before: int | None
    before: int
    delay_bound: float
    delay_bound_known: float
    exact: bool


def diameters(
    cs: ConfidenceSequence, n: int, standard_deviation: float | None = None
) -> np.ndarray:
    """Lengths of the interval after 1, …, n observations.

    Where the length depends on the data it is that of a stream that alternates between
    mean ± standard_deviation, by default the largest spread that the range admits. Other streams
    of the same spread have longer and shorter intervals: these lengths are estimates.

    Parameters
    ----------
    cs : ConfidenceSequence
        For one number: `Gaussian`, `Bernoulli` or a sequence for bounded means.
    n : int
    standard_deviation : float, optional
        Of bounded observations, in their unit.

    Raises
    ------
    ValueError
        For other sequences, or a spread that the range does not admit.
    """
    if isinstance(cs, Gaussian):
        stream = np.zeros(n)
    elif isinstance(cs, (Bounded, Bernoulli)):
        low, high = cs.bounds
        reach = (high - low) / 2.0
        spread = reach
        if standard_deviation is not None:
            spread = check_positive("standard_deviation", standard_deviation)
        if spread > reach or (isinstance(cs, Bernoulli) and spread < reach):
            raise ValueError(
                f"standard_deviation must fit the range: at most {reach:g}, and for Bernoulli "
                "observations it follows from the mean"
            )
        stream = (low + high) / 2.0 + spread * np.where(np.arange(n) % 2, 1.0, -1.0)
    else:
        raise ValueError(f"planning knows no lengths for {type(cs).__name__}")
    lower, upper = cs.run(stream)
    return upper - lower


def detectable_shift(
    cs: ConfidenceSequence, before: int, standard_deviation: float | None = None
) -> float:
    """The largest shift that may pass unseen after `before` observations without a change.

    Parameters are those of `diameters`; the level is the sequence's alpha.

    Examples
    --------
    >>> from cameraready.change_detection import cs
    >>> round(detectable_shift(cs.Gaussian(sigma=1.0, alpha=1e-4), before=400), 2)
    0.48
    """
    return float(diameters(cs, before, standard_deviation)[-1])


def plan(
    arl: float,
    shift: float,
    cs: ConfidenceSequence | None = None,
    *,
    before: int | None = None,
    standard_deviation: float | None = None,
    growth: float = 1.2,
    longest: int = LONGEST,
) -> Plan:
    """The delay to expect for a shift, and how many observations must come before it.

    Parameters
    ----------
    arl : float
        At most one false alarm per `arl` observations on average; > 1.
    shift : float
        Distance of the parameter after the change from the one before, in its unit.
    cs : ConfidenceSequence, optional
        By default `EmpiricalBernstein` on [0, 1].
    before : int, optional
        Observations before the change; by default ten times the least number.
    standard_deviation : float, optional
        See `diameters`.
    growth : float
        Of the detector's geometric engine; 1 for all starts.
    longest : int
        How many observations are considered.

    Examples
    --------
    >>> from cameraready.change_detection import cs
    >>> found = plan(1000, 1.0, cs.Gaussian(sigma=1.0))
    >>> found.minimum_before < found.before and found.delay_bound > found.delay_bound_known
    True
    """
    check_greater("arl", arl, 1)
    check_positive("shift", shift)
    if not growth >= 1:
        raise ValueError(f"growth must be at least 1, not {growth!r}")
    sequence = EmpiricalBernstein() if cs is None else cs
    lengths = diameters(sequence.with_alpha(1.0 / arl), longest, standard_deviation)
    minimum = _first_below(lengths, shift)
    if before is None:
        before = longest if minimum is None else min(10 * minimum, longest)
    elif isinstance(before, bool) or not isinstance(before, int) or not 0 < before <= longest:
        raise ValueError(f"before must be a whole number from 1 to {longest}, not {before!r}")
    after = _first_below(lengths, shift - lengths[before - 1])
    return Plan(
        float(arl),
        float(shift),
        minimum,
        before,
        delay_bound(after, arl, growth),
        delay_bound(minimum, arl, growth),
        isinstance(sequence, Gaussian) or (isinstance(sequence, Hoeffding) and bool(sequence.lam)),
    )


def delay_bound(block: int | None, arl: float, growth: float) -> float:
    """Bound on the mean delay, from the length u of a block that settles the matter.

    Blocks of fresh observations after the change succeed with probability 1 - 1/arl each. Of the
    starts after the change the geometric engine keeps one at least u old as soon as growth u + 2
    observations have passed: neighbours' ages a < b satisfy b <= growth a + 2.
    """
    if block is None:
        return math.inf
    return (growth * block + (2.0 if growth > 1 else 0.0)) / (1.0 - 1.0 / arl)


def _first_below(lengths: np.ndarray, bound: Any) -> int | None:
    below = np.flatnonzero(lengths < bound)
    return int(below[0]) + 1 if len(below) else None
