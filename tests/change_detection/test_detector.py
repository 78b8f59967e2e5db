"""The repeated detector's options: directions, known levels, policies, restarts, bad input."""

import math

import numpy as np
import pytest

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    RangeError,
    cs,
)

ENGINES = ["exact", "geometric", "window"]
UP = np.repeat([0.0, 3.0], [100, 40])
DOWN_THEN_UP = np.repeat([0.0, -3.0, 0.0], [100, 60, 60])


def gaussian(**given):
    return ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), **{"arl": 100, **given})


# Directions.


@pytest.mark.parametrize("engine", ENGINES)
def test_a_change_the_other_way_gives_no_alarm(engine):
    assert gaussian(engine=engine, direction="up").detect(UP).index == 105
    assert gaussian(engine=engine, direction="both").detect(UP).index == 105
    assert not gaussian(engine=engine, direction="down").detect(UP).alarm
    assert not gaussian(engine=engine, direction="up").detect(-UP).alarm
    assert gaussian(engine=engine, direction="down").detect(-UP).index == 105


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_a_later_change_in_the_watched_direction_is_seen(engine, seed):
    x = DOWN_THEN_UP + np.random.default_rng(seed).normal(0, 0.5, len(DOWN_THEN_UP))
    detector = gaussian(engine=engine, direction="up")
    result = detector.detect(x)
    assert 160 < result.index < 172
    assert abs(result.change_point - 160) <= 2
    assert result.detection.direction == "up"
    assert result.detection.before == pytest.approx(-3, abs=0.5)
    (a, _), (c, _) = result.detection.witness
    assert a > c >= 100
    down = gaussian(engine=engine, direction="down").detect(x)
    assert 100 < down.index < 112
    assert down.detection.direction == "down"


def test_a_slow_way_back_is_no_change_in_the_watched_direction():
    # Down by much, then up by a little: the old high level must be forgotten.
    x = np.repeat([5.0, 0.0], [100, 300])
    assert not gaussian(direction="up").detect(x).alarm
    assert gaussian(direction="up").detect(np.append(x, np.full(50, 2.0))).index > 400


def test_a_change_passed_over_is_forgotten_by_the_trace():
    result = gaussian(direction="up").detect(-UP)
    lower, upper = result.trace
    assert len(lower) == len(UP)
    assert lower[104] == -math.inf
    assert upper[104] == math.inf
    for engine in ("exact", "hull"):
        detector = ConfidenceSequenceDetector(
            cs.Hoeffding(lam=1.0), arl=100, engine=engine, direction="up"
        )
        x = np.repeat([1.0, 0.0], [100, 100])
        lower, upper = detector.detect(x).trace
        # The intersection is never shown empty unless it raises the alarm.
        assert (lower <= upper).all(), engine


@pytest.mark.parametrize(
    "sequence", [cs.VectorMean(cs.Gaussian(), 2), cs.CDF(True, [0.0, 1.0])], ids=repr
)
def test_directions_are_for_one_number(sequence):
    with pytest.raises(ValueError, match="direction"):
        ConfidenceSequenceDetector(sequence, direction="up")


# A level known beforehand.


@pytest.mark.parametrize("engine", ENGINES)
def test_a_known_level_makes_the_alarm_earlier(engine):
    x = np.repeat([0.0, 1.0], [20, 100])
    known = gaussian(engine=engine, theta0=0.0).detect(x)
    between = gaussian(engine=engine, theta0=(-0.3, 0.3)).detect(x)
    unknown = gaussian(engine=engine).detect(x)
    assert 20 < known.index < between.index < (unknown.index or 1000)


@pytest.mark.parametrize("seed", range(5))
def test_with_a_known_level_the_change_is_looked_for_in_the_whole_cycle(seed):
    # The known end has no start: what came before the contradicting segment counts as well.
    x = np.random.default_rng(seed).normal(0, 1, 260)
    x[200:] += 2
    for engine in ("exact", "geometric"):
        result = gaussian(engine=engine, theta0=0.0, arl=1000).detect(x)
        assert 200 < result.index < 215
        assert abs(result.change_point - 200) <= 3
        assert result.detection.before == pytest.approx(0, abs=0.3)
        assert result.detection.witness[1] == (0, 0)
        assert result.change_interval is None


