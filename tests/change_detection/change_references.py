"""The specification's formulas once more, in plain numpy and scipy, and brute force.

Nothing here is shared with the code under test. A *raw* function takes observations and a level
and returns the lower and the upper end after each observation, without running intersection.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, gammaln

FRACTIONS = (0.03, 0.06, 0.12, 0.25, 0.5, 0.9)
Ends = tuple[np.ndarray, np.ndarray]
Raw = Callable[[np.ndarray, float], Ends]


def gaussian(x: np.ndarray, alpha: float, sigma: float, rho: float) -> Ends:
    m = np.arange(1, len(x) + 1)
    mean = np.cumsum(x) / m
    half = sigma * np.sqrt((m + rho) * np.log((m + rho) / (rho * alpha**2))) / m
    return mean - half, mean + half


def hoeffding(x: np.ndarray, alpha: float, range: tuple, lams: Sequence[float]) -> Ends:
    m = np.arange(1, len(x) + 1)
    sigma = (range[1] - range[0]) / 2
    share = alpha / len(lams)
    half = np.min(
        [np.log(2 / share) / (lam * m) + lam * sigma**2 / 2 for lam in lams],
        axis=0,
    )
    mean = np.cumsum(x) / m
    return mean - half, mean + half


def predictable_hoeffding(x: np.ndarray, alpha: float, range: tuple) -> Ends:
    low, width = range[0], range[1] - range[0]
    z = (x - low) / width
    t = np.arange(1, len(x) + 1)
    lam = np.sqrt(8 * np.log(2 / alpha) / (t * np.log(1 + t)))
    centre = np.cumsum(lam * z) / np.cumsum(lam)
    half = (np.log(2 / alpha) + np.cumsum(lam**2) / 8) / np.cumsum(lam)
    return low + width * (centre - half), low + width * (centre + half)


def empirical_bernstein(x: np.ndarray, alpha: float, range: tuple) -> Ends:
    low, width = range[0], range[1] - range[0]
    z = (x - low) / width
    n = len(z)
    t = np.arange(1, n + 1)
    mean_after = (0.5 + np.cumsum(z)) / (t + 1)
    mean_before = np.concatenate([[0.5], mean_after[:-1]])
    squares = np.concatenate([[0.0], np.cumsum((z - mean_after) ** 2)[:-1]])
    variance_before = (0.25 + squares) / t
    lam = np.minimum(0.5, np.sqrt(2 * np.log(2 / alpha) / (variance_before * t * np.log(1 + t))))
    deviation = np.cumsum((z - mean_before) ** 2 * (-np.log(1 - lam) - lam))
    centre = np.cumsum(lam * z) / np.cumsum(lam)
    half = (np.log(2 / alpha) + deviation) / np.cumsum(lam)
    return low + width * (centre - half), low + width * (centre + half)


def bernoulli(x: np.ndarray, alpha: float, a: float = 1.0, b: float = 1.0) -> Ends:
    lower, upper = np.empty(len(x)), np.empty(len(x))
    successes = 0.0
    for i, value in enumerate(x):
        m = i + 1
        successes += value
        failures = m - successes
        constant = betaln(a + successes, b + failures) - betaln(a, b) + math.log(alpha)

        def excess(p, s=successes, f=failures, constant=constant):
            return constant - s * math.log(p) - f * math.log1p(-p)

        mode = successes / m
        lower[i] = (
            0.0 if successes == 0 else brentq(excess, 1e-300, min(mode, 1 - 1e-16), xtol=1e-15)
        )
        upper[i] = (
            1.0 if failures == 0 else brentq(excess, max(mode, 1e-300), 1 - 1e-16, xtol=1e-15)
        )
    return lower, upper


def poisson(x: np.ndarray, alpha: float, a: float = 1.0, b: float = 1.0) -> Ends:
    lower, upper = np.empty(len(x)), np.empty(len(x))
    total = 0.0
    for i, value in enumerate(x):
        m = i + 1
        total += value
        constant = gammaln(a + total) + a * math.log(b) - gammaln(a)
        constant += -(a + total) * math.log(b + m) + math.log(alpha)

        def excess(rate, s=total, m=m, constant=constant):
            return constant - s * math.log(rate) + m * rate

        mode = total / m
        lower[i] = 0.0 if total == 0 else brentq(excess, 1e-300, mode, xtol=1e-14)
        reach = mode + 1.0
        while excess(reach) < 0:
            reach *= 2
        upper[i] = brentq(excess, max(mode, 1e-300), reach, xtol=1e-14)
    return lower, upper


def dkw(m: np.ndarray, alpha: float) -> np.ndarray:
    return np.sqrt(np.log(2 * m**2 * np.pi**2 / (6 * alpha)) / (2 * m))


def cdf(x: np.ndarray, alpha: float, grid: np.ndarray) -> Ends:
    m = np.arange(1, len(x) + 1)[:, None]
    share = np.cumsum(x[:, None] <= grid, axis=0) / m
    half = dkw(m, alpha)
    return np.maximum(share - half, 0), np.minimum(share + half, 1)


def quantile(x: np.ndarray, alpha: float, p: float, grid: np.ndarray) -> Ends:
    m = np.arange(1, len(x) + 1)[:, None]
    share = np.cumsum(x[:, None] <= grid, axis=0) / m
    half = dkw(m, alpha)
    lower, upper = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for i in range(len(x)):
        below = grid[share[i] + half[i] < p]
        above = grid[share[i] - half[i] >= p]
        if len(below):
            lower[i] = below.max()
        if len(above):
            upper[i] = above.min()
    return lower, upper


def kolmogorov_smirnov(pairs: np.ndarray, alpha: float, grid: np.ndarray) -> Ends:
    m = np.arange(1, len(pairs) + 1)[:, None]
    first = np.cumsum(pairs[:, :1] <= grid, axis=0) / m
    second = np.cumsum(pairs[:, 1:] <= grid, axis=0) / m
    distance = np.abs(first - second).max(axis=1)
    half = 2 * dkw(m[:, 0], alpha / 2)
    return np.maximum(distance - half, 0), np.minimum(distance + half, 1)


def catoni(x: np.ndarray, alpha: float, variance: float) -> Ends:
    lower, upper = np.empty(len(x)), np.empty(len(x))
    i = np.arange(1, len(x) + 1)
    lam = np.sqrt(2 * np.log(2 / alpha) / (i * variance))

    def influence(z):
        return np.sign(z) * np.log(1 + np.abs(z) + z**2 / 2)

    for m in range(1, len(x) + 1):
        bound = np.log(2 / alpha) + variance * np.sum(lam[:m] ** 2) / 2

        def excess(theta, target, m=m):
            return influence(lam[:m] * (x[:m] - theta)).sum() - target

        reach = 1e6 * math.sqrt(variance)
        ends = x[:m].mean() - reach, x[:m].mean() + reach
        lower[m - 1] = brentq(excess, *ends, args=(bound,), xtol=1e-13)
        upper[m - 1] = brentq(excess, *ends, args=(-bound,), xtol=1e-13)
    return lower, upper


@dataclass
class Ridge:
    centre: np.ndarray
    precision: np.ndarray
    radius: float


def ridge(rows: np.ndarray, alpha: float, sigma: float, bound: float, penalty: float) -> Ridge:
    x, y = rows[:, :-1], rows[:, -1]
    d = x.shape[1]
    precision = penalty * np.eye(d) + x.T @ x
    centre = np.linalg.solve(precision, x.T @ y)
    log_det = np.linalg.slogdet(precision)[1] - d * math.log(penalty)
    radius = sigma * math.sqrt(2 * math.log(1 / alpha) + log_det) + math.sqrt(penalty) * bound
    return Ridge(centre, precision, radius)


def regression(
    rows: np.ndarray,
    alpha: float,
    sigma: float,
    bound: float,
    penalty: float,
    contrasts: np.ndarray,
) -> Ends:
    lower, upper = [], []
    for m in range(1, len(rows) + 1):
        fit = ridge(rows[:m], alpha, sigma, bound, penalty)
        spread = np.einsum("ci,ij,cj->c", contrasts, np.linalg.inv(fit.precision), contrasts)
        lower.append(contrasts @ fit.centre - fit.radius * np.sqrt(spread))
        upper.append(contrasts @ fit.centre + fit.radius * np.sqrt(spread))
    return np.array(lower), np.array(upper)


def nested(ends: Ends) -> Ends:
    return np.maximum.accumulate(ends[0], axis=0), np.minimum.accumulate(ends[1], axis=0)


def factors(x: np.ndarray, cells: np.ndarray, fractions: Sequence[float]) -> np.ndarray:
    """Factors of the bets, (n, 2 fractions, cells): first those on a higher mean."""
    low, high = cells[:, 0], cells[:, 1]
    c = np.asarray(fractions)[:, None]
    x = np.asarray(x, dtype=float)[:, None, None]
    return np.concatenate([1 + c / high * (x - high), 1 - c / (1 - low) * (x - low)], axis=1)


def even_cells(count: int) -> np.ndarray:
    edges = np.arange(count + 1) / count
    return np.stack([edges[:-1], edges[1:]], axis=1)


def repeated_betting_alarm(x, alpha, cells, fractions=FRACTIONS) -> int | None:
    """All starts, all cells: the alarm of the repeated betting confidence sequence."""
    bets = factors(x, cells, fractions)
    standing = np.ones(len(cells), dtype=bool)
    wealth = np.ones((0, *bets.shape[1:]))
    for t in range(len(x)):
        wealth = np.concatenate([wealth, np.ones((1, *bets.shape[1:]))]) * bets[t]
        standing &= ~(wealth.mean(axis=1) >= 1 / alpha).any(axis=0)
        if not standing.any():
            return t + 1
    return None


def composite_alarm(x, alpha, cells, kind, fractions=FRACTIONS) -> int | None:
    bets = factors(x, cells, fractions)
    standing = np.ones(len(cells), dtype=bool)
    wealth = np.zeros(bets.shape[1:])
    for t in range(len(x)):
        wealth = (1 + wealth if kind == "sr" else np.maximum(1, wealth)) * bets[t]
        standing &= wealth.mean(axis=0) < 1 / alpha
        if not standing.any():
            return t + 1
    return None


@dataclass
class Brute:
    """What a repeated detector must give: alarm, ends and witnesses at the alarm or the end."""

    alarm: int | None
    lower: float
    upper: float
    witness: tuple[tuple[int, int], tuple[int, int]]
    trace: np.ndarray


def geometric_starts(n: int, growth: float) -> list[list[int]]:
    """The starts in use at the times 1 … n, before pruning, by the rule of the specification."""
    used, starts = [], []
    for now in range(1, n + 1):
        starts = [*starts, now]
        used.append(starts)
        kept = [starts[0]]
        for i in range(1, len(starts) - 1):
            older, newer = now - kept[-1] + 1, now - starts[i + 1] + 1
            if not older <= growth * newer + 2:
                kept.append(starts[i])
        starts = kept if len(starts) == 1 else [*kept, starts[-1]]
    return used


def window_starts(n: int, window: int) -> list[list[int]]:
    """The starts in use at the times 1 … n: the first, the latest `window`, the new one."""
    return [sorted({1, *range(max(1, t - window), t + 1)}) for t in range(1, n + 1)]


def repeated(
    raw: Raw,
    x: np.ndarray,
    alpha: float,
    used: list[list[int]] | None = None,
    known: tuple[float, float] = (-math.inf, math.inf),
    pfa: bool = False,
    direction: str = "both",
) -> Brute:
    """The repeated detector by its definition: a sequence from every start, O(n^2).

    With a direction it stops at the first contradiction the other way (alarm None).
    """
    n = len(x)
    lows, highs = np.full((n, n), -np.inf), np.full((n, n), np.inf)
    for s in range(n):
        level = alpha * 6 / (math.pi**2 * (s + 1) ** 2) if pfa else alpha
        lows[s, s:], highs[s, s:] = raw(x[s:], level)
    lower, upper = known
    lower_witness = upper_witness = (0, 0)
    trace = np.empty((n, 2))
    for t in range(n):
        starts = np.arange(t + 1) if used is None else np.array(used[t]) - 1
        best = starts[np.argmax(lows[starts, t])]
        if lows[best, t] > lower:
            lower, lower_witness = float(lows[best, t]), (int(best) + 1, t + 1)
        best = starts[np.argmin(highs[starts, t])]
        if highs[best, t] < upper:
            upper, upper_witness = float(highs[best, t]), (int(best) + 1, t + 1)
        trace[t] = lower, upper
        if lower > upper:
            wanted = {"both": True, "up": lower_witness > upper_witness}
            wanted["down"] = not wanted["up"]
            alarm = t + 1 if wanted[direction] else None
            return Brute(alarm, lower, upper, (lower_witness, upper_witness), trace[: t + 1])
    return Brute(None, lower, upper, (lower_witness, upper_witness), trace)


def misses(sequence: Any, streams: np.ndarray, parameter: Any) -> int:
    """In how many streams the running intersection has left the parameter out at some time.

    That is coverage under the most adversarial stopping: stop at the first miss.
    """
    count = 0
    for stream in streams:
        lower, upper = sequence.run(stream)
        count += not (np.all(lower[-1] <= parameter) and np.all(parameter <= upper[-1]))
    return count


def most_misses(streams: int, alpha: float) -> float:
    """What a binomial count of misses stays below except with probability 1e-4 or so."""
    return streams * alpha + 3.7 * math.sqrt(streams * alpha * (1 - alpha))
