from itertools import pairwise

import numpy as np
import problems
import pytest

from cameraready.minmax import (
    VI,
    Bilinear,
    Box,
    ConvergenceWarning,
    MatrixGame,
    MinMax,
    Nonnegative,
    SolverState,
    kuhn_poker,
    solve,
)


def rotation(z):
    return np.array([z[1], -z[0]])


def plane(**kinds):
    return VI(rotation, np.array([1.0, 0.25]), Box(-0.5, 1.0), **kinds)


# --- bad input


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_from_f_ends_the_run_with_the_last_finite_iterate(bad):
    calls = []

    def F(z):  # noqa: N802
        calls.append(z)
        return rotation(z) if len(calls) < 20 else np.full(2, bad)

    result = solve(VI(F, np.ones(2)), step=0.5, tol=1e-9)
    assert result.status == "diverged"
    assert not result.converged
    assert np.isfinite(result.z).all()
    assert np.isfinite(result.residual_history).all()
    assert len(result.residual_history) == 9
    assert "NaN or infinite at iteration 10" in result.message


def test_a_diverging_baseline_is_reported_without_an_exception():
    problem = VI(lambda z: -z, np.ones(2))
    result = solve(problem, "gda", step=1.0, tol=1e-9, max_iter=10_000)
    assert result.status == "diverged"
    assert np.isfinite(result.z).all()


def test_a_step_larger_than_one_over_l_is_refused():
    with pytest.raises(ValueError, match=r"step 1\.1 is larger than 1/L = 1, .*allow_large_step"):
        solve(plane(), step=1.1, lipschitz=1.0)
    with pytest.raises(ValueError, match=r"larger than 0\.5774/L"):
        solve(plane(), "eag2", step=0.6, lipschitz=1.0)
    with pytest.warns(UserWarning, match="larger than 1/L"):
        result = solve(plane(), step=1.1, lipschitz=1.0, allow_large_step=True, tol=0, max_iter=3)
    assert result.certificate_bound is None
    assert solve(plane(), step=1.0, lipschitz=1.0, tol=0, max_iter=3).step == 1.0


@pytest.mark.parametrize("method", ["feg", "eag"])
def test_too_negative_a_rho_is_refused(method):
    with pytest.raises(ValueError, match=r"need step \+ 2·rho > 0"):
        solve(plane(), method, step=0.8, rho=-0.4)


def test_an_infeasible_start_is_projected_and_the_message_says_so():
    result = solve(VI(rotation, np.array([3.0, 0.25]), Box(-0.5, 1.0)), step=1.0, max_iter=5, tol=0)
    assert "z0 was infeasible and has been projected" in result.message
    same = solve(VI(rotation, np.array([1.0, 0.25]), Box(-0.5, 1.0)), step=1.0, max_iter=5, tol=0)
    np.testing.assert_array_equal(result.z, same.z)
    assert "infeasible" not in same.message