def test_a_known_level_and_a_direction():
    x = np.repeat([0.0, -3.0, 3.0], [50, 30, 30])
    assert 50 < gaussian(theta0=0.0, direction="down").detect(x).index < 60
    assert 80 < gaussian(theta0=0.0, direction="up").detect(x).index < 90
    assert 50 < gaussian(theta0=(-0.5, 0.5), direction="both").detect(x).index < 60


def test_a_known_vector():
    sequence = cs.VectorMean(cs.Gaussian(1.0, 10.0), 2)
    x = np.tile([1.0, 5.0], (30, 1))
    right = ConfidenceSequenceDetector(sequence, arl=100, theta0=[1.0, 5.0])
    assert not right.detect(x).alarm
    wrong = ConfidenceSequenceDetector(sequence, arl=100, theta0=[1.0, 0.0])
    assert wrong.detect(x).alarm
    between = ConfidenceSequenceDetector(sequence, arl=100, theta0=([0.0, 4.0], [2.0, 6.0]))
    assert not between.detect(x).alarm


@pytest.mark.parametrize(
    ("sequence", "theta0"),
    [
        (cs.Gaussian(), (0.6, 0.4)),
        (cs.Gaussian(), math.nan),
        (cs.Gaussian(), (0.0, math.nan)),
        (cs.Gaussian(), (1.0, 2.0, 3.0)),
        (cs.Gaussian(), "much"),
        (cs.VectorMean(cs.Gaussian(), 2), [1.0, 2.0, 3.0]),
        ("bounded", 2.0),
        ("betting", (1.5, 2.0)),
    ],
)
def test_a_known_level_that_makes_no_sense_is_refused(sequence, theta0):
    with pytest.raises(ValueError, match="theta0"):
        ConfidenceSequenceDetector(sequence, theta0=theta0)


# Values out of range or not finite.


def test_out_of_range_raises():
    detector = ConfidenceSequenceDetector("bounded")
    detector.update(0.5)
    for value, shown in ((1.5, 1.5), (-0.1, -0.1)):
        with pytest.raises(RangeError, match=r"outside the declared range \[0, 1\]") as caught:
            detector.update(value)
        assert (caught.value.index, caught.value.value) == (2, shown)
    with pytest.raises(RangeError) as caught:
        detector.update_many([0.1, 0.2, 7.0, 9.0])
    assert (caught.value.index, caught.value.value) == (4, 7.0)
    assert detector.n_ == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_what_is_not_finite_raises(value):
    detector = ConfidenceSequenceDetector("bounded", on_range="clip")
    with pytest.raises(RangeError, match="not finite"):
        detector.update(value)
    assert detector.n_ == 0
    detector = ConfidenceSequenceDetector("bounded", on_nan="skip")
    detector.update(value)
    assert (detector.n_, detector.n_skipped_) == (0, 1)


def test_clipping():
    x = np.random.default_rng(0).normal(0.5, 0.6, 300)
    clipped = ConfidenceSequenceDetector("bounded", arl=100, on_range="clip")
    plain = ConfidenceSequenceDetector("bounded", arl=100)
    first, second = clipped.detect(x), plain.detect(np.clip(x, 0, 1))
    assert np.array_equal(first.trace, second.trace)
    assert clipped.n_skipped_ == 0
    one = ConfidenceSequenceDetector("bounded", arl=100, on_range="clip")
    for value in x:
        one.update(value)
    assert (one.lower_, one.upper_) == (clipped.lower_, clipped.upper_)


def test_skipping():
    x = np.random.default_rng(0).normal(0.5, 0.6, 300)
    x[::10] = np.nan
    skipping = ConfidenceSequenceDetector("bounded", arl=100, on_range="skip", on_nan="skip")
    plain = ConfidenceSequenceDetector("bounded", arl=100)
    inside = x[(x >= 0) & (x <= 1)]
    first, second = skipping.detect(x), plain.detect(inside)
    assert np.array_equal(first.trace, second.trace)
    assert skipping.n_ == len(inside)
    assert skipping.n_skipped_ == len(x) - len(inside)


