"""The normal mixture: oracle widths, the formula again, coverage, a change."""

import math

import change_references as ref
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from cameraready.change_detection import ConfidenceSequenceDetector, cs
from cameraready.change_detection.gaussian import tuned_rho


@pytest.mark.parametrize("kind", [cs.Gaussian, cs.SubGaussian])
def test_the_half_widths_of_the_specification(kind):
    sequence = kind(sigma=1.0, rho=10.0, alpha=0.05)
    _, upper = sequence.run(np.zeros(100), nested=False)
    oracle = [8.18257429, 1.15625358, 0.30378110]
    assert upper[[0, 9, 99]] == pytest.approx(oracle, abs=1e-8)
    assert sequence.half_width([1, 10, 100]) == pytest.approx(oracle, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nested", [True, False])
def test_it_equals_the_formula(seed, nested):
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 2.0, 300)
    sigma, rho, alpha = rng.uniform(0.5, 4), rng.uniform(0.5, 50), rng.uniform(1e-6, 0.5)
    expected = ref.gaussian(x, alpha, sigma, rho)
    expected = ref.nested(expected) if nested else expected
    got = cs.Gaussian(sigma, rho, alpha=alpha).run(x, nested=nested)
    assert np.allclose(got, expected, atol=1e-9, rtol=1e-12)


@pytest.mark.parametrize("tune_at", [5.0, 100.0, 2000.0])
@pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-6])
def test_the_default_rho_is_the_tightest_at_its_sample_size(tune_at, alpha):
    def width(log_rho):
        return float(cs.Gaussian(1.0, math.exp(log_rho), alpha=alpha).half_width(tune_at))

    best = minimize_scalar(width, bounds=(-5, 10), method="bounded", options={"xatol": 1e-9})
    assert math.log(tuned_rho(alpha, tune_at)) == pytest.approx(best.x, abs=1e-3)
    default = cs.Gaussian(1.0, tune_at=tune_at, alpha=alpha)
    assert default.half_width(tune_at) == pytest.approx(best.fun, rel=1e-8)


def test_a_detector_tunes_rho_at_its_own_level():
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, tune_at=50.0), arl=1000)
    detector.update(0.0)
    assert detector.upper_ == pytest.approx(
        ref.gaussian(np.zeros(1), 1e-3, 1.0, tuned_rho(1e-3, 50.0))[1][0], rel=1e-12
    )


def test_sums_do_not_drift():
    x = np.tile([1e8, 0.1], 100_000)
    lower, upper = cs.Gaussian(1.0, 10.0).run(x, nested=False)
    middle = (lower[-1] + upper[-1]) / 2
    assert middle == pytest.approx(math.fsum(x) / len(x), rel=1e-15)


def test_coverage_of_gaussian_streams():
    streams = np.random.default_rng(0).normal(-1.0, 2.0, (2000, 200))
    assert ref.misses(cs.Gaussian(2.0, 10.0, alpha=0.1), streams, -1.0) <= ref.most_misses(
        2000, 0.1
    )


def test_coverage_of_dependent_streams_with_a_constant_conditional_mean():
    # The scale of every value is what the past makes it: largest after a value above the mean.
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], (2000, 200))
    scale = np.where(np.roll(signs, 1, axis=1) > 0, 1.0, 0.2)
    streams = 5.0 + signs * scale
    sequence = cs.SubGaussian(1.0, 10.0, alpha=0.2)
    assert ref.misses(sequence, streams, 5.0) <= ref.most_misses(2000, 0.2)


def test_coverage_can_be_missed():
    # The test above can fail: with a tenth of the declared scale nearly every stream is lost.
    streams = np.random.default_rng(0).normal(0.0, 2.0, (200, 200))
    assert ref.misses(cs.Gaussian(0.2, alpha=0.1), streams, 0.0) > 100


@pytest.mark.parametrize("seed", range(3))
def test_a_change_is_seen_soon(seed):
    x = np.random.default_rng(seed).normal(0, 1, 600)
    x[300:] += 1.0
    result = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1000).detect(x)
    assert result.alarm
    assert 300 < result.index < 380
    assert abs(result.change_point - 300) <= 12


def test_sequences_taken_one_by_one_equal_the_batch():
    x = np.random.default_rng(2).normal(0, 1, 80)
    sequence = cs.Gaussian(1.0, 10.0)
    lower, upper = sequence.run(x)
    for i, value in enumerate(x):
        assert sequence.update(value).interval() == (lower[i], upper[i])
    assert sequence.n_ == 80
    sequence.reset()
    assert sequence.interval() == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": math.nan}, "sigma"),
        ({"rho": 0.0}, "rho"),
        ({"tune_at": -3.0}, "tune_at"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        cs.Gaussian(**arguments)