def test_the_cap_on_iterations_warns_and_returns():
    with pytest.warns(ConvergenceWarning, match=r"max_iter=5 with residual .* > tol=1e-09"):
        result = solve(plane(), step=0.5, tol=1e-9, max_iter=5)
    assert result.status == "max_iter"
    assert not result.converged
    assert len(result.residual_history) == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "fge"}, "method must be one of 'feg'"),
        ({"step": "big"}, "step must be a number or 'auto'"),
        ({"step": -1.0}, "step must be a finite number greater than 0"),
        ({"rho": float("nan")}, "rho must be a finite number or 'auto'"),
        ({"lipschitz": "guess"}, "lipschitz must be a number or 'power'"),
        ({"lipschitz": 0.0}, "lipschitz must be a finite number greater than 0"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"restart": "yes"}, "restart must be one of"),
        ({"method": "eg", "restart": "anchor"}, "has no anchor"),
        ({"method": "eg", "rho": -0.1}, "method 'eg' has no rho"),
        ({"method": "eag", "rho": "auto"}, "rho='auto' needs the potential"),
        ({"method": "eag", "check_potential": True}, "check_potential=True is for method 'feg'"),
        ({"method": "pdhg"}, "needs a Bilinear"),
        ({"method": "alternating-gda"}, "needs two players"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        solve(plane(), **arguments)


def test_a_problem_must_be_a_problem():
    with pytest.raises(TypeError, match="problem must be a VI"):
        solve(rotation)


# --- what it returns


def test_convergence_ends_the_run_at_the_tolerance():
    result = solve(plane(), tol=1e-3)
    assert result.converged
    assert result.status == "converged"
    assert result.residual <= 1e-3 < result.residual_history[-2]
    assert result.residual == result.residual_history[-1]


def test_zero_tolerance_runs_all_iterations_without_a_warning():
    result = solve(plane(), step=0.5, tol=0, max_iter=11)
    assert len(result.residual_history) == 11
    assert result.status == "max_iter"


def test_the_callback_sees_each_iteration_and_can_stop():
    seen = []

    def stop(iteration):
        seen.append((iteration.number, iteration.state.k, iteration.residual))
        return iteration.number == 7

    result = solve(plane(), step=0.5, callback=stop)
    assert result.status == "stopped"
    assert [number for number, _, _ in seen] == list(range(1, 8))
    assert [residual for _, _, residual in seen] == result.residual_history.tolist()


def test_evaluations_are_counted_as_they_happen():
    calls = []

    def F(z):  # noqa: N802
        calls.append(1)
        return rotation(z)

    result = solve(VI(F, np.ones(2), Box(-1, 1)), tol=0, max_iter=25)
    assert result.n_grad == len(calls)


def test_the_bound_lies_above_the_residual_and_needs_what_it_is_made_of():
    problem = plane(radius=np.hypot(1, 0.25))
    for n in (1, 3, 10, 100):
        result = solve(problem, lipschitz=1.0, tol=0, max_iter=n)
        assert result.certificate_bound == pytest.approx(2 * np.hypot(1, 0.25) / n)
        assert result.residual <= result.certificate_bound
    assert solve(plane(), lipschitz=1.0, tol=0, max_iter=3).certificate_bound is None
    assert solve(problem, step=0.5, tol=0, max_iter=3).certificate_bound is None
    assert solve(problem, "eag", lipschitz=1.0, tol=0, max_iter=3).certificate_bound is None


def test_the_bound_after_resets_is_that_of_the_last_anchor():
    game = MatrixGame(kuhn_poker(), maximize=True)
    for n in range(1, 200, 7):
        result = solve(game, tol=0, max_iter=n)
        assert result.residual <= result.certificate_bound


# --- step sizes


def auto_problems():
    rng = np.random.default_rng(0)
    kuhn = kuhn_poker()
    yield lambda: MatrixGame(kuhn, maximize=True), np.linalg.norm(kuhn, 2), 1e-6
    gauss, wide = rng.normal(size=(60, 60)), rng.normal(size=(20, 35))
    yield lambda: MatrixGame(gauss), np.linalg.norm(gauss, 2), 1e-4
    yield lambda: MatrixGame(wide), np.linalg.norm(wide, 2), 1e-5
    left, _ = np.linalg.qr(rng.normal(size=(50, 50)))
    coupling = left * np.logspace(-3, 0, 50)
    b, c = rng.normal(size=(2, 50)) * 0.1
    yield (
        lambda: Bilinear(coupling, b, c, Box(-1, 1), Box(-1, 1), x0=np.ones(50), y0=np.ones(50)),
        1.0,
        1e-2,
    )
    M = rng.normal(size=(30, 30))  # noqa: N806
    M = M - M.T + 0.1 * M @ M.T  # noqa: N806
    q = rng.normal(size=30)
    yield lambda: VI(lambda z: M @ z + q, np.ones(30), Nonnegative()), np.linalg.norm(M, 2), 1e-2


@pytest.mark.parametrize("index", range(5))
def test_not_knowing_l_costs_at_most_twice_the_evaluations(index):
    make, lipschitz, tol = list(auto_problems())[index]
    known = solve(make(), lipschitz=lipschitz, tol=tol)
    unknown = solve(make(), tol=tol)
    assert known.converged
    assert unknown.converged
    assert unknown.n_grad <= 2 * known.n_grad


def test_backtracking_shortens_the_step_with_a_reset_until_it_fits():
    # Flat at the start, steep further on: the finite difference at z0 sees L = 0.1 of 10.
    def F(z):  # noqa: N802
        return np.where(z > 0.5, 0.1 * z, 10.0 * (z - 0.5) + 0.05) - 0.01

    result = solve(VI(F, np.array([1.0])), tol=1e-4)
    assert result.converged
    assert result.resets >= 1
    assert 0.05 < result.step < 1.0
    assert abs(F(result.z)) <= 1e-4


def flattening():
    # Steep at the start, flat around the solution.
    return VI(lambda z: np.where(abs(z) > 1, 20 * z - 19 * np.sign(z), z) + 0.5, np.full(3, 4.0))


def test_backtracking_lengthens_the_step_where_f_is_flat():
    known = solve(flattening(), lipschitz=20.0, tol=2e-2)
    unknown = solve(flattening(), tol=2e-2)
    assert unknown.step > 4 / 20
    assert 4 * unknown.n_grad < known.n_grad


def test_a_resumed_run_keeps_what_backtracking_has_seen(tmp_path):
    whole = solve(flattening(), tol=0, max_iter=150)
    for n in (10, 40, 70):
        part = solve(flattening(), tol=0, max_iter=n)
        part.state.save(tmp_path / "state.npz")
        state = SolverState.load(tmp_path / "state.npz")
        rest = solve(flattening(), tol=0, max_iter=150 - n, resume=state)
        np.testing.assert_array_equal(rest.z, whole.z)
        assert rest.step == whole.step


def test_power_iteration_gives_the_step():
    problem = Bilinear(np.diag([3.0, 1.0]), X=Box(-1, 1), Y=Box(-1, 1), x0=[1, 1], y0=[1, 1])
    result = solve(problem, lipschitz="power", tol=0, max_iter=3)
    assert result.step == pytest.approx(1 / (3 * 1.02), rel=1e-4)
    assert "L is estimated as 3.06" in result.message


# --- restarts


def test_kuhn_poker_with_restart_reaches_the_value():
    for settings in ({}, {"lipschitz": np.linalg.norm(kuhn_poker(), 2)}, {"lipschitz": "power"}):
        game = MatrixGame(kuhn_poker(), maximize=True)
        result = solve(game, tol=0, max_iter=1500, **settings)
        low, high = game.value_bounds(result.z)
        assert result.gap <= 1e-6
        assert (low + high) / 2 == pytest.approx(-1 / 18, abs=1e-7)
        assert result.resets >= 5
    plain = solve(game, tol=0, max_iter=1500, restart="none", lipschitz="power")
    assert plain.gap > 1e-4
    assert plain.resets == 0


def test_the_restart_rule_is_a_fall_by_four_in_at_least_eight_steps():
    game, kept = MatrixGame(kuhn_poker(), maximize=True), []
    solve(game, lipschitz=15.0, tol=0, max_iter=300, callback=lambda i: kept.append(i))
    first, seen = None, 0
    for iteration, following in pairwise(kept):
        k, norm = iteration.state.k, iteration.residual
        first = norm if k == 1 else first
        due = k >= 8 and norm <= first / 4
        assert following.state.k == (1 if due else k + 1)
        seen += due
    assert seen >= 2


def test_restarts_are_for_games_and_programs_unless_asked_for():
    smooth = solve(problems.monotone(0)[0], lipschitz=20.0, tol=0, max_iter=300)
    assert smooth.resets == 0
    asked = solve(problems.monotone(0)[0], lipschitz=20.0, tol=0, max_iter=300, restart="anchor")
    assert asked.resets > 0


# --- rho


def test_rho_auto_finds_one_that_converges():
    problem, _, _ = problems.negative(0, a=-0.35)
    result = solve(problem, lipschitz=1.0, rho="auto", tol=1e-2, max_iter=20_000)
    assert result.converged
    assert result.rho in (-0.05, -0.1, -0.2, -0.3, -0.4)
    assert result.rho < 0


def test_rho_auto_stays_at_zero_on_a_monotone_problem():
    problem, lipschitz, _ = problems.monotone(4)
    assert solve(problem, lipschitz=lipschitz, rho="auto", tol=0, max_iter=500).rho == 0
    game = MatrixGame(kuhn_poker(), maximize=True)
    assert solve(game, rho="auto", tol=0, max_iter=3000).rho == 0  # down to rounding errors


def test_rho_auto_says_when_nothing_fits():
    result = solve(VI(lambda z: -z, np.ones(2)), lipschitz=1.0, rho="auto", max_iter=1000)
    assert result.status == "failed"
    assert "found no rho down to -0.45/L" in result.message


def test_the_potential_is_checked_on_request():
    problem, _, _ = problems.negative(0, a=-0.4)
    wrong = solve(problem, step=1.0, tol=0, max_iter=50, check_potential=True)
    assert "the potential rose at iteration 2" in wrong.message
    right = solve(problem, step=1.0, rho=-0.4, tol=0, max_iter=500, check_potential=True)
    assert "potential" not in right.message


def test_backtracking_with_a_negative_rho_stays_in_the_window():
    problem, rho, _ = problems.negative(1, a=-0.4)
    result = solve(problem, rho=rho, tol=1e-2, max_iter=20_000)
    assert result.converged
    assert result.step + 2 * rho > 0
    steep = VI(lambda z: 10 * rotation(z) * (1 + abs(z).sum()), np.full(2, 1e-3))
    failed = solve(steep, rho=-0.049, tol=1e-12, max_iter=2000)
    assert failed.status in ("failed", "converged")


# --- going on


@pytest.mark.parametrize("method", ["feg", "eag", "eag2", "eg", "ogda", "arg", "halpern", "gda"])
def test_a_resumed_run_equals_one_without_a_break(method, tmp_path):
    def make():
        return MatrixGame(kuhn_poker(), maximize=True)

    whole = solve(make(), method, tol=0, max_iter=120)
    part = solve(make(), method, tol=0, max_iter=50)
    part.state.save(tmp_path / "state.npz")
    state = SolverState.load(tmp_path / "state.npz")
    rest = solve(make(), method, tol=0, max_iter=70, resume=state)
    np.testing.assert_array_equal(rest.z, whole.z)
    np.testing.assert_array_equal(
        np.concatenate((part.residual_history, rest.residual_history)), whole.residual_history
    )
    assert rest.step == whole.step
    assert part.n_grad + rest.n_grad == whole.n_grad


def test_a_state_must_fit(tmp_path):
    state = solve(plane(), step=0.5, tol=0, max_iter=3).state
    with pytest.raises(ValueError, match="resume holds a state of method 'feg', not 'eg'"):
        solve(plane(), "eg", resume=state)
    with pytest.raises(ValueError, match="a point of 2 numbers, but the problem has 3"):
        solve(VI(lambda z: z, np.ones(3)), resume=state)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ValueError, match="holds no state of a solver"):
            SolverState.load(tmp_path / name)


