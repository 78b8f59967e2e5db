"""Many streams at once give what as many detectors give."""

import json

import numpy as np
import pytest

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    EDetector,
    GaussianIncrement,
    LordenDetector,
    MultiStream,
    NormalMixtureTest,
    RangeError,
    cs,
)

TIMES, STREAMS = 400, 5
GRID = np.linspace(-1.0, 2.0, 13)


def units(rng):
    """Values in [0, 1]; each stream has its own changes, the last one none."""
    x = np.empty((TIMES, STREAMS))
    for s in range(STREAMS):
        places = np.sort(rng.choice(np.arange(30, TIMES), 2, replace=False))
        means = [0.5, 0.5, 0.5] if s == STREAMS - 1 else rng.choice([0.15, 0.5, 0.85], 3)
        for part, mean in zip(np.split(np.arange(TIMES), places), means, strict=True):
            x[part, s] = rng.beta(10 * mean, 10 * (1 - mean), len(part))
    return x


def normals(rng):
    return 4.0 * (units(rng) - 0.5) + 0.2 * rng.normal(size=(TIMES, STREAMS))


def coins(rng):
    return (rng.random((TIMES, STREAMS)) < units(rng)).astype(float)


def counts(rng):
    return rng.poisson(10.0 * units(rng)).astype(float)


def repeated(sequence, **options):
    return ConfidenceSequenceDetector(sequence, **{"arl": 60} | options)


CASES = {
    "gaussian": (lambda: repeated(cs.Gaussian(1.0, tune_at=30)), normals),
    "gaussian pfa": (lambda: repeated(cs.Gaussian(1.0, rho=5.0), guarantee="pfa"), normals),
    "gaussian up": (lambda: repeated(cs.Gaussian(1.0, tune_at=30), direction="up"), normals),
    "gaussian down": (lambda: repeated(cs.Gaussian(1.0, tune_at=30), direction="down"), normals),
    "gaussian window": (lambda: repeated(cs.Gaussian(1.0), engine="window", window=20), normals),
    "gaussian growth": (lambda: repeated(cs.Gaussian(1.0), growth=2.0), normals),
    "gaussian known": (lambda: repeated(cs.Gaussian(1.0), theta0=(-0.2, 0.1)), normals),
    "bounded": (lambda: repeated("bounded"), units),
    "bounded pfa": (lambda: repeated("bounded", guarantee="pfa"), units),
    "hoeffding": (lambda: repeated("hoeffding"), units),
    "hoeffding lines": (lambda: repeated(cs.Hoeffding(lam=[0.5, 2.0])), units),
    "bernoulli": (lambda: repeated("bernoulli"), coins),
    "poisson": (lambda: repeated("poisson"), counts),
    "catoni": (lambda: repeated(cs.Catoni(0.5), engine="window", window=8), normals),
    "quantile": (lambda: repeated(cs.Quantile(0.5, assume_iid=True, grid=GRID)), normals),
    "sr": (lambda: CompositeEDetector(60), units),
    "cusum": (lambda: CompositeEDetector(60, kind="cusum", cells=30), units),
    "sr up": (lambda: CompositeEDetector(60, direction="up"), units),
    "sr down": (lambda: CompositeEDetector(60, direction="down", cells=40), units),
    "sr known": (lambda: CompositeEDetector(60, theta0=(0.4, 0.6)), units),
    "sr range": (lambda: CompositeEDetector(60, range=(-4.0, 4.0)), normals),
}


def singly(make, array):
    """Alarms (time, stream) and ends from one detector a stream; NaN is no observation."""
    alarms, ends = [], []
    for s in range(array.shape[1]):
        there = np.flatnonzero(~np.isnan(array[:, s]))
        detector = make()
        alarms += [(int(there[n - 1]) + 1, s) for n in detector.update_many(array[there, s])]
        ends.append((detector.lower_, detector.upper_))
    return sorted(alarms), np.array(ends)


@pytest.fixture(params=list(CASES))
def case(request):
    make, draw = CASES[request.param]
    return make, draw(np.random.default_rng(1 + len(request.param)))


