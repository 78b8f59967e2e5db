import numpy as np
import pytest

from cameraready.minmax import VI, Box, L1Ball, MinMax, Nonnegative, Simplex, solve
from cameraready.minmax.resolvents import Resolvent


class Shrinking:
    def prox(self, z, step):
        return z[:-1] if len(z) > 1 else z


class OurShrinking(Resolvent):
    def _resolve(self, z, step):
        return z[:-1]


def rotation(z):
    return np.array([z[1], -z[0]])


def test_a_resolvent_that_changes_the_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape of z, \(2,\), but this one returned \(1,\)"):
        VI(rotation, np.ones(2), Shrinking())
    with pytest.raises(
        ValueError, match=r"resolvent of z0 changes the shape from \(2,\) to \(1,\)"
    ):
        VI(rotation, np.ones(2), OurShrinking())
    with pytest.raises(ValueError, match="must keep the shape"):
        MinMax(None, np.ones(2), np.ones(2), None, Shrinking(), jac=lambda x, y: (x, y))


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: VI(3, np.ones(2)), TypeError, "F must be a function"),
        (lambda: VI(rotation, np.array(["a"])), TypeError, "z0 must hold real numbers"),
        (lambda: VI(rotation, np.array([1, np.nan])), ValueError, "z0 must be finite"),
        (lambda: VI(rotation, np.zeros(0)), ValueError, "z0 is empty"),
        (lambda: VI(rotation, {}), ValueError, "z0 is empty"),
        (lambda: VI(rotation, np.ones(2), 3), TypeError, "the resolvent of z0 must be"),
        (lambda: VI(rotation, np.ones(2), {"a": Box(0, 1)}), ValueError, "needs a dict z0"),
        (lambda: MinMax(3, np.ones(2), np.ones(2)), TypeError, "f must be a function"),
    ],
)
def test_bad_problems_get_one_clear_sentence(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_what_f_returns_must_have_the_shape_of_z():
    problem = VI(lambda z: np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match=r"what F returns has the shape \(3,\), but z0 has \(2,\)"):
        solve(problem)
    problem = MinMax(None, np.ones(2), np.ones(1), jac=lambda x, y: (x, x))
    with pytest.raises(ValueError, match="the gradient in y has the shape"):
        solve(problem)


def test_a_penalty_does_not_move_the_start():
    class Soft:
        def prox(self, z, step):
            return np.sign(z) * np.maximum(abs(z) - step, 0)

    problem = VI(rotation, np.array([2.0, -1.0]), Soft())
    assert problem.note == ""
    np.testing.assert_array_equal(problem.z0, [2.0, -1.0])


def test_pyproximal_operators_are_taken_as_they_are():
    pyproximal = pytest.importorskip("pyproximal")
    ours = solve(VI(rotation, np.array([1.0, 0.25]), Box(-0.5, 1.0)), step=1.0, tol=0, max_iter=20)
    theirs = solve(
        VI(rotation, np.array([1.0, 0.25]), pyproximal.Box(-0.5, 1.0)),
        step=1.0,
        tol=0,
        max_iter=20,
    )
    np.testing.assert_allclose(theirs.z, ours.z, atol=1e-12)


def test_matrices_are_batches_of_rows():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(3, 4))
    result = solve(
        VI(lambda z: z - target, np.full((3, 4), 0.25), Simplex()), tol=1e-9, rho=0.0, lipschitz=1.0
    )
    np.testing.assert_allclose(result.z, Simplex().project(target), atol=1e-8)
    np.testing.assert_allclose(result.z.sum(axis=1), 1)


def test_whole_numbers_become_floating_point():
    problem = VI(rotation, [1, 0])
    assert problem.z0.dtype == float
    result = solve(problem, step=0.5, tol=0, max_iter=3)
    assert result.z.dtype == float


def test_single_precision_stays_single():
    result = solve(VI(rotation, np.ones(2, np.float32), Box(-1, 1)), step=0.5, tol=0, max_iter=5)
    assert result.z.dtype == np.float32


def test_the_sign_of_the_ascending_player_is_turned():
    problem = MinMax(None, np.array([2.0]), np.array([3.0]), jac=lambda x, y: (10 * x, 100 * y))
    np.testing.assert_array_equal(problem.operator(problem.z0), [20, -300])
    x, y = problem.players(problem.z0)
    assert (x.tolist(), y.tolist()) == ([2.0], [3.0])


def test_infeasible_players_are_named():
    problem = MinMax(
        None, np.array([2.0]), np.array([3.0]), Box(0, 1), Box(0, 1), jac=lambda x, y: (y, x)
    )
    assert problem.note == "x0 and y0 were infeasible and have been projected"
    np.testing.assert_array_equal(problem.z0, [1, 1])


class TestTorch:
    torch = pytest.importorskip("torch")

    def test_dicts_of_tensors_go_in_and_come_out(self):
        torch = self.torch
        start = {"w": torch.ones(2, 2, dtype=torch.float64), "b": torch.tensor(3.0).double()}

        def F(z):  # noqa: N802
            return {"b": z["b"] - 1.0, "w": z["w"] + 1.0}  # another order

        result = solve(VI(F, start, {"w": Nonnegative()}), lipschitz=1.0, tol=1e-8)
        assert set(result.z) == {"w", "b"}
        torch.testing.assert_close(result.z["w"], torch.zeros(2, 2).double())
        assert float(result.z["b"]) == pytest.approx(1.0, abs=1e-7)

    def test_a_missing_key_is_named(self):
        problem = VI(lambda z: {"w": z["w"]}, {"w": np.ones(2), "b": np.ones(1)})
        with pytest.raises(ValueError, match="must be a dict with the keys of z0"):
            problem.operator(problem.z0)

    def test_min_max_of_dicts_is_differentiated(self):
        torch = self.torch

        def f(x, y):
            return (x["a"] * y).sum() + (x["b"] ** 2).sum()

        for kind in (torch.tensor, np.array):
            start = {"a": kind([1.0, 2.0]), "b": kind([3.0])}
            problem = MinMax(f, start, kind([5.0, 7.0]))
            assert problem.operator(problem.z0).tolist() == [5, 7, 6, -1, -2]

    def test_a_variable_that_f_ignores_has_a_zero_gradient(self):
        problem = MinMax(lambda x, y: (x**2).sum(), np.ones(2), np.ones(1))
        assert problem.operator(problem.z0).tolist() == [2, 2, 0]

    def test_f_must_return_one_number(self):
        problem = MinMax(lambda x, y: x, np.ones(2), np.ones(1))
        with pytest.raises(ValueError, match="f must return one number"):
            problem.operator(problem.z0)

    def test_numpy_and_torch_do_not_mix(self):
        with pytest.raises(TypeError, match="both be numpy arrays or both be torch tensors"):
            MinMax(lambda x, y: (x * y).sum(), np.ones(1), self.torch.ones(1))

    def test_training_state_is_left_alone(self):
        parameter = self.torch.ones(2, requires_grad=True)
        problem = MinMax(lambda x, y: (x * y).sum(), parameter, self.torch.ones(2), L1Ball(1.0))
        solve(problem, step=0.5, tol=0, max_iter=3)
        assert parameter.grad is None
        assert parameter.tolist() == [1, 1]
