"""The optimizers, against a direct implementation of their formulas in numpy."""

import copy
import math
import socket
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from cameraready.minmax.optimizers import EAG, FEG, OGDA, ExtraGradient  # noqa: E402
from cameraready.minmax.resolvents import L1, Ball, Box, Product, Simplex  # noqa: E402

OPTIMIZERS = [FEG, EAG, ExtraGradient, OGDA]
F64 = torch.float64


def reference(name, operator, resolvent, z0, step, steps, rho=0.0):
    """Iterates z_0 … z_steps and c_0 … c_steps, line by line as in the paper."""
    z, c, past = z0, np.zeros_like(z0), operator(z0)
    iterates, corrections = [z], [c]
    for k in range(steps):
        value = operator(z)
        if name == "ExtraGradient":
            y = z - step * operator(resolvent(z - step * value, step))
        elif name == "OGDA":
            y, past = z - step * (2 * value - past), value
        else:
            beta = 1 / (k + 1)
            v = value + c if k else np.zeros_like(z)
            ahead = (1 - beta) * (step + 2 * rho)
            if name == "EAG":
                ahead = step + 2 * rho * (1 - beta)
            half = z + beta * (z0 - z) - ahead * v
            y = z + beta * (z0 - z) - step * operator(half) - 2 * rho * (1 - beta) * v
        z = resolvent(y, step)
        c = (y - z) / step
        iterates.append(z)
        corrections.append(c)
    return np.array(iterates), np.array(corrections)


def parameter(values, dtype=F64):
    return nn.Parameter(torch.tensor(values, dtype=dtype))


def closure_of(optimizer, loss, calls=None):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if calls is not None:
            calls.append(float(value.detach()))
        return value

    return closure


class Rotation:
    """f(x, y) = x y + ..., with F(z) = (a x + b y, a y - b x)."""

    def __init__(self, start, a=0.0, b=1.0, low=None, high=None):
        self.x, self.y = parameter([start[0]]), parameter([start[1]])
        self.a, self.b = a, b
        self.box = None if low is None else Box(low, high)
        self.start = np.array(start)

    def loss(self):
        squares = (self.x**2 - self.y**2).sum() * self.a / 2
        return squares + self.b * (self.x * self.y).sum()

    def operator(self, z):
        return np.array([self.a * z[0] + self.b * z[1], self.a * z[1] - self.b * z[0]])

    def groups(self):
        return [
            {"params": [self.x], "resolvent": self.box},
            {"params": [self.y], "resolvent": self.box, "maximize": True},
        ]

    def run(self, optimizer, steps):
        closure = closure_of(optimizer, self.loss)
        points = [self.point()]
        for _ in range(steps):
            optimizer.step(closure)
            points.append(self.point())
        return np.array(points)

    def point(self):
        return np.array([self.x.item(), self.y.item()])


def test_feg_gives_the_exact_iterates():
    problem = Rotation((1.0, 0.25), low=-0.5, high=1.0)
    optimizer = FEG(problem.groups(), lr=1.0)
    z = problem.run(optimizer, 6)
    assert z[1] == pytest.approx((0.75, 1.0), abs=1e-12)
    assert z[2] == pytest.approx((0.0, 1.0), abs=1e-12)
    assert z[3] == pytest.approx((-0.41666667, 0.41666667), abs=1e-8)
    assert z[4] == pytest.approx((-0.125, 0.0), abs=1e-12)
    assert z[5] == pytest.approx((0.15, 0.15), abs=1e-12)
    assert optimizer.residual == pytest.approx(0.21213203, abs=1e-8)


def test_feg_gives_the_exact_corrections_and_residuals():
    problem = Rotation((1.0, 0.25), low=-0.5, high=1.0)
    optimizer = FEG(problem.groups(), lr=1.0)
    assert optimizer.residual == math.inf
    closure = closure_of(optimizer, problem.loss)
    residuals = []
    for _ in range(6):
        optimizer.step(closure)
        residuals.append(optimizer.residual)
        if len(residuals) == 1:
            c = [optimizer.state[p]["c"].item() for p in (problem.x, problem.y)]
            assert c == pytest.approx([0.0, 0.25], abs=1e-12)
    assert residuals[0] == math.inf  # c is not known yet
    expected = [1.11803399, 1.0, 0.58925565, 0.125, 0.21213203]
    assert residuals[1:] == pytest.approx(expected, abs=1e-8)


