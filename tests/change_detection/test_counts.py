"""Conjugate mixtures for proportions and rates."""

import change_references as ref
import numpy as np
import pytest
from scipy import integrate, stats

from cameraready.change_detection import ConfidenceSequenceDetector, RangeError, cs


@pytest.mark.parametrize(
    ("successes", "trials", "ends"),
    [
        (0, 10, (0.0, 0.41688028)),
        (3, 10, (0.03664029, 0.73325947)),
        (50, 100, (0.34459027, 0.65540973)),
    ],
)
def test_the_beta_binomial_ends_of_the_specification(successes, trials, ends):
    x = np.repeat([1.0, 0.0], [successes, trials - successes])
    lower, upper = cs.Bernoulli(alpha=0.05).run(x, nested=False)
    assert (lower[-1], upper[-1]) == pytest.approx(ends, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nested", [True, False])
def test_bernoulli_equals_root_finding(seed, nested):
    rng = np.random.default_rng(seed)
    p, a, b, alpha = rng.random(), rng.uniform(0.3, 4), rng.uniform(0.3, 4), rng.uniform(1e-4, 0.3)
    x = (rng.random(200) < p) * 1.0
    expected = ref.bernoulli(x, alpha, a, b)
    expected = ref.nested(expected) if nested else expected
    got = cs.Bernoulli(a, b, alpha).run(x, nested=nested)
    assert np.allclose(got, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_bernoulli_of_one_outcome_only(value):
    x = np.full(60, value)
    assert np.allclose(cs.Bernoulli().run(x), ref.bernoulli(x, 0.05), atol=1e-9, rtol=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nested", [True, False])
def test_poisson_equals_root_finding(seed, nested):
    rng = np.random.default_rng(seed)
    a, b, alpha = rng.uniform(0.3, 4), rng.uniform(0.3, 4), rng.uniform(1e-4, 0.3)
    x = rng.poisson([0.05, 0.7, 4.0, 90.0][seed], 150).astype(float)
    expected = ref.poisson(x, alpha, a, b)
    expected = ref.nested(expected) if nested else expected
    got = cs.Poisson(a, b, alpha).run(x, nested=nested)
    assert np.allclose(got, expected, atol=1e-9, rtol=1e-9)


def test_the_poisson_mixture_is_the_integral_it_claims_to_be():
    # e(r) = integral of the likelihood ratio against r over Gamma(a, b): 1/alpha at the ends.
    x, a, b, alpha = np.array([2.0, 0.0, 3.0, 1.0]), 1.5, 0.8, 0.05
    lower, upper = cs.Poisson(a, b, alpha).run(x, nested=False)
    for end in (lower[-1], upper[-1]):

        def integrand(rate, end=end):
            ratio = np.exp(stats.poisson.logpmf(x, rate).sum() - stats.poisson.logpmf(x, end).sum())
            return ratio * stats.gamma.pdf(rate, a, scale=1 / b)

        assert integrate.quad(integrand, 0, 60)[0] == pytest.approx(1 / alpha, rel=1e-6)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
def test_bernoulli_coverage(p):
    streams = (np.random.default_rng(5).random((2000, 150)) < p) * 1.0
    assert ref.misses(cs.Bernoulli(alpha=0.2), streams, p) <= ref.most_misses(2000, 0.2)


@pytest.mark.parametrize("rate", [0.2, 6.0])
def test_poisson_coverage(rate):
    streams = np.random.default_rng(6).poisson(rate, (2000, 150)).astype(float)
    assert ref.misses(cs.Poisson(alpha=0.2), streams, rate) <= ref.most_misses(2000, 0.2)


def test_the_sets_shrink():
    rng = np.random.default_rng(0)
    lower, upper = cs.Bernoulli().run(rng.random(2000) < 0.3)
    assert upper[-1] - lower[-1] < 0.09
    lower, upper = cs.Poisson().run(rng.poisson(4.0, 2000))
    assert upper[-1] - lower[-1] < 0.45


@pytest.mark.parametrize("seed", range(3))
def test_changes_are_seen_soon(seed):
    rng = np.random.default_rng(seed)
    x = rng.random(600) < np.repeat([0.1, 0.6], 300)
    result = ConfidenceSequenceDetector("bernoulli", arl=1000).detect(x)
    assert result.alarm
    assert 300 < result.index < 350
    result = ConfidenceSequenceDetector("poisson", arl=1000).detect(
        rng.poisson(np.repeat([2.0, 5.0], 300))
    )
    assert result.alarm
    assert 300 < result.index < 350
    assert abs(result.change_point - 300) <= 8


@pytest.mark.parametrize("value", [0.3, -1.0, 2.0])
def test_bernoulli_takes_only_zeros_and_ones(value):
    detector = ConfidenceSequenceDetector("bernoulli")
    detector.update(1)
    for take in (detector.update, lambda x: detector.update_many([x]), cs.Bernoulli().update):
        with pytest.raises(RangeError, match="expects 0/1"):
            take(value)
    with pytest.raises(RangeError) as caught:
        detector.update(value)
    assert caught.value.index == 2
    assert caught.value.value == value
    assert detector.n_ == 1


@pytest.mark.parametrize("value", [-1.0, 1.5])
def test_poisson_takes_only_counts(value):
    detector = ConfidenceSequenceDetector("poisson")
    with pytest.raises(RangeError, match=r"expects counts"):
        detector.update(value)
    with pytest.raises(RangeError) as caught:
        detector.update_many([0, 3, value])
    assert caught.value.index == 3
    assert caught.value.value == value
    assert detector.n_ == 0


def test_a_fractional_value_cannot_be_clipped_into_a_count():
    detector = ConfidenceSequenceDetector("bernoulli", on_range="clip")
    with pytest.raises(RangeError, match="expects 0/1"):
        detector.update(0.3)
    detector = ConfidenceSequenceDetector("bernoulli", on_range="skip")
    detector.update_many([0.3, 1, 0])
    assert (detector.n_, detector.n_skipped_) == (2, 1)


def test_numbers_beyond_bool_and_int_are_taken():
    first, second = (ConfidenceSequenceDetector("bernoulli") for _ in range(2))
    for value in (True, np.int64(0), np.float32(1.0), np.bool_(True), 0):
        first.update(value)
    second.update_many([1, 0, 1, 1, 0])
    assert (first.n_, first.lower_, first.upper_) == (5, second.lower_, second.upper_)


@pytest.mark.parametrize("make", [cs.Bernoulli, cs.Poisson])
def test_mixture_parameters_must_be_positive(make):
    with pytest.raises(ValueError, match="a must"):
        make(a=0.0)
    with pytest.raises(ValueError, match="b must"):
        make(b=-1.0)
