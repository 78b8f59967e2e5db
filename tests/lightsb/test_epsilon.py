"""Choosing eps, where the data tell it and where they do not."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from cameraready.lightsb import LightSB
from cameraready.lightsb.epsilon import _choose, choose_eps, plot_epsilon_choice
from cameraready.lightsb.mixtures import make_eot_mixture
from cameraready.lightsb.training import Training

GRID = [0.01, 0.1, 1.0, 10.0]


def fast(components=5, **settings):
    return LightSB(
        components, objective="energy", lr=0.1, max_iter=150, device="cpu",
        **{"scale": "none", **settings},
    )  # fmt: skip


@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_pairs_tell_eps(eps):
    x0, x1 = make_eot_mixture(2, eps, seed=0).sample_pair(800, 0)
    choice = choose_eps(x0, x1, GRID, paired=True, bridge=fast(), folds=2, seed=0)
    assert choice.eps == eps
    assert (choice.criterion, choice.identified) == ("conditional", True)
    assert choice.plausible == (eps, eps)
    assert [row.eps for row in choice.table] == GRID
    assert f"eps = {eps:g} only" in choice.note


def test_pairs_that_are_shuffled_do_not_tell_the_same():
    x0, x1 = make_eot_mixture(2, 0.1, seed=0).sample_pair(800, 0)
    shuffled = np.random.default_rng(0).permutation(x1)
    choice = choose_eps(x0, shuffled, GRID, paired=True, bridge=fast(), folds=2, seed=0)
    assert choice.eps == 10.0
    assert not choice.identified
    assert "the end of the grid: try larger" in choice.note


def test_ends_alone_rule_out_what_is_too_small():
    x0, x1 = make_eot_mixture(2, 0.1, seed=0).sample_pair(1500, 0)
    choice = choose_eps(x0, np.flip(x1, 0), GRID, bridge=fast(), folds=2, seed=0)
    assert choice.criterion == "marginal"
    assert choice.plausible[0] == 0.1
    assert choice.eps == 0.1


def test_one_component_between_gaussians_says_nothing():
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(size=(600, 2)), rng.normal(size=(600, 2)) * 0.5 + 1
    choice = choose_eps(x0, x1, [0.1, 1.0, 10.0], bridge=fast(1), folds=2, seed=0)
    # A Gaussian at the end for each eps, and the fit finds the same.
    assert max(row.behind for row in choice.table) < 0.004
    assert not choice.identified
    assert choice.eps == 0.1
    assert choice.note.startswith("not identified by these data")
    # With pairs the same data have an eps: slope c and variance eps c are both told. Here x1 is
    # independent of x0, which no eps gives, and the largest comes closest.
    pairs = choose_eps(x0, x1, [0.1, 1.0, 10.0], paired=True, bridge=fast(1), folds=2, seed=0)
    assert pairs.eps == 10.0


def test_the_log_likelihood_is_that_of_the_data_in_their_units():
    x0, x1 = make_eot_mixture(2, 1.0, seed=0).sample_pair(300, 0)
    settings = {"paired": True, "folds": 2, "seed": 0}
    one = choose_eps(x0, x1, [0.3, 1.0], bridge=fast(3, scale="global"), **settings)
    ten = choose_eps(10 * x0, 10 * x1, [0.3, 1.0], bridge=fast(3, scale="global"), **settings)
    for a, b in zip(one.table, ten.table, strict=True):
        assert b.eps_data_units == pytest.approx(100 * a.eps_data_units)
        assert b.log_likelihood == pytest.approx(a.log_likelihood - 2 * np.log(10), abs=1e-3)
        assert b.entropy == pytest.approx(a.entropy + 2 * np.log(10), abs=1e-3)
        assert b.energy == pytest.approx(a.energy, abs=1e-3)


def test_entropy_grows_with_eps_and_is_that_of_a_gaussian():
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(size=(2000, 1)), 2 + 0.5 * rng.normal(size=(2000, 1))
    grid = [0.1, 0.5, 5.0]
    choice = choose_eps(x0, x1, grid, bridge=fast(1), folds=2, seed=0)
    # The bridge between N(0, 1) and N(2, 1/4): x1 given x0 has the variance eps c.
    for row in choice.table:
        c = np.sqrt(0.25 + row.eps**2 / 4) - row.eps / 2
        assert row.entropy == pytest.approx(0.5 * np.log(2 * np.pi * np.e * row.eps * c), abs=0.1)


def test_the_same_seed_gives_the_same_and_progress_is_told():
    x0, x1 = make_eot_mixture(2, 1.0, seed=0).sample_pair(200, 0)
    told = []
    one, two = (
        choose_eps(x0, x1, [1.0, 0.1], bridge=fast(2).set_params(max_iter=30), folds=2, seed=3,
                   callback=lambda *done: told.append(done))
        for _ in range(2)
    )  # fmt: skip
    assert one == two
    assert told[:4] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_ctrl_c_ends_the_choice(monkeypatch):
    x0, x1 = make_eot_mixture(2, 1.0, seed=0).sample_pair(200, 0)
    told, step = [], Training.step

    def interrupted(self, *batch, **given):
        if told and self.iteration == 20:
            raise KeyboardInterrupt
        step(self, *batch, **given)

    monkeypatch.setattr(Training, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        choose_eps(
            x0, x1, [1.0, 0.1], bridge=fast(2), folds=2, callback=lambda *done: told.append(done)
        )
    assert told == [(1, 4)]


# The rule, on scores that are made up.


def rule(means, noise, paired=False):
    """Scores with these means, whose differences have the same standard deviation."""
    rng = np.random.default_rng(0)
    scores = np.array(means)[:, None] + noise * rng.normal(size=(len(means), 10_000))
    values = [10.0**k for k in range(len(means))]
    zeros = np.zeros(len(means))
    return _choose(values, 4.0, scores, zeros, zeros, paired)


def test_within_noise_the_smallest_is_taken_without_pairs_and_the_best_with_them():
    means = [-1.0, -0.01, 0.0, -1.0]  # the second is half a standard error behind
    assert rule(means, 1.0).eps == 10.0
    assert rule(means, 1.0, paired=True).eps == 100.0
    assert rule(means, 0.01).eps == 100.0
    choice = rule(means, 1.0)
    assert choice.eps_data_units == 40.0
    assert choice.plausible == (10.0, 100.0)
    assert choice.identified
    assert "eps from 10 to 100" in choice.note


def test_a_wide_plateau_is_not_identified():
    choice = rule([-1.0, 0.0, 0.0, 0.0, -1.0], 1.0)
    assert not choice.identified
    assert "from 10 to 1000; the smallest, 10, was taken" in choice.note
    assert "the best was taken" in rule([-1.0, 0.0, 0.0, 0.0, -1.0], 1.0, paired=True).note


@pytest.mark.parametrize(("means", "word"), [([0, -1, -2], "smaller"), ([-2, -1, 0], "larger")])
def test_an_end_of_the_grid_is_not_identified(means, word):
    choice = rule(means, 0.1)
    assert not choice.identified
    assert f"try {word} eps too" in choice.note


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": [1.0]}, "two different eps"),
        ({"grid": [1.0, 1.0]}, "two different eps"),
        ({"grid": [0.0, 1.0]}, "grid must be"),
        ({"grid": [np.nan, 1.0]}, "grid must be"),
        ({"X1": np.zeros((20, 3))}, r"shapes are \(20, 2\) and \(20, 3\)"),
        ({"X1": np.zeros((10, 2)), "paired": True}, "20 and 10"),
        ({"folds": 1}, "folds"),
        ({"folds": 21}, "folds"),
        ({"X0": np.full((20, 2), np.nan)}, "X0 has NaN"),
    ],
)
def test_wrong_arguments(change, said):
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=said):
        choose_eps(**{"X0": x, "X1": x, "grid": [0.1, 1.0], **change})


def test_the_picture_shows_the_choice():
    ax = plot_epsilon_choice(rule([-1.0, -0.01, 0.0, -1.0], 1.0), Figure().subplots())
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "taken: 10" in texts
    assert ax.get_xscale() == "log"
