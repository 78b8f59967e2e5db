"""Two streams side by side."""

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, RangeError, cs

GRID = np.linspace(0.1, 0.9, 9)


def pairs(seed, count, a=(2, 5), b=(4, 3)):
    rng = np.random.default_rng(seed)
    return np.stack([rng.beta(*a, count), rng.beta(*b, count)], axis=-1)


@pytest.mark.parametrize("range", [(0.0, 1.0), (-2.0, 6.0)])
def test_the_difference_of_means_equals_its_formula(range):
    low, high = range
    x = low + (high - low) * pairs(0, 200)
    difference, wide = x[:, 0] - x[:, 1], (low - high, high - low)
    got = cs.TwoSampleMean(range, alpha=0.1).run(x, nested=False)
    expected = ref.empirical_bernstein(difference, 0.1, wide)
    assert np.allclose(got, expected, atol=1e-9, rtol=0)
    got = cs.TwoSampleMean(range, "hoeffding", alpha=0.1).run(x, nested=False)
    expected = ref.predictable_hoeffding(difference, 0.1, wide)
    assert np.allclose(got, expected, atol=1e-9, rtol=0)
    got = cs.TwoSampleMean(range, "betting", alpha=0.1).run(x)
    assert np.array_equal(got, cs.Betting(wide, alpha=0.1).run(difference))


@pytest.mark.parametrize("nested", [True, False])
def test_the_distance_of_distributions_equals_its_formula(nested):
    x = pairs(1, 300)
    expected = ref.kolmogorov_smirnov(x, 0.1, GRID)
    expected = ref.nested(expected) if nested else expected
    got = cs.TwoSampleKS(True, GRID, alpha=0.1).run(x, nested=nested)
    assert np.allclose(got, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("method", ["bounded", "betting", "hoeffding"])
def test_coverage_of_the_difference(method):
    streams = np.stack([pairs(seed, 100) for seed in range(2000)])
    sequence = cs.TwoSampleMean(method=method, alpha=0.2)
    assert ref.misses(sequence, streams, 2 / 7 - 4 / 7) <= ref.most_misses(2000, 0.2)


def test_coverage_of_the_difference_for_dependent_pairs():
    # y leans on x, and both spread as the past decides: the difference has mean 0 throughout.
    rng = np.random.default_rng(7)
    signs = rng.choice([-1.0, 1.0], (2000, 100, 2))
    spread = np.where(np.roll(signs[..., :1], 1, axis=1) > 0, 0.5, 0.1)
    streams = 0.5 + signs * spread
    assert ref.misses(cs.TwoSampleMean(alpha=0.2), streams, 0.0) <= ref.most_misses(2000, 0.2)


def test_coverage_of_the_distance():
    from scipy.stats import beta

    streams = np.stack([pairs(seed, 100) for seed in range(2000)])
    distance = np.abs(beta(2, 5).cdf(GRID) - beta(4, 3).cdf(GRID)).max()
    sequence = cs.TwoSampleKS(True, GRID, alpha=0.2)
    assert ref.misses(sequence, streams, distance) <= ref.most_misses(2000, 0.2)


@pytest.mark.parametrize("method", ["bounded", "betting", "hoeffding"])
@pytest.mark.parametrize("seed", range(2))
def test_a_change_of_the_difference_is_seen(method, seed):
    x = np.concatenate([pairs(seed, 1500, (2, 5), (2, 5)), pairs(seed + 50, 1500, (2, 8), (30, 1))])
    result = ConfidenceSequenceDetector(cs.TwoSampleMean(method=method), arl=1000).detect(x)
    assert result.alarm
    assert 1500 < result.index < (2900 if method == "hoeffding" else 1600)
    assert abs(result.change_point - 1500) <= 5


def test_a_drift_of_both_streams_together_is_none():
    rng = np.random.default_rng(0)
    common = np.repeat([0.2, 0.7], 500) + rng.uniform(-0.1, 0.1, 1000)
    x = np.stack([common, common + rng.uniform(-0.05, 0.05, 1000)], axis=1)
    assert not ConfidenceSequenceDetector(cs.TwoSampleMean(), arl=20).detect(x).alarm


@pytest.mark.parametrize("seed", range(2))
def test_a_change_of_the_distance_is_seen(seed):
    x = np.concatenate([pairs(seed, 800, (2, 2), (2, 2)), pairs(seed + 50, 800, (1, 9), (9, 1))])
    detector = ConfidenceSequenceDetector(cs.TwoSampleKS(assume_iid=True), arl=100)
    result = detector.detect(x)
    assert result.alarm
    assert 800 < result.index < 1500
    assert abs(result.change_point - 800) <= 30


@pytest.mark.parametrize("make", [cs.TwoSampleMean, lambda: cs.TwoSampleKS(assume_iid=True)])
def test_pairs_are_expected(make):
    detector = ConfidenceSequenceDetector(make())
    for wrong in (0.5, [0.1, 0.2, 0.3], [0.5]):
        with pytest.raises(ValueError, match=r"\(observations, 2\)"):
            detector.update(wrong)
    with pytest.raises(ValueError, match=r"\(observations, 2\)"):
        detector.update_many([0.1, 0.2, 0.3])
    assert detector.n_ == 0


def test_a_pair_out_of_range_is_refused():
    detector = ConfidenceSequenceDetector(cs.TwoSampleMean())
    detector.update((0.2, 0.4))
    with pytest.raises(RangeError) as caught:
        detector.update((0.2, 1.4))
    assert caught.value.index == 2
    assert list(caught.value.value) == [0.2, 1.4]


def test_the_method_is_named():
    with pytest.raises(ValueError, match="method"):
        cs.TwoSampleMean(method="median")
