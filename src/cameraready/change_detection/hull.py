"""All starts of a linear boundary at once, by convex hulls.

With Hoeffding's linear boundary the lower end of the sequence started after m observations is

    (S_n - S_m - c) / (n - m) - lambda sigma^2 / 2,    c = log(2K/alpha) / lambda,

so the best of all starts is the steepest line from a point (m, S_m + c) to (n, S_n). It touches
the lower convex hull of the points, whatever lambda is, since c only shifts them; the upper end
mirrors this. A hull is kept like Andrew's monotone chain, a tangent found by bisection: O(log n)
a step with random data, with nothing left out.
"""

import math
from typing import ClassVar

import numpy as np
from typing_extensions import override

from cameraready.change_detection.compiled import compiled
from cameraready.change_detection.engine import (
    ALARM,
    BEGUN,
    COORDINATE,
    FIRST_CAPACITY,
    RESTARTS,
    TIME,
    Engine,
    Witness,
)
from cameraready.change_detection.kernels import LOG_2
from cameraready.change_detection.repeated import upward

__all__ = ["HullEngine"]

LOWER_SIZE, UPPER_SIZE = 6, 7  # counters of this engine, after those of the others


@compiled
def push(times, sums, size, time, total, sign):
    """Add a point on the right of a hull (sign 1: lower, -1: upper); the hull's new size."""
    while size >= 2:
        x1, y1 = times[size - 2], sums[size - 2]
        x2, y2 = times[size - 1], sums[size - 1]
        turn = (x2 - x1) * (total - y1) - (y2 - y1) * (time - x1)
        if sign * turn > 0.0:
            break
        size -= 1
    times[size] = time
    sums[size] = total
    return size + 1


@compiled
def tangent(times, sums, size, now, total, offset, sign):
    """The point of the hull with the steepest line to (now, total - sign offset)."""
    first, last = 0, size - 1
    while first < last:
        middle = (first + last) // 2
        left = (total - sums[middle] - sign * offset) / (now - times[middle])
        right = (total - sums[middle + 1] - sign * offset) / (now - times[middle + 1])
        if sign * (right - left) > 0.0:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def begin_hull(counters, ends, witness, known, times, sums, running):
    """Forget all starts but the one that begins with the next observation."""
    counters[BEGUN] = counters[TIME]
    counters[LOWER_SIZE], counters[UPPER_SIZE] = 1, 1
    times[:, 0] = counters[TIME]
    sums[:, 0] = 0.0
    running[:] = 0.0
    ends[:] = known
    witness[:] = 0


@compiled
def advance_hull(
    xs,
    params,
    log_inverse_alpha,
    direction,
    counters,
    ends,
    witness,
    known,
    times,
    sums,
    running,
    trace,
):
    """Take observations in until an alarm; how many were taken.

    Parameters
    ----------
    xs : float64 array, (observations,)
    params : float64 array
        Of `kernels.hoeffding`: centre, sigma, lambda_1 …
    ends, witness, known, trace
        As for `repeated.advance`.
    times, sums : float64 array, (2, capacity)
        Points (m, S_m) of the lower and of the upper hull.
    running : float64 array, (2,)
        Sum of the observations less the centre, and its compensation.
    """
    centre, sigma = params[0], params[1]
    count = params.shape[0] - 2
    log_term = LOG_2 + log_inverse_alpha + math.log(count)
    for i in range(xs.shape[0]):
        counters[TIME] += 1
        now = float(counters[TIME])
        corrected = xs[i] - centre - running[1]
        total = running[0] + corrected
        running[1] = (total - running[0]) - corrected
        running[0] = total
        for k in range(count):
            slope = params[2 + k]
            offset = log_term / slope
            drift = slope * sigma * sigma / 2.0
            p = tangent(times[0], sums[0], counters[LOWER_SIZE], now, total, offset, 1.0)
            low = centre + (total - sums[0, p] - offset) / (now - times[0, p]) - drift
            if low > ends[0, 0]:
                ends[0, 0] = low
                witness[0, 0] = int(times[0, p]) + 1
                witness[1, 0] = counters[TIME]
            p = tangent(times[1], sums[1], counters[UPPER_SIZE], now, total, offset, -1.0)
            high = centre + (total - sums[1, p] + offset) / (now - times[1, p]) + drift
            if high < ends[1, 0]:
                ends[1, 0] = high
                witness[2, 0] = int(times[1, p]) + 1
                witness[3, 0] = counters[TIME]
        contradiction = ends[0, 0] > ends[1, 0]
        alarm = contradiction and (direction == 0.0 or (direction > 0.0) == upward(witness, 0))
        if contradiction and not alarm:
            counters[RESTARTS] += 1
            begin_hull(counters, ends, witness, known, times, sums, running)
        elif not alarm:
            counters[LOWER_SIZE] = push(times[0], sums[0], counters[LOWER_SIZE], now, total, 1.0)
            counters[UPPER_SIZE] = push(times[1], sums[1], counters[UPPER_SIZE], now, total, -1.0)
        if trace.shape[0] > 0:
            trace[i] = ends
        if alarm:
            counters[ALARM] = counters[TIME]
            counters[COORDINATE] = 0
            return i + 1
    return xs.shape[0]


