"""The confidence set for the place of a change: brute force, coverage, errors.

test_localisation.py holds it against its definition; here everything is computed by other means.
"""

import math

import numpy as np
import pytest

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    RangeError,
    confidence_set,
    cs,
)


def band(x, alpha, sigma, rho):
    """Running intersection of the normal mixture on x, one observation after the other."""
    low, high, total = -math.inf, math.inf, 0.0
    for m, value in enumerate(x, start=1):
        total += value
        half = sigma * math.sqrt((m + rho) * math.log((m + rho) / (rho * alpha**2))) / m
        low, high = max(low, total / m - half), min(high, total / m + half)
    return low, high


def brute_force(x, level, sigma, rho):
    """Every place, every start behind it: no start is left out."""
    third = (1 - level) / 3
    kept = []
    for k in range(1, len(x)):
        ends = [band(x[:k], third, sigma, rho), band(x[:k][::-1], third, sigma, rho)]
        before = max(low for low, _ in ends) <= min(high for _, high in ends)
        ends = [
            band(x[k + i - 1 :], third * 6 / (math.pi * i) ** 2, sigma, rho)
            for i in range(1, len(x) - k + 1)
        ]
        after = max(low for low, _ in ends) <= min(high for _, high in ends)
        if before and after:
            kept.append(k)
    return kept


@pytest.mark.parametrize("seed", range(6))
def test_no_place_is_left_out_that_brute_force_keeps(seed):
    """The engine behind the place drops starts, which can only keep more places."""
    rng = np.random.default_rng(seed)
    change, n, sigma, rho = int(rng.integers(5, 40)), 50, 0.7, 8.0
    x = rng.normal(0, sigma, n) + 2.0 * (np.arange(n) >= change)
    got = confidence_set(x, 0.8, cs.Gaussian(sigma, rho)).tolist()
    exact = brute_force(x, 0.8, sigma, rho)
    assert set(exact) <= set(got)
    assert len(got) <= len(exact) + 3
    assert change in got


def test_small_arrays_are_brute_force_exactly():
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=12) + 6.0 * (np.arange(12) >= 5)
        got = confidence_set(x, 0.5, cs.Gaussian(0.5, 3.0)).tolist()
        assert got == brute_force(x, 0.5, 0.5, 3.0)
        assert len(got) < 11


def test_a_higher_level_keeps_more():
    x = np.random.default_rng(0).normal(size=80) + 2.0 * (np.arange(80) >= 40)
    sets = [set(confidence_set(x, level, cs.Gaussian(1.0, 10.0))) for level in (0.3, 0.9, 0.999)]
    assert sets[0] <= sets[1] <= sets[2]
    assert len(sets[0]) < len(sets[2])


def test_the_sequences_own_level_does_not_matter():
    x = np.repeat([0.0, 3.0], 30)
    sets = [confidence_set(x, 0.9, cs.Gaussian(1.0, 10.0, alpha=a)).tolist() for a in (0.5, 0.001)]
    assert sets[0] == sets[1]


def stopped(rng, alarm_after, draw):
    """A stream with a change, up to an alarm that comes after it."""
    detector = alarm_after
    while True:
        change = int(rng.integers(30, 120))
        x = draw(rng, change)
        alarm = detector.detect(x, trace=False).index
        if alarm is not None and alarm > change:
            return change, x[:alarm]


def least_covered(n, level):
    return n * level - 3.7 * math.sqrt(n * level * (1 - level))


def test_it_covers_at_the_alarm():
    rng = np.random.default_rng(0)
    sequence = cs.Gaussian(1.0, tune_at=50)
    detector = ConfidenceSequenceDetector(sequence, arl=500, history=0)

    def draw(rng, change):
        return rng.normal(size=change + 200) + 1.5 * (np.arange(change + 200) >= change)

    covered = 0
    for _ in range(60):
        change, x = stopped(rng, detector, draw)
        covered += change in confidence_set(x, 0.8, sequence)
    assert covered >= least_covered(60, 0.8)


def test_it_covers_at_the_alarm_of_another_detector_on_coins():
    rng = np.random.default_rng(1)
    detector = CompositeEDetector(arl=500, history=0)

    def draw(rng, change):
        n = change + 200
        return (rng.random(n) < np.where(np.arange(n) < change, 0.2, 0.8)).astype(float)

    covered = 0
    for _ in range(30):
        change, x = stopped(rng, detector, draw)
        covered += change in confidence_set(x, 0.8, cs.Bernoulli())
    assert covered >= least_covered(30, 0.8)


def test_it_covers_with_grids_learned_from_the_data():
    rng = np.random.default_rng(2)
    for sequence in (
        cs.CDF(assume_iid=True, window=20, points=20),
        cs.Quantile(0.5, assume_iid=True, window=20, points=20),
    ):
        covered, sizes = 0, []
        for _ in range(12):
            change = int(rng.integers(60, 110))
            x = rng.normal(size=180) + 6.0 * (np.arange(180) >= change)
            kept = confidence_set(x, 0.8, sequence)
            covered += change in kept
            sizes.append(len(kept))
        assert covered >= 9
        assert np.mean(sizes) < 120  # it says something


def test_observations_after_the_alarm_exclude_early_places():
    x = np.random.default_rng(0).normal(size=160) + 2.0 * (np.arange(160) >= 80)
    sequence = cs.Gaussian(1.0, tune_at=30)
    short, long = (confidence_set(x[:n], 0.9, sequence) for n in (95, 160))
    assert 80 in short
    assert 80 in long
    assert long.min() > short.min()


def test_a_detector_offers_it_after_an_alarm():
    x = np.repeat([0.1, 0.9], [60, 60])
    for detector in (
        CompositeEDetector(arl=100),
        ConfidenceSequenceDetector("bounded", arl=100),
        ConfidenceSequenceDetector(cs.Gaussian(0.5), arl=100),
    ):
        result = detector.detect(x)
        kept = detector.confidence_set(0.9)
        assert 60 in kept
        assert kept.max() < result.index
        detector.update(0.9)
        with pytest.raises(ValueError, match=r"call detect\(array\) first"):
            detector.confidence_set()
        detector.detect(x[:60])
        with pytest.raises(ValueError, match=r"call detect\(array\) first"):
            detector.confidence_set()


def test_short_arrays():
    assert confidence_set([0.3]).tolist() == []
    assert confidence_set([0.3, 0.4]).tolist() == [1]
    assert confidence_set([]).tolist() == []


@pytest.mark.parametrize("level", [0, 1, -1, 1.5, math.nan, "0.9"])
def test_the_level_is_checked(level):
    with pytest.raises(ValueError, match="level"):
        confidence_set([0.1, 0.2], level)


def test_the_observations_are_checked():
    with pytest.raises(RangeError, match=r"observation 3 = 1\.5"):
        confidence_set([0.1, 0.2, 1.5, 0.1])
    with pytest.raises(RangeError, match="observation 2 = nan"):
        confidence_set([0.1, math.nan, 0.1])
    with pytest.raises(ValueError, match="shape"):
        confidence_set(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="shape"):
        confidence_set(np.zeros(4), cs=cs.TwoSampleMean())


def test_what_is_not_a_sequence():
    with pytest.raises(TypeError, match="cs"):
        confidence_set([0.1, 0.2], cs="bounded")
