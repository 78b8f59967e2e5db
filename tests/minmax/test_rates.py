"""What the theory promises, on many problems: no violation is allowed."""

import numpy as np
import problems
import pytest

from cameraready.minmax import RunHistory, solve, verify_run


@pytest.mark.parametrize("seed", range(200))
def test_the_bound_and_the_potential_hold_on_monotone_problems(seed):
    problem, lipschitz, solution = problems.monotone(seed)
    history = RunHistory()
    solve(problem, lipschitz=lipschitz, tol=0, max_iter=60, callback=history)
    assert verify_run(history, problem, solution=solution) == (True, None, None, None, None)


@pytest.mark.parametrize("seed", range(50))
def test_the_bound_and_the_potential_hold_on_negative_comonotone_problems(seed):
    problem, rho, solution = problems.negative(seed)
    history = RunHistory()
    solve(problem, lipschitz=1.0, rho=rho, tol=0, max_iter=200, callback=history)
    assert verify_run(history, problem, solution=solution) == (True, None, None, None, None)


@pytest.mark.parametrize("seed", range(10))
def test_the_certificate_lies_above_the_tangent_and_the_natural_residual(seed):
    problem, lipschitz, _ = problems.monotone(seed)
    low, high = -1.0, 1.5
    history = RunHistory()
    solve(problem, lipschitz=lipschitz, tol=0, max_iter=60, callback=history)
    for z, certified in zip(history.z, history.residual, strict=True):
        value = problem.operator(z)
        # The part of F that the normal cone of a box cannot cancel.
        left = np.where(z <= low, np.minimum(value, 0), np.where(z >= high, 0, value))
        left = np.where(z >= high, np.maximum(value, 0), left)
        tangent = np.linalg.norm(left)
        natural = np.linalg.norm(z - problem.resolvent(z - value, 1.0))
        assert certified >= tangent - 1e-12
        assert tangent >= natural - 1e-12


def test_the_usual_methods_run_away_where_feg_with_rho_converges():
    for method, step in (("eg", 0.7), ("ogda", 0.45), ("gda", 0.5), ("eg+", 0.7), ("feg", 1.0)):
        problem, _, _ = problems.negative(0, a=-0.4)
        result = solve(problem, method, step=step, tol=0, max_iter=3000)
        assert result.residual > 100 or result.status == "diverged"
    problem, rho, _ = problems.negative(0, a=-0.4)
    assert solve(problem, step=1.0, rho=rho, tol=0, max_iter=3000).residual < 0.02
