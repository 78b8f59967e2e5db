"""Repeated confidence sequences: a new one at every time, all of them met in one intersection.

The detector of Shekhar and Ramdas (ICML 2024) starts a confidence sequence at every time and
alarms when the intersection of all sets seen so far is empty. Only the extreme ends count, so an
engine keeps the highest lower end and the lowest upper end with their *witnesses* (the start and
the time of the sequence that gave them).

Leaving sequences out makes the alarm later and never hurts the bound on false alarms. The engines
differ in which starts they keep:

``exact``
    all of them: O(n) a step.
``geometric``
    starts whose ages grow like growth^k: O(log n) a step.
``window``
    the latest `window` starts, and the first.
"""

from typing import ClassVar

import numpy as np
from numba import njit
from typing_extensions import override

from cameraready.change_detection import kernels
from cameraready.change_detection.compiled import compiled
from cameraready.change_detection.engine import (
    ACTIVE,
    ALARM,
    BEGUN,
    COORDINATE,
    COUNTERS,
    FIRST_CAPACITY,
    RESTARTS,
    TIME,
    Engine,
    Witness,
    grown,
    grown_order,
    slots_fit,
)
from cameraready.change_detection.kernels import VECTOR, step

__all__ = ["RepeatedEngine"]


@compiled
def prune_geometric(order, starts, counters, growth):
    """Drop the start between two others whose ages are close: age(older) <= g age(newer) + 2."""
    active, now = counters[ACTIVE], counters[TIME]
    kept = 1
    for i in range(1, active - 1):
        older = now - starts[order[kept - 1]] + 1
        newer = now - starts[order[i + 1]] + 1
        slot = order[i]
        if older > growth * newer + 2.0:
            order[i] = order[kept]
            order[kept] = slot
            kept += 1
    if active > 1:
        slot = order[active - 1]
        order[active - 1] = order[kept]
        order[kept] = slot
        kept += 1
    counters[ACTIVE] = kept


@compiled
def prune_window(order, counters, window):
    """Drop the oldest start but one when more than `window` follow the first."""
    active = counters[ACTIVE]
    if active > window + 1:
        slot = order[1]
        for i in range(1, active - 1):
            order[i] = order[i + 1]
        order[active - 1] = slot
        counters[ACTIVE] = active - 1


@compiled
def begin(counters, ends, witness, known):
    """Forget all sequences; what is known of the parameter stays."""
    counters[ACTIVE] = 0
    counters[BEGUN] = counters[TIME]
    ends[:] = known
    witness[:] = 0


@compiled
def upward(witness, j):
    """True if the lower end's sequence is the later one."""
    if witness[0, j] != witness[2, j]:
        return witness[0, j] > witness[2, j]
    return witness[1, j] > witness[3, j]


# Compiled anew for every step it is given, inside the function that is kept on disk. Telling the
# kinds apart inside the loop instead would cost five times the arithmetic.
@njit(nogil=True, error_model="numpy")
def fold(scalar_step, x, shared):
    """Fold one number into all rows in use by one kind's step, and keep the extreme ends."""
    params, width, order, starts, state, counters, ends, witness = shared
    now = counters[TIME]
    floor, ceiling = ends[0, 0], ends[1, 0]
    for i in range(counters[ACTIVE]):
        slot = order[i]
        low, high = scalar_step(state, slot * width, x, params, floor, ceiling)
        if low > floor:
            floor = low
            witness[0, 0] = starts[slot]
            witness[1, 0] = now
        if high < ceiling:
            ceiling = high
            witness[2, 0] = starts[slot]
            witness[3, 0] = now
    ends[0, 0], ends[1, 0] = floor, ceiling