class HullEngine(Engine):
    """All starts of linear boundaries, through the hulls of the partial sums.

    Parameters
    ----------
    parameters : float64 array
        Of `kernels.hoeffding`: centre, sigma, lambda_1 …
    alpha : float
    direction : float
        0 both, 1 up, -1 down.
    known : float64 array, (2, 1)
        Ends known beforehand.
    """

    saved = ("counters", "extremes", "witnesses", "times", "sums", "running")
    growing: ClassVar[dict[str, int]] = {"times": 1, "sums": 1}

    def __init__(
        self, parameters: np.ndarray, alpha: float, direction: float, known: np.ndarray
    ) -> None:
        self.parameters, self.log_inverse_alpha = parameters, -math.log(alpha)
        self.direction, self.known = direction, known
        self.counters = np.zeros(8, np.int64)
        self.extremes = known.copy()
        self.witnesses = np.zeros((4, 1), np.int64)
        self.times = np.zeros((2, FIRST_CAPACITY))
        self.sums = np.zeros((2, FIRST_CAPACITY))
        self.running = np.zeros(2)
        begin_hull(
            self.counters,
            self.extremes,
            self.witnesses,
            known,
            self.times,
            self.sums,
            self.running,
        )

    @override
    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        taken = 0
        while taken < len(observations) and not self.alarmed:
            size = int(max(self.counters[LOWER_SIZE], self.counters[UPPER_SIZE]))
            if size + FIRST_CAPACITY // 2 > self.times.shape[1]:
                room = ((0, 0), (0, self.times.shape[1]))
                self.times, self.sums = np.pad(self.times, room), np.pad(self.sums, room)
            # A hull grows by one point an observation at the most.
            part = observations[taken : taken + self.times.shape[1] - size]
            taken += advance_hull(
                part[:, 0],
                self.parameters,
                self.log_inverse_alpha,
                self.direction,
                self.counters,
                self.extremes,
                self.witnesses,
                self.known,
                self.times,
                self.sums,
                self.running,
                trace[taken : taken + len(part)],
            )
        return taken

    @override
    def consistent(self) -> bool:
        sizes, room = self.counters[[LOWER_SIZE, UPPER_SIZE]], self.times.shape[1]
        fits = self.times.shape == self.sums.shape and bool(((sizes >= 1) & (sizes <= room)).all())
        return super().consistent() and fits and self.coordinate == 0

    @property
    @override
    def ends(self) -> np.ndarray:
        return self.extremes

    @property
    def active(self) -> int:
        """Points on the two hulls."""
        return int(self.counters[LOWER_SIZE] + self.counters[UPPER_SIZE])

    @property
    @override
    def witness(self) -> Witness | None:
        a, b, c, d = self.witnesses[:, 0].tolist()
        return (a, b), (c, d)
