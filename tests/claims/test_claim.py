import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cameraready.claims import AtLeast, AtMost, Claim, Equal, Measurement, Verdict, Within

HOLDS, FAILS, NOISE, UNTESTED = Verdict

finite = st.floats(-1e6, 1e6)
errors = st.none() | st.floats(0, 1e3)
measurements = st.builds(
    Measurement,
    st.floats(),
    st.text(max_size=5),
    errors,
    st.none() | st.integers(1, 10**6),
)
factors = st.floats(0.01, 100)
criteria = st.one_of(
    st.builds(AtLeast, st.floats()),
    st.builds(AtMost, st.floats()),
    st.builds(AtLeast, factor=factors),
    st.builds(AtMost, factor=factors),
    st.tuples(finite, finite).map(lambda ends: Within(min(ends), max(ends))),
    st.builds(Equal, st.none() | st.floats(), st.floats(0, 10)),
)
claims = st.builds(
    Claim,
    st.text(min_size=1).filter(str.strip),
    st.text(min_size=1).filter(str.strip),
    measurements,
    criteria,
    baseline=measurements,
    baseline_name=st.text(min_size=1),
    paired_standard_error=errors,
    note=st.text(),
    not_testable=st.text(max_size=3),
)


def claim(value, criterion, *, error=None, **more):
    return Claim("key", "statement", Measurement(value, standard_error=error), criterion, **more)


@pytest.mark.parametrize(
    ("value", "error", "criterion", "verdict"),
    [
        (2, None, AtLeast(1), HOLDS),
        (1, None, AtLeast(1), HOLDS),
        (0.5, None, AtLeast(1), FAILS),
        (2, 0.5, AtLeast(1), HOLDS),
        (2, 0.51, AtLeast(1), NOISE),
        (0, 0.51, AtLeast(1), NOISE),
        (0, 0.5, AtLeast(1), FAILS),
        (1, None, AtMost(2), HOLDS),
        (2, None, AtMost(2), HOLDS),
        (3, None, AtMost(2), FAILS),
        (2.1, 0.1, AtMost(2), NOISE),
        (0.5, None, Within(0, 1), HOLDS),
        (0, None, Within(0, 1), HOLDS),
        (1.5, 0.1, Within(0, 1), FAILS),
        (0.9, 0.1, Within(0, 1), NOISE),
        (0.1, 0.1, Within(0, 1), NOISE),
        (5, None, Equal(5), HOLDS),
        (5.1, None, Equal(5), FAILS),
        (5.1, None, Equal(5, tolerance=0.2), HOLDS),
        (5.1, 0.1, Equal(5, tolerance=0.2), NOISE),
        (7.0, 0.1, Equal(5, tolerance=0.2), FAILS),
        (math.nan, None, AtLeast(1), FAILS),
        (math.nan, 1.0, Within(0, 1), FAILS),
        (math.inf, None, AtLeast(1), HOLDS),
        (math.inf, None, AtMost(1), FAILS),
    ],
)
def test_verdict_against_a_bound(value, error, criterion, verdict):
    assert claim(value, criterion, error=error).verdict is verdict


@pytest.mark.parametrize(
    ("value", "error", "baseline", "criterion", "paired", "verdict"),
    [
        (3, 0, Measurement(2), AtLeast(), None, HOLDS),
        (1, 0, Measurement(2), AtLeast(), None, FAILS),
        (3, 0.3, Measurement(2, standard_error=0.4), AtLeast(), None, HOLDS),
        (3, 0.4, Measurement(2, standard_error=0.4), AtLeast(), None, NOISE),
        (3, 0.4, Measurement(2, standard_error=0.4), AtLeast(), 0.1, HOLDS),
        (3, 0.0, Measurement(2, standard_error=0.1), AtLeast(), 0.6, NOISE),
        (3, 0.0, Measurement(2, standard_error=0.2), AtLeast(factor=3), None, FAILS),
        (5.1, 0.0, Measurement(2, standard_error=0.2), AtLeast(factor=3), None, NOISE),
        (1, 0.0, Measurement(4), AtMost(factor=0.5), None, HOLDS),
        (4, 0.0, Measurement(4), Equal(), None, HOLDS),
        (4, 0.0, Measurement(math.nan), AtLeast(), None, FAILS),
        # A bound of its own: the baseline is only shown, its error plays no part.
        (3, 0.1, Measurement(99, standard_error=9), AtLeast(2), None, HOLDS),
    ],
)
def test_verdict_against_a_baseline(value, error, baseline, criterion, paired, verdict):
    made = claim(
        value,
        criterion,
        error=error,
        baseline=baseline,
        baseline_name="peer",
        paired_standard_error=paired,
    )
    assert made.verdict is verdict


