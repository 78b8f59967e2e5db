import numpy as np
import pytest
from scipy.optimize import OptimizeResult, linprog

from cameraready.minmax import LPSaddle, solve


def transport(rng):
    supply, demand = rng.random(5) + 1, rng.random(6)
    demand *= supply.sum() / demand.sum()
    rows = np.vstack((np.kron(np.eye(5), np.ones(6)), np.kron(np.ones(5), np.eye(6))))
    return {"c": rng.random(30), "A_eq": rows, "b_eq": np.r_[supply, demand]}


def assignment(rng):
    rows = np.vstack((np.kron(np.eye(6), np.ones(6)), np.kron(np.ones(6), np.eye(6))))
    return {"c": rng.random(36), "A_eq": rows, "b_eq": np.ones(12)}


def diet(rng):
    return {
        "c": rng.random(12) + 0.5,
        "A_ub": -rng.random((6, 12)),
        "b_ub": -np.full(6, 3.0),
        "bounds": (0, 2),
    }


def flow(rng):
    edges = [(i, j) for i in range(8) for j in range(8) if i != j and rng.random() < 0.5]
    ends = np.zeros((8, len(edges)))
    for e, (i, j) in enumerate(edges):
        ends[i, e], ends[j, e] = -1, 1
    return {
        "c": -ends[-1],
        "A_eq": ends[1:-1],
        "b_eq": np.zeros(6),
        "bounds": [(0, u) for u in rng.random(len(edges)) + 0.1],
    }


def mixed(rng):
    G, x = rng.normal(size=(20, 30)), np.maximum(rng.normal(size=30), 0)  # noqa: N806
    y = np.maximum(rng.normal(size=20), 0)
    slack = np.where(y > 0, 0, rng.random(20))
    return {
        "c": np.where(x > 0, 0, rng.random(30)) - G.T @ y,
        "A_ub": G[:12],
        "b_ub": (G @ x + slack)[:12],
        "A_eq": G[12:],
        "b_eq": (G @ x)[12:],
    }


@pytest.mark.parametrize("make", [transport, assignment, diet, flow, mixed])
def test_programs_are_solved_to_the_objective_of_highs(make):
    program = make(np.random.default_rng(4))
    expected = linprog(**program).fun
    saddle = LPSaddle(**program)
    result = solve(saddle, tol=1e-8, max_iter=20_000)
    assert result.converged
    assert result.gap <= 1e-6
    assert saddle.objective(result.z) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    errors = saddle.errors(result.z)
    assert errors.dual_objective == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert saddle.highs().fun == pytest.approx(expected)


def test_badly_scaled_programs_need_the_scaling():
    rng = np.random.default_rng(5)
    G = rng.random((20, 30)) * 10.0 ** rng.integers(-2, 3, size=(20, 1))  # noqa: N806
    program = {"c": rng.random(30), "A_ub": -G, "b_ub": -G @ rng.random(30)}
    scaled = solve(LPSaddle(**program), tol=0, max_iter=6000)
    plain = solve(LPSaddle(**program, scale=False), tol=0, max_iter=6000)
    assert scaled.gap < 1e-4 < plain.gap


def test_sparse_programs_equal_dense_ones():
    sparse = pytest.importorskip("scipy.sparse")
    program = mixed(np.random.default_rng(1))
    dense = solve(LPSaddle(**program), tol=0, max_iter=200)
    program |= {name: sparse.csr_array(program[name]) for name in ("A_ub", "A_eq")}
    thin = LPSaddle(**program)
    np.testing.assert_allclose(solve(thin, tol=0, max_iter=200).z, dense.z, atol=1e-9)
    assert thin.highs().status == 0


def test_the_errors_are_zero_at_the_solution_only():
    program = mixed(np.random.default_rng(2))
    saddle, solution = LPSaddle(**program), linprog(**program)
    y = -np.r_[solution.ineqlin.marginals, solution.eqlin.marginals]
    z = saddle.vector(solution.x, y)
    np.testing.assert_allclose(saddle.players(z)[0], solution.x)
    assert saddle.gap(z) < 1e-9
    assert saddle.gap(saddle.vector(solution.x + 0.1, y)) > 1e-2
    assert saddle.errors(saddle.vector(solution.x, y + 0.1)).dual_infeasibility > 1e-3


def test_an_infeasible_program_says_so_in_the_words_of_highs():
    saddle = LPSaddle([1.0, 1.0], A_ub=[[1.0, 1.0]], b_ub=[-1.0])
    with np.errstate(all="raise"):
        result = solve(saddle, max_iter=200)
    assert result.status == "infeasible"
    assert not result.converged
    assert "HiGHS: The problem is infeasible" in result.message


def test_an_unbounded_program_says_so_in_the_words_of_highs():
    result = solve(LPSaddle([-1.0, 0.0], A_ub=[[-1.0, 1.0]], b_ub=[1.0]), max_iter=200)
    assert result.status == "unbounded"
    assert "HiGHS: The problem is unbounded" in result.message


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"c": []}, ValueError, "c is empty"),
        ({"c": [1.0]}, ValueError, "A_ub and A_eq are both missing"),
        ({"c": [1.0], "A_ub": [[1.0, 2.0]], "b_ub": [1.0]}, ValueError, "A_ub has 2 columns"),
        ({"c": [1.0], "A_ub": [[1.0]], "b_ub": [1.0, 2.0]}, ValueError, "b_ub has 2 entries"),
        ({"c": [1.0], "A_eq": [[1.0]]}, ValueError, "A_eq is given without b_eq"),
        ({"c": [1.0], "b_eq": [1.0]}, ValueError, "b_eq is given without A_eq"),
        ({"c": ["a"], "A_ub": [[1.0]], "b_ub": [1.0]}, TypeError, "c must be a vector"),
        ({"c": [np.inf], "A_ub": [[1.0]], "b_ub": [1.0]}, ValueError, "c must hold finite"),
        (
            {"c": [1.0], "A_ub": [[1.0]], "b_ub": [1.0], "bounds": [(2, 1)]},
            ValueError,
            r"nothing for variable 0 .*: \(2, 1\)",
        ),
        (
            {"c": [1.0], "A_ub": [[1.0]], "b_ub": [1.0], "bounds": [(0, 1)] * 3},
            ValueError,
            "bounds must be a pair",
        ),
    ],
)
def test_bad_programs_get_one_clear_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        LPSaddle(**arguments)


def test_numerical_trouble_is_not_called_infeasible(monkeypatch):
    program = LPSaddle([1.0], A_ub=[[-1.0]], b_ub=[-1.0])
    answer = OptimizeResult(status=4, message="numerical trouble")
    monkeypatch.setattr(LPSaddle, "highs", lambda self, presolve=True: answer)
    assert program.diagnose() is None


def test_where_presolve_cannot_tell_highs_is_asked_again(monkeypatch):
    program = LPSaddle([1.0], A_ub=[[-1.0]], b_ub=[-1.0])
    answers = {
        True: OptimizeResult(status=4, message="unbounded or infeasible"),
        False: OptimizeResult(status=3, message="unbounded"),
    }
    monkeypatch.setattr(LPSaddle, "highs", lambda self, presolve=True: answers[presolve])
    assert program.diagnose() == ("unbounded", "HiGHS: unbounded")
