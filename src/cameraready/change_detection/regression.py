"""Coefficients of a linear regression: self-normalised ellipsoids.

Started at some time, V = ridge I + sum x x', theta = V^-1 sum x y, and

    {t : (t - theta)' V (t - theta) <= r^2},
    r = sigma sqrt(2 log(1/alpha) + log(det V / ridge^d)) + sqrt(ridge) bound,

is a confidence sequence (Abbasi-Yadkori, Pal, Szepesvari, NeurIPS 2011, Theorem 2). The
intersection of ellipsoids is checked in pairs, which can only make an alarm later: two ellipsoids
with shapes P = r^2 V^-1 and centres apart by d are disjoint if and only if

    s (1 - s) d' ((1 - s) P_1 + s P_2)^-1 d > 1   for some s in (0, 1).

The pairs are: every sequence that is kept, as it is now, against the oldest one as it was at
earlier times that lie before the other's start (the times thinned geometrically).
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.compiled import compiled
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.change_detection.engine import (
    ACTIVE,
    ALARM,
    COORDINATE,
    COUNTERS,
    FIRST_CAPACITY,
    RESTARTS,
    TIME,
    grown,
    grown_order,
    slots_fit,
)
from cameraready.change_detection.repeated import (
    RepeatedEngine,
    advance_one,
    prune_geometric,
    slots_needed,
)
from cameraready.common.checks import check_positive

__all__ = ["EllipsoidEngine", "LinearRegression", "ellipsoids_disjoint"]

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@compiled
def separation(s, gap, shape_1, shape_2, work):
    """S (1 - s) d' ((1 - s) P_1 + s P_2)^-1 d, by a Cholesky factor."""
    dimension = gap.shape[0]
    total = 0.0
    for i in range(dimension):
        for j in range(i + 1):
            value = (1.0 - s) * shape_1[i * dimension + j] + s * shape_2[i * dimension + j]
            for k in range(j):
                value -= work[i, k] * work[j, k]
            work[i, j] = math.sqrt(max(value, 1e-300)) if i == j else value / work[j, j]
        solved = gap[i]
        for k in range(i):
            solved -= work[i, k] * work[k, dimension]
        work[i, dimension] = solved / work[i, i]
        total += work[i, dimension] ** 2
    return s * (1.0 - s) * total


@compiled
def ellipsoids_disjoint(gap, shape_1, shape_2, work):
    """True if the two ellipsoids have no point in common.

    Parameters
    ----------
    gap : float64 array, (d,)
        Difference of the centres.
    shape_1, shape_2 : float64 array, (d * d,)
        P in {t : (t - centre)' P^-1 (t - centre) <= 1}.
    work : float64 array, (d, d + 1)
    """
    left, right = 0.0, 1.0
    a, b = 1.0 - GOLDEN, GOLDEN
    at_a = separation(a, gap, shape_1, shape_2, work)
    at_b = separation(b, gap, shape_1, shape_2, work)
    for _ in range(40):
        if at_a > 1.0 or at_b > 1.0:
            return True
        if at_a < at_b:
            left, a, at_a = a, b, at_b
            b = left + GOLDEN * (right - left)
            at_b = separation(b, gap, shape_1, shape_2, work)
        else:
            right, b, at_b = b, a, at_a
            a = right - GOLDEN * (right - left)
            at_a = separation(a, gap, shape_1, shape_2, work)
    return False


@compiled
def outside(point, centre, state, precision, radius):
    """True if the point lies outside the ellipsoid whose V begins at `precision`."""
    dimension = point.shape[0]
    total = 0.0
    for i in range(dimension):
        for j in range(dimension):
            total += (
                (point[i] - centre[i])
                * state[precision + i * dimension + j]
                * (point[j] - centre[j])
            )
    return total > radius * radius