def test_eag_gives_the_exact_iterates():
    problem = Rotation((1.0, 0.25), low=-0.5, high=1.0)
    z = problem.run(EAG(problem.groups(), lr=0.5), 5)
    assert z[2] == pytest.approx((0.46875, 0.78125), abs=1e-12)
    assert z[5] == pytest.approx((-0.04864909, 0.52413737), abs=1e-8)


def test_feg_gives_the_exact_residuals_of_a_negative_comonotone_rotation():
    problem = Rotation((1.0, 0.0), a=-0.4, b=math.sqrt(0.84))
    z = problem.run(FEG(problem.groups(), lr=1.0, rho=-0.4), 50)
    expected = {1: 1.67332005, 2: 1.64972725, 5: 1.49010623, 10: 0.99390851, 50: 0.17027838}
    for k, size in expected.items():
        assert np.linalg.norm(problem.operator(z[k])) == pytest.approx(size, abs=1e-8)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("bounded", [True, False])
def test_trajectories_of_the_rotation_equal_the_formulas(kind, bounded):
    ends = {"low": -0.5, "high": 1.0} if bounded else {}
    problem = Rotation((1.0, 0.25), **ends)

    def resolvent(z, step):
        return np.clip(z, -0.5, 1.0) if bounded else z

    expected, _ = reference(kind.__name__, problem.operator, resolvent, problem.start, 0.5, 40)
    z = problem.run(kind(problem.groups(), lr=0.5), 40)
    assert np.abs(z - expected).max() < 1e-10


class Game:
    """x in a simplex against rows of y in a ball, with a little l1: two groups of two tensors."""

    def __init__(self, seed, dtype=F64):
        rng = np.random.default_rng(seed)
        self.matrix = rng.normal(size=(6, 10))
        self.matrix /= np.linalg.norm(self.matrix, 2)
        self.b, self.c = rng.normal(size=6), rng.normal(size=10)
        self.z0 = np.concatenate([np.full(4, 0.25), rng.normal(size=2), rng.normal(size=10)])
        x1, x2, y1, y2 = np.split(self.z0, [4, 6, 12])
        self.params = [
            parameter(x1, dtype),
            parameter(x2, dtype),
            parameter(y1.reshape(2, 3), dtype),
            parameter(y2, dtype),
        ]
        self.resolvents = [Simplex(), L1(0.1), Ball(0.7)]
        self.flat = Product(
            [(Simplex(), 4), (L1(0.1), 2), (Ball(0.7), 3), (Ball(0.7), 3), (Ball(0.7), 4)]
        )

    def groups(self):
        x1, x2, y1, y2 = self.params
        simplex, l1, ball = self.resolvents
        return [
            {"params": [x1], "resolvent": simplex},
            {"params": [x2], "resolvent": l1.prox},
            {"params": [y1, y2], "resolvent": lambda v, s: ball.prox(v, s), "maximize": True},
        ]

    def loss(self):
        x = torch.cat([self.params[0], self.params[1]])
        y = torch.cat([self.params[2].flatten(), self.params[3]])
        matrix, b, c = (torch.tensor(m, dtype=x.dtype) for m in (self.matrix, self.b, self.c))
        return x @ matrix @ y + b @ x - c @ y

    def operator(self, z):
        x, y = z[:6], z[6:]
        return np.concatenate([self.matrix @ y + self.b, self.c - self.matrix.T @ x])

    def point(self):
        return np.concatenate([p.detach().double().numpy().ravel() for p in self.params])

    def run(self, optimizer, steps):
        closure = closure_of(optimizer, self.loss)
        points = [self.point()]
        for _ in range(steps):
            optimizer.step(closure)
            points.append(self.point())
        return np.array(points)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_trajectories_of_games_equal_the_formulas(kind, foreach, seed):
    game = Game(seed)
    step = {FEG: 1.0, EAG: 0.577, ExtraGradient: 0.7, OGDA: 0.45}[kind]
    expected, corrections = reference(
        kind.__name__, game.operator, game.flat.prox, game.z0, step, 60
    )
    optimizer = kind(game.groups(), lr=step, foreach=foreach)
    z = game.run(optimizer, 60)
    assert np.abs(z - expected).max() < 1e-10
    c = np.concatenate([optimizer.state[p]["c"].numpy().ravel() for p in game.params])
    assert np.abs(c - corrections[-1]).max() < 1e-10
    residual = np.linalg.norm(game.operator(expected[-2]) + corrections[-2])
    assert optimizer.residual == pytest.approx(residual, abs=1e-10)


