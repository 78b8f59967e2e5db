"""What all confidence sequences share, used alone."""

import math

import numpy as np
import pytest

from cameraready.change_detection import RangeError, cs

GRID = [0.2, 0.5, 0.8]
ONE = {
    "gaussian": lambda: cs.Gaussian(1.0),
    "subgaussian": lambda: cs.SubGaussian(1.0),
    "hoeffding": lambda: cs.Hoeffding(),
    "linear": lambda: cs.Hoeffding(lam=[0.5, 1.0]),
    "bernstein": lambda: cs.EmpiricalBernstein(),
    "betting": lambda: cs.Betting(cells=20),
    "bernoulli": lambda: cs.Bernoulli(),
    "poisson": lambda: cs.Poisson(),
    "cdf": lambda: cs.CDF(True, GRID),
    "learned cdf": lambda: cs.CDF(True, points=8, window=10),
    "quantile": lambda: cs.Quantile(0.5, True, GRID),
    "learned quantile": lambda: cs.Quantile(0.5, True, points=8, window=10),
    "catoni": lambda: cs.Catoni(1.0),
}
MANY = {
    "pairs": lambda: cs.TwoSampleMean(),
    "betting pairs": lambda: cs.TwoSampleMean(method="betting"),
    "distance": lambda: cs.TwoSampleKS(True, GRID),
    "learned distance": lambda: cs.TwoSampleKS(True, points=8, window=10),
    "regression": lambda: cs.LinearRegression(1.0, 1.0),
    "vector": lambda: cs.VectorMean(cs.Gaussian(1.0), 2),
}
ALL = {**ONE, **MANY}
BOUNDED = ("hoeffding", "linear", "bernstein", "betting", "bernoulli", "poisson")


def values(sequence, n=60, seed=0):
    shape = (n,) if sequence.entries == 1 else (n, sequence.entries)
    return (np.random.default_rng(seed).random(shape) < 0.5) * 1.0


@pytest.mark.parametrize("name", ALL)
def test_one_by_one_is_the_batch(name):
    sequence = ALL[name]().with_alpha(0.1)
    x = values(sequence)
    lower, upper = sequence.run(x)
    for i, value in enumerate(x):
        low, high = sequence.update(value).interval()
        if "learned" in name and i < 9:
            assert np.all(np.asarray(low) <= np.asarray(high))
            continue
        # Ends found by bisection may differ in the last bit.
        tolerance = 1e-12 if name in ("bernoulli", "poisson", "catoni") else 0
        assert np.allclose(low, lower[i], atol=tolerance, rtol=0)
        assert np.allclose(high, upper[i], atol=tolerance, rtol=0)
    assert sequence.n_ == len(x)


@pytest.mark.parametrize("name", ALL)
def test_the_running_intersection_shrinks(name):
    lower, upper = ALL[name]().run(values(ALL[name](), 200))
    assert (lower[1:] >= lower[:-1]).all()
    assert (upper[1:] <= upper[:-1]).all()


