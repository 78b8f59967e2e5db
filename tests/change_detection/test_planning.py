"""Plans against the formulas, and against what then happens."""

import math

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import (
    ConfidenceSequenceDetector,
    cs,
    detectable_shift,
    plan,
    simulate_delay,
)
from cameraready.change_detection.planning import diameters


def gaussian_lengths(n, sigma, rho, alpha):
    """Of the nested intervals: twice the least half-width so far."""
    lower, upper = ref.gaussian(np.zeros(n), alpha, sigma, rho)
    return np.minimum.accumulate(upper - lower)


def tuned(alpha, tune_at):
    """rho = m / (u - 1), u - log u = 1 + log(1/alpha^2), by bisection."""
    low, high = 1.0 + 1e-9, 1e6
    for _ in range(200):
        u = (low + high) / 2
        low, high = (u, high) if u - math.log(u) < 1 - 2 * math.log(alpha) else (low, u)
    return tune_at / (u - 1)


def first(lengths, bound):
    for n, length in enumerate(lengths, start=1):
        if length < bound:
            return n
    return None


@pytest.mark.parametrize("sigma", [1.0, 3.0])
@pytest.mark.parametrize(("rho", "tune_at"), [(10.0, 100.0), (None, 50.0), (None, 100.0)])
def test_a_gaussian_plan_is_the_formula(sigma, rho, tune_at):
    arl, shift, before = 500.0, 0.8 * sigma, 900
    alpha = 1 / arl
    used = tuned(alpha, tune_at) if rho is None else rho
    lengths = gaussian_lengths(5000, sigma, used, alpha)
    found = plan(arl, shift, cs.Gaussian(sigma, rho, tune_at), before=before, longest=5000)
    assert found.arl == arl
    assert found.shift == shift
    assert found.before == before
    assert found.minimum_before == first(lengths, shift)
    scale = 1 / (1 - alpha)
    # Neighbouring ages of the geometric engine satisfy older <= growth newer + 2.
    u, known = first(lengths, shift - lengths[before - 1]), first(lengths, shift)
    assert found.delay_bound == pytest.approx((1.2 * u + 2) * scale)
    assert found.delay_bound_known == pytest.approx((1.2 * known + 2) * scale)
    every = plan(
        arl, shift, cs.Gaussian(sigma, rho, tune_at), before=before, longest=5000, growth=1.0
    )
    assert every.delay_bound == pytest.approx(u * scale)


def test_ten_times_the_least_number_come_before_unless_said():
    found = plan(1000, 1.0, cs.Gaussian())
    assert found.before == 10 * found.minimum_before
    assert plan(1000, 1.0, cs.Gaussian(), longest=100).before == 100


def test_the_sequences_own_level_does_not_matter():
    assert plan(1000, 1.0, cs.Gaussian(alpha=0.3)) == plan(1000, 1.0, cs.Gaussian(alpha=0.01))


def test_without_a_sequence_it_is_empirical_bernstein():
    assert plan(1000, 0.3) == plan(1000, 0.3, cs.EmpiricalBernstein())


def test_a_shift_that_is_too_small_has_no_bound():
    found = plan(1000, 1e-3, cs.Gaussian(), longest=1000)
    assert found.minimum_before is None
    assert found.before == 1000
    assert found.delay_bound == found.delay_bound_known == math.inf


def test_too_little_before_the_change_leaves_only_the_known_level():
    least = plan(1000, 1.0, cs.Gaussian()).minimum_before
    assert plan(1000, 1.0, cs.Gaussian(), before=least - 1).delay_bound == math.inf
    just = plan(1000, 1.0, cs.Gaussian(), before=least)
    assert just.delay_bound >= just.delay_bound_known
    assert math.isfinite(just.delay_bound_known)


def test_more_before_never_makes_it_slower_and_larger_shifts_are_found_sooner():
    bounds = [plan(1000, 1.0, cs.Gaussian(), before=n).delay_bound for n in (100, 300, 1000, 9000)]
    assert bounds == sorted(bounds, reverse=True)
    bounds = [plan(1000, s, cs.Gaussian(), before=5000).delay_bound for s in (0.3, 0.5, 1.0, 2.0)]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("before", [1, 10, 400])
def test_the_detectable_shift_is_the_length_before_the_change(before):
    alpha = 1e-3
    expected = gaussian_lengths(before, 2.0, 10.0, alpha)[-1]
    assert detectable_shift(cs.Gaussian(2.0, 10.0, alpha=alpha), before) == pytest.approx(expected)


