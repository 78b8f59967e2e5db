"""Where the change was."""

import change_references as ref
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    change_point,
    confidence_set,
    cs,
)
from cameraready.change_detection.localisation import change_interval


def scores(x):
    n = len(x)
    return np.array(
        [abs(x[:k].mean() - x[k:].mean()) * np.sqrt(k * (n - k) / n) for k in range(1, n)]
    )


@settings(deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=40))
def test_the_change_point_is_brute_force(values):
    x = np.array(values, dtype=float) + 0.001 * np.arange(len(values)) ** 2
    k = change_point(x)
    expected = scores(x)
    assert 1 <= k < len(x)
    assert expected[k - 1] >= expected.max() * (1 - 1e-9) - 1e-12


def test_the_change_point_on_random_streams():
    for seed in range(30):
        x = np.random.default_rng(seed).normal(0, 1, 100)
        x[40:] += 1
        assert change_point(x) == scores(x).argmax() + 1
        assert change_point(1e6 + 3 * x) == change_point(x)


@pytest.mark.parametrize("x", [[], [1.0]])
def test_one_observation_has_no_change_point(x):
    with pytest.raises(ValueError, match="two"):
        change_point(np.array(x))


@pytest.mark.parametrize(
    ("witness", "interval"),
    [
        (((1, 28), (29, 43)), (28, 28)),
        (((29, 43), (1, 28)), (28, 28)),
        (((1, 20), (31, 40)), (20, 30)),
        (((1, 20), (20, 40)), None),
        (((1, 20), (5, 40)), None),
        (((1, 20), (1, 20)), None),
        (((5, 9), (0, 0)), None),
        (None, None),
    ],
)
def test_disjoint_witnesses_enclose_the_change(witness, interval):
    assert change_interval(witness) == interval


def by_definition(x, level, raw):
    """The set as it is documented, with nothing shared."""
    third = (1 - level) / 3
    n = len(x)
    kept = []
    for k in range(1, n):
        low, high = (end[-1] for end in ref.nested(raw(x[:k], third)))
        back_low, back_high = (end[-1] for end in ref.nested(raw(x[:k][::-1], third)))
        used = ref.geometric_starts(n - k, 1.2)
        after = ref.repeated(raw, x[k:], third, used, pfa=True)
        if max(low, back_low) <= min(high, back_high) and after.alarm is None:
            kept.append(k)
    return kept


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_confidence_set_is_its_definition(level):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 1, 60)
        x[35:] += 2
        got = confidence_set(x, level, cs.Gaussian(1.0, 10.0))
        assert got.tolist() == by_definition(
            x, level, lambda x, alpha: ref.gaussian(x, alpha, 1.0, 10.0)
        )
        x = np.concatenate([rng.beta(2, 8, 50), rng.beta(8, 2, 25)])
        got = confidence_set(x, level)
        assert got.tolist() == by_definition(
            x, level, lambda x, alpha: ref.empirical_bernstein(x, alpha, (0, 1))
        )
        assert got.dtype == np.int64


@pytest.mark.parametrize(
    ("sequence", "x"),
    [
        (cs.Gaussian(1.0, tune_at=20), np.repeat([0.0, 3.0], [30, 15])),
        (cs.Betting(), np.tile([0.1, 0.9], 1).repeat([40, 25])),
        (cs.Bernoulli(), np.repeat([0.0, 1.0], [40, 20])),
        (cs.VectorMean(cs.Gaussian(1.0), 2), np.repeat([[0.0, 0.0], [0.0, 4.0]], [30, 15], axis=0)),
        (cs.TwoSampleMean(), np.repeat([[0.1, 0.1], [0.0, 1.0]], [200, 60], axis=0)),
        (
            cs.LinearRegression(0.1, 3.0),
            np.column_stack([np.ones(45), np.repeat([0.0, 2.0], [30, 15])]),
        ),
    ],
    ids=["gaussian", "betting", "bernoulli", "vector", "pairs", "regression"],
)
def test_the_confidence_set_of_a_clear_change(sequence, x):
    kept = confidence_set(x, 0.9, sequence)
    true = int(np.flatnonzero((np.diff(x, axis=0) != 0).reshape(len(x) - 1, -1).any(axis=1))[0]) + 1
    assert true in kept
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= 0.4 * len(x)
    assert (kept >= 1).all()
    assert (kept < len(x)).all()


def test_a_learned_grid():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, 150), rng.normal(5, 1, 60)])
    kept = confidence_set(x, 0.9, cs.CDF(assume_iid=True, points=16))
    assert 150 in kept
    assert len(kept) < 100


def test_a_detector_offers_the_set_of_what_it_saw():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(0, 1, 60), rng.normal(2, 1, 60)])
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=100)
    result = detector.detect(x)
    got = detector.confidence_set(0.9)
    assert got.tolist() == confidence_set(x[: result.index], 0.9, cs.Gaussian(1.0, 10.0)).tolist()
    assert 60 in got
    composite = CompositeEDetector(arl=100, cells=20)
    x = np.concatenate([rng.beta(2, 8, 40), rng.beta(8, 2, 40)])
    assert composite.detect(x).alarm
    assert 40 in composite.confidence_set(0.9)


def test_a_detector_that_did_not_alarm_in_batch_has_no_set():
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=100)
    with pytest.raises(ValueError, match="detect"):
        detector.confidence_set()
    detector.detect(np.zeros(20))
    with pytest.raises(ValueError, match="detect"):
        detector.confidence_set()
    detector.detect(np.repeat([0.0, 9.0], 20))
    assert len(detector.confidence_set())
    detector.update(9.0)
    with pytest.raises(ValueError, match="detect"):
        detector.confidence_set()


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5])
def test_the_level_lies_between_zero_and_one(level):
    with pytest.raises(ValueError, match="level"):
        confidence_set([0.0, 1.0], level)


def test_coverage_of_the_change_at_a_random_alarm():
    # Sixty small ones; the claims run 500.
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        change = int(rng.integers(20, 60))
        x = rng.normal(0, 1, change + 150)
        x[change:] += rng.choice([1.0, 2.0, -1.5])
        detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=20)
        result = detector.detect(x, trace=False)
        if result.alarm and result.index > change:
            missed += change not in detector.confidence_set(0.8)
    assert missed <= ref.most_misses(60, 0.2)
