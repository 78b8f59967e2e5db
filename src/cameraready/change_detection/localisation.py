"""Where the change was: a point, and an interval from the witnesses."""

import numpy as np
from jaxtyping import Float

__all__ = ["change_interval", "change_point"]


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