def test_it_is_one_detector_a_stream(case):
    make, x = case
    streams = MultiStream(make(), STREAMS, "each")
    alarms, ends = singly(make, x)
    assert streams.update_many(x) == alarms
    np.testing.assert_array_equal(np.stack([streams.lower_, streams.upper_], axis=1), ends)
    assert streams.n_ == TIMES


def test_the_cases_have_alarms():
    for name, (make, draw) in CASES.items():
        alarms, _ = singly(make, draw(np.random.default_rng(1 + len(name))))
        assert alarms, name
    several = singly(CASES["sr"][0], CASES["sr"][1](np.random.default_rng(2)))[0]
    assert len(several) > len({s for _, s in several})  # a stream that goes on after its alarm


@pytest.mark.parametrize("name", ["gaussian", "bounded", "sr", "cusum", "gaussian window"])
def test_gaps_are_no_observations(name):
    make, draw = CASES[name]
    rng = np.random.default_rng(7)
    x = draw(rng)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[100:120] = np.nan
    streams = MultiStream(make(), STREAMS, "each")
    alarms, ends = singly(make, x)
    assert streams.update_many(x) == alarms
    assert alarms
    np.testing.assert_array_equal(np.stack([streams.lower_, streams.upper_], axis=1), ends)


def test_chunks_do_not_matter(case):
    make, x = case
    whole = MultiStream(make(), STREAMS, "each")
    expected = whole.update_many(x)
    pieces = MultiStream(make(), STREAMS, "each")
    found = []
    for piece in np.split(x, [1, 2, 60, 60, 200, 399]):
        found += pieces.update_many(piece)
    assert found == expected
    by_one = MultiStream(make(), STREAMS, "each")
    found = []
    for t, row in enumerate(x, start=1):
        flags = by_one.update(row)
        assert flags is by_one.alarmed_
        assert flags.shape == (STREAMS,)
        found += [(t, int(s)) for s in np.flatnonzero(flags)]
    assert found == expected
    for other in (pieces, by_one):
        np.testing.assert_array_equal(other.lower_, whole.lower_)
        np.testing.assert_array_equal(other.upper_, whole.upper_)


def test_a_state_goes_through_json(case):
    make, x = case
    whole = MultiStream(make(), STREAMS, "each")
    expected = whole.update_many(x)
    for cut in (0, 1, 150):
        first = MultiStream(make(), STREAMS, "each")
        alarms = first.update_many(x[:cut])
        second = MultiStream(make(), STREAMS, "each")
        second.update_many(x[:77])  # is forgotten
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert second.n_ == cut
        assert alarms + second.update_many(x[cut:]) == expected
        np.testing.assert_array_equal(second.lower_, whole.lower_)


def test_a_state_holds_which_streams_have_just_alarmed():
    make, draw = CASES["sr"]
    x = draw(np.random.default_rng(2))
    streams = MultiStream(make(), STREAMS, "each")
    at = singly(make, x)[0][0][0]
    streams.update_many(x[:at])
    assert streams.alarmed_.any()
    other = MultiStream(make(), STREAMS, "each")
    other.load_state_dict(json.loads(json.dumps(streams.state_dict())))
    assert other.alarmed_.tolist() == streams.alarmed_.tolist()


def test_reset_forgets():
    make, draw = CASES["gaussian"]
    x = draw(np.random.default_rng(0))
    streams = MultiStream(make(), STREAMS, "each")
    expected = streams.update_many(x)
    streams.reset()
    assert streams.n_ == 0
    assert not streams.alarmed_.any()
    assert streams.update_many(x) == expected


def test_streams_do_not_see_each_other():
    make, draw = CASES["bounded"]
    x = draw(np.random.default_rng(0))
    forth = MultiStream(make(), STREAMS, "each").update_many(x)
    back = MultiStream(make(), STREAMS, "each").update_many(x[:, ::-1])
    assert sorted((t, STREAMS - 1 - s) for t, s in back) == forth


@pytest.mark.parametrize("name", ["gaussian", "gaussian pfa", "sr"])
def test_all_streams_share_one_guarantee_unless_each_has_its_own(name):
    make, draw = CASES[name]
    x = draw(np.random.default_rng(3))

    def stricter():
        detector = make()
        detector.arl *= STREAMS
        return detector.clone()

    assert MultiStream(make(), STREAMS).update_many(x) == singly(stricter, x)[0]
    assert MultiStream(make(), STREAMS).guarantee == "all"


