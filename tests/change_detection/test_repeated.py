"""The engines against the repeated detector by its definition."""

import functools
import math

import change_references as ref
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.change_detection import ConfidenceSequenceDetector, cs
from cameraready.change_detection.repeated import slots_needed

GRID = np.linspace(-1, 2, 7)


def normal(rng, n):
    x = rng.normal(0, 1, n)
    x[n // 2 :] += rng.choice([0.0, 1.0, -2.0])
    return x


def unit(rng, n):
    return np.concatenate([rng.beta(2, 4, n // 2), rng.beta(*rng.choice([2, 9, 1], 2), n - n // 2)])


def coins(rng, n):
    return (
        rng.random(n) < np.repeat([0.3, rng.choice([0.3, 0.9, 0.05])], [n // 2, n - n // 2])
    ) * 1.0


def counts(rng, n):
    return rng.poisson(np.repeat([2.0, rng.choice([2.0, 8.0, 0.3])], [n // 2, n - n // 2])) * 1.0


UNIT = (0.0, 1.0)
# name: (sequence, the formula again, a random stream)
CASES = {
    "gaussian": (
        cs.Gaussian(1.0, 10.0),
        lambda x, alpha: ref.gaussian(x, alpha, 1.0, 10.0),
        normal,
    ),
    "bernstein": (
        cs.EmpiricalBernstein(),
        lambda x, alpha: ref.empirical_bernstein(x, alpha, UNIT),
        unit,
    ),
    "hoeffding": (
        cs.Hoeffding(lam=1.0),
        lambda x, alpha: ref.hoeffding(x, alpha, UNIT, [1.0]),
        unit,
    ),
    "slopes": (
        cs.Hoeffding(lam=[0.5, 1.0, 2.0]),
        lambda x, alpha: ref.hoeffding(x, alpha, UNIT, [0.5, 1.0, 2.0]),
        unit,
    ),
    "predictable": (
        cs.Hoeffding(),
        lambda x, alpha: ref.predictable_hoeffding(x, alpha, UNIT),
        unit,
    ),
    "bernoulli": (cs.Bernoulli(), ref.bernoulli, coins),
    "poisson": (cs.Poisson(), ref.poisson, counts),
}
EXACT_TIES = ("bernoulli", "poisson")  # two starts may give the same end but for rounding


def check(detector, brute, raw, x, alpha, name):
    """Alarm, trace, ends and witnesses are those of the definition."""
    result = detector.detect(x)
    assert result.index == brute.alarm
    assert np.allclose(np.stack(result.trace, axis=1), brute.trace, atol=1e-8, rtol=0)
    assert (detector.lower_, detector.upper_) == pytest.approx((brute.lower, brute.upper), abs=1e-8)
    if name not in EXACT_TIES:
        assert detector.witness_ == brute.witness
    for which, (start, end) in enumerate(detector.witness_):
        given = raw(x[start - 1 : end], alpha)[which][-1]
        assert given == pytest.approx((brute.lower, brute.upper)[which], abs=1e-8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", range(5))
def test_the_exact_engine_is_the_definition(name, block):
    sequence, raw, draw = CASES[name]
    slow = name in EXACT_TIES
    for seed in range(20 * block, 20 * block + (3 if slow else 20)):
        rng = np.random.default_rng([seed, len(name)])
        x, arl = draw(rng, 50 if slow else 100), float(rng.choice([3, 10, 50, 400]))
        detector = ConfidenceSequenceDetector(sequence, arl=arl, engine="exact")
        brute = ref.repeated(raw, x, 1 / arl)
        check(detector, brute, raw, x, 1 / arl, name)


@pytest.mark.parametrize("name", ["gaussian", "bernstein", "slopes", "predictable"])
@pytest.mark.parametrize("growth", [1.05, 1.2, 2.0])
def test_the_geometric_engine_is_the_definition_on_its_starts(name, growth):
    sequence, raw, draw = CASES[name]
    used = ref.geometric_starts(150, growth)
    for seed in range(8):
        x = draw(np.random.default_rng(seed), 150)
        detector = ConfidenceSequenceDetector(sequence, arl=50, growth=growth)
        check(detector, ref.repeated(raw, x, 0.02, used), raw, x, 0.02, name)


@pytest.mark.parametrize("name", ["gaussian", "bernstein"])
@pytest.mark.parametrize("window", [1, 5, 40, 500])
def test_the_window_engine_is_the_definition_on_its_starts(name, window):
    sequence, raw, draw = CASES[name]
    used = ref.window_starts(150, window)
    for seed in range(8):
        x = draw(np.random.default_rng(seed), 150)
        detector = ConfidenceSequenceDetector(sequence, arl=50, engine="window", window=window)
        check(detector, ref.repeated(raw, x, 0.02, used), raw, x, 0.02, name)
        assert detector.n_active_ <= window + 2


@pytest.mark.parametrize("name", [*CASES, "catoni", "betting", "vector", "pairs"])
def test_leaving_starts_out_never_makes_an_alarm_earlier(name):
    makes = {
        "catoni": (cs.Catoni(1.0, window=60), None, normal),
        "betting": (cs.Betting(cells=30), None, unit),
        "vector": (
            cs.VectorMean(cs.Gaussian(1.0), 2),
            None,
            lambda rng, n: np.column_stack([normal(rng, n), normal(rng, n)]),
        ),
        "pairs": (
            cs.TwoSampleMean(),
            None,
            lambda rng, n: np.column_stack([unit(rng, n), unit(rng, n)]),
        ),
    }
    sequence, _, draw = {**CASES, **makes}[name]
    later = 0
    for seed in range(25):
        rng = np.random.default_rng([seed, 99])
        x, arl = draw(rng, 200), float(rng.choice([3, 20, 200]))
        index = {}
        for engine, extra in (
            ("exact", {}),
            ("geometric", {"growth": 1.2}),
            ("geometric", {"growth": 3.0}),
            ("window", {"window": 10}),
        ):
            detector = ConfidenceSequenceDetector(sequence, arl=arl, engine=engine, **extra)
            index[engine, *extra.items()] = detector.detect(x).index or math.inf
        assert min(index.values()) == index["exact",]
        later += len(set(index.values())) > 1
    assert later or name == "catoni"


@pytest.mark.parametrize("engine", ["exact", "geometric", "window"])
@pytest.mark.parametrize("name", ["gaussian", "bernstein", "bernoulli"])
def test_pfa_gives_every_start_its_own_level(engine, name):
    sequence, raw, draw = CASES[name]
    n = 60
    used = {
        "exact": None,
        "geometric": ref.geometric_starts(n, 1.2),
        "window": ref.window_starts(n, 15),
    }[engine]
    for seed in range(4):
        x = draw(np.random.default_rng([seed, 5]), n)
        detector = ConfidenceSequenceDetector(
            sequence, arl=5, engine=engine, window=15, guarantee="pfa"
        )
        brute = ref.repeated(raw, x, 0.2, used, pfa=True)
        result = detector.detect(x)
        assert result.index == brute.alarm
        assert np.allclose(np.stack(result.trace, axis=1), brute.trace, atol=1e-8, rtol=0)


def test_pfa_levels_of_betting_vectors_and_functions():
    rng = np.random.default_rng(0)
    # A start at m has level delta 6 / (pi^2 m^2): the second, alone, is that of the first with it.
    for sequence, x in (
        (cs.Betting(cells=50), rng.beta(2, 5, 200)),
        (cs.VectorMean(cs.Gaussian(1.0, 10.0), 2), rng.normal(0, 1, (200, 2))),
        (cs.CDF(True, GRID), rng.normal(0, 1, 200)),
        (cs.LinearRegression(1.0, 1.0, 1), rng.normal(0, 1, (200, 2))),
        (cs.TwoSampleKS(True, GRID), rng.normal(0, 1, (200, 2))),
    ):
        detector = ConfidenceSequenceDetector(
            sequence, arl=10, engine="window", window=1, guarantee="pfa"
        )
        # window=1: the first start, and ones that live for two observations at most.
        result = detector.detect(x)
        expected = sequence.with_alpha(0.1 * 6 / math.pi**2).run(x)
        assert not result.alarm
        assert np.allclose(result.trace[0][-1], expected[0][-1], atol=1e-9)
        assert np.allclose(result.trace[1][-1], expected[1][-1], atol=1e-9)


def test_pfa_bounds_the_share_of_streams_with_any_false_alarm():
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=5, guarantee="pfa")
        alarms += detector.detect(rng.normal(0, 1, 500), trace=False).alarm
    assert alarms <= ref.most_misses(300, 0.2)


def test_the_mean_run_length_is_at_least_arl():
    rng = np.random.default_rng(2)
    for sequence, draw in (
        (cs.Gaussian(1.0, 3.0), lambda: rng.normal(0, 1, 400)),
        (cs.Bernoulli(), lambda: (rng.random(400) < 0.3) * 1.0),
    ):
        lengths = []
        for _ in range(200):
            index = ConfidenceSequenceDetector(sequence, arl=20).detect(draw(), trace=False).index
            lengths.append(index or 400)  # cut short: an underestimate
        assert np.mean(lengths) - 3 * np.std(lengths) / math.sqrt(200) >= 20


@pytest.mark.parametrize("engine", ["exact", "geometric", "window"])
def test_twenty_zeros_then_threes(engine):
    x = np.repeat([0.0, 3.0], [20, 30])
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=20, engine=engine)
    result = detector.detect(x)
    assert result.index == 25
    assert detector.witness_ == result.detection.witness == ((21, 25), (1, 20))
    assert result.change_interval == detector.change_interval_ == (20, 20)
    assert result.change_point == detector.change_point_ == 20
    assert result.detection.direction == "up"
    assert (result.detection.before, result.detection.after) == (0.0, 3.0)


@pytest.mark.parametrize("sigma", [120.0, 130.0, 140.0])
@pytest.mark.parametrize("rho", [5.0, 10.0, 20.0])
def test_the_nile_changed_in_1898(sigma, rho):
    nile = pytest.importorskip("statsmodels.datasets").nile.load_pandas().data
    years, flow = nile["year"].astype(int).tolist(), nile["volume"].to_numpy(float)
    detector = ConfidenceSequenceDetector(cs.Gaussian(sigma, rho), arl=100)
    result = detector.detect(flow)
    assert 1905 <= years[result.index - 1] <= 1915
    assert result.change_interval == (28, 28)
    assert years[27] == 1898
    assert result.change_point == 28
    if (sigma, rho) == (140.0, 10.0):
        assert result.index == 43
        assert result.detection.witness == ((1, 28), (29, 43))


# How many starts the geometric engine keeps.


@functools.cache
def most_active(growth, n):
    """Running maximum of the starts in use, before pruning, by a plain Python simulation."""
    starts, counts = [], []
    for now in range(1, n + 1):
        starts.append(now)
        counts.append(len(starts))
        kept = [starts[0]]
        for i in range(1, len(starts) - 1):
            if now - kept[-1] + 1 > growth * (now - starts[i + 1] + 1) + 2:
                kept.append(starts[i])
        starts = [*kept, starts[-1]] if len(starts) > 1 else starts
    return np.array(counts)


@pytest.mark.parametrize(
    ("growth", "n"),
    [
        *[(1.01, 2500), (1.03, 2500), (1.05, 3000), (1.1, 6000), (1.2, 20_000), (1.5, 20_000)],
        *[(2.0, 20_000), (2.5, 20_000), (3.0, 20_000), (10.0, 5000), (1000.0, 5000)],
    ],
)
def test_the_slots_set_aside_suffice(growth, n):
    # Compiled code checks no bounds: one slot too few is memory that belongs to someone else.
    active = most_active(growth, n)
    settings_ = np.array([growth, 0.0, 0.0, 0.0])
    kept = 0
    for time in range(n):
        if time % 97 == 0 or time < 300:
            for incoming in (1, 2, 50, n - time):
                room = slots_needed(1, settings_, kept, time, incoming)
                assert active[time : time + incoming].max() <= room
        kept = active[time + 1] - 1 if time + 1 < n else 0


def test_pruning_keeps_the_bound_for_any_growth():
    rng = np.random.default_rng(0)
    for growth in np.exp(rng.uniform(math.log(1.0005), math.log(4), 40)):
        active = most_active(float(growth), 400)
        for time in range(0, 400, 7):
            room = slots_needed(1, np.array([growth, 0, 0, 0]), 0, 0, time + 1)
            assert active[: time + 1].max() <= room


@pytest.mark.parametrize("growth", [1.05, 1.2, 3.0])
def test_the_compiled_pruning_is_the_simulated_one(growth):
    active = most_active(growth, 1000 if growth < 1.1 else 20_000)
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1e6, growth=growth, history=0)
    seen = []
    for _ in range(1000):
        detector.update(0.0)
        seen.append(detector.n_active_)
    # What is in use before pruning at n + 1 is what was kept at n and one more.
    assert seen[:-1] == (active[1:1000] - 1).tolist()


def test_fewer_than_a_hundred_are_active_after_a_million():
    x = np.random.default_rng(0).normal(0, 1, 1_000_000)
    detector = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1e9)
    detector.detect(x, trace=False)
    assert detector.n_ == 1_000_000
    assert 20 < detector.n_active_ < 100


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), max_size=60),
    st.sampled_from(["exact", "geometric", "window"]),
    st.floats(1.01, 5),
)
def test_active_starts_are_bounded(values, engine, growth):
    detector = ConfidenceSequenceDetector(
        cs.Gaussian(1e6), arl=100, engine=engine, growth=growth, window=7
    )
    for n, value in enumerate(values, start=1):
        detector.update(value)
        limit = {"exact": n, "window": 8, "geometric": n}[engine]
        if engine == "geometric":
            limit = min(n, 2 * math.log(n + 2) / math.log(growth) + 4 / (growth - 1) + 8)
        assert 1 <= detector.n_active_ <= limit + detector.drift_detected


@settings(deadline=None, max_examples=100)
@given(
    st.floats(0, 1),
    st.sampled_from(
        ["bounded", "hoeffding", cs.Gaussian(0.5), cs.Hoeffding(lam=1.0), cs.Catoni(0.3), "betting"]
    ),
    st.floats(1.01, 1e6),
)
def test_the_set_is_never_empty_before_two_observations(value, sequence, arl):
    detector = ConfidenceSequenceDetector(sequence, arl=arl)
    assert detector.lower_ <= detector.upper_
    detector.update(value)
    assert not detector.drift_detected
    assert detector.lower_ <= detector.upper_


# Scale.


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_gaussian_detection_does_not_depend_on_the_unit(seed, a, b):
    rng = np.random.default_rng(seed)
    x = normal(rng, 120)
    for engine in ("exact", "geometric"):
        plain = ConfidenceSequenceDetector(cs.Gaussian(1.0, 10.0), arl=50, engine=engine)
        scaled = ConfidenceSequenceDetector(cs.Gaussian(a, 10.0), arl=50, engine=engine)
        compare_scaled(plain, scaled, x, a, b)


@pytest.mark.parametrize("name", ["bounded", "betting", "hoeffding"])
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_bounded_detection_does_not_depend_on_the_unit(name, seed, a, b):
    x = unit(np.random.default_rng(seed), 120)
    plain = ConfidenceSequenceDetector(name, arl=20)
    scaled = ConfidenceSequenceDetector(name, arl=20, range=(b, a + b), on_range="clip")
    compare_scaled(plain, scaled, x, a, b)


def compare_scaled(plain, scaled, x, a, b):
    first, second = plain.detect(x), scaled.detect(a * x + b)
    assert first.index == second.index
    tolerance = 1e-9 * (abs(a) + abs(b))
    for mine, other in zip(first.trace, second.trace, strict=True):
        assert np.allclose(a * mine + b, other, atol=tolerance, rtol=1e-9)
    assert first.change_interval == second.change_interval
    assert first.change_point == second.change_point