@pytest.mark.parametrize("kind", [FEG, EAG])
def test_rho_reaches_every_term(kind):
    game = Game(0)
    expected, _ = reference(
        kind.__name__, game.operator, game.flat.prox, game.z0, 0.8, 30, rho=-0.1
    )
    assert np.abs(game.run(kind(game.groups(), lr=0.8, rho=-0.1), 30) - expected).max() < 1e-10


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_it_equals_the_numpy_solver(kind):
    solving = pytest.importorskip("cameraready.minmax.solving")
    inclusion = pytest.importorskip("cameraready.minmax.inclusion")
    game = Game(1)
    name = {FEG: "feg", EAG: "eag", ExtraGradient: "eg", OGDA: "ogda"}[kind]
    problem = inclusion.VI(game.operator, game.z0, A=game.flat)
    # The solver starts from a feasible point.
    start = game.flat.prox(game.z0, 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cap is meant to be hit
        result = solving.solve(problem, method=name, step=0.45, tol=1e-15, max_iter=50)
    for param, values in zip(game.params, np.split(start, [4, 6, 12]), strict=True):
        param.data = torch.tensor(values).reshape(param.shape)
    z = game.run(kind(game.groups(), lr=0.45), 50)
    assert np.abs(z[-1] - np.asarray(result.z)).max() < 1e-10


def test_the_bound_holds():
    game = Game(2)
    long = FEG(game.groups(), lr=1.0)
    solution = game.run(long, 1500)[-1]
    game = Game(2)
    optimizer = FEG(game.groups(), lr=1.0)
    closure = closure_of(optimizer, game.loss)
    optimizer.step(closure)
    for k in range(1, 200):
        optimizer.step(closure)
        assert optimizer.residual <= 2 * np.linalg.norm(game.z0 - solution) / k * 1.01


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("reset_every", [None, 7])
def test_a_state_resumes_to_the_last_bit(kind, reset_every):
    extra = {"reset_every": reset_every} if kind in (FEG, EAG) else {}
    whole = Game(3)
    expected = whole.run(kind(whole.groups(), lr=0.4, **extra), 30)[-1]
    half = Game(3)
    first = kind(half.groups(), lr=0.4, **extra)
    half.run(first, 13)
    state = copy.deepcopy(first.state_dict())
    points = [param.detach().clone() for param in half.params]
    half.run(first, 2)  # what was saved must not move with the optimizer
    again = Game(3)
    for ours, theirs in zip(again.params, points, strict=True):
        ours.data = theirs
    second = kind(again.groups(), lr=99.0, **extra)
    second.load_state_dict(state)
    assert second.param_groups[0]["resolvent"] is again.resolvents[0]
    assert second.param_groups[0]["lr"] == 0.4
    assert np.array_equal(again.run(second, 17)[-1], expected)


def test_what_a_state_holds():
    game = Game(0)
    optimizer = FEG(game.groups(), lr=0.4)
    game.run(optimizer, 3)
    saved = optimizer.state_dict()
    assert set(saved["state"][0]) == {"anchor", "c", "k"}
    assert saved["state"][0]["k"] == 3
    assert np.array_equal(saved["state"][0]["anchor"], game.z0[:4])
    # Nothing but tensors, numbers and None: any safe format can hold it.
    plain = torch.Tensor | float | int | None
    assert all(isinstance(v, plain) for state in saved["state"].values() for v in state.values())
    for group in saved["param_groups"]:
        assert all(isinstance(v, plain) for name, v in group.items() if name != "params")
    assert "resolvent" not in saved["param_groups"][0]
    assert optimizer.param_groups[0]["resolvent"] is game.resolvents[0]


def test_resetting_equals_starting_anew():
    game = Game(4)
    optimizer = FEG(game.groups(), lr=0.9)
    game.run(optimizer, 11)
    optimizer.reset_anchor()
    assert optimizer.state[game.params[0]]["k"] == 0
    fresh = Game(4)
    for ours, theirs in zip(fresh.params, game.params, strict=True):
        ours.data = theirs.data.clone()
    anew = fresh.run(FEG(fresh.groups(), lr=0.9), 9)
    assert np.array_equal(game.run(optimizer, 9), anew)


def test_a_reset_keeps_the_residual_known():
    game = Game(4)
    optimizer = FEG(game.groups(), lr=0.9, reset_every=5)
    closure = closure_of(optimizer, game.loss)
    residuals = []
    for _ in range(12):
        optimizer.step(closure)
        residuals.append(optimizer.residual)
    assert all(math.isfinite(residual) for residual in residuals[1:])
    by_hand = Game(4)
    manual = FEG(by_hand.groups(), lr=0.9)
    for length in (5, 5, 2):
        by_hand.run(manual, length)
        manual.reset_anchor()
    assert np.array_equal(game.point(), by_hand.point())


def test_the_anchor_may_weigh_otherwise():
    game, usual = Game(5), Game(5)
    ks = []

    def weight(k):
        ks.append(k)
        return 1 / (k + 1)

    given = game.run(FEG(game.groups(), lr=0.9, weight_anchor=weight), 6)
    assert np.array_equal(given, usual.run(FEG(usual.groups(), lr=0.9), 6))
    assert sorted(set(ks)) == [1, 2, 3, 4, 5]
    other = Game(5)
    assert not np.allclose(
        other.run(FEG(other.groups(), lr=0.9, weight_anchor=lambda k: 0.1), 6)[-1], given[-1]
    )
    with pytest.raises(ValueError, match="weight_anchor must return a number from 0 to 1"):
        other.run(FEG(other.groups(), lr=0.9, weight_anchor=lambda k: 2.0), 2)


@pytest.mark.parametrize(("kind", "count"), [(FEG, 2), (EAG, 2), (ExtraGradient, 2), (OGDA, 1)])
def test_the_closure_contract(kind, count):
    problem = Rotation((1.0, 0.25))
    optimizer = kind(problem.groups(), lr=0.5)
    calls = []
    with torch.no_grad():  # the optimizer switches gradients on for the closure
        for k in range(4):
            x, y = problem.point()
            loss = optimizer.step(closure_of(optimizer, problem.loss, calls))
            assert loss.item() == pytest.approx(x * y)
            assert len(calls) == (k + 1) * count
    for missing in ((), (None,)):
        with pytest.raises(ValueError, match=r"needs a closure .*LBFGS"):
            optimizer.step(*missing)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_gradients_may_be_zeroed_in_place(kind, set_to_none):
    game, usual = Game(6), Game(6)
    optimizer = kind(game.groups(), lr=0.4)

    def closure():
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = game.loss()
        loss.backward()
        return loss

    for _ in range(10):
        optimizer.step(closure)
    expected = usual.run(kind(usual.groups(), lr=0.4), 10)[-1]
    assert np.array_equal(game.point(), expected)


def test_a_closure_that_fails_leaves_the_parameters_where_they_were():
    game = Game(7)
    optimizer = FEG(game.groups(), lr=0.9)
    game.run(optimizer, 3)
    before, state = game.point(), copy.deepcopy(optimizer.state_dict()["state"])
    good, count = closure_of(optimizer, game.loss), iter(range(9))

    def bad():
        if next(count) == 1:
            raise KeyboardInterrupt
        return good()

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(bad)
    assert np.array_equal(game.point(), before)
    for i, values in optimizer.state_dict()["state"].items():
        assert values["k"] == state[i]["k"]
        assert torch.equal(values["c"], state[i]["c"])


def test_parameters_without_gradient_stay():
    problem = Rotation((1.0, 0.25))
    idle = nn.Parameter(torch.ones(2))
    optimizer = FEG([*problem.groups(), {"params": [idle]}], lr=0.5)
    problem.run(optimizer, 3)
    assert idle.tolist() == [1.0, 1.0]
    assert idle not in optimizer.state or not optimizer.state[idle]


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_parameters_keep_single_precision_states(kind, dtype):
    game, exact = Game(8, dtype), Game(8, torch.float32)
    optimizer = kind(game.groups(), lr=0.01)
    game.run(optimizer, 100)
    for param in game.params:
        assert param.dtype == dtype
        for name, value in optimizer.state[param].items():
            assert name == "k" or value.dtype == torch.float32, name
    # Steps far below what the parameters can tell apart still add up.
    expected = exact.run(kind(exact.groups(), lr=0.01), 100)
    assert np.abs(expected[-1] - expected[0]).max() > 0.1
    assert np.abs(game.point() - expected[-1]).max() < 0.02
    # Loading must not round them.
    again = Game(8, dtype)
    for ours, theirs in zip(again.params, game.params, strict=True):
        ours.data = theirs.data.clone()
    other = kind(again.groups(), lr=0.01)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for ours, theirs in zip(again.params, game.params, strict=True):
        for name, value in other.state[ours].items():
            if name != "k":
                assert value.dtype == torch.float32
                assert torch.equal(value, optimizer.state[theirs][name])
    assert np.array_equal(again.run(other, 5), game.run(optimizer, 5))


def test_a_half_precision_parameter_moved_by_hand_counts():
    x = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    optimizer = ExtraGradient([x], lr=1e-4)
    closure = closure_of(optimizer, lambda: (x**2).sum())
    optimizer.step(closure)
    with torch.no_grad():
        x[0] = 5.0
    optimizer.step(closure)
    assert x[0].item() == pytest.approx(5.0, abs=0.05)


def test_autocast():
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    weights = nn.Parameter(torch.full((16,), 1 / 16))
    data, target = torch.randn(16, 4), torch.randn(16, 1)
    optimizer = FEG(
        [
            {"params": net.parameters()},
            {"params": [weights], "maximize": True, "resolvent": Simplex()},
        ],
        lr=0.02,
    )

    def closure():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            losses = ((net(data) - target) ** 2).mean(1)
        loss = weights @ losses.float()
        loss.backward()
        return loss

    for _ in range(50):
        optimizer.step(closure)
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert optimizer.state[net.weight]["anchor"].dtype == torch.float32
    assert math.isfinite(optimizer.residual)


def test_schedulers_and_lists_of_parameters():
    x = nn.Parameter(torch.ones(3))
    optimizer = FEG([x], lr=0.5, resolvent=Box(-1, 1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    closure = closure_of(optimizer, lambda: (x**2).sum() / 2)
    for _ in range(6):
        optimizer.step(closure)
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0625)
    assert x.abs().max() < 0.6
    optimizer.param_groups[0]["lr"] = 0.0
    with pytest.raises(ValueError, match="lr must be a finite number greater than 0"):
        optimizer.step(closure)


@pytest.mark.filterwarnings("ignore")
def test_operators_of_pyproximal():
    pyproximal = pytest.importorskip("pyproximal")
    x, y = parameter(np.ones((2, 3))), parameter(np.ones((2, 3)))
    theirs = FEG([x], lr=0.5, resolvent=pyproximal.Box(-0.3, 0.3))
    ours = FEG([y], lr=0.5, resolvent=Box(-0.3, 0.3))
    for optimizer, z in ((theirs, x), (ours, y)):
        closure = closure_of(optimizer, lambda z=z: (z**2).sum() / 2 - z[0, 0])
        for _ in range(5):
            optimizer.step(closure)
    assert torch.allclose(x, y, atol=1e-12)


def distributed_worker(rank, port, results):
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        for kind in OPTIMIZERS:
            results[f"{kind.__name__} {rank}"] = train(kind, rank)
    finally:
        dist.destroy_process_group()


def train(kind, rank=None, steps=15):
    """A net against a net that weighs the data; with a rank, on every second example."""
    torch.manual_seed(0)
    nets = nn.ModuleList([nn.Linear(5, 3), nn.Linear(3, 1), nn.Linear(5, 1)]).double()

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = nets

        def forward(self, data):
            hidden, out, critic = self.nets
            gap = out(torch.tanh(hidden(data))).square() - 1
            return (gap * critic(data) - critic(data).square()).mean()

    model = Loss()
    data = torch.randn(32, 5, dtype=F64)
    if rank is not None:
        model, data = nn.parallel.DistributedDataParallel(model), data[rank::2]
    optimizer = kind(
        [
            {"params": [*nets[0].parameters(), *nets[1].parameters()]},
            {"params": nets[2].parameters(), "maximize": True, "resolvent": Ball(0.5)},
        ],
        lr=0.1,
    )
    closure = closure_of(optimizer, lambda: model(data))
    for _ in range(steps):
        optimizer.step(closure)
    return torch.cat([p.detach().flatten() for p in nets.parameters()]).tolist()


def test_two_processes_equal_one():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with torch.multiprocessing.Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(distributed_worker, (port, results), nprocs=2)
        results = dict(results)
    for kind in OPTIMIZERS:
        first, second = (results[f"{kind.__name__} {rank}"] for rank in (0, 1))
        assert first == second
        assert first == pytest.approx(train(kind), abs=1e-10)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"lr": 0.0}, ValueError, "lr must be"),
        ({"lr": -1.0}, ValueError, "lr must be"),
        ({"lr": math.nan}, ValueError, "lr must be"),
        ({"lr": 1.0, "maximize": "yes"}, TypeError, "maximize must be"),
        ({"lr": 1.0, "resolvent": 3}, TypeError, "resolvent must be an object with prox"),
    ],
)
def test_settings_out_of_range_are_refused(kind, settings, error, message):
    with pytest.raises(error, match=message):
        kind([nn.Parameter(torch.ones(2))], **settings)
    group = {"params": [nn.Parameter(torch.ones(2))], **settings}
    with pytest.raises(error, match=message):
        kind([group], lr=1.0)