def test_the_detector_that_is_passed_stays_as_it_is():
    detector = CASES["sr"][0]()
    detector.update_many([0.1, 0.2])
    before = json.dumps(detector.state_dict())
    MultiStream(detector, 3).update_many(np.full((10, 3), 0.5))
    assert json.dumps(detector.state_dict()) == before


# Long streams.


def test_long_streams_are_those_of_single_detectors():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7000, 2))
    x[6000:, 1] += 1.5

    def make():
        return ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1e4, history=0)

    streams = MultiStream(make(), 2, "each")
    found = []
    for piece in np.split(x, [10, 100, 500, 1500, 4000, 5500]):
        found += streams.update_many(piece)
    alarms, ends = singly(make, x)
    assert found == alarms
    assert any(t > 6000 for t, _ in alarms)
    np.testing.assert_array_equal(streams.lower_, ends[:, 0])


def test_memory_grows_with_the_logarithm_of_time():
    streams = MultiStream(
        ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1e6, history=0), 2, "each"
    )
    rng = np.random.default_rng(0)
    for _ in range(12):
        streams.update_many(rng.normal(size=(500, 2)))
    saved = json.dumps(streams.state_dict())
    assert streams._arrays["order"].shape[1] < 400
    assert len(saved) < 100_000


def test_a_window_needs_no_more_than_its_length():
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1e6, engine="window", window=10)
    streams = MultiStream(detector, 2, "each")
    for _ in range(4):
        streams.update_many(np.zeros((500, 2)))
    assert streams._arrays["order"].shape[1] <= 128


# Values that do not fit.


@pytest.mark.parametrize("name", ["bounded", "sr"])
def test_values_out_of_range_are_clipped(name):
    def make():
        detector = CASES[name][0]()
        detector.on_range = "clip"
        return detector.clone()

    x = 1.6 * units(np.random.default_rng(4)) - 0.3
    assert (x < 0).any()
    assert (x > 1).any()
    alarms, ends = singly(make, x)
    streams = MultiStream(make(), STREAMS, "each")
    assert streams.update_many(x) == alarms
    np.testing.assert_array_equal(streams.upper_, ends[:, 1])
    assert x.max() > 1  # the caller's array is as it was


@pytest.mark.parametrize("name", ["bounded", "sr", "bernoulli"])
def test_values_out_of_range_are_left_out(name):
    def make():
        detector = CASES[name][0]()
        detector.on_range = "skip"
        return detector.clone()

    x = CASES[name][1](np.random.default_rng(4))
    rng = np.random.default_rng(5)
    wrong = rng.random(x.shape) < 0.2
    x[wrong] = rng.choice([-0.5, 2.0], wrong.sum())
    seen = np.where(wrong, np.nan, x)
    alarms, ends = singly(CASES[name][0], seen)
    streams = MultiStream(make(), STREAMS, "each")
    assert streams.update_many(x) == alarms
    np.testing.assert_array_equal(streams.upper_, ends[:, 1])


def test_a_refused_value_names_time_and_stream_and_changes_nothing():
    streams = MultiStream(CompositeEDetector(60), 3, "each")
    streams.update_many(np.full((20, 3), 0.5))
    before = json.dumps(streams.state_dict())
    x = np.full((10, 3), 0.5)
    x[4, 1] = 1.5
    with pytest.raises(RangeError, match=r"stream 1: observation 25 = 1\.5") as caught:
        streams.update_many(x)
    assert (caught.value.index, caught.value.value) == (25, 1.5)
    assert json.dumps(streams.state_dict()) == before


def test_missing_values_may_be_refused():
    streams = MultiStream(CompositeEDetector(60), 2, "each", on_nan="raise")
    with pytest.raises(RangeError, match="stream 1: observation 1 = nan"):
        streams.update([0.5, np.nan])
    assert streams.n_ == 0


def test_infinite_values_are_left_out_as_single_detectors_leave_them_out():
    single = CompositeEDetector(60, on_nan="skip")
    single.update_many([0.5, np.inf, 0.5])
    assert single.n_skipped_ == 1
    streams = MultiStream(CompositeEDetector(60), 2, "each", on_nan="skip")
    streams.update([0.5, np.inf])
    assert streams.n_ == 1


