"""E-detectors for a known pre-change class."""

import json
import math

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import (
    BettingIncrement,
    ConfidenceSequenceDetector,
    EDetector,
    GaussianIncrement,
    RangeError,
)

ORACLE = {
    "sr": [1.15691244, 2.65215730, 3.15175539, 5.31673487],
    "cusum": [1.15691244, 1.61097889, 1.44176952, 1.98756438],
}


@pytest.mark.parametrize("kind", ["sr", "cusum"])
def test_the_recursions_of_the_specification(kind):
    increment = BettingIncrement(0.3, 0.31, fractions=(0.1, 0.5))
    detector = EDetector(increment, kind=kind, arl=1e6)
    for x, value in zip((0.9, 0.8, 0.1, 1.0), ORACLE[kind], strict=True):
        detector.update(x)
        assert detector.upper_ == pytest.approx(value, abs=1e-8)
    trace = EDetector(increment, kind=kind, arl=1e6).detect([0.9, 0.8, 0.1, 1.0]).trace
    assert trace[1] == pytest.approx(ORACLE[kind], abs=1e-8)


@pytest.mark.parametrize("kind", ["sr", "cusum"])
@pytest.mark.parametrize("shifts", [[0.5], [0.5, -0.5, 2.0]])
def test_it_is_the_recursion_by_hand(kind, shifts):
    for seed in range(10):
        x = np.random.default_rng(seed).normal(0, 1, 200)
        x[100:] += 1
        value, expected = np.zeros(len(shifts)), None
        for t, observation in enumerate(x, start=1):
            for k, shift in enumerate(shifts):
                ratio = math.exp(shift * observation - shift**2 / 2)
                value[k] = (1 + value[k] if kind == "sr" else max(1.0, value[k])) * ratio
            if value.mean() >= 200:
                expected = t
                break
        detector = EDetector(GaussianIncrement(0.0, 1.0, shifts), kind=kind, arl=200)
        result = detector.detect(x)
        assert result.index == expected is not None
        assert detector.upper_ == pytest.approx(value.mean(), rel=1e-9)


def test_columns_are_averaged_after_the_recursion():
    # Two bets of which one doubles and one halves: averaged before, nothing would ever happen.
    detector = EDetector(lambda x: np.stack([0 * x + 1.5, 0 * x + 0.5], axis=1), arl=50)
    index = detector.detect(np.zeros(100)).index
    up = down = 0.0
    expected = 0
    while (up + down) / 2 < 50:
        up, down, expected = (1 + up) * 1.5, (1 + down) * 0.5, expected + 1
    assert index == expected < 12


def test_gaussian_increments_are_likelihood_ratios():
    from scipy.stats import norm

    x = np.linspace(-3, 5, 9)
    got = GaussianIncrement(1.0, 2.0, [0.5, -1.0])(x)
    for k, shift in enumerate([0.5, -1.0]):
        expected = norm.pdf(x, 1 + shift, 2) / norm.pdf(x, 1, 2)
        assert got[:, k] == pytest.approx(expected)


def test_betting_increments_are_fair_before_the_change():
    increment = BettingIncrement(10, 12, range=(0, 40))
    for mean in (10.0, 11.0, 12.0):
        share = mean / 40  # the two-point distribution on the ends with this mean
        expected = (1 - share) * increment(np.array([0.0])) + share * increment(np.array([40.0]))
        assert (expected <= 1 + 1e-12).all()
    assert np.allclose(
        increment(np.array([7.0, 31.0])),
        ref.factors(np.array([7.0, 31.0]) / 40, np.array([[0.25, 0.3]]), ref.FRACTIONS)[:, :, 0],
    )


def test_cusum_is_never_before_sr():
    for seed in range(20):
        x = np.random.default_rng(seed).normal(0.1, 1, 1500)
        index = {
            kind: EDetector(GaussianIncrement(0.0, 1.0, [0.5]), kind=kind, arl=100).detect(x).index
            for kind in ("sr", "cusum")
        }
        assert index["sr"] <= (index["cusum"] or 10_000)


def test_mean_run_length():
    rng = np.random.default_rng(0)
    lengths = []
    for _ in range(400):
        detector = EDetector(GaussianIncrement(0.0, 1.0, [0.5, -0.5]), arl=20)
        lengths.append(detector.detect(rng.normal(0, 1, 600), trace=False).index or 600)
    assert np.mean(lengths) - 3 * np.std(lengths) / 20 >= 20


