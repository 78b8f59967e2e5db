"""A confidence sequence of one's own."""

import json
import math

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, RangeError, cs


class MyGaussian:
    """The normal mixture in plain Python; its state is JSON-able."""

    def __init__(self, sigma, rho, alpha):
        self.sigma, self.rho, self.alpha = sigma, rho, alpha

    def start(self):
        return [0, 0.0]

    def update(self, state, x):
        return [state[0] + 1, state[1] + x]

    def interval(self, state):
        m, total = state
        log_term = math.log((m + self.rho) / (self.rho * self.alpha**2))
        half = self.sigma * math.sqrt((m + self.rho) * log_term) / m
        return total / m - half, total / m + half


class InPlace(MyGaussian):
    """Changes its state where it lies."""

    def update(self, state, x):
        state[0] += 1
        state[1] += x
        return state


def stream(seed, n=160):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, n)
    x[n // 2 :] += rng.choice([0.0, 1.0, -2.0])
    return x


@pytest.mark.parametrize("engine", ["exact", "geometric", "window"])
@pytest.mark.parametrize("given", [{}, {"theta0": 0.0}, {"theta0": (-0.5, 0.5)}])
@pytest.mark.parametrize("direction", ["both", "up", "down"])
def test_it_alarms_as_the_compiled_one_does(engine, given, direction):
    for seed in range(6):
        x = stream(seed)
        given = {"arl": 50, "engine": engine, "window": 20, "direction": direction, **given}
        mine = ConfidenceSequenceDetector(MyGaussian(1.0, 10.0, 0.02), **given)
        compiled = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), **given)
        first, second = mine.detect(x), compiled.detect(x)
        assert first.index == second.index
        assert np.allclose(first.trace, second.trace, atol=1e-9)
        assert mine.witness_ == compiled.witness_
        assert first.change_point == second.change_point


def test_as_many_are_active():
    mine = ConfidenceSequenceDetector(MyGaussian(1.0, 10.0, 0.02), arl=50)
    compiled = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=50)
    for x in [0.0] * 30 + [3.0] * 10:
        mine.update(x)
        compiled.update(x)
        assert mine.n_active_ == compiled.n_active_
        assert mine.drift_detected == compiled.drift_detected


def test_a_state_changed_in_place_is_as_good():
    x = stream(1)
    results = [
        ConfidenceSequenceDetector(make(1.0, 10.0, 0.02), arl=50).detect(x)
        for make in (MyGaussian, InPlace)
    ]
    assert results[0].index == results[1].index is not None


@pytest.mark.parametrize("make", [MyGaussian, InPlace])
def test_a_saved_state_is_not_changed_by_what_comes_after(make):
    x = stream(1)
    detector = ConfidenceSequenceDetector(make(1.0, 10.0, 0.02), arl=50)
    detector.update_many(x[:30])
    state = detector.state_dict()
    before = json.dumps(state)
    detector.update_many(x[30:60])
    assert json.dumps(state) == before
    other = ConfidenceSequenceDetector(make(1.0, 10.0, 0.02), arl=50)
    other.load_state_dict(state)
    other.update_many(x[30:60])
    assert json.dumps(state) == before
    assert json.dumps(other.state_dict()) == json.dumps(detector.state_dict())


def test_it_may_contradict_itself():
    class Drifting:
        def start(self):
            return 0

        def update(self, state, x):
            return state + 1

        def interval(self, state):
            return state, state + 1.5

    result = ConfidenceSequenceDetector(Drifting(), arl=10).detect(np.zeros(10))
    # Two observations give [1, 2.5] and [2, 3.5], three [3, 4.5] as well: empty.
    assert result.index == 3


def test_pfa_is_refused_since_the_level_is_not_the_detectors_to_set():
    with pytest.raises(ValueError, match="guarantee"):
        ConfidenceSequenceDetector(MyGaussian(1.0, 10.0, 0.02), guarantee="pfa")


def test_brute_force():
    raw = ref.gaussian
    x = stream(4, 60)
    brute = ref.repeated(lambda x, alpha: raw(x, alpha, 1.0, 10.0), x, 0.1)
    detector = ConfidenceSequenceDetector(MyGaussian(1.0, 10.0, 0.1), arl=10, engine="exact")
    assert detector.detect(x).index == brute.alarm
    assert detector.witness_ == brute.witness


@pytest.mark.parametrize("wrong", [object(), 3, None, cs.Gaussian, [0.0]])
def test_what_is_no_confidence_sequence_is_refused(wrong):
    with pytest.raises(TypeError, match="cs must be"):
        ConfidenceSequenceDetector(wrong)


def test_observations_are_checked():
    detector = ConfidenceSequenceDetector(MyGaussian(1.0, 10.0, 0.02), arl=50)
    detector.update(0.0)
    with pytest.raises(RangeError):
        detector.update(math.nan)
    with pytest.raises(ValueError, match="shape"):
        detector.update([0.0, 1.0])
    assert detector.n_ == 1


def test_an_error_of_ones_own_leaves_the_detector_as_it_was():
    class Choosy(MyGaussian):
        def update(self, state, x):
            if x > 90:
                raise ValueError("too much")
            return super().update(state, x)

    detector = ConfidenceSequenceDetector(Choosy(1.0, 10.0, 0.02), arl=50)
    detector.update_many(np.zeros(20))
    before = json.dumps(detector.state_dict())
    with pytest.raises(ValueError, match="too much"):
        detector.update(99.0)
    assert json.dumps(detector.state_dict()) == before