@pytest.mark.parametrize("x", [[0.5], [0.5] * 4, [[0.5, 0.5, 0.5]], 0.5])
def test_the_shape_of_an_update(x):
    with pytest.raises(ValueError, match="expected an array of shape"):
        MultiStream(CompositeEDetector(60), 3).update(x)


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((2, 4)), np.zeros((2, 3, 1))])
def test_the_shape_of_many(x):
    with pytest.raises(ValueError, match=r"expected an array of shape \(times, 3\)"):
        MultiStream(CompositeEDetector(60), 3).update_many(x)


def test_no_observations_at_all():
    streams = MultiStream(CompositeEDetector(60), 3)
    assert streams.update_many(np.empty((0, 3))) == []
    assert streams.n_ == 0
    assert MultiStream(CASES["gaussian"][0](), 3).update_many(np.empty((0, 3))) == []


# What it is made of.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_streams": 0}, "n_streams"),
        ({"n_streams": 2.0}, "n_streams"),
        ({"n_streams": True}, "n_streams"),
        ({"guarantee": "both"}, "guarantee must be one of 'all', 'each'"),
        ({"on_nan": "clip"}, "on_nan"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        MultiStream(**{"detector": CompositeEDetector(), "n_streams": 2} | arguments)


@pytest.mark.parametrize(
    "detector",
    [
        ConfidenceSequenceDetector("bounded", engine="exact"),
        ConfidenceSequenceDetector("betting"),
        ConfidenceSequenceDetector(cs.Hoeffding(lam=1.0), engine="hull"),
        ConfidenceSequenceDetector(cs.CDF(assume_iid=True)),
        ConfidenceSequenceDetector(cs.CDF(assume_iid=True, grid=GRID)),
        ConfidenceSequenceDetector(cs.TwoSampleMean()),
        ConfidenceSequenceDetector(cs.VectorMean(cs.Gaussian(), 2)),
        EDetector(GaussianIncrement(0.0, 1.0, shifts=[1.0])),
        LordenDetector(NormalMixtureTest(0.0, 1.0)),
    ],
)
def test_detectors_that_cannot_run_side_by_side(detector):
    with pytest.raises(ValueError, match="detector must watch single numbers"):
        MultiStream(detector, 2)


def test_what_is_not_a_detector():
    with pytest.raises(TypeError, match="detector"):
        MultiStream("sr", 2)


def test_a_state_of_another_configuration_is_named():
    state = MultiStream(CompositeEDetector(60), 3).state_dict()
    with pytest.raises(ValueError, match="differs in detector"):
        MultiStream(CompositeEDetector(61), 3).load_state_dict(state)
    with pytest.raises(ValueError, match="differs in guarantee, n_streams"):
        MultiStream(CompositeEDetector(60), 4, "each").load_state_dict(state)


@pytest.mark.parametrize("state", [None, {}, [], {"format": 2}, "state"])
def test_what_is_not_a_state(state):
    with pytest.raises(ValueError, match="state"):
        MultiStream(CompositeEDetector(60), 3).load_state_dict(state)


@pytest.mark.parametrize("name", ["gaussian", "sr"])
@pytest.mark.parametrize("damage", ["missing", "short", "text", "streams", "count"])
def test_a_damaged_state_is_refused_and_changes_nothing(name, damage):
    make, draw = CASES[name]
    x = draw(np.random.default_rng(0))
    streams = MultiStream(make(), STREAMS, "each")
    streams.update_many(x[:50])
    state = streams.state_dict()
    counters = state["arrays"]["counters"]
    if damage == "missing":
        del state["arrays"]["counters"]
    elif damage == "short":
        counters["data"] = counters["data"][:-8]
    elif damage == "text":
        counters["data"] = "?"
    elif damage == "streams":
        counters["shape"] = [STREAMS * 5]
    else:
        state["n"] = "many"
    other = MultiStream(make(), STREAMS, "each")
    other.update_many(x[:30])
    before = json.dumps(other.state_dict())
    with pytest.raises(ValueError, match="damaged"):
        other.load_state_dict(state)
    assert json.dumps(other.state_dict()) == before
