import numpy as np
import pytest

from cameraready.minmax import VI, Box, Nonnegative, solve
from cameraready.minmax.anchored import (
    anchored_init,
    eag_step,
    feg_bound,
    feg_step,
    potential,
    reset,
)


def rotation(z):
    return np.array([z[1], -z[0]])


def run(method, step, count, rho=0.0, F=rotation, A=None, z0=(1.0, 0.25)):  # noqa: N803
    """All iterates and certificates."""
    kept = []
    solve(
        VI(F, np.array(z0), A),
        method,
        step=step,
        rho=rho,
        tol=0,
        max_iter=count,
        callback=lambda iteration: kept.append(iteration),
    )
    return [i.state.z for i in kept], [i.residual for i in kept], [i.state.correction for i in kept]


def test_feg_gives_the_exact_iterates():
    z, residual, c = run("feg", 1.0, 5, A=Box(-0.5, 1.0))
    expected = [(0.75, 1), (0, 1), (-0.41666667, 0.41666667), (-0.125, 0), (0.15, 0.15)]
    np.testing.assert_allclose(z, expected, atol=1e-7)
    np.testing.assert_allclose(residual, [1.11803399, 1, 0.58925565, 0.125, 0.21213203], atol=1e-7)
    np.testing.assert_allclose(c[0], [0, 0.25], atol=1e-12)


def test_eag_form_c_gives_the_exact_iterates():
    z, residual, _ = run("eag", 0.5, 5, A=Box(-0.5, 1.0))
    np.testing.assert_allclose(z[1], [0.46875, 0.78125], atol=1e-7)
    assert residual[1] == pytest.approx(0.91108623, abs=1e-7)
    np.testing.assert_allclose(z[4], [-0.04864909, 0.52413737], atol=1e-7)


def test_eag_form_p_gives_the_exact_iterates():
    z, _, _ = run("eag2", 0.5, 5, A=Box(-0.5, 1.0))
    np.testing.assert_allclose(z[0], [0.625, 0.6875], atol=1e-7)
    np.testing.assert_allclose(z[4], [-0.11398383, 0.43707411], atol=1e-7)


def negative(z, a=-0.4, b=0.84**0.5):
    return np.array([a * z[0] + b * z[1], a * z[1] - b * z[0]])


def test_feg_with_rho_gives_the_exact_residuals_of_the_rotation():
    _, residual, _ = run("feg", 1.0, 50, rho=-0.4, F=negative, z0=(1.0, 0.0))
    found = [residual[k - 1] for k in (1, 2, 5, 10, 50)]
    np.testing.assert_allclose(
        found, [1.67332005, 1.64972725, 1.49010623, 0.99390851, 0.17027838], atol=1e-7
    )


def plain(F, project, z0, step, rho, count, ahead):  # noqa: N803
    """Composite-FEG and EAG from the formulas, with nothing shared with the package."""
    z, c, out = z0, None, []
    for k in range(count):
        beta = 1 / (k + 1)
        v = np.zeros_like(z0) if c is None else F(z) + c
        half = z + beta * (z0 - z) - ahead(beta) * v
        y = z + beta * (z0 - z) - step * F(half) - 2 * rho * (1 - beta) * v
        z = project(y)
        c = (y - z) / step
        out.append(z)
    return np.array(out)


@pytest.mark.parametrize("method", ["feg", "eag"])
@pytest.mark.parametrize("rho", [0.0, -0.1])
def test_the_steps_equal_an_independent_implementation(method, rho):
    rng = np.random.default_rng(3)
    M = rng.normal(size=(8, 8))  # noqa: N806
    M = M - M.T + 0.2 * np.eye(8)  # noqa: N806
    step, z0 = 0.5 / np.linalg.norm(M, 2), rng.random(8)
    step = max(step, 0.21) if rho else step
    looks = {
        "feg": lambda beta: (1 - beta) * (step + 2 * rho),
        "eag": lambda beta: step + 2 * rho * (1 - beta),
    }
    expected = plain(lambda z: M @ z, lambda z: np.maximum(z, 0), z0, step, rho, 40, looks[method])
    z, _, _ = run(method, step, 40, rho=rho, F=lambda z: M @ z, A=Nonnegative(), z0=z0)
    np.testing.assert_allclose(z, expected, rtol=1e-10, atol=1e-12)


def test_a_step_leaves_its_state_as_it_was():
    problem = VI(rotation, np.array([1.0, 0.25]), Box(-0.5, 1.0))
    state, _ = feg_step(problem, anchored_init(problem, problem.z0), 1.0, 0.0)
    copies = [np.copy(part) for part in state]
    for step in (feg_step, eag_step):
        step(problem, state, 0.9, -0.1)
    for part, copy in zip(state, copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_an_iteration_costs_two_evaluations_and_one_resolvent():
    for method, resolvents in (("feg", 1), ("eag", 1), ("eag2", 2)):
        short, long = (
            solve(VI(rotation, np.ones(2), Box(-1, 1)), method, step=0.5, tol=0, max_iter=n)
            for n in (10, 30)
        )
        assert long.n_grad - short.n_grad == 2 * 20
        assert long.n_prox - short.n_prox == resolvents * 20


def test_a_reset_equals_a_fresh_start_from_the_same_point():
    problem = VI(rotation, np.array([1.0, 0.25]), Box(-0.5, 1.0))
    state = anchored_init(problem, problem.z0)
    for _ in range(7):
        state, _ = feg_step(problem, state, 0.7, 0.0)
    fresh, again = anchored_init(problem, state.z), reset(state)
    for _ in range(9):
        fresh, _ = feg_step(problem, fresh, 0.7, 0.0)
        again, _ = feg_step(problem, again, 0.7, 0.0)
    np.testing.assert_array_equal(fresh.z, again.z)
    assert again.k == 9


def test_the_potential_is_what_its_formula_says():
    problem = VI(rotation, np.array([1.0, 0.25]), Box(-0.5, 1.0))
    state = anchored_init(problem, problem.z0)
    for _ in range(3):
        state, _ = feg_step(problem, state, 1.0, 0.0)
    v = rotation(state.z) + state.correction
    expected = 9 / 2 * v @ v + 3 * v @ (state.z - problem.z0)
    assert potential(state, 1.0, 0.0) == pytest.approx(expected)
    assert feg_bound(2.0, 4, 1.0, -0.25) == pytest.approx(2.0)


def test_degenerate_problems_end_at_the_solution_nearest_to_the_start():
    def flat(z):
        return np.array([0.0, z[2], -z[1]])

    for method in ("feg", "eag", "eag2"):
        result = solve(
            VI(flat, np.array([0.4, 1.0, 1.0])), method, lipschitz=1.0, tol=0, max_iter=2000
        )
        np.testing.assert_allclose(result.z, [0.4, 0, 0], atol=2e-3)
    # A ray of solutions, met at the point nearest to the start and not at its end.
    result = solve(
        VI(flat, np.array([-2.0, 1.0, 1.0]), Box([-1, -9, -9], [3, 9, 9])),
        step=1.0,
        tol=0,
        max_iter=2000,
    )
    np.testing.assert_allclose(result.z, [-1, 0, 0], atol=2e-3)
