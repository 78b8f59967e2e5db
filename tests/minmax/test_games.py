import numpy as np
import pytest
from scipy.optimize import linprog

from cameraready.minmax import Bilinear, Box, MatrixGame, kuhn_poker, solve

THREE = [[3, -1, 2], [-2, 4, 1], [0, 1, -3]]


def test_the_three_by_three_game_is_solved():
    game = MatrixGame(THREE)
    result = solve(game, tol=1e-10)
    np.testing.assert_allclose(result.x, [0.2, 0, 0.8], atol=1e-8)
    np.testing.assert_allclose(result.y, [0.4, 0.6, 0], atol=1e-8)
    assert game.value_bounds(result.z) == pytest.approx((0.6, 0.6), abs=1e-8)
    assert 0 <= result.gap <= 1e-8


def test_the_value_lies_within_its_bounds_and_the_gap_is_their_distance():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(5, 7))  # noqa: N806
    value = linprog(
        np.r_[np.zeros(5), 1],
        A_ub=np.c_[A.T, -np.ones(7)],
        b_ub=np.zeros(7),
        A_eq=[[1] * 5 + [0]],
        b_eq=[1],
        bounds=[(0, None)] * 5 + [(None, None)],
    ).fun
    game = MatrixGame(A)
    for n in (1, 10, 100, 1000):
        result = solve(game, tol=0, max_iter=n)
        low, high = game.value_bounds(result.z)
        assert low <= value + 1e-12
        assert high >= value - 1e-12
        assert result.gap == pytest.approx(high - low)
        assert result.gap <= 2 * result.residual + 1e-12


def test_maximize_turns_the_players_round():
    game = MatrixGame(THREE, maximize=True)
    turned = MatrixGame(-np.array(THREE))
    a, b = solve(game, tol=1e-10), solve(turned, tol=1e-10)
    np.testing.assert_array_equal(a.z, b.z)
    low, high = turned.value_bounds(b.z)
    assert game.value_bounds(a.z) == (-high, -low)


def test_games_start_from_uniform_strategies():
    game = MatrixGame(np.ones((2, 5)))
    np.testing.assert_allclose(game.z0, [0.5] * 2 + [0.2] * 5)
    assert game.radius == pytest.approx(np.hypot(np.sqrt(0.5), np.sqrt(0.8)))


@pytest.mark.parametrize(
    ("payoff", "error", "sentence"),
    [
        ([1, 2, 3], ValueError, "A must have two dimensions, not 1"),
        (np.ones((2, 2, 2)), ValueError, "A must have two dimensions, not 3"),
        (np.ones((0, 3)), ValueError, "A is empty"),
        ([[1, 2], [3]], ValueError, "all rows equally long"),
        ([["1", "2"], ["3", "x"]], TypeError, "not .*'x'.* in row 1, column 1"),
        ([[1, 2], [np.nan, 3]], ValueError, "row 1, column 0 .* is nan"),
        ([[1, 2], [3, -np.inf]], ValueError, "row 1, column 1 .* is -inf"),
        ([[1j, 2]], TypeError, "real numbers"),
    ],
)
def test_a_bad_payoff_is_named_by_row_and_column(payoff, error, sentence):
    with pytest.raises(error, match=sentence):
        MatrixGame(payoff)


def test_kuhn_poker_is_enumerated_and_has_its_value():
    payoff = kuhn_poker()
    assert payoff.shape == (27, 64)
    assert set(np.unique(np.round(payoff * 6)).astype(int)) <= set(range(-12, 13))
    # The linear program of the row player, who maximises.
    solution = linprog(
        np.r_[np.zeros(27), -1],
        A_ub=np.c_[-payoff.T, np.ones(64)],
        b_ub=np.zeros(64),
        A_eq=[[1] * 27 + [0]],
        b_eq=[1],
        bounds=[(0, None)] * 27 + [(None, None)],
    )
    assert -solution.fun == pytest.approx(-1 / 18, abs=1e-10)
    # One plan for all cards: the order of the strategies is that of the products of plans.
    fold, call, bet = payoff[0], payoff[13], payoff[26]
    check_fold, check_call, bet_call = 0, 21, 63
    assert bet[check_fold] == 1  # the ante
    assert bet[check_call] == pytest.approx(0)  # a fair game for 2
    assert fold[bet_call] == -1
    assert call[bet_call] == pytest.approx(0)
    assert fold[check_fold] == pytest.approx(0)


class TestBilinear:
    def test_f_is_the_gradient_of_the_formula(self):
        rng = np.random.default_rng(0)
        A, b, c = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=2)  # noqa: N806
        problem = Bilinear(A, b, c)

        def f(z):
            x, y = z[:3], z[3:]
            return x @ A @ y + b @ x - c @ y

        z = rng.normal(size=5)
        steps = 1e-6 * np.eye(5)
        slope = np.array([(f(z + h) - f(z - h)) / 2e-6 for h in steps])
        np.testing.assert_allclose(problem.operator(z), slope * [1, 1, 1, -1, -1], atol=1e-8)

    def test_dense_sparse_and_torch_agree(self):
        sparse = pytest.importorskip("scipy.sparse")
        torch = pytest.importorskip("torch")
        A = np.array([[0, 1.0, 2], [3, 0, 0]])  # noqa: N806
        kinds = [A, sparse.csr_array(A), sparse.coo_matrix(A), torch.tensor(A)]
        ends = [
            np.asarray(
                solve(
                    Bilinear(kind, [1, 1], [0.5, 0, 0], Box(-1, 1), Box(-1, 1), x0=[1, 1]),
                    step=0.2,
                    tol=0,
                    max_iter=30,
                ).z
            )
            for kind in kinds
        ]
        for end in ends[1:]:
            np.testing.assert_allclose(end, ends[0], atol=1e-12)

    def test_vectors_must_fit(self):
        with pytest.raises(ValueError, match=r"b has the shape \(3,\), but A of shape \(2, 4\)"):
            Bilinear(np.ones((2, 4)), b=np.ones(3))
        with pytest.raises(TypeError, match="c must be a vector of real numbers"):
            Bilinear(np.ones((2, 4)), c=["a"] * 4)

    def test_a_sparse_nan_is_named(self):
        sparse = pytest.importorskip("scipy.sparse")
        with pytest.raises(ValueError, match=r"row 1, column 2 .* is nan"):
            Bilinear(sparse.csr_array(np.array([[1.0, 0, 0], [0, 0, np.nan]])))


@pytest.mark.parametrize("kind", ["numpy", "torch", "sparse"])
def test_highs_agrees_with_the_value(kind):
    payoff = kuhn_poker()
    matrix = {
        "numpy": lambda: payoff,
        "torch": lambda: __import__("torch").tensor(payoff),
        "sparse": lambda: __import__("scipy.sparse").sparse.csr_array(payoff),
    }[kind]()
    assert -MatrixGame(matrix, maximize=True).highs().fun == pytest.approx(-1 / 18)
