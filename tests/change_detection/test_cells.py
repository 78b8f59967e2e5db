"""Betting on cells: repeated sequences and composite e-detectors against brute force."""

import change_references as ref
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.change_detection import CompositeEDetector, ConfidenceSequenceDetector, cs
from cameraready.change_detection.cells import CellEngine, bets, cut

NO_TRACE = np.empty((0, 2, 1))


def stream(seed, before=40, after=40):
    rng = np.random.default_rng(seed)
    shapes = [(2, 5), (5, 2), (3, 3), (9, 1), (1, 1)]
    i, j = rng.integers(0, len(shapes), 2)
    return np.concatenate([rng.beta(*shapes[i], before), rng.beta(*shapes[j], after)])


@pytest.mark.parametrize(
    ("kind", "oracle"),
    [
        (0, [1.15691244, 2.65215730, 3.15175539, 5.31673487]),
        (1, [1.15691244, 1.61097889, 1.44176952, 1.98756438]),
    ],
    ids=["sr", "cusum"],
)
def test_the_recursions_of_the_specification_on_one_cell(kind, oracle):
    engine = CellEngine(np.array([[0.3, 0.31]]), (0.1, 0.5), kind, 1e-6, (0.0, 1.0))
    for x, value in zip((0.9, 0.8, 0.1, 1.0), oracle, strict=True):
        engine.advance(np.array([[x]]), NO_TRACE)
        assert engine.wealth.mean() == pytest.approx(value, abs=1e-8)


def test_bets_are_fair_or_worse_for_every_mean_in_the_cell():
    # A two-point distribution with mean mu: the factor's expectation is at most 1.
    table = bets(ref.even_cells(10), np.array(ref.FRACTIONS))
    for g, (low, high) in enumerate(ref.even_cells(10)):
        for mean in np.linspace(low, high, 5):
            expected = table[0, :, g] + table[1, :, g] * mean
            assert (expected <= 1 + 1e-12).all()
        assert (table[0, :, g] >= 0).all()  # at x = 0
        assert (table[0, :, g] + table[1, :, g] >= 0).all()  # at x = 1


def test_cells_are_cut_to_what_is_known():
    assert np.allclose(cut(4), [[0, 0.25], [0.25, 0.5], [0.5, 0.75], [0.75, 1]])
    assert np.allclose(cut(4, 0.3, 0.6), [[0.3, 0.5], [0.5, 0.6]])
    point = cut(4, 0.3, 0.3)
    assert np.allclose(point, 0.3)


def test_a_constant_stream():
    x = np.full(20_000, 0.5)
    assert CompositeEDetector(arl=100).detect(x, trace=False).index == 114
    assert CompositeEDetector(arl=1000).detect(x, trace=False).index == 1581
    assert not CompositeEDetector(arl=100, kind="cusum").detect(x, trace=False).alarm
    assert not CompositeEDetector(arl=1000, kind="cusum").detect(x, trace=False).alarm
    assert not ConfidenceSequenceDetector("betting", arl=100).detect(x, trace=False).alarm


@pytest.mark.parametrize("cells", [5, 40])
@pytest.mark.parametrize("block", range(4))
def test_the_exact_repeated_engine_is_brute_force_over_starts_and_cells(cells, block):
    alarms = 0
    for seed in range(10 * block, 10 * block + 10):
        x, arl = stream(seed), [3.0, 20.0, 200.0][seed % 3]
        expected = ref.repeated_betting_alarm(x, 1 / arl, ref.even_cells(cells))
        detector = ConfidenceSequenceDetector(cs.Betting(cells=cells), arl=arl, engine="exact")
        assert detector.detect(x).index == expected
        alarms += expected is not None
    assert alarms


