"""Lorden's scheme, and that repeated sequences with a known level are the same."""

import json
import math

import numpy as np
import pytest

from cameraready.change_detection import (
    ConfidenceSequenceDetector,
    LordenDetector,
    NormalMixtureTest,
    RangeError,
    cs,
)


@pytest.mark.parametrize("engine", ["exact", "geometric", "window"])
@pytest.mark.parametrize("rho", [1.0, 10.0, 60.0])
def test_it_is_the_repeated_sequence_with_a_known_level(engine, rho):
    alarms = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mean, sigma, arl = rng.normal(), rng.uniform(0.3, 3), float(rng.choice([3, 30, 300]))
        x = rng.normal(mean, sigma, 250)
        x[125:] += sigma * rng.choice([-1.0, 0.0, 1.0])
        given = {"arl": arl, "engine": engine, "window": 30}
        lorden = LordenDetector(NormalMixtureTest(mean, sigma, rho), **given)
        repeated = ConfidenceSequenceDetector(cs.Gaussian(sigma, rho), theta0=mean, **given)
        assert lorden.update_many(x) == repeated.update_many(x)
        alarms += len(lorden.alarms_)
    assert alarms > 10


def test_it_is_the_first_rejection_of_any_start():
    test = NormalMixtureTest(0.0, 1.0, 10.0)
    for seed in range(5):
        x = np.random.default_rng(seed).normal(0, 1, 120)
        x[60:] += 1
        first = None
        for t in range(1, 121):
            for s in range(1, t + 1):
                total = x[s - 1 : t].sum()
                m = t - s + 1
                log_e = total**2 / (2 * (m + 10)) - 0.5 * math.log((m + 10) / 10)
                if first is None and log_e >= math.log(50):
                    first = t
        assert LordenDetector(test, arl=50, engine="exact").detect(x).index == first is not None


def test_the_mixture_is_an_e_value():
    # Integrate against the standard normal for one observation.
    test = NormalMixtureTest(1.0, 2.0, 3.0)
    z = np.linspace(-12, 12, 20_001)
    e = np.exp(z**2 / (2 * 4)) / math.sqrt(4 / 3)
    assert np.trapezoid(e * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi), z) == pytest.approx(1)
    crossing = z[e >= 5].clip(0).max()
    least = z[(z > 0) & (e >= 5)].min()
    assert crossing > least
    for offset, rejected in ((-0.01, False), (0.01, True)):
        state = test.update(test.start(), 1.0 + 2.0 * (least + offset))
        assert test.rejects(state, 0.2) is rejected


def test_the_change_is_looked_for_in_the_whole_cycle():
    # The rejecting start lies after the change; what was before must be looked at as well.
    for seed in range(5):
        x = np.random.default_rng(seed).normal(0, 1, 260)
        x[200:] += 2
        for engine in ("exact", "geometric"):
            detector = LordenDetector(NormalMixtureTest(0.0, 1.0, 10.0), arl=1000, engine=engine)
            result = detector.detect(x)
            assert abs(result.change_point - 200) <= 3
            assert result.detection.direction == "up"
            assert result.change_interval is None


def test_a_test_of_ones_own():
    class Three:
        def start(self):
            return 0

        def update(self, state, x):
            return state + 1 if x > 0 else 0

        def rejects(self, state, alpha):
            return state >= -math.log2(alpha)

    result = LordenDetector(Three(), arl=8).detect([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    assert result.index == 6


def test_a_new_cycle_after_an_alarm():
    x = np.repeat([0.0, 3.0, 0.0, -3.0], [20, 8, 30, 10])
    detector = LordenDetector(NormalMixtureTest(0.0, 1.0, 10.0), arl=20)
    alarms = detector.update_many(x)
    assert alarms[0] == 24
    assert any(58 < alarm <= 68 for alarm in alarms)


def test_a_saved_state_goes_on_and_is_not_changed_by_what_comes_after():
    make = lambda: LordenDetector(NormalMixtureTest(0.0, 1.0, 10.0), arl=20)  # noqa: E731
    x = np.random.default_rng(0).normal(0, 1, 200)
    x[100:] += 1
    for cut in (0, 1, 50, 105, 130):
        detector, other = make(), make()
        detector.update_many(x[:cut])
        state = detector.state_dict()
        text = json.dumps(state)
        expected = detector.update_many(x[cut:])
        assert json.dumps(state) == text
        other.load_state_dict(json.loads(text))
        assert other.update_many(x[cut:]) == expected
        assert json.dumps(other.state_dict()) == json.dumps(detector.state_dict())


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"arl": 1.0}, "arl"),
        ({"growth": 1.0}, "growth"),
        ({"engine": "hull"}, "engine"),
        ({"engine": "window", "window": 0}, "window"),
        ({"window": -3}, "window"),
        ({"on_nan": "clip"}, "on_nan"),
        ({"history": 1.5}, "history"),
    ],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        LordenDetector(NormalMixtureTest(0.0, 1.0), **given)


def test_bad_tests_are_refused():
    with pytest.raises(TypeError, match="test must"):
        LordenDetector(cs.Gaussian())
    with pytest.raises(ValueError, match="sigma"):
        NormalMixtureTest(0.0, -1.0)
    with pytest.raises(ValueError, match="rho"):
        NormalMixtureTest(0.0, 1.0, 0.0)


def test_observations_are_checked():
    detector = LordenDetector(NormalMixtureTest(0.0, 1.0), on_nan="skip")
    detector.update_many([0.0, math.nan, 1.0])
    assert (detector.n_, detector.n_skipped_) == (2, 1)
    detector = LordenDetector(NormalMixtureTest(0.0, 1.0))
    with pytest.raises(RangeError) as caught:
        detector.update_many([0.0, math.inf])
    assert caught.value.index == 2
    assert caught.value.value == math.inf