@pytest.mark.parametrize("kind", [FEG, EAG])
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"rho": -0.5}, ValueError, r"need step \+ 2·rho > 0"),
        ({"rho": -1.0}, ValueError, r"need step \+ 2·rho > 0"),
        ({"rho": math.nan}, ValueError, r"need step \+ 2·rho > 0"),
        ({"reset_every": 0}, ValueError, "reset_every must be"),
        ({"reset_every": 2.5}, TypeError, "reset_every must be"),
        ({"weight_anchor": 0.1}, TypeError, "weight_anchor must be"),
    ],
)
def test_settings_of_anchored_optimizers_out_of_range_are_refused(kind, settings, error, message):
    with pytest.raises(error, match=message):
        kind([nn.Parameter(torch.ones(2))], lr=1.0, **settings)


@pytest.mark.parametrize("kind", [ExtraGradient, OGDA])
def test_rho_is_refused_where_it_has_no_meaning(kind):
    kind([nn.Parameter(torch.ones(2))], lr=1.0, rho=0.0)
    with pytest.raises(ValueError, match="makes no use of rho; take FEG or EAG"):
        kind([nn.Parameter(torch.ones(2))], lr=1.0, rho=-0.1)


def test_a_step_that_a_scheduler_made_too_small_for_rho_is_refused():
    x = nn.Parameter(torch.ones(2))
    optimizer = FEG([x], lr=1.0, rho=-0.4)
    closure = closure_of(optimizer, lambda: (x**2).sum())
    optimizer.step(closure)
    optimizer.param_groups[0]["lr"] = 0.7
    with pytest.raises(ValueError, match=r"need step \+ 2·rho > 0"):
        optimizer.step(closure)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_resolvent_that_changes_the_shape_is_refused(kind):
    x = nn.Parameter(torch.ones(3))
    optimizer = kind([x], lr=1.0, resolvent=lambda v, step: v[:2])
    with pytest.raises(ValueError, match="keep the shape"):
        optimizer.step(closure_of(optimizer, lambda: (x**2).sum()))
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_sparse_gradients_are_refused():
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = FEG(table.parameters(), lr=1.0)
    with pytest.raises(ValueError, match="dense gradients"):
        optimizer.step(closure_of(optimizer, lambda: table(torch.tensor([1])).sum()))
