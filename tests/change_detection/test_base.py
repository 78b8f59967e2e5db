"""The interface of all detectors: streams, batches, states, river."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    EDetector,
    GaussianIncrement,
    LordenDetector,
    NormalMixtureTest,
    cs,
)

GRID = list(np.linspace(-2, 5, 12))


def make_repeated(sequence, **given):
    return lambda: ConfidenceSequenceDetector(sequence, **{"arl": 30, **given})


MAKES = {
    "gaussian": make_repeated(cs.Gaussian(1.0)),
    "exact": make_repeated(cs.Gaussian(1.0), engine="exact"),
    "window": make_repeated(cs.Gaussian(1.0), engine="window", window=20),
    "up": make_repeated(cs.Gaussian(1.0), direction="up"),
    "known": make_repeated(cs.Gaussian(1.0), theta0=(-0.5, 0.5)),
    "pfa": make_repeated(cs.Gaussian(1.0), guarantee="pfa", arl=3),
    "short history": make_repeated(cs.Gaussian(1.0), history=7),
    "hull": make_repeated(cs.Hoeffding((-8, 8), lam=[0.03, 0.1]), engine="hull", arl=3),
    "bernstein": make_repeated(cs.EmpiricalBernstein((-8, 8)), arl=3),
    "betting": make_repeated(cs.Betting((-8, 8), cells=20), arl=3),
    "catoni": make_repeated(cs.Catoni(1.0, window=30), arl=3),
    "cdf": make_repeated(cs.CDF(True, GRID), arl=3),
    "learned cdf": make_repeated(cs.CDF(True, points=8, window=15), arl=3),
    "learned quantile": make_repeated(cs.Quantile(0.5, True, points=16, window=15), arl=3),
    "sr": lambda: CompositeEDetector(arl=100, range=(-8, 8), cells=20),
    "cusum": lambda: CompositeEDetector(arl=20, range=(-8, 8), cells=20, kind="cusum"),
    "sr up": lambda: CompositeEDetector(arl=50, range=(-8, 8), cells=20, direction="up"),
    "e": lambda: EDetector(GaussianIncrement(0.0, 1.0, [1.0, -1.0]), arl=100),
    "lorden": lambda: LordenDetector(NormalMixtureTest(0.0, 1.0, 10.0), arl=50),
    "skipping": make_repeated(cs.Gaussian(1.0), on_nan="skip"),
    "pairs": make_repeated(cs.TwoSampleMean((-8, 8)), arl=3),
    "betting pairs": lambda: ConfidenceSequenceDetector(
        cs.TwoSampleMean((-8, 8), "betting"), arl=3
    ),
    "learned distance": make_repeated(cs.TwoSampleKS(True, points=8, window=15), arl=3),
    "vector": make_repeated(cs.VectorMean(cs.Gaussian(1.0), 2)),
    "regression": make_repeated(cs.LinearRegression(1.0, 3.0), arl=3),
    "contrasts": make_repeated(cs.LinearRegression(1.0, 3.0, contrasts=[[1.0]]), arl=3),
}


def stream(detector, seed, n=150):
    """Four levels, so that there are several cycles."""
    rng = np.random.default_rng(seed)
    d = detector.sequence.entries
    levels = np.repeat([0.0, 4.0, -2.0, 3.0], [n // 3, n // 4, n // 4, n])[:n]
    x = np.clip(levels[:, None] + rng.normal(0, 1, (n, d)), -8, 8)
    if d == 2:
        x[:, 0] = 1.0 if isinstance(detector.cs, cs.LinearRegression) else x[:, 0] - levels
    if getattr(detector, "on_nan", "raise") == "skip":
        x[rng.integers(0, n, 8)] = np.nan
    return x[:, 0] if d == 1 else x


def seen(detector):
    """All that a user sees of a detector, comparable bit by bit."""
    return json.dumps(
        {
            "alarms": detector.alarms_,
            "n": [detector.n_, detector.n_skipped_, detector.n_active_],
            "ends": [np.asarray(detector.lower_).tolist(), np.asarray(detector.upper_).tolist()],
            "witness": detector.witness_,
            "place": [detector.change_point_, detector.change_interval_],
            "flag": detector.drift_detected,
            "estimate": np.asarray(detector.estimate_, dtype=float).tolist(),
        }
    )


@pytest.mark.parametrize("name", MAKES)
def test_the_streams_of_these_tests_have_alarms(name):
    if name == "pfa":
        return  # one cycle's bound: alarms are rare by design
    alarms = 0
    for seed in range(3):
        detector = MAKES[name]()
        n = 2000 if name == "learned distance" else 400
        alarms += len(detector.update_many(stream(detector, seed, n)))
    assert alarms >= 2


@pytest.mark.parametrize("name", MAKES)
@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 40), max_size=12))
def test_any_way_of_cutting_a_stream_gives_the_same(name, seed, lengths):
    whole, one, parts = (MAKES[name]() for _ in range(3))
    x = stream(whole, seed)
    whole.update_many(x)
    flags = []
    for value in x:
        one.update(value)
        if one.drift_detected:
            flags.append(one.n_)
            assert one.alarms_[-1] == one.n_
            assert one.change_point_ == one.detections_[-1].change_point
    assert flags == one.alarms_ == whole.alarms_
    at, heard = 0, []
    for length in lengths:
        heard += parts.update_many(x[at : at + length])
        at += length
    heard += parts.update_many(x[at:])
    assert heard == whole.alarms_
    assert [d.witness for d in parts.detections_] == [d.witness for d in whole.detections_]
    assert [d.change_point for d in one.detections_] == [d.change_point for d in whole.detections_]
    if not (name == "skipping" and np.isnan(x[-1])):
        assert seen(one) == seen(whole) == seen(parts)


@pytest.mark.parametrize("name", MAKES)
def test_a_batch_is_the_first_cycle(name):
    for seed in range(3):
        batch, one = MAKES[name](), MAKES[name]()
        x = stream(batch, seed, 300)
        if name == "skipping":
            x[np.isnan(x) & (np.arange(300) > 100)] = 0.0  # those to come are another test
        result = batch.detect(x)
        untraced = MAKES[name]().detect(x, trace=False)
        assert untraced.index == result.index
        assert len(untraced.trace[0]) == 0
        trace = []
        for value in x:
            one.update(value)
            trace.append((np.copy(one.lower_), np.copy(one.upper_)))
            if one.drift_detected:
                break
        assert result.alarm == one.drift_detected == batch.drift_detected
        assert result.index == (one.n_ if one.drift_detected else None)
        assert seen(batch) == seen(one)
        assert result.change_point == one.change_point_
        assert result.change_interval == one.change_interval_
        if result.alarm:
            assert result.detection.index == result.index
        if "learned" not in name and "skip" not in name:
            assert len(result.trace[0]) == one.n_
            shape = np.shape(result.trace[0])
            for i in range(2):
                expected = np.array([ends[i] for ends in trace]).reshape(shape)
                last = -1 if "betting" in name or "sr" in name or name == "cusum" else None
                assert np.array_equal(result.trace[i][:last], expected[:last])


@pytest.mark.parametrize("name", MAKES)
def test_a_saved_state_goes_on_bit_by_bit(name):
    for seed in range(3):
        whole = MAKES[name]()
        x = stream(whole, seed)
        alarms = list(whole.update_many(x))
        cuts = {0, 1, 2, 14, 15, 16, 40, 90, len(x)}
        # Right at, before and after every alarm.
        cuts |= {min(len(x), max(0, alarm + i)) for alarm in alarms for i in (-1, 0, 1)}
        for cut in sorted(cuts):
            first, second = MAKES[name](), MAKES[name]()
            first.update_many(x[:cut])
            state = json.loads(json.dumps(first.state_dict(), allow_nan=False))
            second.update_many(x[:37])  # it need not be fresh
            second.load_state_dict(state)
            assert seen(second) == seen(first), cut
            assert json.dumps(second.state_dict()) == json.dumps(first.state_dict())
            if first.drift_detected:
                assert second.detections_[-1].index == first.detections_[-1].index
                assert second.detections_[-1].witness == first.detections_[-1].witness
            for value in x[cut : cut + 5]:
                first.update(value)
                second.update(value)
            first.update_many(x[cut + 5 :])
            second.update_many(x[cut + 5 :])
            assert second.alarms_ == alarms
            assert seen(second) == seen(first), cut
            assert json.dumps(second.state_dict()) == json.dumps(first.state_dict())


@pytest.mark.parametrize("name", MAKES)
def test_a_saved_state_is_not_changed_by_what_comes_after(name):
    detector = MAKES[name]()
    x = stream(detector, 0)
    detector.update_many(x[:30])
    state = detector.state_dict()
    text = json.dumps(state)
    detector.update_many(x[30:33])
    assert json.dumps(state) == text
    other = MAKES[name]()
    other.load_state_dict(state)
    other.update_many(x[30:])
    assert json.dumps(state) == text


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ({"arl": 10}, {"arl": 20}, ["arl"]),
        ({"cs": cs.Gaussian(1.0)}, {"cs": cs.Gaussian(2.0)}, ["cs"]),
        ({"cs": "bounded"}, {"cs": "betting"}, ["cs"]),
        ({"cs": cs.Gaussian(1.0)}, {"cs": cs.SubGaussian(1.0)}, ["cs"]),
        ({"engine": "exact"}, {"engine": "geometric", "growth": 1.5}, ["engine", "growth"]),
        ({"theta0": 0.5}, {"theta0": None}, ["theta0"]),
        ({"theta0": (0.5, 0.6)}, {"theta0": 0.5}, ["theta0"]),
        ({"range": (0, 1)}, {"range": (0, 2)}, ["range"]),
        ({"direction": "up", "history": 5}, {}, ["direction", "history"]),
        ({"on_range": "clip"}, {"on_nan": "skip"}, ["on_range", "on_nan"]),
    ],
)
def test_the_state_of_another_configuration_is_refused(first, second, named):
    state = json.loads(json.dumps(ConfidenceSequenceDetector(**first).state_dict()))
    other = ConfidenceSequenceDetector(**second)
    other.update(0.5)
    before = seen(other)
    with pytest.raises(ValueError, match="another configuration") as caught:
        other.load_state_dict(state)
    for field in named:
        assert field in str(caught.value)
    assert "window" not in str(caught.value)
    assert seen(other) == before


def test_a_range_and_a_vector_of_known_levels_are_not_the_same_configuration():
    sequence = cs.VectorMean(cs.Gaussian(), 2)
    first = ConfidenceSequenceDetector(sequence, theta0=(0.0, 1.0))
    second = ConfidenceSequenceDetector(sequence, theta0=[0.0, 1.0])
    with pytest.raises(ValueError, match="theta0"):
        second.load_state_dict(first.state_dict())


def test_the_state_of_another_detector_is_refused():
    state = CompositeEDetector().state_dict()
    with pytest.raises(ValueError, match="detector"):
        ConfidenceSequenceDetector().load_state_dict(state)


def no_array(dtype="<f8", shape=(1,), data="AAAAAAAAAAA="):
    return {"dtype": dtype, "shape": list(shape), "data": data}


DELETED = object()
DAMAGE = [
    ((), None),
    ((), []),
    ((), {}),
    (("format",), 2),
    (("settings",), None),
    (("settings",), []),
    (("settings",), "x"),
    (("n",), "abc"),
    (("n",), None),
    (("n",), DELETED),
    (("n_skipped",), DELETED),
    (("offset",), []),
    (("alarms",), 5),
    (("alarms",), ["a"]),
    (("past",), None),
    (("past", "shape"), [3, 1]),
    (("past", "dtype"), "|O"),
    (("past", "data"), "!!!"),
    (("learning",), None),
    (("grid",), DELETED),
    (("engine",), {}),
    (("engine",), []),
    (("engine",), "x"),
    (("engine",), None),
    (("engine", "rows"), DELETED),
    (("engine", "rows", "data"), "!!!"),
    (("engine", "rows", "data"), 5),
    (("engine", "rows", "shape"), [3]),
    (("engine", "rows", "dtype"), "zzz"),
    (("engine", "rows", "dtype"), "<f4"),
    (("engine", "rows"), no_array()),
    (("engine", "order"), no_array("<i8")),
    (("engine", "starts"), no_array("<i8")),
    (("engine", "counters"), no_array("<i8")),
    (("engine", "extremes"), no_array()),
    (("engine", "witnesses"), no_array("<i8")),
    (("engine", "order"), no_array("<f8")),
]


@pytest.mark.parametrize(
    ("path", "value"),
    DAMAGE,
    ids=[
        f"{i}-{'.'.join(path)}-{'deleted' if value is DELETED else str(value)[:20]}"
        for i, (path, value) in enumerate(DAMAGE)
    ],
)
def test_a_damaged_state_is_refused(path, value):
    # Nothing may reach compiled code that checks no bounds.
    make = make_repeated(cs.Gaussian(1.0), arl=1000, engine="exact")
    saved = make()
    saved.update_many(np.zeros(500))
    state = json.loads(json.dumps(saved.state_dict()))
    if not path:
        state = value
    else:
        part = state
        for key in path[:-1]:
            part = part[key]
        if value is DELETED:
            del part[path[-1]]
        else:
            part[path[-1]] = value
    detector = make()
    detector.update_many(np.zeros(7))
    before = json.dumps(detector.state_dict())
    with pytest.raises(ValueError, match="state"):
        detector.load_state_dict(state)
    # It is as it was, or as new, and nothing in between.
    assert json.dumps(detector.state_dict()) in (before, json.dumps(make().state_dict()))


@pytest.mark.parametrize("entry", ["active", "slot"])
def test_numbers_that_point_outside_the_saved_arrays_are_refused(entry):
    from cameraready.change_detection.engine import ACTIVE, decode_array, encode_array

    make = make_repeated(cs.Gaussian(1.0), arl=1000)
    saved = make()
    saved.update_many(np.zeros(50))
    state = saved.state_dict()
    name, position = ("counters", ACTIVE) if entry == "active" else ("order", 0)
    array = decode_array(state["engine"][name])
    array[position] = 10_000
    state["engine"][name] = encode_array(array)
    with pytest.raises(ValueError, match="state"):
        make().load_state_dict(state)


# River.


@pytest.mark.parametrize("name", MAKES)
def test_it_is_a_detector_of_rivers(name):
    base = pytest.importorskip("river.base")
    detector = MAKES[name]()
    assert isinstance(detector, base.DriftDetector)
    x = stream(detector, 0)
    alarms = detector.update_many(x)
    clone = detector.clone()
    assert type(clone) is type(detector)
    assert clone.settings() == detector.settings()
    assert (clone.n_, clone.alarms_, clone.drift_detected) == (0, [], False)
    assert clone.update_many(x) == alarms
    assert seen(clone) == seen(detector)


def test_update_returns_nothing_and_the_flag_lasts_one_step():
    detector = MAKES["gaussian"]()
    flags = []
    for x in [0.0] * 30 + [9.0] * 10:
        assert detector.update(x) is None
        flags.append(detector.drift_detected)
    assert flags.count(True) == 1
    assert flags.index(True) + 1 == detector.alarms_[0]
    assert detector.change_point_ is None
    assert detector.change_interval_ is None


@pytest.mark.parametrize("bad", [np.nan, [1.0, 2.0], "x"])
def test_a_failed_update_after_an_alarm_changes_nothing(bad):
    detector = MAKES["gaussian"]()
    assert detector.detect([0.0] * 30 + [9.0] * 10).alarm
    before = seen(detector)
    state = json.dumps(detector.state_dict())
    with pytest.raises(ValueError, match=r"."):
        detector.update(bad)
    with pytest.raises(ValueError, match=r"."):
        detector.update_many([0.0, bad])
    assert detector.drift_detected
    assert seen(detector) == before
    assert json.dumps(detector.state_dict()) == state
    assert len(detector.confidence_set(0.9))


def test_a_batch_counts_what_was_skipped_up_to_the_alarm():
    detector = MAKES["skipping"]()
    result = detector.detect([0.0, np.nan] * 15 + [9.0] * 10 + [np.nan] * 5)
    assert result.alarm
    assert detector.n_skipped_ == 15


def test_an_observation_that_is_skipped_ends_the_alarm_either_way():
    flags = []
    for take in (lambda d: d.update(np.nan), lambda d: d.update_many([np.nan])):
        detector = MAKES["skipping"]()
        detector.detect([0.0] * 30 + [9.0] * 10)
        take(detector)
        flags.append(detector.drift_detected)
    assert flags[0] == flags[1]


@pytest.mark.parametrize("name", ["bernoulli", "sr", "betting"])
def test_it_works_in_rivers_retraining_classifier(name):
    drift = pytest.importorskip("river.drift")
    from river import naive_bayes

    detector = {
        "bernoulli": lambda: ConfidenceSequenceDetector("bernoulli", arl=1000),
        "betting": lambda: ConfidenceSequenceDetector("betting", arl=1000),
        "sr": lambda: CompositeEDetector(arl=10_000),
    }[name]()
    model = drift.DriftRetrainingClassifier(
        naive_bayes.GaussianNB(), drift_detector=detector, train_in_background=False
    )
    rng = np.random.default_rng(0)
    right = []
    for i in range(900):
        y = int(rng.integers(2))
        features = {"a": float(rng.normal(2 * y if i < 450 else -2 * y, 0.5))}
        right.append(model.predict_one(features) == y)
        model.learn_one(features, y)
    assert 450 < model.drift_detector.alarms_[0] < 500
    assert np.mean(right[50:450]) > 0.9
    assert np.mean(right[550:]) > 0.9
    again = model.clone()
    assert again.drift_detector.n_ == 0


def test_without_river_it_has_a_base_of_its_own():
    code = textwrap.dedent(
        """
        import sys
        sys.modules["river"] = None
        from cameraready.change_detection import (
            CompositeEDetector, ConfidenceSequenceDetector, LordenDetector, NormalMixtureTest, cs
        )
        assert not any(name.startswith("river.") for name in sys.modules)
        detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=20)
        flags = []
        for x in [0.0] * 20 + [3.0] * 10:
            assert detector.update(x) is None
            flags.append(detector.drift_detected)
        assert [i + 1 for i, flag in enumerate(flags) if flag] == [25], flags
        clone = detector.clone()
        assert clone is not detector and clone.n_ == 0 and not clone.drift_detected
        assert clone.settings() == detector.settings()
        assert clone.update_many([0.0] * 20 + [3.0] * 5) == [25]
        assert clone.drift_detected
        for other in (CompositeEDetector(), LordenDetector(NormalMixtureTest(0.0, 1.0))):
            assert other.clone().settings() == other.settings()
            assert not other.drift_detected
        print("fine")
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr


