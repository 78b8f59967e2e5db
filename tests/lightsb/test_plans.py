"""Pairs of rows, and units of eps."""

from itertools import permutations

import numpy as np
import ot
import pytest

from cameraready.lightsb.plans import eps_from, index_pairs


def batch(n=6, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d))


def rng():
    return np.random.default_rng(0)


def test_minibatch_pairs_are_the_best_permutation():
    x0, x1 = batch()
    i, j = index_pairs("minibatch", x0, x1, 0.1, rng())
    cost = ot.dist(x0, x1)
    best = min(permutations(range(6)), key=lambda p: cost[np.arange(6), list(p)].sum())
    assert list(i) == list(range(6))
    assert tuple(j) == best


@pytest.mark.parametrize("plan", ["independent", "paired"])
def test_rows_are_left_as_they_are(plan):
    i, j = index_pairs(plan, *batch(), 0.1, rng())
    assert list(i) == list(j) == list(range(6))


@pytest.mark.parametrize("eps", [5.0, 0.3])
def test_sinkhorn_pairs_follow_the_entropic_plan(eps):
    x0, x1 = batch(5)
    uniform = np.full(5, 0.2)
    # The plan of POT for the cost of twice ours.
    expected = ot.sinkhorn(
        uniform,
        uniform,
        ot.dist(x0, x1),
        reg=2 * eps,
        method="sinkhorn_log",
        stopThr=1e-9,
        numItermax=10_000,
    )
    generator, repeats = rng(), 400
    counts = np.zeros((5, 5))
    for _ in range(repeats):
        i, j = index_pairs("sinkhorn", x0, x1, eps, generator)
        counts[i, j] += 1 / repeats
    share = 5 * expected
    error = np.sqrt(share * (1 - share) / repeats)
    assert (np.abs(counts - share) < 4 * error + 2e-3).all()


def test_small_eps_makes_sinkhorn_the_best_permutation():
    x0, x1 = batch()
    _, j = index_pairs("sinkhorn", x0, x1, 1e-3, rng())
    assert list(j) == list(index_pairs("minibatch", x0, x1, 1e-3, rng())[1])


def test_a_plan_of_your_own():
    def anti_monotone(x0, x1, rng):
        return np.argsort(x0[:, 0]), np.argsort(-x1[:, 0])

    x0, x1 = batch()
    i, j = index_pairs(anti_monotone, x0, x1, 0.1, rng())
    assert (np.diff(x0[i, 0]) > 0).all()
    assert (np.diff(x1[j, 0]) < 0).all()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (([0, 6], [0, 1]), "below 6; i is not"),
        (([0, 1], [0, -1]), "j is not"),
        (([0, 1], [0.0, 1.0]), "j is not"),
        (([0, 1], [0]), "2 rows of x0 but 1"),
        (([], []), "i is not"),
    ],
)
def test_plans_that_return_no_rows(returned, message):
    with pytest.raises(ValueError, match=message):
        index_pairs(lambda x0, x1, rng: returned, *batch(), 0.1, rng())


def test_unknown_plan():
    with pytest.raises(ValueError, match="plan must be one of"):
        index_pairs("optimal", *batch(), 0.1, rng())


def test_conventions():
    assert eps_from("sde", 0.3) == 0.3
    assert eps_from("half_cost", 0.3) == 0.3
    assert eps_from("entropic_ot", 0.3) == 0.15
    with pytest.raises(ValueError, match="convention must be one of"):
        eps_from("ott", 0.3)
    with pytest.raises(ValueError, match="value must be"):
        eps_from("sde", 0.0)


def test_the_convention_of_pot_by_a_gaussian():
    # POT's plan between Gaussians with reg = 2 eps has the bridge's slope.
    grid = np.linspace(-6, 6, 301)[:, None]
    mass = np.exp(-0.5 * grid[:, 0] ** 2)
    mass /= mass.sum()
    reg = 1.6
    eps = eps_from("entropic_ot", reg)
    plan = ot.sinkhorn(mass, mass, ot.dist(grid, grid), reg=reg, method="sinkhorn_log")
    correlation = float(grid[:, 0] @ plan @ grid[:, 0])
    assert abs(correlation - (np.sqrt(4 + eps**2) - eps) / 2) < 1e-4