# --- torch


@pytest.mark.parametrize("method", ["feg", "eag", "eag2", "eg", "ogda", "halpern"])
def test_torch_vectors_follow_numpy_vectors(method):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 3))  # noqa: N806
    box = Box(-0.7, 0.6)

    def f(x, y):
        return x @ torch.as_tensor(A, dtype=x.dtype) @ y + 0.1 * (x**4).sum()

    x0, y0 = rng.uniform(-0.5, 0.5, 4), rng.uniform(-0.5, 0.5, 3)
    in_numpy = solve(MinMax(f, x0, y0, box, box), method, step=0.2, tol=0, max_iter=50)
    in_torch = solve(
        MinMax(f, torch.tensor(x0), torch.tensor(y0), box, box),
        method,
        step=0.2,
        tol=0,
        max_iter=50,
    )
    own = solve(
        MinMax(None, x0, y0, box, box, jac=lambda x, y: (A @ y + 0.4 * x**3, A.T @ x)),
        method,
        step=0.2,
        tol=0,
        max_iter=50,
    )
    assert isinstance(in_torch.x, torch.Tensor)
    assert isinstance(in_numpy.x, np.ndarray)
    np.testing.assert_allclose(in_torch.z.numpy(), own.z, atol=1e-10)
    np.testing.assert_allclose(in_numpy.z, own.z, atol=1e-10)


