"""The hull engine is the exact engine for linear boundaries."""

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, cs

SLOPES = [1.0, 0.2, [0.5, 1.0, 2.0], [0.1, 8.0]]


def stream(seed, change, n=300):
    rng = np.random.default_rng(seed)
    after = (rng.beta(8, 2, n) if seed % 2 else rng.beta(1, 9, n)) if change else rng.beta(3, 3, n)
    return np.concatenate([rng.beta(3, 3, n), after, rng.beta(3, 3, n)])


def compare(x, sequence, **given):
    results = {}
    for engine in ("hull", "exact"):
        detector = ConfidenceSequenceDetector(sequence, engine=engine, **given)
        results[engine] = detector.detect(x), detector
    (hull, first), (exact, second) = results["hull"], results["exact"]
    assert hull.index == exact.index
    assert np.allclose(hull.trace, exact.trace, atol=1e-10, rtol=0)
    assert first.witness_ == second.witness_
    assert hull.change_interval == exact.change_interval
    assert first._engine_.restarts == second._engine_.restarts
    return hull


@pytest.mark.parametrize("lam", SLOPES)
@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("given", [{}, {"direction": "up"}, {"direction": "down"}])
def test_it_equals_the_exact_engine(lam, change, given):
    alarms = 0
    for seed in range(6):
        alarms += compare(stream(seed, change), cs.Hoeffding(lam=lam), arl=50, **given).alarm
    assert alarms == 0 or change
    if change and lam in (1.0, [0.5, 1.0, 2.0]):
        assert alarms > 0


@pytest.mark.parametrize("theta0", [0.5, (0.4, 0.6), (0.0, 0.55)])
@pytest.mark.parametrize("direction", ["both", "up", "down"])
def test_it_equals_the_exact_engine_with_a_known_level(theta0, direction):
    for seed in range(4):
        x, sequence = stream(seed, True), cs.Hoeffding(lam=[0.5, 2.0])
        compare(x, sequence, arl=50, theta0=theta0, direction=direction)


def test_it_equals_the_exact_engine_on_another_range():
    for seed in range(4):
        x = -20 + 7 * stream(seed, True)
        assert compare(x, cs.Hoeffding((-20, -13), lam=[0.05, 0.2]), arl=50).alarm


def test_it_equals_the_definition():
    for seed in range(10):
        x = np.concatenate([stream(seed, True)[:60], stream(seed, True)[300:360]])
        detector = ConfidenceSequenceDetector(cs.Hoeffding(lam=[1.0, 2.0]), arl=5, engine="hull")
        brute = ref.repeated(lambda x, a: ref.hoeffding(x, a, (0, 1), [1.0, 2.0]), x, 0.2)
        result = detector.detect(x)
        assert result.index == brute.alarm
        assert detector.witness_ == brute.witness
        assert np.allclose(np.stack(result.trace, axis=1), brute.trace, atol=1e-10, rtol=0)


@pytest.mark.parametrize("shape", ["coins", "constant", "convex", "concave", "ramp"])
def test_hulls_that_lose_all_or_no_points(shape):
    n = 1500
    x = {
        "coins": (np.random.default_rng(0).random(n) < 0.5) * 1.0,
        "constant": np.full(n, 0.25),
        "convex": np.linspace(0, 1, n),
        "concave": np.linspace(1, 0, n),
        "ramp": np.tile(np.linspace(0, 1, 50), n // 50),
    }[shape]
    for arl in (10, 1e8):
        ends, index = [], []
        for engine in ("hull", "exact"):
            detector = ConfidenceSequenceDetector(cs.Hoeffding(lam=[0.3, 1.0]), arl, engine=engine)
            result = detector.detect(x)
            index.append(result.index)
            ends.append(result.trace)
        assert index[0] == index[1]
        assert np.allclose(*ends, atol=1e-10, rtol=0)


def test_one_by_one_equals_the_batch():
    x = stream(3, True)
    first, second = (
        ConfidenceSequenceDetector(cs.Hoeffding(lam=[0.5, 2.0]), arl=20, engine="hull")
        for _ in range(2)
    )
    for value in x:
        first.update(value)
    second.update_many(x)
    assert first.alarms_ == second.alarms_ != []
    assert (first.lower_, first.upper_) == (second.lower_, second.upper_)


@pytest.mark.parametrize(
    "sequence",
    [
        "bounded",
        "betting",
        "hoeffding",
        cs.Gaussian(),
        cs.Hoeffding(),
        cs.VectorMean(cs.Hoeffding(lam=1.0), 2),
        cs.TwoSampleMean(method="hoeffding"),
    ],
    ids=repr,
)
def test_other_sequences_are_refused(sequence):
    with pytest.raises(ValueError, match="hull"):
        ConfidenceSequenceDetector(sequence, engine="hull")


def test_pfa_is_refused():
    with pytest.raises(ValueError, match="hull"):
        ConfidenceSequenceDetector(cs.Hoeffding(lam=1.0), engine="hull", guarantee="pfa")