@compiled
def advance_one(
    kind,
    engine,
    x,
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
):
    """Take one observation in; True on an alarm.

    `order[:active]` lists the slots in use from the oldest start to the newest and `order[active:]`
    the free ones, so that dropping a start moves integers and never a row.
    """
    growth, window, infinite, direction = settings[0], int(settings[1]), settings[2], settings[3]
    counters[TIME] += 1
    now = counters[TIME]
    slot = order[counters[ACTIVE]]
    counters[ACTIVE] += 1
    starts[slot] = now
    dimension, width = ends.shape[1], template.shape[0]
    for i in range(width):
        state[slot * width + i] = template[i]
    if infinite == 1.0:
        spent = np.log(np.pi * np.pi / 6.0) + 2.0 * np.log(float(now))
        for i in range(0, width, width // dimension if kind > VECTOR else width):
            state[slot * width + i] += spent

    shared = (params, width, order, starts, state, counters, ends, witness)
    if kind == kernels.GAUSSIAN:
        fold(kernels.gaussian, x[0], shared)
    elif kind == kernels.EMPIRICAL_BERNSTEIN:
        fold(kernels.empirical_bernstein, x[0], shared)
    elif kind == kernels.HOEFFDING:
        fold(kernels.hoeffding, x[0], shared)
    elif kind == kernels.PREDICTABLE_HOEFFDING:
        fold(kernels.predictable_hoeffding, x[0], shared)
    elif kind == kernels.BERNOULLI:
        fold(kernels.bernoulli, x[0], shared)
    elif kind == kernels.POISSON:
        fold(kernels.poisson, x[0], shared)
    elif kind == kernels.QUANTILE:
        fold(kernels.quantile, x[0], shared)
    elif kind == kernels.CATONI:
        fold(kernels.catoni, x[0], shared)
    else:
        lows, highs = np.empty(dimension), np.empty(dimension)
        for i in range(counters[ACTIVE]):
            slot = order[i]
            step(kind, state, slot * width, width, x, params, ends[0], ends[1], lows, highs)
            for j in range(dimension):
                if lows[j] > ends[0, j]:
                    ends[0, j] = lows[j]
                    witness[0, j] = starts[slot]
                    witness[1, j] = now
                if highs[j] < ends[1, j]:
                    ends[1, j] = highs[j]
                    witness[2, j] = starts[slot]
                    witness[3, j] = now

    widest, coordinate, contradiction = 0.0, -1, False
    for j in range(dimension):
        gap = ends[0, j] - ends[1, j]
        if gap > 0.0:
            contradiction = True
            watched = direction == 0.0 or (direction > 0.0) == upward(witness, j)
            if watched and gap > widest:
                widest = gap
                coordinate = j
    if coordinate >= 0:
        counters[ALARM] = now
        counters[COORDINATE] = coordinate
        return True
    if contradiction:
        counters[RESTARTS] += 1
        begin(counters, ends, witness, known)
        return False
    if engine == 1:
        prune_geometric(order, starts, counters, growth)
    elif engine == 2:
        prune_window(order, counters, window)
    return False


@compiled
def advance(
    kind,
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
):
    """Take observations in until an alarm; how many were taken.

    `trace`, (observations, 2, ends), receives the intersection after each one; give it no rows
    to do without.
    """
    for i in range(xs.shape[0]):
        alarm = advance_one(
            kind,
            engine,
            xs[i],
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
        if trace.shape[0] > 0:
            trace[i] = ends
        if alarm:
            return i + 1
    return xs.shape[0]


def slots_needed(engine: int, settings: np.ndarray, active: int, time: int, incoming: int) -> int:
    """How many sequences can be kept at once while `incoming` observations are taken in."""
    needed = active + incoming
    if engine == 1:
        # Two neighbours that are kept differ in age by the factor growth, or by 2 and more.
        growth = settings[0]
        logarithmic = 2.0 * np.log(time + incoming + 2.0) / np.log(growth) + 4.0 / (growth - 1.0)
        needed = min(needed, int(logarithmic) + 8)
    elif engine == 2:
        needed = min(needed, int(settings[1]) + 2)
    return max(needed, active + 1)


class RepeatedEngine(Engine):
    """Repeated sequences of any compiled kind.

    Parameters
    ----------
    kind, parameters, template
        How a confidence sequence describes itself.
    engine : int
        0 exact, 1 geometric, 2 window.
    settings : float64 array, (4,)
        Growth, window, 1 for a bounded probability of any false alarm, direction.
    known : float64 array, (2, ends)
        Ends known beforehand.
    """

    saved = ("order", "starts", "rows", "counters", "extremes", "witnesses")
    growing: ClassVar[dict[str, int]] = {"order": 0, "starts": 0, "rows": 0}

    def __init__(
        self,
        kind: int,
        parameters: np.ndarray,
        template: np.ndarray,
        engine: int,
        settings: np.ndarray,
        known: np.ndarray,
    ) -> None:
        self.kind, self.parameters, self.template = kind, parameters, template
        self.engine, self.settings, self.known = engine, settings, known
        self.counters = np.zeros(COUNTERS, np.int64)
        self.order = np.arange(FIRST_CAPACITY)
        self.starts = np.zeros(FIRST_CAPACITY, np.int64)
        self.rows = np.zeros(FIRST_CAPACITY * len(template))
        self.extremes = known.copy()
        self.witnesses = np.zeros((4, known.shape[1]), np.int64)

    def _reserve(self, incoming: int) -> None:
        if self.active + incoming <= len(self.order):
            return
        needed = slots_needed(self.engine, self.settings, self.active, self.time, incoming)
        if needed > len(self.order):
            size = max(needed, 2 * len(self.order))
            self.order = grown_order(self.order, size)
            self.starts = grown(self.starts, size)
            self.rows = grown(self.rows, size * len(self.template))

    @override
    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        self._reserve(len(observations))
        return advance(
            self.kind,
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
        )

    @override
    def consistent(self) -> bool:
        return (
            super().consistent()
            and slots_fit(self.order, self.starts, self.active)
            and len(self.rows) == len(self.order) * len(self.template)
            and self.coordinate < self.known.shape[1]
        )

    @property
    @override
    def ends(self) -> np.ndarray:
        return self.extremes

    @property
    @override
    def witness(self) -> Witness | None:
        (a, b), (c, d) = self.witnesses[:2, self.coordinate], self.witnesses[2:, self.coordinate]
        return (int(a), int(b)), (int(c), int(d))
