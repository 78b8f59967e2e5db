"""Many problems at once, against one at a time."""

import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cameraready.minmax.batched import solve_batched  # noqa: E402
from cameraready.minmax.inclusion import VI  # noqa: E402
from cameraready.minmax.resolvents import L1, Ball, Box, Product, Simplex  # noqa: E402
from cameraready.minmax.solving import solve  # noqa: E402

METHODS = ["feg", "eag", "eg"]
STRATEGIES = Product([(Simplex(), 4), (Simplex(), 5)])
MIXED = Product([(Simplex(), 4), (L1(0.3), 2), (Ball(0.7), 3)])


def games(count, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    payoffs = rng.normal(size=(count, 4, 5)) * np.linspace(1.0, scale, count)[:, None, None]
    return torch.tensor(payoffs), torch.tensor(rng.random((count, 9)))


def field(z, payoff):
    return torch.cat([payoff @ z[4:], -(payoff.T @ z[:4])])


def one(payoff, z0, A, **settings):  # noqa: N803
    payoff = payoff.numpy()

    def operator(z):
        return np.concatenate([payoff @ z[4:], -(payoff.T @ z[:4])])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve(VI(operator, z0.numpy(), A=A), **settings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("A", [STRATEGIES, MIXED], ids=["simplices", "mixed"])
@pytest.mark.parametrize("step", ["auto", 0.15])
def test_a_batch_equals_the_solver_problem_by_problem(method, A, step):  # noqa: N803
    payoffs, z0 = games(12, scale=3.0 if step == "auto" else 1.0)
    settings = {"method": method, "step": step, "tol": 0.03, "max_iter": 300}
    if method != "eg":
        settings["restart"] = "anchor"
    result = solve_batched(field, z0, A, data=[payoffs], **settings)
    iterations = set()
    # A finite difference for the first step has eight digits.
    close = 1e-6 if step == "auto" else 1e-10
    for i in range(12):
        expected = one(payoffs[i], z0[i], A, **settings)
        assert np.abs(result.z[i].numpy() - expected.z).max() < close
        assert result.residual[i].item() == pytest.approx(expected.residual, abs=close)
        assert result.n_iter[i] == len(expected.residual_history)
        assert result.converged[i] == expected.converged
        assert result.step[i].item() == pytest.approx(expected.step)
        iterations.add(int(result.n_iter[i]))
    assert len(iterations) > 6  # each stopped on its own
    assert not result.diverged.any()


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_equals_its_parts(method):
    payoffs, z0 = games(15)
    whole = solve_batched(field, z0, STRATEGIES, data=[payoffs], method=method, tol=0.02)
    parts = [
        solve_batched(
            field, z0[i : i + 1], STRATEGIES, data=[payoffs[i : i + 1]], method=method, tol=0.02
        )
        for i in range(15)
    ]
    assert torch.allclose(whole.z, torch.cat([part.z for part in parts]), atol=1e-9)
    assert torch.equal(whole.n_iter, torch.cat([part.n_iter for part in parts]))


@pytest.mark.parametrize("method", ["feg", "eag"])
def test_games_are_solved(method):
    payoffs, z0 = games(200)
    result = solve_batched(
        field, z0, STRATEGIES, data=[payoffs], method=method, restart="anchor", tol=1e-9
    )
    assert result.converged.all()
    x, y = result.z[:, :4], result.z[:, 4:]
    best_row = (payoffs @ y[..., None])[..., 0].amin(-1)
    best_column = (payoffs.mT @ x[..., None])[..., 0].amax(-1)
    assert (best_column - best_row).abs().max() < 1e-8


def test_the_residual_is_certified():
    payoffs, z0 = games(5)
    result = solve_batched(field, z0, STRATEGIES, data=[payoffs], tol=1e-3)
    value = torch.func.vmap(field)(result.z, payoffs)
    natural = (result.z - STRATEGIES.prox(result.z - value, 1.0)).norm(dim=-1)
    assert (natural <= result.residual + 1e-12).all()
    assert (result.residual <= 1e-3).all()


def test_rho_for_each_problem():
    a = torch.tensor([0.0, -0.2, -0.4], dtype=torch.float64)
    turns = torch.stack([a, (1 - a**2).sqrt()], dim=-1)

    def rotation(z, turn):
        return torch.stack([turn[0] * z[0] + turn[1] * z[1], turn[0] * z[1] - turn[1] * z[0]])

    z0 = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(3, 1)
    result = solve_batched(rotation, z0, data=[turns], step=1.0, rho=a, max_iter=50, tol=1e-12)
    assert result.residual[2].item() == pytest.approx(0.17027838, abs=1e-8)
    bound = 2 / ((1 + 2 * a) * 50)
    assert (result.residual <= bound).all()
    assert result.converged.tolist() == [True, False, False]
    assert result.n_iter.tolist() == [4, 50, 50]
    usual = solve_batched(rotation, z0, data=[turns], step=0.7, method="eg", max_iter=50)
    assert usual.residual[2] > 1e2


def test_an_operator_may_take_gradients():
    def loss(z, target):
        return (z[0] - target) ** 2 / 2 + z[0] * z[1] - z[1] ** 2 / 2

    def operator(z, target):
        gradient = torch.func.grad(loss)(z, target)
        return torch.stack([gradient[0], -gradient[1]])

    targets = torch.linspace(-1, 1, 7, dtype=torch.float64)
    result = solve_batched(operator, torch.zeros(7, 2).double(), data=[targets], tol=1e-3)
    assert result.converged.all()
    assert torch.allclose(result.z, torch.stack([targets, targets], dim=-1) / 2, atol=1e-3)


def test_single_precision_and_plain_functions():
    payoffs, z0 = games(20)
    result = solve_batched(
        field,
        z0.float(),
        lambda z, step: STRATEGIES.prox(z, 1.0) + 0 * step,
        data=[payoffs.float()],
        restart="anchor",
        tol=1e-4,
    )
    assert result.z.dtype == torch.float32
    assert result.converged.all()


@pytest.mark.filterwarnings("ignore")
def test_operators_of_pyproximal():
    pyproximal = pytest.importorskip("pyproximal")
    payoffs, z0 = games(4)
    settings = {"data": [payoffs], "tol": 1e-2, "max_iter": 500}
    theirs = solve_batched(field, z0, pyproximal.L1(0.1), **settings)
    ours = solve_batched(field, z0, L1(0.1), **settings)
    assert torch.allclose(theirs.z, ours.z, atol=1e-9)


@pytest.mark.parametrize("step", ["auto", 1.0])
def test_one_that_diverges_takes_no_other_down(step):
    starts = torch.zeros(3, 1, dtype=torch.float64)
    kinds = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)

    def operator(z, kind):
        return torch.where((kind > 0) & (z != 0), torch.nan, z - 1)

    result = solve_batched(operator, starts, data=[kinds], step=step, tol=1e-2, max_iter=3000)
    assert result.diverged.tolist() == [False, True, False]
    assert result.converged.tolist() == [True, False, True]
    assert result.z[1].item() == 0.0


def test_none_that_begins_with_nan():
    result = solve_batched(lambda z: z * math.nan, torch.ones(2, 3), max_iter=5)
    assert result.diverged.all()
    assert not result.converged.any()
    assert (result.residual == math.inf).all()
    assert result.z.tolist() == torch.ones(2, 3).tolist()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"method": "gda"}, ValueError, "method must be one of"),
        ({"restart": "auto"}, ValueError, "restart must be one of"),
        ({"method": "eg", "restart": "anchor"}, ValueError, "no anchor"),
        ({"method": "eg", "rho": -0.1}, ValueError, "no rho"),
        ({"tol": 0.0}, ValueError, "tol"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"step": 0.0}, ValueError, "step must be positive"),
        ({"step": "power"}, ValueError, "step must be one of"),
        ({"step": torch.ones(3)}, ValueError, "step must be a number or have the shape"),
        ({"step": math.nan}, ValueError, "step must be finite"),
        ({"step": None}, TypeError, "step must be a number"),
        ({"step": 1.0, "rho": -0.5}, ValueError, r"need step \+ 2·rho > 0"),
        ({"data": torch.ones(2)}, TypeError, "data must be a sequence"),
        ({"data": [torch.ones(3)]}, ValueError, r"data\[0\] must have 2 entries"),
        ({"data": [np.ones(2)]}, TypeError, r"data\[0\] must be a tensor"),
        ({"A": 3}, TypeError, "A must be"),
        ({"A": lambda z, step: z[:1]}, ValueError, "keep the shape"),
        ({"z0": torch.ones(3)}, ValueError, "z0 must have the shape"),
        ({"z0": torch.ones(0, 3)}, ValueError, "z0 must have the shape"),
        ({"z0": torch.ones(2, 3, dtype=torch.bfloat16)}, ValueError, "precision"),
        ({"z0": torch.ones(2, 3, dtype=torch.long)}, ValueError, "precision"),
        ({"z0": torch.full((2, 3), math.inf)}, ValueError, "finite"),
        ({"z0": np.ones((2, 3))}, TypeError, "z0 must be a tensor"),
        ({"operator": lambda z: z[:1]}, ValueError, "operator must return the shape"),
    ],
)
def test_bad_input(settings, error, message):
    def operator(z, *data):
        return z

    with pytest.raises(error, match=message):
        solve_batched(**({"operator": operator, "z0": torch.ones(2, 3)} | settings))


def test_box_bounds_for_every_coordinate():
    result = solve_batched(
        lambda z: z - 5.0, torch.zeros(3, 2), Box([-1.0, -1.0], [1.0, 2.0]), tol=1e-5
    )
    assert torch.allclose(result.z, torch.tensor([1.0, 2.0]).expand(3, 2))