def test_plan_and_detectable_shift_agree():
    sequence = cs.Gaussian()
    unseen = detectable_shift(sequence.with_alpha(1e-3), 700)
    assert plan(1000, unseen * 0.999, sequence, before=700).delay_bound == math.inf
    assert math.isfinite(plan(1000, unseen * 1.2, sequence, before=700).delay_bound)


@pytest.mark.parametrize(
    "sequence", [cs.EmpiricalBernstein(), cs.Hoeffding(), cs.Betting(), cs.Bernoulli()]
)
def test_lengths_of_bounded_sequences_shrink(sequence):
    lengths = diameters(sequence.with_alpha(1e-3), 2000)
    assert lengths.shape == (2000,)
    assert (np.diff(lengths) <= 1e-12).all()
    assert 0 < lengths[-1] < 0.5


def test_lengths_scale_with_the_range():
    unit = diameters(cs.EmpiricalBernstein(alpha=0.01), 500, 0.1)
    wide = diameters(cs.EmpiricalBernstein((-5.0, 15.0), alpha=0.01), 500, 2.0)
    np.testing.assert_allclose(wide, 20 * unit)


def test_less_spread_gives_shorter_intervals():
    ends = [diameters(cs.EmpiricalBernstein(), 3000, s)[-1] for s in (0.05, 0.2, 0.5)]
    assert ends == sorted(ends)
    assert (
        diameters(cs.EmpiricalBernstein(), 50, 0.5)[-1]
        == diameters(cs.EmpiricalBernstein(), 50)[-1]
    )


def test_empirical_bernstein_lengths_are_the_formula():
    n, spread = 300, 0.2
    stream = 0.5 + spread * np.where(np.arange(n) % 2, 1.0, -1.0)
    lower, upper = ref.nested(ref.empirical_bernstein(stream, 0.01, (0.0, 1.0)))
    np.testing.assert_allclose(
        diameters(cs.EmpiricalBernstein(alpha=0.01), n, spread), upper - lower
    )


def shifted(shift):
    def sampler(generator, before, after):
        return generator.normal(size=before + after) + np.repeat([0.0, shift], [before, after])

    return sampler


def test_the_mean_delay_keeps_to_the_bound():
    arl, shift, before = 100.0, 1.2, 400
    found = plan(arl, shift, cs.Gaussian(), before=before)
    detector = ConfidenceSequenceDetector(cs.Gaussian(), arl, history=0)
    measured = simulate_delay(detector, shifted(shift), before, 60, 1000, seed=0)
    assert measured.mean + 4 * measured.standard_error <= found.delay_bound
    detector = ConfidenceSequenceDetector(cs.Gaussian(), arl, theta0=0.0, history=0)
    measured = simulate_delay(detector, shifted(shift), before, 60, 1000, seed=0)
    assert measured.mean + 4 * measured.standard_error <= found.delay_bound_known


def test_the_mean_delay_keeps_to_the_bound_for_bounded_values():
    arl, before = 100.0, 800
    found = plan(arl, 0.6, cs.EmpiricalBernstein(), before=before)
    detector = ConfidenceSequenceDetector("bounded", arl, history=0)

    def sampler(generator, n, m):
        return (generator.random(n + m) < np.repeat([0.2, 0.8], [n, m])).astype(float)

    measured = simulate_delay(detector, sampler, before, 40, 1000, seed=0)
    assert measured.mean + 4 * measured.standard_error <= found.delay_bound


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"arl": 1}, "arl"),
        ({"arl": math.nan}, "arl"),
        ({"shift": 0}, "shift"),
        ({"shift": -1}, "shift"),
        ({"shift": math.inf}, "shift"),
        ({"before": 0}, "before"),
        ({"before": 1001}, "before must be a whole number from 1 to 1000"),
        ({"before": 2.5}, "before"),
        ({"before": True}, "before"),
        ({"standard_deviation": 0.0}, "standard_deviation"),
        ({"standard_deviation": 0.51}, "standard_deviation"),
        ({"cs": cs.Bernoulli(), "standard_deviation": 0.3}, "standard_deviation"),
        ({"cs": cs.Catoni(1.0)}, "Catoni"),
        ({"cs": cs.CDF(assume_iid=True)}, "CDF"),
    ],
)
def test_bad_plans(arguments, words):
    with pytest.raises(ValueError, match=words):
        plan(**{"arl": 1000, "shift": 0.5, "longest": 1000} | arguments)
