"""Run lengths and delays by simulation, against brute force."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.change_detection import CompositeEDetector, simulate_arl, simulate_delay
from cameraready.change_detection.simulation import (
    RunLengths,
    restricted_mean,
    summarise_delays,
)


def lowered_curve(lengths, horizon, level):
    """The integral of the lowered survival curve, one unit of time after the other."""
    lengths = np.asarray(lengths)
    margin = math.sqrt(math.log(1 / (1 - level)) / (2 * len(lengths)))
    return sum(max((lengths > t).mean() - margin, 0.0) for t in range(horizon))


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=80),
    st.integers(1, 50),
    st.sampled_from([0.5, 0.9, 0.95, 0.999]),
)
@settings(max_examples=100, deadline=None)
def test_restricted_mean_is_the_integral_of_the_lowered_curve(lengths, horizon, level):
    found = restricted_mean(np.array(lengths), horizon, level)
    assert found == pytest.approx(lowered_curve(lengths, horizon, level), abs=1e-9)
    assert 0 <= found <= np.minimum(lengths, horizon).mean() + 1e-12


def test_restricted_mean_of_many_equal_lengths_comes_near_them():
    assert restricted_mean(np.full(10**6, 50), 100) == pytest.approx(50, abs=0.1)
    assert restricted_mean(np.full(10**6, 500), 100) == pytest.approx(100, abs=0.2)


def test_the_lower_bound_covers():
    """Exponential run lengths: the bound fails in at most 5 % of the samples."""
    rng = np.random.default_rng(0)
    samples, horizon, mean = 400, 150, 100.0
    # Of the run length rounded up: the sum of P(T > t).
    truth = sum(math.exp(-t / mean) for t in range(horizon))
    misses = 0
    for _ in range(samples):
        lengths = np.ceil(rng.exponential(mean, 40)).astype(int)
        misses += restricted_mean(lengths, horizon) > truth
    assert misses <= samples * 0.05 + 3.7 * math.sqrt(samples * 0.05 * 0.95)


class Scripted:
    """A detector that alarms where it is told; it keeps what it was shown."""

    def __init__(self, alarms):
        self.alarms = list(alarms)
        self.shown = []

    def detect(self, array, trace=True):
        assert trace is False
        self.shown.append(np.array(array))
        return SimpleNamespace(index=self.alarms[len(self.shown) - 1])


def test_run_lengths_of_a_scripted_detector():
    alarms = [3, None, 10, 3]
    detector = Scripted(alarms)
    found = simulate_arl(detector, lambda g, n: g.random(n), n_rep=4, horizon=10, seed=1)
    assert found.run_lengths.tolist() == [3, 10, 10, 3]
    assert found.alarmed.tolist() == [True, False, True, True]
    assert found.horizon == 10
    assert found.mean == 6.5
    assert found.standard_error == pytest.approx(np.std([3, 10, 10, 3], ddof=1) / 2)
    assert found.lower == pytest.approx(lowered_curve([3, 10, 10, 3], 10, 0.95))
    assert np.shape(detector.shown) == (4, 10)
    assert len(np.unique(detector.shown)) == 40  # every stream is a fresh one


def test_one_stream_has_no_standard_error():
    found = simulate_arl(Scripted([3]), lambda g, n: g.random(n), n_rep=1, horizon=10)
    assert found.mean == 3
    assert math.isnan(found.standard_error)


def test_the_survival_curve():
    lengths = RunLengths(
        6.5, 0.0, 0.0, np.array([3, 10, 10, 3]), np.array([True, False, True, True]), 10
    )
    times, left = lengths.survival()
    assert times.tolist() == [0, 3, 10]
    # At 10 one has alarmed and one has not; neither is known to live on.
    assert left.tolist() == [1.0, 0.5, 0.0]
    silent = RunLengths(9.0, 0.0, 0.0, np.array([9, 9]), np.array([False, False]), 9)
    assert [part.tolist() for part in silent.survival()] == [[0], [1.0]]


def test_delays_of_a_scripted_detector():
    detector = Scripted([5, 25, None, 20, 21])
    shapes = []

    def sampler(generator, before, after):
        shapes.append((before, after))
        return np.concatenate([generator.random(before), generator.random(after)])

    found = simulate_delay(detector, sampler, change=20, n_rep=5, horizon=30, seed=1)
    assert shapes == [(20, 30)] * 5
    np.testing.assert_array_equal(found.delays, [np.nan, 5, 30, np.nan, 1])
    assert found.mean == 12
    assert found.standard_error == pytest.approx(np.std([5, 30, 1], ddof=1) / math.sqrt(3))
    assert found.missed == pytest.approx(1 / 3)
    assert found.false_alarms == pytest.approx(2 / 5)


def test_delays_where_all_alarmed_before_the_change():
    found = summarise_delays([1, 20], 20, 30)
    assert found.false_alarms == 1
    assert math.isnan(found.mean)
    assert math.isnan(found.missed)
    assert np.isnan(found.delays).all()


def test_delays_where_none_alarmed():
    found = summarise_delays([None, None], 20, 30)
    assert (found.mean, found.missed, found.false_alarms) == (30, 1, 0)


def test_the_same_seed_gives_the_same_streams():
    detector = CompositeEDetector(arl=20)

    def arl(seed):
        return simulate_arl(detector, lambda g, n: g.random(n), 30, 200, seed).run_lengths.tolist()

    def delay(seed):
        def sampler(generator, before, after):
            return np.concatenate([generator.random(before), generator.random(after) ** 4])

        return simulate_delay(detector, sampler, 20, 30, 200, seed).delays.tolist()

    assert arl(3) == arl(3) == arl(np.random.default_rng(3))
    assert arl(3) != arl(4)
    np.testing.assert_array_equal(delay(3), delay(3))
    assert str(delay(3)) != str(delay(4))


def test_every_stream_begins_afresh():
    detector = CompositeEDetector(arl=20)
    detector.update_many([0.1, 0.9] * 5)
    first = simulate_arl(detector, lambda g, n: g.random(n), 20, 200, 0)
    second = simulate_arl(CompositeEDetector(arl=20), lambda g, n: g.random(n), 20, 200, 0)
    assert first.run_lengths.tolist() == second.run_lengths.tolist()


def test_the_guarantee_of_the_detector_that_uses_it_up():
    found = simulate_arl(
        CompositeEDetector(arl=20, history=0), lambda g, n: g.random(n), 500, 300, 0
    )
    assert 20 <= found.lower < found.mean < 60


@pytest.mark.parametrize("name", ["n_rep", "horizon"])
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_of_streams_and_observations_are_checked(name, value):
    detector = CompositeEDetector()
    with pytest.raises(ValueError, match=name):
        simulate_arl(detector, lambda g, n: g.random(n), **{name: value})
    with pytest.raises(ValueError, match=name):
        simulate_delay(detector, lambda g, a, b: g.random(a + b), **{name: value})


def test_the_place_of_the_change_is_checked():
    with pytest.raises(ValueError, match="change"):
        simulate_delay(CompositeEDetector(), lambda g, a, b: g.random(a + b), change=-1)
