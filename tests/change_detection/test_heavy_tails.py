"""Catoni's sequence."""

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, cs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nested", [True, False])
def test_it_equals_root_finding(seed, nested):
    rng = np.random.default_rng(seed)
    x = 10 + rng.standard_t(3, 80)
    alpha, variance = rng.uniform(0.001, 0.3), 3.0
    expected = ref.catoni(x, alpha, variance)
    expected = ref.nested(expected) if nested else expected
    got = cs.Catoni(variance, alpha=alpha).run(x, nested=nested)
    assert np.allclose(got, expected, atol=1e-8, rtol=0)


def test_it_stands_still_once_its_window_is_full():
    x = np.random.default_rng(0).standard_t(3, 60)
    lower, upper = cs.Catoni(3.0, window=20).run(x)
    expected = ref.nested(ref.catoni(x[:20], 0.05, 3.0))
    assert np.allclose(lower[19:], expected[0][-1], atol=1e-8, rtol=0)
    assert np.allclose(upper[19:], expected[1][-1], atol=1e-8, rtol=0)


def test_coverage_under_heavy_tails():
    streams = np.random.default_rng(1).standard_t(2.5, (2000, 60))
    assert ref.misses(cs.Catoni(5.0, alpha=0.2), streams, 0.0) <= ref.most_misses(2000, 0.2)


def test_coverage_of_dependent_streams():
    # Conditional variance at most 1, decided by the past; conditional mean 0.
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], (2000, 60))
    scale = np.where(np.roll(signs, 1, axis=1) > 0, 1.0, 0.1)
    streams = signs * scale
    assert ref.misses(cs.Catoni(1.0, alpha=0.2), streams, 0.0) <= ref.most_misses(2000, 0.2)


def test_the_sets_shrink():
    x = np.random.default_rng(3).standard_t(3, 400)
    lower, upper = cs.Catoni(3.0).run(x)
    assert upper[-1] - lower[-1] < 1.2


@pytest.mark.parametrize("seed", range(3))
def test_a_change_is_seen_soon(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_t(3, 400)
    x[200:] += 4.0
    result = ConfidenceSequenceDetector(cs.Catoni(3.0, window=150), arl=1000).detect(x)
    assert result.alarm
    assert 200 < result.index < 260
    assert abs(result.change_point - 200) <= 3


def test_one_outlier_does_no_harm():
    x = np.random.default_rng(4).standard_t(3, 200)
    x[100] = 100.0
    assert not ConfidenceSequenceDetector(cs.Catoni(3.0, window=150), arl=1000).detect(x).alarm
    assert ConfidenceSequenceDetector(cs.Gaussian(3.0**0.5), arl=1000).detect(x).alarm


@pytest.mark.parametrize(
    ("given", "named"),
    [({"variance": 0.0}, "variance"), ({"variance": 1.0, "window": 1}, "window")],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        cs.Catoni(**given)
