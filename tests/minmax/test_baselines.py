import numpy as np
import pytest

from cameraready.minmax import METHODS, Bilinear, Box, MatrixGame, RunHistory, solve

THREE = np.array([[3.0, -1, 2], [-2, 4, 1], [0, 1, -3]])
CONVERGENT = ["eg", "eg+", "ogda", "arg", "halpern", "pdhg"]


@pytest.mark.parametrize("method", CONVERGENT)
def test_each_converges_on_a_game_with_a_certificate(method):
    result = solve(
        MatrixGame(THREE), method, lipschitz=np.linalg.norm(THREE, 2), tol=5e-3, max_iter=50_000
    )
    assert result.converged
    assert result.gap <= 2 * result.residual


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_certificate_is_an_element_of_f_plus_a(method):
    def check(iteration):
        z, c = iteration.state.z, iteration.state.correction
        step = iteration.step / 2 if method == "eg+" else iteration.step
        again = iteration.problem.resolvent(z + step * c, step)
        np.testing.assert_allclose(again, z, atol=1e-10)
        value = iteration.problem.operator(z)
        assert iteration.residual == pytest.approx(np.linalg.norm(value + c), abs=1e-10)

    result = solve(MatrixGame(THREE), method, step=0.1, tol=0, max_iter=30, callback=check)
    assert len(result.residual_history) == 30


def test_extragradient_and_its_kin_by_hand():
    A = np.array([[1.0]])  # noqa: N806
    z0, step = np.array([1.0, 0.0]), 0.5

    def F(z):  # noqa: N802
        return np.array([z[1], -z[0]])

    def problem():
        return Bilinear(A, x0=[1.0], y0=[0.0])

    half = z0 - step * F(z0)
    first = {
        "gda": z0 - step * F(z0),
        "eg": z0 - step * F(half),
        "eg+": z0 - step / 2 * F(half),
        "ogda": z0 - step * F(z0),
        "alternating-gda": np.array([1.0, 0.5]),
        "pdhg": np.array([1.0, 0.5]),
        "halpern": z0 - step * F(half),
    }
    for method, expected in first.items():
        result = solve(problem(), method, step=step, tol=0, max_iter=1)
        np.testing.assert_allclose(result.z, expected, atol=1e-14)
    one, two = (solve(problem(), "ogda", step=step, tol=0, max_iter=n).z for n in (1, 2))
    np.testing.assert_allclose(two, one - step * (2 * F(one) - F(z0)), atol=1e-14)
    z = [z0]
    for k in range(4):
        before = z[-2] if k else z0
        pull = (z0 - z[-1]) / (k + 1)
        ahead = 2 * z[-1] - before + pull - (z[-1] - before) / max(k, 1) if k else z0
        z.append(z[-1] - step * F(ahead) + pull)
        result = solve(problem(), "arg", step=step, tol=0, max_iter=k + 1)
        np.testing.assert_allclose(result.z, z[-1], atol=1e-14)


def test_pdhg_and_ogda_need_one_evaluation_an_iteration():
    for method, each in (("pdhg", 1), ("ogda", 1), ("gda", 1), ("eg", 2), ("arg", 2)):
        short, long = (
            solve(
                Bilinear(THREE, X=Box(-1, 1), Y=Box(-1, 1), x0=np.ones(3)),
                method,
                step=0.1,
                tol=0,
                max_iter=n,
            )
            for n in (10, 30)
        )
        assert long.n_grad - short.n_grad == 20 * each


def test_gda_runs_away_where_alternating_gda_circles():
    problem = Bilinear(np.eye(1), x0=[1.0], y0=[0.0])
    away = solve(problem, "gda", step=0.5, tol=0, max_iter=100)
    circling = solve(problem, "alternating-gda", step=0.5, tol=0, max_iter=100)
    assert away.residual > 1e3
    assert circling.residual < 2


def test_a_run_history_is_for_anchored_methods():
    with pytest.raises(TypeError, match="for the anchored methods"):
        solve(MatrixGame(THREE), "eg", callback=RunHistory())


def test_alternating_gda_resolves_each_player_once():
    calls = []

    class Seen:
        def __init__(self, name):
            self.name = name

        def prox(self, z, step):
            calls.append(self.name)
            return z.clip(-1, 1)

    problem = Bilinear(np.eye(2), X=Seen("x"), Y=Seen("y"), x0=[1.0, 0.5], y0=[0.5, 1.0])
    calls.clear()
    result = solve(problem, "alternating-gda", step=0.1, tol=0, max_iter=3)
    assert calls == ["x", "y"] * 3
    assert result.n_prox == 3
