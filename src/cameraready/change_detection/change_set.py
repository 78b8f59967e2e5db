"""A confidence set for the place of a single change."""

from typing import Any

import numpy as np
from jaxtyping import Int

from cameraready.change_detection.bounded import EmpiricalBernstein
from cameraready.change_detection.confidence_sequence import ConfidenceSequence, check_level
from cameraready.change_detection.detector import ConfidenceSequenceDetector

__all__ = ["confidence_set"]


def confidence_set(
    array: Any, level: float = 0.95, cs: ConfidenceSequence | None = None
) -> Int[np.ndarray, " places"]:
    """All places where a single change could have been.

    A place k (that many observations before the change) stays unless

    - the sequence forward from 1 and the one backward from k, both over the first k observations,
      become disjoint or empty (a third of 1 - level each), or
    - sequences started at k + 1, k + 2, … contradict each other before the end. The one started
      at k + i has the share 6 / (pi^2 i^2) of the last third, so that together they cover.

    Observations are independent within each segment; the end may be any stopping time, an alarm
    say. P(there was a change before the end, and its place is left out) <= 1 - level.

    Parameters
    ----------
    array : array_like, (n,) or (n, entries)
        Observations. Those after the alarm help much to exclude early places: at the moment of the
        alarm itself the evidence is rarely enough for that.
    level : float
        In (0, 1).
    cs : ConfidenceSequence, optional
        Whose parameter changes; by default `EmpiricalBernstein` on [0, 1].

    Returns
    -------
    ndarray of int
        Places from 1 to n - 1, increasing.

    Raises
    ------
    RangeError, ValueError
        As the sequence's `run`.

    Notes
    -----
    Costs O(n^2) updates of a sequence.

    Examples
    --------
    >>> from cameraready.change_detection import cs
    >>> x = [0.0] * 30 + [3.0] * 30
    >>> kept = confidence_set(x, 0.95, cs.Gaussian(sigma=1.0, tune_at=20))
    >>> int(kept.min()), int(kept.max())
    (27, 32)
    """
    sequence = EmpiricalBernstein() if cs is None else cs
    if not isinstance(sequence, ConfidenceSequence):
        raise TypeError(f"cs must be one of the confidence sequences, not {cs!r}")
    third = (1.0 - check_level("level", level)) / 3.0
    sequence = sequence.with_alpha(third)
    values = sequence.observations(array)
    if len(values) < 2:
        return np.zeros(0, dtype=np.int64)
    if not sequence.ready:
        sequence = sequence.learned(values)
    raw = values[:, 0] if sequence.entries == 1 else values
    forward_low, forward_high = (ends.reshape(len(raw), -1) for ends in sequence.run(raw))
    after = ConfidenceSequenceDetector(sequence, arl=1.0 / third, guarantee="pfa", history=0)
    kept = []
    for k in range(1, len(raw)):
        low, high = (ends.reshape(k, -1)[-1] for ends in sequence.run(raw[:k][::-1]))
        low, high = np.maximum(low, forward_low[k - 1]), np.minimum(high, forward_high[k - 1])
        if (low > high).any() or after.detect(raw[k:], trace=False).alarm:
            continue
        kept.append(k)
    return np.array(kept, dtype=np.int64)