# --- faults found in review


def test_a_resumed_run_keeps_rho_and_step_unless_others_are_given(tmp_path):
    def make():
        return problems.negative(0, a=-0.4)[0]

    whole = solve(make(), step=1.0, rho=-0.4, tol=0, max_iter=60)
    solve(make(), step=1.0, rho=-0.4, tol=0, max_iter=20).state.save(tmp_path / "s.npz")
    state = SolverState.load(tmp_path / "s.npz")
    rest = solve(make(), tol=0, max_iter=40, resume=state)
    np.testing.assert_array_equal(rest.z, whole.z)
    assert (rest.step, rest.rho, rest.resets) == (1.0, -0.4, 0)
    same = solve(make(), step=1.0, rho=-0.4, tol=0, max_iter=40, resume=state)
    np.testing.assert_array_equal(same.z, whole.z)
    for other in ({"rho": -0.35}, {"step": 0.9}, {"step": "auto"}, {"rho": "auto"}):
        changed = solve(make(), tol=0, max_iter=1, resume=state, **other)
        assert changed.resets >= 1, other
        assert changed.state.moved


def test_a_resumed_run_goes_on_choosing_rho():
    def make():
        return problems.negative(0, a=-0.35)[0]

    whole = solve(make(), lipschitz=1.0, rho="auto", tol=0, max_iter=300)
    part = solve(make(), lipschitz=1.0, rho="auto", tol=0, max_iter=3)
    rest = solve(make(), lipschitz=1.0, tol=0, max_iter=297, resume=part.state)
    assert rest.rho == whole.rho < 0
    np.testing.assert_array_equal(rest.z, whole.z)