@compiled
def advance_ellipsoids(
    engine,
    xs,
    params,
    template,
    settings,
    order,
    starts,
    state,
    counters,
    ends,
    witness,
    known,
    trace,
    snapshots,
    times,
    snapshot_order,
    snapshot_counters,
):
    """As `repeated.advance` with the coordinates as contrasts, and ellipsoids met in pairs.

    `snapshots`, (capacity, 1 + d + d * d): start, centre and shape of the oldest sequence at
    `times`; `snapshot_order` and `snapshot_counters` as `order` and `counters`.
    """
    dimension, width = ends.shape[1], template.shape[0]
    centre, gap, shape = np.empty(dimension), np.empty(dimension), np.empty(dimension * dimension)
    work = np.empty((dimension, dimension + 1))
    for n in range(xs.shape[0]):
        restarts = counters[RESTARTS]
        alarm = advance_one(
            kernels.REGRESSION,
            engine,
            xs[n],
            params,
            template,
            settings,
            order,
            starts,
            state,
            counters,
            ends,
            witness,
            known,
        )
        now = counters[TIME]
        snapshot_counters[TIME] = now
        if counters[RESTARTS] > restarts:
            snapshot_counters[ACTIVE] = 0
        if not alarm:
            for i in range(counters[ACTIVE]):
                at = order[i] * width
                inverse = at + 3 + dimension
                precision = inverse + dimension * dimension
                radius = kernels.ridge_radius(state, at, params[0], params[1], params[2])
                for a in range(dimension):
                    centre[a] = 0.0
                    for b in range(dimension):
                        entry = a * dimension + b
                        centre[a] += state[inverse + entry] * state[at + 3 + b]
                        shape[entry] = radius * radius * state[inverse + entry]
                for k in range(snapshot_counters[ACTIVE]):
                    slot = snapshot_order[k]
                    if times[slot] >= starts[order[i]]:
                        break
                    earlier = snapshots[slot, 1 : 1 + dimension]
                    if not outside(earlier, centre, state, precision, radius):
                        continue
                    for a in range(dimension):
                        gap[a] = earlier[a] - centre[a]
                    if ellipsoids_disjoint(gap, snapshots[slot, 1 + dimension :], shape, work):
                        counters[ALARM] = now
                        counters[COORDINATE] = np.argmax(np.abs(gap))
                        witness[0], witness[1] = int(snapshots[slot, 0]), times[slot]
                        witness[2], witness[3] = starts[order[i]], now
                        alarm = True
                        break
                if i == 0 and not alarm:
                    slot = snapshot_order[snapshot_counters[ACTIVE]]
                    snapshot_counters[ACTIVE] += 1
                    times[slot] = now
                    snapshots[slot, 0] = starts[order[0]]
                    snapshots[slot, 1 : 1 + dimension] = centre
                    snapshots[slot, 1 + dimension :] = shape
                if alarm:
                    break
            if engine != 0 and not alarm:
                prune_geometric(snapshot_order, times, snapshot_counters, settings[0])
        if trace.shape[0] > 0:
            trace[n] = ends
        if alarm:
            return n + 1
    return xs.shape[0]