def test_the_index_of_a_wrong_value_counts_those_left_out():
    detector = ConfidenceSequenceDetector("bounded", on_nan="skip")
    detector.update_many([0.5, math.nan, 0.5])
    with pytest.raises(RangeError) as caught:
        detector.update_many([math.nan, 0.5, 3.0])
    assert caught.value.index == 6
    assert (detector.n_, detector.n_skipped_) == (2, 1)


def test_skipping_everything():
    detector = ConfidenceSequenceDetector("bounded", on_nan="skip")
    result = detector.detect([math.nan] * 5)
    assert not result.alarm
    assert (detector.n_, detector.n_skipped_) == (0, 5)
    assert len(result.trace[0]) == 0


# Shapes and arguments.


@pytest.mark.parametrize("wrong", [[0.1, 0.2], np.zeros(3), [[0.1, 0.2]], np.zeros((2, 2, 2))])
def test_a_vector_is_refused_where_a_number_is_expected(wrong):
    detector = ConfidenceSequenceDetector("bounded")
    with pytest.raises(ValueError, match=r"\(observations,\)"):
        detector.update(wrong)
    assert detector.n_ == 0
    with pytest.raises(ValueError, match=r"\(observations,\)"):
        detector.detect(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"\(observations,\)"):
        detector.detect(0.5)


def test_text_is_refused():
    with pytest.raises(ValueError, match=r"observation|float"):
        ConfidenceSequenceDetector("bounded").update("half")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"cs": "gauss"}, "cs"),
        ({"arl": 1}, "arl"),
        ({"arl": 0.5}, "arl"),
        ({"arl": -3}, "arl"),
        ({"arl": math.inf}, "arl"),
        ({"arl": math.nan}, "arl"),
        ({"growth": 1.0}, "growth"),
        ({"growth": 0.5}, "growth"),
        ({"range": (1, 0)}, "range"),
        ({"range": (1, 1)}, "range"),
        ({"range": (0, math.nan)}, "range"),
        ({"direction": "left"}, "direction"),
        ({"engine": "fast"}, "engine"),
        ({"window": 0}, "window"),
        ({"window": 2.5}, "window"),
        ({"guarantee": "fdr"}, "guarantee"),
        ({"on_range": "ignore"}, "on_range"),
        ({"on_nan": "clip"}, "on_nan"),
        ({"history": -1}, "history"),
        ({"engine": "hull"}, "hull"),
    ],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        ConfidenceSequenceDetector(**given)


@pytest.mark.parametrize("given", [{"arl": "many"}, {"growth": None}, {"range": 3}, {"cs": 3}])
def test_arguments_of_the_wrong_type_are_named(given):
    with pytest.raises(TypeError, match=next(iter(given))):
        ConfidenceSequenceDetector(**given)


def test_the_named_sequences():
    x = np.random.default_rng(0).beta(2, 3, 150) * 4 - 1
    for name, sequence in (
        ("bounded", cs.EmpiricalBernstein((-1, 3))),
        ("betting", cs.Betting((-1, 3), cells=100)),
        ("hoeffding", cs.Hoeffding((-1, 3))),
    ):
        first = ConfidenceSequenceDetector(name, arl=50, range=(-1, 3)).detect(x)
        second = ConfidenceSequenceDetector(sequence, arl=50).detect(x)
        assert np.array_equal(first.trace, second.trace)


def test_the_level_of_a_sequence_is_replaced():
    for alpha in (0.5, 1e-6):
        sequence = cs.Gaussian(1.0, 10.0, alpha=alpha)
        result = ConfidenceSequenceDetector(sequence, arl=20).detect(np.zeros(1))
        assert result.trace[1][0] == pytest.approx(8.18257429, abs=1e-8)
        assert sequence.alpha == alpha
        assert sequence.n_ == 0


# Cycles.


def test_several_changes_after_the_alarm():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 4.0, 1.0, 6.0], 150) + rng.normal(0, 1, 600)
    detector = gaussian(arl=1000)
    points = detector.detect_all(x)
    assert len(points) == 3
    assert np.allclose(points, [150, 300, 450], atol=2)
    assert len(detector.alarms_) == len(detector.detections_) == 3
    for alarm, true in zip(detector.alarms_, (150, 300, 450), strict=True):
        assert true < alarm < true + 25
    # The same as feeding the stream.
    stream = gaussian(arl=1000)
    assert stream.update_many(x) == detector.alarms_