@pytest.mark.parametrize("kind", ["sr", "cusum"])
def test_the_composite_is_brute_force_over_cells(kind):
    alarms = 0
    for seed in range(30):
        x, arl, cells = stream(seed, 60, 60), [3.0, 20.0, 200.0][seed % 3], 10 + seed
        expected = ref.composite_alarm(x, 1 / arl, ref.even_cells(cells), kind)
        detector = CompositeEDetector(arl=arl, cells=cells, kind=kind)
        assert detector.detect(x).index == expected
        alarms += expected is not None
    assert alarms


def test_the_trace_is_the_span_of_the_standing_cells():
    x, cells = stream(1), ref.even_cells(20)
    bet = ref.factors(x, cells, ref.FRACTIONS)
    wealth, standing = np.zeros(bet.shape[1:]), np.ones(20, dtype=bool)
    detector = CompositeEDetector(arl=1e4, cells=20)
    result = detector.detect(x)
    for t in range(len(result.trace[0])):
        wealth = (1 + wealth) * bet[t]
        standing &= wealth.mean(axis=0) < 1e4
        if standing.any():
            assert result.trace[0][t] == pytest.approx(cells[standing, 0].min())
            assert result.trace[1][t] == pytest.approx(cells[standing, 1].max())
        else:
            assert result.index == t + 1
            assert result.trace[0][t] >= result.trace[1][t]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([2.0, 10.0, 100.0, 1000.0]))
def test_on_the_same_bets_sr_is_first_and_the_repeated_sequence_last(seed, arl):
    x = stream(seed, 150, 150)
    index = {
        "sr": CompositeEDetector(arl=arl, cells=25).detect(x, trace=False).index,
        "cusum": CompositeEDetector(arl=arl, cells=25, kind="cusum").detect(x, trace=False).index,
    }
    for engine in ("exact", "geometric"):
        detector = ConfidenceSequenceDetector(cs.Betting(cells=25), arl=arl, engine=engine)
        index[engine] = detector.detect(x, trace=False).index
    times = {name: value or 1000 for name, value in index.items()}
    assert times["sr"] <= times["cusum"] <= times["exact"] <= times["geometric"]


def test_the_pathwise_order_is_strict_somewhere():
    orders = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.beta(4, 6, 80), rng.beta(9, 11, 100), rng.beta(12, 8, 100)])
        sr = CompositeEDetector(arl=30, cells=25).detect(x).index or 1000
        cusum = CompositeEDetector(arl=30, cells=25, kind="cusum").detect(x).index or 1000
        detector = ConfidenceSequenceDetector(cs.Betting(cells=25), arl=30, engine="exact")
        repeated = detector.detect(x).index or 1000
        assert sr <= cusum <= repeated
        orders |= {("sr first", sr < cusum), ("repeated last", cusum < repeated)}
    assert {("sr first", True), ("repeated last", True)} <= orders


@pytest.mark.parametrize("engine", ["exact", "geometric", "window"])
def test_witnesses_of_betting_contradict_each_other(engine):
    seen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.beta(2, 8, 150), rng.beta(8, 2, 60)])
        if seed % 2:
            x = 1 - x
        detector = ConfidenceSequenceDetector("betting", arl=50, engine=engine)
        result = detector.detect(x)
        assert result.alarm
        (a, b), (c, d) = result.detection.witness
        lower = cs.Betting(alpha=0.02).run(x[a - 1 : b])[0][-1]
        upper = cs.Betting(alpha=0.02).run(x[c - 1 : d])[1][-1]
        # The two segments' sets exclude each other, but for the cell they may share an edge of.
        assert lower >= upper - 0.01 - 1e-9
        assert max(b, d) == result.index
        assert (a > c) if seed % 2 == 0 else (c > a), "the later evidence is the newer"
        seen += result.change_interval is not None
        assert abs(result.change_point - 150) <= 4
    assert seen >= 6


