"""Where the change was: a point, an interval, a confidence set."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cameraready.change_detection.bounded import EmpiricalBernstein
from cameraready.change_detection.confidence_sequence import ConfidenceSequence, check_level

__all__ = ["change_interval", "change_point", "confidence_set"]


def change_point(series: Float[np.ndarray, " n"]) -> int:
    """How many observations of the series precede the change in its mean.

    argmax over k of |mean(first k) - mean(rest)| sqrt(k (n-k) / n), the least-squares estimate of
    a single change.

    Parameters
    ----------
    series : ndarray, (n,)
        At least two observations.

    Raises
    ------
    ValueError
        If there are fewer than two.

    Examples
    --------
    >>> change_point(np.array([0.0, 0.1, 0.0, 1.0, 0.9]))
    3
    """
    n = len(series)
    if n < 2:
        raise ValueError("series must hold at least two observations")
    sums = np.cumsum(series - series.mean())[:-1]
    k = np.arange(1, n)
    # |mean(first k) - mean(rest)| = |S_k| n / (k (n - k)) for a centred series.
    return int(np.argmax(np.abs(sums) * np.sqrt(n / (k * (n - k))))) + 1


def change_interval(
    witness: tuple[tuple[int, int], tuple[int, int]] | None,
) -> tuple[int, int] | None:
    """(least, greatest) number of observations before the change, if the witnesses are disjoint.

    Two disjoint segments that contradict each other enclose the change, provided that each
    sequence covered its own parameter: it came after the end of the earlier one and before the
    start of the later one.

    Examples
    --------
    >>> change_interval(((1, 28), (29, 43)))
    (28, 28)
    """
    if witness is None:
        return None
    (_, end), (start, _) = sorted(witness)
    return (end, start - 1) if 0 < end < start else None


def confidence_set(
    array: Any, level: float = 0.95, cs: ConfidenceSequence | None = None
) -> Int[np.ndarray, " k"]:
    """All places where a single change could have been.

    k stays unless a sequence forward from 1 and one backward from k, both over the first k
    observations, become disjoint, or one forward from k + 1 to the end becomes empty; each has a
    third of 1 - level. Observations are independent within the two segments, and the end may be
    any stopping time (an alarm, say). P(there was a change and it is left out) <= 1 - level.

    Parameters
    ----------
    array : array_like, (n,) or (n, entries)
        Observations up to the alarm.
    level : float
        In (0, 1).
    cs : ConfidenceSequence, optional
        Whose parameter changes; by default `EmpiricalBernstein` on [0, 1].

    Returns
    -------
    ndarray of int
        Numbers k of observations before the change, from 1 to n - 1, increasing.

    Raises
    ------
    RangeError, ValueError
        As the sequence's `run`.

    Notes
    -----
    Costs O(n^2) updates of the sequence.

    Examples
    --------
    >>> from cameraready.change_detection import cs
    >>> kept = confidence_set([0.0] * 30 + [3.0] * 15, 0.95, cs.Gaussian(sigma=1.0, tune_at=20))
    >>> bool(30 in kept), bool(10 in kept), bool(44 in kept)
    (True, True, False)
    """
    sequence = EmpiricalBernstein() if cs is None else cs
    third = (1.0 - check_level("level", level)) / 3.0
    sequence = sequence.with_alpha(third)
    values = sequence.observations(array)
    if not sequence.ready:
        sequence = sequence.learned(values)
    raw = values[:, 0] if sequence.entries == 1 else values
    shape = (len(values), sequence.ends)
    forward_low, forward_high = (ends.reshape(shape) for ends in sequence.run(raw))
    kept = []
    for k in range(1, len(values)):
        low, high = (ends.reshape(k, -1)[-1] for ends in sequence.run(raw[:k][::-1]))
        apart = (forward_low[k - 1] > high) | (low > forward_high[k - 1])
        empty = (low > high) | (forward_low[k - 1] > forward_high[k - 1])
        if (apart | empty).any():
            continue
        low, high = (ends.reshape(len(values) - k, -1)[-1] for ends in sequence.run(raw[k:]))
        if not (low > high).any():
            kept.append(k)
    return np.array(kept, dtype=np.int64)