def test_a_new_cycle_knows_nothing_of_the_old_one():
    detector, fresh = MAKES["gaussian"](), MAKES["gaussian"]()
    detector.update_many([0.0] * 30 + [9.0] * 10)
    alarm = detector.alarms_[0]
    fresh.update_many([9.0] * (40 - alarm))
    assert (detector.lower_, detector.upper_) == (fresh.lower_, fresh.upper_)
    assert detector.n_active_ == fresh.n_active_


def test_reset_forgets_everything():
    detector = MAKES["gaussian"]()
    detector.update_many([0.0] * 30 + [9.0] * 10)
    detector.reset()
    assert seen(detector) == seen(MAKES["gaussian"]())
    assert detector.detections_ == []


def test_an_alarm_among_what_a_grid_was_learned_from_is_saved_and_traced():
    x = np.concatenate([np.zeros(40), np.full(60, 9.0), np.zeros(20)])
    detector = ConfidenceSequenceDetector(cs.CDF(assume_iid=True, window=100), arl=5)
    result = detector.detect(x[:100])
    assert result.index == 100  # heard with the observation that made the beginning possible
    assert len(result.trace[0]) == len(result.trace[1]) == 100
    state = json.loads(json.dumps(detector.state_dict()))
    other = detector.clone()
    other.load_state_dict(state)
    assert other.drift_detected
    assert other.alarms_ == [100]
    assert detector.update_many(x) == other.update_many(x)
    assert detector.state_dict() == other.state_dict()