@pytest.mark.parametrize("bad", [-0.1, math.nan])
def test_what_is_no_e_value_is_refused(bad):
    detector = EDetector(lambda x: np.where(x > 90, bad, 1.0), arl=100)
    detector.update_many([0.0] * 5)
    before = json.dumps(detector.state_dict())
    with pytest.raises(ValueError, match="e-values"):
        detector.update(99.0)
    with pytest.raises(ValueError, match="e-values"):
        detector.update_many([0.0, 99.0, 0.0])
    assert json.dumps(detector.state_dict()) == before
    detector.update(0.0)
    assert detector.n_ == 6


def test_a_failed_update_after_an_alarm_changes_nothing():
    detector = EDetector(lambda x: np.where(x > 90, np.nan, 3.0), arl=10)
    assert detector.detect(np.zeros(10)).alarm
    before = json.dumps(detector.state_dict())
    with pytest.raises(ValueError, match="e-values"):
        detector.update(99.0)
    assert detector.drift_detected
    assert json.dumps(detector.state_dict()) == before


def test_infinite_evidence_is_an_alarm():
    assert EDetector(lambda x: np.where(x > 0, np.inf, 1.0), arl=100).detect([0, 0, 1.0]).index == 3


def test_the_trace_runs_from_zero_to_the_value():
    noise = np.full(21, np.nan)  # so that memory left as it was found is not zero by chance
    del noise
    detector = EDetector(GaussianIncrement(0.0, 1.0, [1.0]), arl=20)
    result = detector.detect(np.repeat([0.0, 3.0], [20, 10]))
    assert result.index == 21
    assert (result.trace[0] == detector.lower_).all()
    assert result.trace[1][-1] == detector.upper_ >= 20


def test_out_of_range_values_are_named():
    detector = EDetector(BettingIncrement(0.2, 0.3), arl=100)
    detector.update(0.5)
    with pytest.raises(ValueError, match="range"):
        detector.update(1.5)
    with pytest.raises(RangeError, match="finite"):
        detector.update(math.nan)
    assert detector.n_ == 1


def test_it_finds_the_change_without_witnesses():
    x = np.random.default_rng(1).normal(0, 1, 400)
    x[200:] += 1.5
    detector = EDetector(GaussianIncrement(0.0, 1.0, [1.0, -1.0]), arl=1000)
    result = detector.detect(x)
    assert 200 < result.index < 220
    assert abs(result.change_point - 200) <= 3
    assert result.change_interval is None
    assert detector.witness_ is None
    assert result.detection.direction == "up"
    with pytest.raises(ValueError, match="confidence_set"):
        detector.confidence_set()


@pytest.mark.parametrize(
    ("given", "named"),
    [({"arl": 1}, "arl"), ({"kind": "max"}, "kind"), ({"on_nan": "clip"}, "on_nan")],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        EDetector(GaussianIncrement(0.0, 1.0, [1.0]), **given)


def test_bad_increments_are_refused():
    with pytest.raises(TypeError, match="increment"):
        EDetector(3.0)
    with pytest.raises(ValueError, match="sigma"):
        GaussianIncrement(0.0, 0.0, [1.0])
    for low, high in ((0.5, 0.4), (-0.1, 0.5), (0.5, 1.1)):
        with pytest.raises(ValueError, match="low"):
            BettingIncrement(low, high)
    with pytest.raises(ValueError, match="range"):
        BettingIncrement(0.5, 0.6, range=(1, 0))
    with pytest.raises(ValueError, match="fractions"):
        BettingIncrement(0.5, 0.6, fractions=(1.5,))


def test_an_increment_with_the_wrong_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="shape"):
        EDetector(lambda x: np.ones(2 * len(x)), arl=100).update_many(np.zeros(4))


def test_repeated_sequences_with_a_known_level_need_more_than_the_best_bet():
    x = np.random.default_rng(2).normal(0, 1, 600)
    x[300:] += 1
    e_detector = EDetector(GaussianIncrement(0.0, 1.0, [1.0]), arl=1000).detect(x)
    from cameraready.change_detection import cs

    repeated = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1000, theta0=0.0).detect(x)
    assert 300 < e_detector.index <= repeated.index < 360
