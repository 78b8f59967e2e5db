import sys

import numpy as np
import problems
import pytest

from cameraready.minmax import (
    VI,
    MatrixGame,
    RunHistory,
    certify,
    kuhn_poker,
    solve,
    verify_run,
)

pepit = pytest.mark.skipif(
    __import__("importlib").util.find_spec("PEPit") is None, reason="PEPit is not installed"
)


@pepit
@pytest.mark.parametrize("steps", [1, 2, 5, 10])
@pytest.mark.parametrize(("rho", "expected"), [(0.0, 4.0), (-0.2, 11.111), (-0.4, 100.0)])
def test_the_worst_case_of_feg_is_the_bound(steps, rho, expected):
    certificate = certify("feg", steps, 1.0, rho)
    assert certificate.normalised == pytest.approx(expected, rel=1e-3)
    assert certificate.normalised == pytest.approx(4 / (1 + 2 * rho) ** 2, rel=1e-3)
    assert certificate.normalised == pytest.approx(steps**2 * certificate.worst_case)


@pepit
def test_the_worst_case_scales_with_l_and_the_step():
    assert certify("feg", 3, 5.0, -0.04).normalised == pytest.approx(
        4 / (0.2 - 0.08) ** 2, rel=1e-3
    )
    # For steps below 1/L the bound 4/step² is safe, but not attained.
    assert 4.1 < certify("feg", 3, 1.0, 0.0, 0.5).normalised < 16


@pepit
def test_eag_has_the_worst_cases_it_is_known_for():
    assert certify("eag", 2).normalised == pytest.approx(15.1, abs=0.05)
    assert certify("eag", 5).normalised == pytest.approx(16.5, abs=0.05)
    # With a negative rho these hold for monotone A only.
    known = certify("eag", 5, 1.0, -0.1, 0.577, monotone_A=True).normalised
    assert known == pytest.approx(39.5, abs=0.1)
    assert certify("eag", 5, 1.0, -0.1, 0.577).normalised > known + 3


@pepit
def test_too_large_a_step_has_no_such_bound():
    wild = certify("feg", 5, 1.0, 0.0, 1.2, monotone_A=True).normalised
    assert wild > 3 * certify("feg", 5, 1.0, 0.0, 1.0, monotone_A=True).normalised


@pepit
@pytest.mark.parametrize("method", ["feg", "eag", "eag2"])
def test_no_run_exceeds_its_certificate(method):
    worst = certify(method, 4).worst_case
    for seed in range(20):
        problem, lipschitz, solution = problems.monotone(seed)
        step = (1.0 if method == "feg" else 1 / np.sqrt(3)) / lipschitz
        result = solve(problem, method, step=step, tol=0, max_iter=4)
        distance = np.linalg.norm(problem.z0 - solution)
        assert result.residual**2 <= worst * (lipschitz * distance) ** 2 * (1 + 1e-6)


def test_certify_refuses_what_it_cannot_certify():
    with pytest.raises(ValueError, match="method must be one of 'feg', 'eag', 'eag2'"):
        certify("eg")
    with pytest.raises(ValueError, match="N must be a whole number"):
        certify("feg", 0)
    with pytest.raises(ValueError, match=r"need step \+ 2·rho > 0"):
        certify("feg", 2, 1.0, -0.5)
    with pytest.raises(ValueError, match="'eag2' is for monotone problems"):
        certify("eag2", 2, 1.0, -0.1)


def test_without_pepit_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PEPit", None)
    with pytest.raises(ImportError, match=r"pip install 'cameraready\[certify\]'"):
        certify("feg", 1)


def record(**settings):
    problem, lipschitz, solution = problems.monotone(3)
    history = RunHistory()
    solve(problem, lipschitz=lipschitz, tol=0, max_iter=30, callback=history, **settings)
    return history, problem, solution


def test_a_saved_run_is_verified(tmp_path):
    history, problem, solution = record()
    history.save(tmp_path / "run.npz")
    again = RunHistory.load(tmp_path / "run.npz")
    assert verify_run(again, problem, solution=solution).ok
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(ValueError, match="holds no run of a solver"):
        RunHistory.load(tmp_path / "other.npz")


def test_tampering_is_found_where_it_was_done():
    history, problem, _ = record()
    history.correction[9] = history.correction[9] + 1.0
    found = verify_run(history, problem)
    assert not found.ok
    assert found.residual == 10
    history, problem, _ = record()
    history.z[9] = history.z[9] + 1.0
    assert verify_run(history, problem).membership == 10
    history, problem, _ = record()
    history.residual[4] *= 1.01
    assert verify_run(history, problem) == (False, None, 5, None, None)


def test_a_wrong_rho_shows_in_the_potential_and_the_bound():
    problem, _, solution = problems.negative(0, a=-0.4)
    history = RunHistory()
    solve(problem, step=1.0, tol=0, max_iter=100, callback=history)
    found = verify_run(history, problem, solution=solution)
    assert found.potential == 2
    assert found.bound is not None


def test_restarts_are_verified_between_resets():
    game = MatrixGame(kuhn_poker(), maximize=True)
    history = RunHistory()
    solve(game, tol=0, max_iter=600, callback=history)
    assert history.k.count(1) > 3
    solution = solve(game, tol=1e-13).z
    assert verify_run(history, game, solution=solution).potential is None
    assert verify_run(history, game).membership is None


def test_an_empty_or_foreign_history_is_refused():
    problem = VI(lambda z: z, np.ones(2))
    with pytest.raises(ValueError, match="history is empty"):
        verify_run(RunHistory(), problem)
    history, _, _ = record()
    with pytest.raises(ValueError, match="points of 6 numbers, but the problem has 2"):
        verify_run(history, problem)


@pepit
def test_anything_but_an_optimal_status_is_refused(monkeypatch):
    import cvxpy

    monkeypatch.setattr(cvxpy.Problem, "status", property(lambda self: "optimal_inaccurate"))
    with pytest.raises(RuntimeError, match="'optimal_inaccurate'"):
        certify("feg", 1)


def test_the_documentation_says_what_is_only_an_upper_bound():
    assert certify.__doc__ is not None
    assert "upper bound" in certify.__doc__