@pytest.mark.parametrize("kind", ["sr", "cusum"])
@pytest.mark.parametrize("mirror", [False, True])
def test_the_composite_watches_one_direction(kind, mirror):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.beta(8, 2, 200), rng.beta(2, 8, 200), rng.beta(8, 2, 200)])
    x, first, second = (1 - x, "up", "down") if mirror else (x, "down", "up")
    early = CompositeEDetector(arl=5000, kind=kind, direction=first).detect(x)
    assert 200 < early.index < 240
    assert early.detection.direction == first
    late = CompositeEDetector(arl=5000, kind=kind, direction=second).detect(x)
    assert 400 < late.index < 440
    # The change that was passed over at 200 does not get in the way of the one at 400.
    assert abs(late.change_point - 400) <= 3
    assert late.detection.direction == second


def test_repeated_betting_watches_one_direction():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.beta(8, 2, 200), rng.beta(2, 8, 200), rng.beta(8, 2, 200)])
    for engine in ("exact", "geometric", "window"):
        make = {"arl": 100, "engine": engine}
        down = ConfidenceSequenceDetector("betting", direction="down", **make).detect(x)
        up = ConfidenceSequenceDetector("betting", direction="up", **make).detect(x)
        assert 200 < down.index < 240
        assert 400 < up.index < 440


@pytest.mark.parametrize("make", ["sr", "cusum", "repeated"])
def test_a_known_mean(make):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.beta(3, 7, 30), rng.beta(6, 4, 400)])

    def detect(**given):
        if make == "repeated":
            return ConfidenceSequenceDetector("betting", arl=1000, **given).detect(x)
        return CompositeEDetector(arl=1000, kind=make, **given).detect(x)

    known, between = detect(theta0=0.3), detect(theta0=(0.25, 0.35))
    assert known.alarm
    assert 30 < known.index < 60
    assert known.index <= between.index <= (detect().index or 1000)
    # What is known may also be wrong from the first observation on.
    assert detect(theta0=0.8).index < 40
    assert known.trace[0][0] == known.trace[1][0] == pytest.approx(0.3)


def test_extreme_means_do_no_harm():
    for value in (0.0, 1.0):
        x = np.full(3000, value)
        detector = ConfidenceSequenceDetector("betting", arl=100)
        assert not detector.detect(x).alarm
        assert detector.lower_ <= value <= detector.upper_
        assert not CompositeEDetector(arl=1e9, kind="cusum").detect(x).alarm
        # A known mean of 0 is contradicted by any other value at once.
        known = CompositeEDetector(arl=100, theta0=value).detect(np.full(20, 0.5))
        assert known.index == 1


def test_long_runs_stay_finite():
    # Products far below the smallest number and far above the largest.
    x = np.concatenate([np.zeros(200_000), np.ones(300)])
    detector = CompositeEDetector(arl=1e6, kind="cusum")
    result = detector.detect(x, trace=False)
    assert 200_000 < result.index < 200_050
    lower, upper = cs.Betting(alpha=1e-6).run(x[:200_000])
    assert 0.0 <= lower[-1] <= upper[-1] <= 0.01


def test_mean_run_length_of_the_composite():
    rng = np.random.default_rng(3)
    lengths = []
    for _ in range(300):
        x = rng.beta(3, 7, 400)
        lengths.append(CompositeEDetector(arl=20).detect(x, trace=False).index or 400)
    # At least 20, and used up: about 30, nowhere near ten times that.
    assert np.mean(lengths) - 3 * np.std(lengths) / np.sqrt(300) >= 20
    assert np.mean(lengths) < 60


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"arl": 1}, "arl"),
        ({"arl": 0.5}, "arl"),
        ({"cells": 1}, "cells"),
        ({"range": (1, 0)}, "range"),
        ({"kind": "glr"}, "kind"),
        ({"fractions": (1.5,)}, "fractions"),
        ({"direction": "left"}, "direction"),
        ({"on_range": "ignore"}, "on_range"),
        ({"on_nan": "clip"}, "on_nan"),
        ({"history": -1}, "history"),
        ({"theta0": (0.6, 0.4)}, "theta0"),
        ({"theta0": float("nan")}, "theta0"),
        ({"theta0": 2.0}, "theta0"),
    ],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        CompositeEDetector(**given)