def test_the_bound_is_silent_where_its_assumptions_are_in_doubt():
    def problem():
        return plane(radius=2.0, diameter=4.0)

    negative, _, _ = problems.negative(0, a=-0.4)
    negative.radius = negative.diameter = 10.0
    rising = solve(negative, lipschitz=1.0, tol=0, max_iter=50, check_potential=True)
    assert "potential rose" in rising.message
    assert rising.certificate_bound is None
    on = solve(negative, lipschitz=1.0, tol=0, max_iter=5, resume=rising.state)
    assert on.certificate_bound is None
    assert solve(problem(), lipschitz="power", tol=0, max_iter=5).certificate_bound is None
    game = MatrixGame(kuhn_poker(), maximize=True)
    assert solve(game, lipschitz="power", tol=0, max_iter=5).certificate_bound is not None
    assert solve(problem(), lipschitz=1.0, rho="auto", tol=0, max_iter=5).certificate_bound is None


def test_without_a_step_no_residual_is_certified():
    calls = []

    def F(z):  # noqa: N802
        calls.append(1)
        return np.zeros(2) if len(calls) == 1 else np.full(2, np.nan)

    result = solve(VI(F, np.ones(2)), step=0.5, tol=1e-9)
    assert result.status == "diverged"
    assert result.residual == np.inf
    assert "no step was taken" in result.message


@pytest.mark.parametrize("settings", [{}, {"lipschitz": "power"}, {"rho": -0.6}])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_f_that_is_not_finite_at_the_start_ends_the_run_at_once(bad, settings):
    calls = []

    def F(z):  # noqa: N802
        calls.append(1)
        return np.array([1.0, bad])

    result = solve(VI(F, np.ones(2)), **settings)
    assert (result.status, result.residual, len(calls)) == ("diverged", np.inf, 1)
    assert "F(z0) is not finite" in result.message
    assert result.resets == 0


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"max_iter": "a"}, TypeError, "max_iter must be a whole number"),
        ({"max_iter": None}, TypeError, "max_iter must be a whole number"),
        ({"max_iter": np.inf}, ValueError, "max_iter must be a whole number"),
        ({"resume": 3}, TypeError, "resume must be a SolverState"),
        ({"callback": 3}, TypeError, "callback must be a function"),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused_before_any_work(arguments, error, sentence):
    problem = plane()
    with pytest.raises(error, match=sentence):
        solve(problem, **arguments)
    assert problem.n_grad == 0


def test_a_bound_does_not_outlive_its_anchor():
    # F is nowhere finite after the first restart, so that backtracking resets the anchor again.
    residuals = []

    def restarted():
        return len(residuals) >= 8 and 4 * residuals[-1] <= residuals[0]

    problem = VI(
        lambda z: np.full(2, np.nan) if restarted() else rotation(z), np.ones(2), diameter=10.0
    )
    result = solve(
        problem, restart="anchor", tol=0, callback=lambda i: residuals.append(i.residual)
    )
    assert result.status == "diverged"
    assert result.resets > 2
    assert result.certificate_bound is None