def test_what_is_not_testable_says_why():
    made = Claim("key", "statement", None, AtLeast(), not_testable="needs a GPU")
    assert made.verdict is UNTESTED
    with pytest.raises(ValueError, match="not_testable"):
        Claim("key", "statement", None, AtLeast(1))
    measured = Measurement(2)
    proxy = Claim("key", "statement", measured, AtLeast(1), not_testable="a proxy was measured")
    assert proxy.verdict is UNTESTED


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: claim(1, AtLeast()), "baseline"),
        (lambda: claim(1, Equal()), "baseline"),
        (lambda: claim(1, AtLeast(1), baseline=Measurement(1)), "baseline_name"),
        (lambda: Claim("", "statement", Measurement(1), AtLeast(1)), "key"),
        (lambda: Claim("key", " ", Measurement(1), AtLeast(1)), "statement"),
        (lambda: Claim("key", "statement", 1.0, AtLeast(1)), "Measurement"),
        (lambda: claim(1, 3), "criterion"),
        (lambda: claim(1, AtLeast(1), paired_standard_error=-1), "paired_standard_error"),
        (lambda: Measurement("1"), "value"),
        (lambda: Measurement(True), "value"),
        (lambda: Measurement(1, standard_error=math.nan), "standard_error"),
        (lambda: Measurement(1, standard_error=-0.1), "standard_error"),
        (lambda: Measurement(1, repeats=0), "repeats"),
        (lambda: Measurement(1, repeats=1.5), "repeats"),
        (lambda: AtLeast(1, factor=2), "factor"),
        (lambda: AtMost(factor=0), "factor"),
        (lambda: Within(2, 1), "low"),
        (lambda: Equal(1, tolerance=-1), "tolerance"),
    ],
)
def test_bad_parts_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@given(claims)
def test_json_round_trip(made):
    back = Claim.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    # NaN differs from itself, so the JSON is compared.
    assert back.to_json() == made.to_json()
    assert back.verdict is made.verdict


@given(finite, finite, st.floats(0, 100))
def test_at_least_mirrors_at_most(value, bound, error):
    above = claim(value, AtLeast(bound), error=error).verdict
    below = claim(-value, AtMost(-bound), error=error).verdict
    assert above is below


@given(finite, finite, st.floats(0, 100), st.floats(1, 10))
def test_more_noise_never_settles_a_claim(value, bound, error, factor):
    quiet = claim(value, AtLeast(bound), error=error).verdict
    noisy = claim(value, AtLeast(bound), error=error * factor).verdict
    assert noisy is quiet or noisy is NOISE


def test_numpy_numbers_become_plain():
    made = Measurement(np.float32(0.5), standard_error=np.float64(0.1), repeats=np.int64(3))
    assert [type(part) for part in (made.value, made.standard_error, made.repeats)] == [
        float,
        float,
        int,
    ]


def test_damaged_json_is_no_claim():
    data = claim(1, AtLeast(1)).to_json()
    for damaged in ({}, {**data, "criterion": {"kind": "perhaps"}}, {**data, "measured": 3}):
        with pytest.raises(ValueError, match="not a claim"):
            Claim.from_json(damaged)


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        (AtLeast(20), "at least 20 s"),
        (AtMost(factor=0.5), "at most 0.5 times peer"),
        (AtLeast(), "at least peer"),
        (Within(0, 1), "between 0 and 1 s"),
        (Equal(5, tolerance=0.1), "equal to 5 s, give or take 0.1 s"),
    ],
)
def test_criterion_in_words(criterion, words):
    made = Claim(
        "key",
        "statement",
        Measurement(1, "s"),
        criterion,
        baseline=Measurement(1, "s"),
        baseline_name="peer",
    )
    assert made.criterion_in_words == words


@pytest.mark.parametrize(
    ("measurement", "text"),
    [
        (Measurement(29.21234, "steps", standard_error=0.4321), "29.21 ± 0.43 steps"),
        (Measurement(12345.6, standard_error=120), "12,346 ± 120"),
        (Measurement(0.95, "%"), "0.95%"),
        (Measurement(math.nan), "no number"),
        (Measurement(1.0, standard_error=0.0), "1 ± 0"),
        (Measurement(3.2, "×", standard_error=0.05), "3.200 ± 0.050×"),
    ],
)
def test_measurement_as_text(measurement, text):
    assert str(measurement) == text
