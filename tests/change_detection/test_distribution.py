"""Distribution functions and quantiles."""

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, cs

GRID = np.linspace(-2, 2, 9)


def test_the_band_widths_of_the_specification():
    lower, _ = cs.CDF(assume_iid=True, grid=[0.0], alpha=0.05).run(np.zeros(1000), nested=False)
    widths = 1.0 - lower[[9, 99, 999], 0]
    assert widths == pytest.approx([0.66301395, 0.25881383, 0.09487384], abs=1e-8)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_they_equal_their_formulas(nested, seed):
    x = np.random.default_rng(seed).normal(0, 1, 400)
    x[::7] = GRID[4]  # values that lie on the grid
    keep = ref.nested if nested else lambda ends: ends
    got = cs.CDF(True, GRID, alpha=0.1).run(x, nested=nested)
    assert np.allclose(got, keep(ref.cdf(x, 0.1, GRID)), atol=1e-12, rtol=0)
    for p in (0.2, 0.5, 0.9):
        got = cs.Quantile(p, True, GRID, alpha=0.1).run(x, nested=nested)
        expected = keep(ref.quantile(x, 0.1, p, GRID))
        # Within the grid's resolution the same: the lower end is the next number after a point.
        assert np.allclose(got, expected, atol=1e-12, rtol=0), p


def test_neighbouring_quantile_intervals_are_disjoint():
    # The median lies strictly above 0 in the first half, at 0 or below in the second.
    x = np.concatenate([np.full(400, 1.0), np.full(400, 0.0)])
    result = ConfidenceSequenceDetector(cs.Quantile(0.5, True, [0.0, 1.0]), arl=100).detect(x)
    assert result.alarm
    assert 400 < result.index < 480


def test_a_quantile_interval_holds_the_quantile_that_lies_on_the_grid():
    streams = np.random.default_rng(0).choice([0.0, 1.0, 2.0], (300, 300), p=[0.4, 0.4, 0.2])
    assert ref.misses(cs.Quantile(0.5, True, [0.0, 1.0, 2.0], alpha=0.1), streams, 1.0) == 0


def test_a_grid_is_learned_from_the_first_window():
    x = np.random.default_rng(1).normal(5, 2, 300)
    grid = cs.CDF(True, points=16, window=50).learned(x[:50, None]).grid
    assert len(grid) <= 16
    assert (np.diff(grid) > 0).all()
    assert grid[0] < x[:50].min()
    assert x[:50].max() < grid[-1]
    assert np.isin(grid, x[:50]).sum() >= 4
    learned = cs.CDF(True, points=16, window=50).run(x)
    given = cs.CDF(True, grid).run(x)
    assert np.array_equal(learned, given)
    sequence = cs.CDF(True, points=16, window=50)
    for value in x:
        sequence.update(value)
    assert np.array_equal(sequence.interval(), (given[0][-1], given[1][-1]))


def test_a_learned_grid_of_equal_values_has_one_point():
    detector = ConfidenceSequenceDetector(cs.CDF(True, window=10), arl=100)
    detector.update_many(np.zeros(50))
    assert detector.alarms_ == []
    assert np.size(detector.lower_) == 1


def test_coverage():
    # The parameter is the whole function: one point out at one time is a miss.
    streams = np.random.default_rng(2).random((2000, 150))
    grid = np.linspace(0.05, 0.95, 19)
    # One interval for all grid points together has level 1 - alpha.
    assert ref.misses(cs.CDF(True, grid, alpha=0.2), streams, grid) <= ref.most_misses(2000, 0.2)
    sequence = cs.Quantile(0.3, True, grid, alpha=0.2)
    assert ref.misses(sequence, streams, 0.3) <= ref.most_misses(2000, 0.2)


def test_coverage_with_a_learned_grid():
    streams = np.random.default_rng(3).normal(0, 1, (500, 300))
    sequence = cs.Quantile(0.5, True, window=50, alpha=0.2)
    assert ref.misses(sequence, streams, 0.0) <= ref.most_misses(500, 0.2)


def test_the_sets_shrink():
    x = np.random.default_rng(4).random(20_000)
    lower, upper = cs.Quantile(0.5, True, np.linspace(0, 1, 101)).run(x)
    assert upper[-1] - lower[-1] < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_change_of_shape_with_equal_means_is_seen(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(0, 1, 600), rng.choice([-1.0, 1.0], 600)])
    result = ConfidenceSequenceDetector(cs.CDF(assume_iid=True), arl=1000).detect(x)
    assert result.alarm
    assert 600 < result.index < 900
    assert abs(result.change_point - 600) <= 40
    assert not ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1000).detect(x).alarm


@pytest.mark.parametrize("seed", range(3))
def test_a_change_of_the_upper_quantile_is_seen(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(0, 1, 4000), rng.normal(0, 8, 1000)])
    result = ConfidenceSequenceDetector(cs.Quantile(0.9, assume_iid=True), arl=1000).detect(x)
    assert result.alarm
    assert 4000 < result.index < 4500
    assert abs(result.change_point - 4000) < 60


def test_an_alarm_within_the_learning_window_is_heard_at_its_end():
    # With 300 values to learn from, a change after 100 shows before the grid is known.
    x = np.concatenate([np.zeros(100), np.ones(400)])
    detector = ConfidenceSequenceDetector(cs.CDF(True, window=300), arl=20)
    result = detector.detect(x)
    assert result.alarm
    assert result.index == 300
    assert detector.alarms_ == [300]
    assert detector.n_ == 300
    assert result.change_point == 100


@pytest.mark.parametrize(
    "make", [cs.CDF, lambda **given: cs.Quantile(0.5, **given), cs.TwoSampleKS]
)
def test_independence_must_be_declared(make):
    for given in ({}, {"assume_iid": False}, {"assume_iid": 1}):
        with pytest.raises(ValueError, match="assume_iid=True"):
            make(**given)
    make(assume_iid=True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"grid": [1.0, 1.0]}, "grid"),
        ({"grid": [2.0, 1.0]}, "grid"),
        ({"grid": []}, "grid"),
        ({"grid": [np.nan]}, "grid"),
        ({"points": 1}, "points"),
        ({"window": 1}, "window"),
        ({"window": 10.0}, "window"),
    ],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        cs.CDF(assume_iid=True, **given)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5])
def test_a_quantile_level_lies_between_zero_and_one(p):
    with pytest.raises(ValueError, match="p must"):
        cs.Quantile(p, assume_iid=True)


def test_a_quantile_can_be_watched_in_one_direction_whether_or_not_its_grid_is_given():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, 500), rng.normal(4, 1, 500)])
    for grid in (list(np.linspace(-5, 9, 60)), None):
        sequence = cs.Quantile(0.5, assume_iid=True, grid=grid)
        for direction, alarm in (("up", True), ("down", False)):
            detector = ConfidenceSequenceDetector(sequence, arl=100, direction=direction)
            assert detector.detect(x).alarm is alarm


def test_a_learned_grid_reaches_beyond_the_quantile_that_is_watched():
    # Otherwise the upper end stays infinite, and a rise of the quantile is never seen.
    x = np.random.default_rng(0).random(20_000)
    lower, upper = cs.Quantile(0.95, assume_iid=True, window=1000).run(x)
    assert 0.9 < lower[-1] < 0.95 < upper[-1] < 1.2