class LinearRegression(ConfidenceSequence):
    """Coefficients of y = x'theta + noise, from rows (x_1, …, x_d, y).

    The regressors may depend on the past; the noise is conditionally sub-Gaussian.

    Parameters
    ----------
    sigma : float
        Sub-Gaussian scale of the noise, in y's unit.
    bound : float
        Bound on the length of theta.
    dimension : int
        How many regressors (add a column of ones for an intercept).
    ridge : float
        The ridge parameter lambda.
    contrasts : array_like, (c, d), optional
        Combinations a'theta to watch as intervals. By default the whole ellipsoids are compared.
    alpha : float
        One minus the level.

    Examples
    --------
    >>> sequence = LinearRegression(sigma=0.1, bound=2.0, dimension=1)
    >>> lower, upper = sequence.run([(1.0, 0.5), (2.0, 1.0)] * 100)
    >>> bool(lower[-1, 0] < 0.5 < upper[-1, 0])
    True
    """

    kind = kernels.REGRESSION

    def __init__(
        self,
        sigma: float,
        bound: float,
        dimension: int = 1,
        ridge: float = 1.0,
        contrasts: Sequence[Sequence[float]] | None = None,
        alpha: float = 0.05,
    ) -> None:
        self.sigma = check_positive("sigma", sigma)
        self.bound = check_positive("bound", bound)
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise ValueError(f"dimension must be a whole number from 1 on, not {dimension!r}")
        self.dimension = dimension
        self.ridge = check_positive("ridge", ridge)
        self.contrasts = None if contrasts is None else np.asarray(contrasts, dtype=float)
        if self.contrasts is not None and (
            self.contrasts.ndim != 2
            or len(self.contrasts) == 0
            or self.contrasts.shape[1] != dimension
            or not np.isfinite(self.contrasts).all()
        ):
            raise ValueError(
                f"contrasts must be finite numbers of shape (contrasts, {dimension}), at least one"
            )
        self.entries = dimension + 1
        super().__init__(alpha)

    @property
    def _contrasts(self) -> np.ndarray:
        return np.eye(self.dimension) if self.contrasts is None else self.contrasts

    @property
    @override
    def ends(self) -> int:
        return len(self._contrasts)

    @override
    def parameters(self) -> np.ndarray:
        first = [self.sigma, self.bound, self.ridge, float(self.dimension)]
        return np.concatenate([first, self._contrasts.ravel()])

    @override
    def template(self) -> np.ndarray:
        d = self.dimension
        row = self._row(1 + d + 2 * d * d)
        row[3 + d : 3 + d + d * d] = np.eye(d).ravel() / self.ridge
        row[3 + d + d * d :] = np.eye(d).ravel() * self.ridge
        return row

    def series(self, observations: np.ndarray, coordinate: int) -> np.ndarray:
        """Residuals of one common fit times the regressor's combination that moved."""
        x, y = observations[:, :-1], observations[:, -1]
        common = np.linalg.lstsq(x, y, rcond=None)[0]
        direction = np.linalg.lstsq(x.T @ x, self._contrasts[coordinate], rcond=None)[0]
        return (y - x @ common) * (x @ direction)

    @override
    def estimate(self, observations: np.ndarray) -> np.ndarray:
        x, y = observations[:, :-1], observations[:, -1]
        return self._contrasts @ np.linalg.lstsq(x, y, rcond=None)[0]

    def run(self, array, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As for every sequence, with ends of shape (n, contrasts)."""
        return self._advance(self._checked(array, 0), self.template(), nested)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """The running intersection: two arrays with an entry a contrast."""
        return self._lower.copy(), self._upper.copy()


class EllipsoidEngine(RepeatedEngine):
    """Repeated ellipsoids met in pairs, beside the intervals of the coordinates.

    Parameters are those of `RepeatedEngine`.
    """

    saved = (*RepeatedEngine.saved, "snapshots", "times", "snapshot_order", "snapshot_counters")
    growing: ClassVar[dict[str, int]] = {
        **RepeatedEngine.growing,
        "snapshots": 0,
        "times": 0,
        "snapshot_order": 0,
    }

    def __init__(self, *args) -> None:
        super().__init__(*args)
        dimension = self.known.shape[1]
        self.snapshots = np.zeros((FIRST_CAPACITY, 1 + dimension + dimension * dimension))
        self.times = np.zeros(FIRST_CAPACITY, np.int64)
        self.snapshot_order = np.arange(FIRST_CAPACITY)
        self.snapshot_counters = np.zeros(COUNTERS, np.int64)

    @override
    def consistent(self) -> bool:
        kept = int(self.snapshot_counters[ACTIVE])
        fits = slots_fit(self.snapshot_order, self.times, kept)
        return super().consistent() and fits and len(self.snapshots) == len(self.times)

    @override
    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        self._reserve(len(observations))
        kept = int(self.snapshot_counters[ACTIVE])
        thinned = min(self.engine, 1)
        needed = slots_needed(thinned, self.settings, kept, self.time, len(observations))
        if needed > len(self.times):
            size = max(needed, 2 * len(self.times))
            self.snapshots = grown(self.snapshots, size)
            self.times = grown(self.times, size)
            self.snapshot_order = grown_order(self.snapshot_order, size)
        return advance_ellipsoids(
            self.engine,
            observations,
            self.parameters,
            self.template,
            self.settings,
            self.order,
            self.starts,
            self.rows,
            self.counters,
            self.extremes,
            self.witnesses,
            self.known,
            trace,
            self.snapshots,
            self.times,
            self.snapshot_order,
            self.snapshot_counters,
        )
