"""Hoeffding, empirical Bernstein and betting: oracles, formulas again, coverage, a change."""

import math

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, cs

RANGES = [(0.0, 1.0), (-3.0, 5.0)]


def beta_streams(seed, count=2000, length=200):
    """Mean .3, variance small."""
    return np.random.default_rng(seed).beta(3, 7, (count, length))


def dependent_streams(seed, count=2000, length=200):
    """In [0, 1], conditional mean .5, spread decided by the value before."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (count, length))
    spread = np.where(np.roll(signs, 1, axis=1) > 0, 0.5, 0.05)
    return 0.5 + signs * spread


def test_the_empirical_bernstein_ends_of_the_specification():
    x = np.tile([0.5, 0.6, 0.4, 0.55, 0.45], 40)
    lower, upper = cs.EmpiricalBernstein(alpha=0.05).run(x, nested=False)
    # The specification gives seven digits after 10 observations, eight after 200.
    assert (lower[9], upper[9]) == pytest.approx((-0.2401732, 1.2401732), abs=5e-8)
    assert (lower[199], upper[199]) == pytest.approx((0.46112794, 0.53887206), abs=1e-8)


@pytest.mark.parametrize("range", RANGES)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("nested", [True, False])
def test_they_equal_their_formulas(range, seed, nested):
    rng = np.random.default_rng(seed)
    low, high = range
    x = low + (high - low) * rng.beta(*rng.uniform(0.3, 5, 2), 300)
    alpha = rng.uniform(1e-4, 0.3)
    slopes = [0.5, 1.5]
    cases = [
        (cs.Hoeffding(range, 0.7, alpha), ref.hoeffding(x, alpha, range, [0.7])),
        (cs.Hoeffding(range, slopes, alpha), ref.hoeffding(x, alpha, range, slopes)),
        (cs.Hoeffding(range, None, alpha), ref.predictable_hoeffding(x, alpha, range)),
        (cs.EmpiricalBernstein(range, alpha), ref.empirical_bernstein(x, alpha, range)),
    ]
    for sequence, expected in cases:
        expected = ref.nested(expected) if nested else expected
        assert np.allclose(sequence.run(x, nested=nested), expected, atol=1e-9, rtol=0), sequence


def test_the_weight_uses_only_what_came_before():
    # Changing the last value moves the ends by its own weight alone, which is then known.
    x = np.random.default_rng(3).random(50)
    other = x.copy()
    other[-1] = 1 - x[-1]
    first, second = (cs.EmpiricalBernstein().run(values, nested=False) for values in (x, other))
    assert np.array_equal(first[0][:-1], second[0][:-1])
    assert np.array_equal(first[1][:-1], second[1][:-1])


@pytest.mark.parametrize("range", RANGES)
@pytest.mark.parametrize("count", [2, 10, 100])
def test_betting_equals_its_cells(range, count):
    low, high = range
    alpha, cells = 0.05, ref.even_cells(count)
    z = np.random.default_rng(count).beta(2, 3, 250)
    bets = ref.factors(z, cells, ref.FRACTIONS)
    with np.errstate(over="ignore"):
        wealth = np.cumprod(bets, axis=0).mean(axis=1)
    standing = np.logical_and.accumulate(wealth < 1 / alpha, axis=0)
    expected_low = low + (high - low) * cells[standing.argmax(axis=1), 0]
    last = count - 1 - standing[:, ::-1].argmax(axis=1)
    expected_high = low + (high - low) * cells[last, 1]
    assert standing.any(axis=1).all()
    lower, upper = cs.Betting(range, count, alpha=alpha).run(low + (high - low) * z)
    assert np.allclose(lower, expected_low)
    assert np.allclose(upper, expected_high)


def test_betting_with_other_fractions():
    z, cells = np.random.default_rng(0).beta(8, 3, 100), ref.even_cells(20)
    wealth = np.cumprod(ref.factors(z, cells, (0.3, 0.7)), axis=0).mean(axis=1)
    standing = np.logical_and.accumulate(wealth < 20, axis=0)[-1]
    lower, upper = cs.Betting(cells=20, fractions=(0.3, 0.7)).run(z)
    assert lower[-1] == pytest.approx(cells[standing, 0].min())
    assert upper[-1] == pytest.approx(cells[standing, 1].max())


def test_betting_never_rejects_the_cell_of_a_constant_stream():
    lower, upper = cs.Betting(alpha=0.5).run(np.full(50_000, 0.505))
    assert lower[-1] <= 0.505 <= upper[-1]
    assert upper[-1] - lower[-1] < 0.02


def test_betting_taken_one_by_one_equals_the_batch():
    x = np.random.default_rng(1).random(60)
    sequence = cs.Betting(cells=30)
    lower, upper = sequence.run(x)
    for i, value in enumerate(x):
        assert sequence.update(value).interval() == (lower[i], upper[i])
    # A run in between is another run, and changes nothing.
    assert np.array_equal(sequence.run(x)[0], lower)


def test_betting_has_only_nested_ends():
    with pytest.raises(ValueError, match="nested"):
        cs.Betting().run([0.5], nested=False)


SEQUENCES = {
    "hoeffding": lambda alpha: cs.Hoeffding(lam=0.5, alpha=alpha),
    "several slopes": lambda alpha: cs.Hoeffding(lam=[0.3, 0.6, 1.2], alpha=alpha),
    "predictable": lambda alpha: cs.Hoeffding(alpha=alpha),
    "bernstein": lambda alpha: cs.EmpiricalBernstein(alpha=alpha),
    "betting": lambda alpha: cs.Betting(cells=40, alpha=alpha),
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (beta_streams, 0.3),
        (dependent_streams, 0.5),
        (lambda seed: (np.random.default_rng(seed).random((2000, 200)) < 0.05) * 1.0, 0.05),
    ],
    ids=["beta", "dependent", "rare"],
)
def test_coverage(name, draw, mean):
    alpha = 0.2
    assert ref.misses(SEQUENCES[name](alpha), draw(4), mean) <= ref.most_misses(2000, alpha)


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_sets_are_no_larger_than_they_must_be(name):
    # Coverage alone would let everything pass: after 2000 values the sets must say something.
    lower, upper = SEQUENCES[name](0.1).run(np.random.default_rng(0).beta(3, 7, 2000))
    assert upper[-1] - lower[-1] < 0.35
    if name in ("bernstein", "betting"):
        assert upper[-1] - lower[-1] < 0.07


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("seed", range(2))
def test_a_change_is_seen_soon(name, seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.beta(2, 8, 400), rng.beta(8, 2, 300)])
    result = ConfidenceSequenceDetector(SEQUENCES[name](0.5), arl=1000).detect(x)
    assert result.alarm
    limit = 440 if name in ("bernstein", "betting") else 500
    assert 400 < result.index < limit
    assert abs(result.change_point - 400) <= 3


@pytest.mark.parametrize("make", [cs.Hoeffding, cs.EmpiricalBernstein, cs.Betting])
@pytest.mark.parametrize("range", [(1.0, 0.0), (1.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_a_range_in_the_wrong_order_is_refused(make, range):
    with pytest.raises(ValueError, match="range"):
        make(range=range)


@pytest.mark.parametrize("cells", [1, 0, -5, 2.5, True])
def test_fewer_than_two_cells_are_refused(cells):
    with pytest.raises(ValueError, match="cells"):
        cs.Betting(cells=cells)


@pytest.mark.parametrize("fractions", [(), (0.0,), (1.0,), (0.5, math.nan), (-0.1,)])
def test_fractions_outside_the_unit_interval_are_refused(fractions):
    with pytest.raises(ValueError, match="fractions"):
        cs.Betting(fractions=fractions)


@pytest.mark.parametrize("lam", [0.0, -1.0, [], [1.0, -1.0], [[1.0]]])
def test_slopes_must_be_positive(lam):
    with pytest.raises(ValueError, match="lam"):
        cs.Hoeffding(lam=lam)