@pytest.mark.parametrize("name", [n for n in ALL if "betting" not in n])
def test_the_running_intersection_is_that_of_the_raw_ends(name):
    x = values(ALL[name](), 100)
    lower, upper = ALL[name]().run(x, nested=False)
    nested = ALL[name]().run(x)
    assert np.allclose(np.maximum.accumulate(lower, axis=0), nested[0], atol=1e-12)
    assert np.allclose(np.minimum.accumulate(upper, axis=0), nested[1], atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_a_smaller_alpha_gives_a_larger_set(name):
    x = values(ALL[name](), 150)
    for first, second in ((0.2, 0.01), (0.01, 1e-5)):
        small, large = (ALL[name]().with_alpha(alpha).run(x) for alpha in (first, second))
        assert (large[0] <= small[0]).all()
        assert (large[1] >= small[1]).all()
        assert large[0].shape == small[0].shape


@pytest.mark.parametrize("name", ALL)
def test_running_leaves_the_sequence_as_it_is(name):
    sequence = ALL[name]().with_alpha(0.1)
    for value in values(sequence, 20):
        sequence.update(value)
    before = sequence.interval()
    sequence.run(values(sequence, 30, 1))
    assert sequence.n_ == 20
    assert np.array_equal(sequence.interval(), before)
    assert sequence.with_alpha(0.1).n_ == 0
    sequence.reset()
    assert sequence.n_ == 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused_and_change_nothing(name, bad):
    sequence = ALL[name]().with_alpha(0.1)
    x = values(sequence, 20)
    for value in x:
        sequence.update(value)
    before = sequence.interval()
    wrong = bad if sequence.entries == 1 else np.full(sequence.entries, bad)
    with pytest.raises(RangeError, match="not finite") as caught:
        sequence.update(wrong)
    assert caught.value.index == 21
    assert sequence.n_ == 20
    assert np.array_equal(sequence.interval(), before)
    with pytest.raises(RangeError, match="not finite") as caught:
        sequence.run(np.concatenate([x[:4], [wrong], x[4:]]))
    assert caught.value.index == 5


@pytest.mark.parametrize("name", ["hoeffding", "linear", "bernstein", "betting", "bernoulli"])
@pytest.mark.parametrize("bad", [-0.5, 1.5])
def test_values_out_of_range_are_refused_and_change_nothing(name, bad):
    sequence = ONE[name]().with_alpha(0.1)
    sequence.update(1.0).update(0.0)
    before = sequence.interval()
    with pytest.raises(RangeError) as caught:
        sequence.update(bad)
    assert (caught.value.index, caught.value.value) == (3, bad)
    assert sequence.n_ == 2
    assert sequence.interval() == before
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ALL)
def test_the_wrong_shape_is_refused_with_the_one_expected(name):
    sequence = ALL[name]().with_alpha(0.1)
    d = sequence.entries
    expected = r"\(observations,\)" if d == 1 else rf"\(observations, {d}\)"
    with pytest.raises(ValueError, match=expected):
        sequence.run(np.zeros((3, d + 1)))
    with pytest.raises(ValueError, match=expected):
        sequence.run(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=expected):
        sequence.run(0.5)
    with pytest.raises(ValueError, match=expected):
        sequence.update([0.0] * (d + 1))
    with pytest.raises(ValueError, match=expected):
        sequence.update([[0.0] * (d + 1)])
    assert sequence.n_ == 0


def test_a_vector_is_not_taken_for_one_number():
    sequence = cs.Gaussian(1.0)
    with pytest.raises(ValueError, match=r"\(observations,\)"):
        sequence.update([1.0, 2.0, 3.0])
    assert sequence.n_ == 0
    assert sequence.interval() == (-math.inf, math.inf)


@pytest.mark.parametrize("name", [n for n in ALL if "learned" not in n])
def test_no_observations_give_no_intervals(name):
    sequence = ALL[name]()
    empty = np.zeros(0) if sequence.entries == 1 else np.zeros((0, sequence.entries))
    lower, upper = sequence.run(empty)
    assert len(lower) == len(upper) == 0


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 2.0, math.nan, "a"])
def test_the_level_lies_between_zero_and_one(alpha):
    with pytest.raises(ValueError, match="alpha"):
        cs.Gaussian(alpha=alpha)
    with pytest.raises(ValueError, match="alpha"):
        cs.Gaussian().with_alpha(alpha)


@pytest.mark.parametrize("name", ALL)
def test_it_is_shown_with_its_settings(name):
    sequence = ALL[name]()
    assert repr(sequence).startswith(type(sequence).__name__)
    assert "alpha=0.05" in repr(sequence)


def test_counts_may_be_integers_or_lists():
    for x in ([0, 1, 1], (0, 1, 1), np.array([0, 1, 1]), np.array([False, True, True])):
        assert np.array_equal(cs.Bernoulli().run(x), cs.Bernoulli().run([0.0, 1.0, 1.0]))