def test_several_changes_at_the_change():
    rng = np.random.default_rng(1)
    x = np.repeat([0.0, 4.0, 1.0, 6.0], 150) + rng.normal(0, 1, 600)
    detector = gaussian(arl=1000)
    points = detector.detect_all(x, restart="at_change")
    assert np.allclose(points, [150, 300, 450], atol=2)
    assert detector.n_ == len(x)


def test_at_change_uses_what_came_since_the_change():
    # The second level lasts 14: after the alarm too few are left to know it by.
    x = np.repeat([0.0, 5.0, 0.0], [100, 12, 100])
    assert len(gaussian(arl=1000).detect_all(x, restart="at_change")) == 2
    points = gaussian(arl=1000).detect_all(x, restart="at_change")
    assert points == [100, 112]


@pytest.mark.parametrize("restart", ["after_alarm", "at_change"])
@pytest.mark.parametrize("make", ["gaussian", "betting", "sr", "cdf", "hull"])
def test_no_change_is_found_twice_and_every_cycle_moves_on(restart, make):
    rng = np.random.default_rng(2)
    x = np.clip(np.repeat([0.2, 0.8, 0.3, 0.9], 120) + rng.normal(0, 0.08, 480), 0, 1)
    detector = {
        "gaussian": lambda: ConfidenceSequenceDetector(cs.Gaussian(0.1), arl=200),
        "betting": lambda: ConfidenceSequenceDetector("betting", arl=200),
        "sr": lambda: CompositeEDetector(arl=5000),
        "cdf": lambda: ConfidenceSequenceDetector(cs.CDF(True, window=30), arl=200),
        "hull": lambda: ConfidenceSequenceDetector(cs.Hoeffding(lam=1.0), arl=20, engine="hull"),
    }[make]()
    points = detector.detect_all(x, restart=restart)
    assert np.allclose(points, [120, 240, 360], atol=8)
    assert (np.diff(points) > 0).all()


def test_a_stream_that_alarms_at_once_and_always():
    # Hostile: every observation is news. It must come to an end all the same.
    x = 1e6 * np.arange(300.0) ** 2
    for restart in ("after_alarm", "at_change"):
        detector = gaussian()
        points = detector.detect_all(x, restart=restart)
        assert detector.n_ == 300
        assert len(points) <= 300


def test_an_unknown_restart_is_refused():
    with pytest.raises(ValueError, match="restart"):
        gaussian().detect_all(UP, restart="never")


def test_without_history_the_alarm_stands_for_the_change_point():
    detector = gaussian(history=0)
    result = detector.detect(UP)
    assert result.index == 105
    assert result.change_point is None
    assert result.change_interval == (100, 100)
    for restart in ("after_alarm", "at_change"):
        assert gaussian(history=0).detect_all(UP, restart=restart) == [105]


def test_a_short_history_is_enough_where_the_change_is_recent():
    x = np.repeat([0.0, 3.0], [5000, 40])
    detector = gaussian(history=50)
    result = detector.detect(x)
    assert result.change_point == 5000
    assert detector.n_ == result.index


def test_positions_count_from_the_beginning_of_the_stream_in_every_cycle():
    x = np.concatenate([UP, np.repeat([3.0, 0.0], [100, 40])])
    detector = gaussian()
    detector.update_many(x)
    first, second = detector.detections_
    assert first.index == 105
    assert first.change_interval == (100, 100)
    assert second.index > 240
    assert second.change_point == 240
    for start, end in second.witness:
        assert 105 < start <= end <= second.index
    assert second.direction == "down"


@pytest.mark.parametrize("name", ["gaussian", "bounded", "betting", "bernoulli"])
def test_at_an_alarm_the_ends_contradict_each_other(name):
    sequence = cs.Gaussian(0.5) if name == "gaussian" else name
    x = np.repeat([0.0, 1.0], 200)
    detector = ConfidenceSequenceDetector(sequence, arl=100)
    result = detector.detect(x)
    assert result.alarm
    assert result.trace[0][-1] > result.trace[1][-1]
    assert (result.trace[0][:-1] <= result.trace[1][:-1]).all()
    # Two cells that only share an edge exclude each other: there the ends may be equal.
    assert detector.lower_ >= detector.upper_ if name == "betting" else True
    assert name == "betting" or detector.lower_ > detector.upper_
