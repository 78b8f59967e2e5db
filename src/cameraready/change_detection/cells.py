"""Betting on a bounded mean, cell by cell.

[0, 1] is cut into cells [a, b]. Against every candidate mean in a cell two bets are placed for
each fraction c: that the mean is higher, worth 1 + c/b (x - b) a round, and that it is lower,
worth 1 - c/(1-a) (x - a). The first falls and the second rises in the candidate, so that their
values at b and at a are lower bounds for every mean in the cell: a cell is rejected only on
evidence against all of it. (Single candidates instead of cells would all be rejected in the end,
the true mean being none of them.)

Two engines share this file. The *repeated* one starts a fresh wealth for every start it keeps and
rejects a cell when one of them reaches 1/alpha; the *e-detector* sums (Shiryaev-Roberts) or takes
the maximum (CUSUM) over all starts by a recursion. A cell rejected once is never looked at again.
"""

from typing import ClassVar

import numpy as np
from typing_extensions import override

from cameraready.change_detection.compiled import compiled
from cameraready.change_detection.engine import (
    ACTIVE,
    ALARM,
    BEGUN,
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
from cameraready.change_detection.repeated import prune_geometric, prune_window, slots_needed

__all__ = ["FRACTIONS", "CellEngine", "RepeatedCellEngine", "bets", "cut"]

FRACTIONS = (0.03, 0.06, 0.12, 0.25, 0.5, 0.9)
TINY = 1e-300  # spares slow subnormal numbers; n times this is no wealth to speak of
NO_SPANS = np.empty((0, 2), np.int64)
KINDS = {"sr": 0, "cusum": 1}
FIXED = 2  # one test begun with the first observation: the betting confidence sequence itself
# Entries of a cell's record of its rejection.
WHO, WHEN, SIDE = range(3)


def cut(cells: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Cut [0, 1] into cells and keep what lies within [low, high], shape (kept, 2)."""
    edges = np.linspace(0.0, 1.0, cells + 1)
    pairs = np.stack([edges[:-1], edges[1:]], axis=1)
    return np.clip(pairs[(pairs[:, 0] <= high) & (pairs[:, 1] >= low)], low, high)


def bets(cells: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """Constants and slopes of every bet's factor as a function of x.

    Parameters
    ----------
    cells : ndarray, (cells, 2)
        Ends of the cells, in [0, 1].
    fractions : ndarray, (fractions,)

    Returns
    -------
    ndarray, (2, 2 fractions, cells)
        ``factor = table[0] + table[1] * x``; the bets on a higher mean come first.
    """
    low, high = cells[:, 0], cells[:, 1]
    fraction = np.asarray(fractions)[:, None]
    # A known mean at the very end would divide by zero; a little inside is on the safe side.
    rising = fraction / np.maximum(high, 1e-9)
    falling = fraction / np.maximum(1.0 - low, 1e-9)
    constants = np.concatenate([np.broadcast_to(1.0 - fraction, rising.shape), 1.0 + falling * low])
    return np.ascontiguousarray(np.stack([constants, np.concatenate([rising, -falling])]))


@compiled
def reject(g, totals, upper_share, threshold, who, now, records):
    """Reject cell g if its wealth has reached the threshold; on which side the money was made."""
    if records[SIDE, g] == 0 and totals[g] >= threshold:
        records[WHO, g] = who
        records[WHEN, g] = now
        records[SIDE, g] = 1 if 2.0 * upper_share[g] >= totals[g] else -1
        return True
    return False


@compiled
def shrink(span, records):
    """Move the span of cells to its first and last that still stand; False if none does."""
    while span[0] < span[1] and records[SIDE, span[0]] != 0:
        span[0] += 1
    while span[1] > span[0] and records[SIDE, span[1] - 1] != 0:
        span[1] -= 1
    return span[0] < span[1]


@compiled
def contradicting(records):
    """The highest cell rejected from below and the lowest rejected from above (-1: none)."""
    highest, lowest = -1, -1
    for g in range(records.shape[1]):
        if records[SIDE, g] == 1:
            highest = g
        elif records[SIDE, g] == -1 and lowest < 0:
            lowest = g
    return highest, lowest


@compiled
def goes_up(records):
    """True if the evidence for a higher mean is the later one."""
    highest, lowest = contradicting(records)
    if highest < 0 or lowest < 0:
        return highest >= 0
    if records[WHO, highest] != records[WHO, lowest]:
        return records[WHO, highest] > records[WHO, lowest]
    return records[WHEN, highest] >= records[WHEN, lowest]


@compiled
def begin_cells(counters, span, records):
    """Let every cell stand again."""
    counters[ACTIVE] = 0
    counters[BEGUN] = counters[TIME]
    span[0], span[1] = 0, records.shape[1]
    records[:] = 0


@compiled
def conclude(direction, counters, span, records):
    """Alarm when no cell stands, unless the change went the way that is not watched."""
    if shrink(span, records):
        return False
    if direction == 0.0 or (direction > 0.0) == goes_up(records):
        counters[ALARM] = counters[TIME]
        return True
    counters[RESTARTS] += 1
    begin_cells(counters, span, records)
    return False


@compiled
def advance_e_detector(
    xs, low, width, table, kind, threshold, direction, wealth, counters, span, records, trace
):
    """Shiryaev-Roberts M = (1 + M) E or CUSUM M = max(1, M) E for every bet of every cell.

    Parameters
    ----------
    xs : float64 array, (observations,)
    low, width : float
        What the cells' 0 stands for, and the length that their 1 does.
    table : float64 array, (2, bets, cells)
        From `bets`.
    kind : int
        0 Shiryaev-Roberts, 1 CUSUM, 2 a single start.
    threshold : float
        Sum over the bets at which a cell is rejected: bets / alpha.
    wealth : float64 array, (bets, cells)
    span : int64 array, (2,)
        First standing cell and the one after the last.
    records : int64 array, (3, cells)
        Of each rejected cell: the start, the time, the side.
    trace : int64 array, (observations or 0, 2)
        Receives the span after each observation.

    Returns
    -------
    int
        Observations taken in; the last one alarmed if `counters[ALARM]` is the time.
    """
    count = table.shape[1]
    half = count // 2
    totals, upper_share = np.empty(table.shape[2]), np.empty(table.shape[2])
    for i in range(xs.shape[0]):
        x = (xs[i] - low) / width
        counters[TIME] += 1
        if counters[ACTIVE] == 0:
            wealth[:] = 0.0 if kind == 0 else 1.0
            counters[ACTIVE] = 1
        first, last = span[0], span[1]
        for g in range(first, last):
            totals[g] = 0.0
        for k in range(count):
            if k == half:
                for g in range(first, last):
                    upper_share[g] = totals[g]
            if kind == 0:
                for g in range(first, last):
                    grown = (1.0 + wealth[k, g]) * (table[0, k, g] + table[1, k, g] * x)
                    wealth[k, g] = grown
                    totals[g] += grown
            elif kind == 1:
                for g in range(first, last):
                    grown = max(1.0, wealth[k, g]) * (table[0, k, g] + table[1, k, g] * x)
                    wealth[k, g] = grown
                    totals[g] += grown
            else:
                for g in range(first, last):
                    grown = wealth[k, g] * (table[0, k, g] + table[1, k, g] * x)
                    grown = max(grown, TINY)
                    wealth[k, g] = grown
                    totals[g] += grown
        for g in range(first, last):
            reject(g, totals, upper_share, threshold, 0, counters[TIME], records)
        alarm = conclude(direction, counters, span, records)
        if trace.shape[0] > 0:
            trace[i] = span
        if alarm:
            return i + 1
    return xs.shape[0]


@compiled
def advance_repeated(
    xs,
    low,
    width,
    table,
    engine,
    threshold,
    settings,
    order,
    starts,
    wealth,
    counters,
    span,
    records,
    trace,
):
    """The repeated betting confidence sequence: a wealth for every start that is kept.

    Parameters as for `advance_e_detector`, with wealth of shape (slots, bets, cells) and the slots
    in use listed by `order` (see `repeated.advance_one`); settings: growth, window, 1 if the level
    of the start at m is alpha 6 / (pi^2 m^2), direction.
    """
    growth, window, infinite, direction = settings[0], int(settings[1]), settings[2], settings[3]
    count = table.shape[1]
    half = count // 2
    totals, upper_share = np.empty(table.shape[2]), np.empty(table.shape[2])
    for i in range(xs.shape[0]):
        x = (xs[i] - low) / width
        counters[TIME] += 1
        now = counters[TIME]
        slot = order[counters[ACTIVE]]
        counters[ACTIVE] += 1
        starts[slot] = now
        wealth[slot] = 1.0
        for j in range(counters[ACTIVE]):
            slot = order[j]
            limit = threshold
            if infinite == 1.0:
                limit *= np.pi * np.pi / 6.0 * float(starts[slot]) ** 2
            first, last = span[0], span[1]
            for g in range(first, last):
                totals[g] = 0.0
            for k in range(count):
                if k == half:
                    for g in range(first, last):
                        upper_share[g] = totals[g]
                for g in range(first, last):
                    grown = wealth[slot, k, g] * (table[0, k, g] + table[1, k, g] * x)
                    grown = max(grown, TINY)
                    wealth[slot, k, g] = grown
                    totals[g] += grown
            for g in range(first, last):
                reject(g, totals, upper_share, limit, starts[slot], now, records)
            if not shrink(span, records):
                break
        alarm = conclude(direction, counters, span, records)
        if trace.shape[0] > 0:
            trace[i] = span
        if alarm:
            return i + 1
        if counters[ACTIVE] > 0:
            if engine == 1:
                prune_geometric(order, starts, counters, growth)
            elif engine == 2:
                prune_window(order, counters, window)
    return xs.shape[0]


class _Cells(Engine):
    """What both engines over cells share: the span that stands and the record of rejections."""

    span: np.ndarray
    records: np.ndarray
    cells: np.ndarray

    def _begin(
        self,
        cells: np.ndarray,
        fractions: tuple[float, ...],
        alpha: float,
        range: tuple[float, float],
    ) -> None:
        self.low, self.width = range[0], range[1] - range[0]
        self.cells = cells
        self.table = bets(cells, np.array(fractions))
        self.threshold = self.table.shape[1] / alpha
        self.counters = np.zeros(COUNTERS, np.int64)
        self.span = np.array([0, len(cells)])
        self.records = np.zeros((3, len(cells)), np.int64)

    @override
    def consistent(self) -> bool:
        first, last = self.span.tolist()
        return super().consistent() and 0 <= first <= last <= len(self.cells)

    def _ends_of(self, spans: np.ndarray) -> np.ndarray:
        """Ends of the cells from the first to the last that stand, (n, 2)."""
        low, high = self.cells[0, 0], self.cells[-1, 1]
        first, last = spans[:, 0], spans[:, 1]
        standing = first < last
        lower = np.where(standing, self.cells[np.minimum(first, len(self.cells) - 1), 0], high)
        upper = np.where(standing, self.cells[np.maximum(last, 1) - 1, 1], low)
        return self.low + self.width * np.stack([lower, upper], axis=1)

    @property
    def ends(self) -> np.ndarray:
        """Ends of the standing cells; once none stands, those of the contradicting evidence."""
        if self.span[0] < self.span[1]:
            return self._ends_of(self.span[None]).T
        highest, lowest = contradicting(self.records)
        lower = self.cells[highest, 1] if highest >= 0 else self.cells[0, 0]
        upper = self.cells[lowest, 0] if lowest >= 0 else self.cells[-1, 1]
        return self.low + self.width * np.array([[lower], [upper]])

    @property
    def witness(self) -> Witness | None:
        if not self.records[WHO].any():
            return None
        highest, lowest = contradicting(self.records)
        pairs = [
            (int(self.records[WHO, g]), int(self.records[WHEN, g])) if g >= 0 else (0, 0)
            for g in (highest, lowest)
        ]
        return pairs[0], pairs[1]


class CellEngine(_Cells):
    """A wealth for every bet on every cell, by the recursion of an e-detector.

    Parameters
    ----------
    cells : float64 array, (cells, 2)
        In [0, 1].
    fractions : sequence of float
    kind : int
        0 Shiryaev-Roberts, 1 CUSUM, 2 one start at the first observation.
    alpha : float
    range : tuple of float
        What the cells' 0 and 1 stand for.
    direction : float
        0 both, 1 up, -1 down.
    """

    saved = ("wealth", "counters", "span", "records")

    def __init__(
        self,
        cells: np.ndarray,
        fractions: tuple[float, ...],
        kind: int,
        alpha: float,
        range: tuple[float, float],
        direction: float = 0.0,
    ) -> None:
        self._begin(cells, fractions, alpha, range)
        self.kind, self.direction = kind, direction
        self.wealth = np.zeros(self.table.shape[1:])

    def _advance(self, observations: np.ndarray, spans: np.ndarray) -> int:
        return advance_e_detector(
            observations[:, 0],
            self.low,
            self.width,
            self.table,
            self.kind,
            self.threshold,
            self.direction,
            self.wealth,
            self.counters,
            self.span,
            self.records,
            spans,
        )

    @override
    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        if not len(trace):
            return self._advance(observations, NO_SPANS)
        spans = np.empty((len(trace), 2), np.int64)
        taken = self._advance(observations, spans)
        trace[:taken, :, 0] = self._ends_of(spans[:taken])
        return taken

    def intervals(self, observations: np.ndarray) -> np.ndarray:
        """Ends after each observation, (n, 2); crossed ends once no cell stands."""
        spans = np.empty((len(observations), 2), np.int64)
        taken = 0 if self.alarmed else self._advance(observations, spans)
        spans[taken:] = self.span
        return self._ends_of(spans)


class RepeatedCellEngine(_Cells):
    """A wealth for every start that is kept, every bet and every cell.

    Parameters
    ----------
    cells, fractions, alpha, range
        As for `CellEngine`.
    engine, settings
        As for `RepeatedEngine`.
    """

    saved = ("order", "starts", "wealth", "counters", "span", "records")
    growing: ClassVar[dict[str, int]] = {"order": 0, "starts": 0, "wealth": 0}

    def __init__(
        self,
        cells: np.ndarray,
        fractions: tuple[float, ...],
        alpha: float,
        range: tuple[float, float],
        engine: int,
        settings: np.ndarray,
    ) -> None:
        self._begin(cells, fractions, alpha, range)
        self.engine, self.settings = engine, settings
        self.order = np.arange(FIRST_CAPACITY)
        self.starts = np.zeros(FIRST_CAPACITY, np.int64)
        self.wealth = np.zeros((FIRST_CAPACITY, *self.table.shape[1:]))

    @override
    def consistent(self) -> bool:
        return (
            super().consistent()
            and slots_fit(self.order, self.starts, self.active)
            and len(self.wealth) == len(self.order)
        )

    @override
    def advance(self, observations: np.ndarray, trace: np.ndarray) -> int:
        incoming = len(observations)
        needed = self.active + incoming
        if needed > len(self.order):
            needed = slots_needed(self.engine, self.settings, self.active, self.time, incoming)
        if needed > len(self.order):
            size = max(needed, 2 * len(self.order))
            self.order = grown_order(self.order, size)
            self.starts = grown(self.starts, size)
            self.wealth = grown(self.wealth, size)
        spans = np.empty((len(trace), 2), np.int64) if len(trace) else NO_SPANS
        taken = advance_repeated(
            observations[:, 0],
            self.low,
            self.width,
            self.table,
            self.engine,
            self.threshold,
            self.settings,
            self.order,
            self.starts,
            self.wealth,
            self.counters,
            self.span,
            self.records,
            spans,
        )
        if len(trace):
            trace[:taken, :, 0] = self._ends_of(spans[:taken])
        return taken
