"""The two objectives: the same up to a constant, and right about the bridge."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from cameraready.lightsb.objectives import BridgeObjective, energy_loss, optimal_matching_loss
from cameraready.lightsb.potential import LightSBModule


def potential(seed=0, k=3, d=2, eps=1.0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return LightSBModule(
        torch.randn(k, generator=g).to(dtype),
        torch.randn(k, d, generator=g).to(dtype),
        (0.3 * torch.randn(k, d, generator=g) - 0.5).to(dtype),
        eps,
    )


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(n, d=2, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=generator(seed), dtype=dtype)


def gradient(loss, module):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])


def test_matching_at_one_time_by_its_definition():
    module, x0, x1, t = potential(), normal(5), normal(5, seed=1), 0.4
    found = optimal_matching_loss(module, x0, x1, t, "direct", generator=generator(3))
    noise = torch.randn(1, 5, 2, generator=generator(3), dtype=torch.float64)[0]
    x = (1 - t) * x0 + t * x1 + (module.eps * t * (1 - t)) ** 0.5 * noise
    residual = (x1 - x) / (1 - t) - module.drift(x, t)
    torch.testing.assert_close(found, residual.square().sum(1).mean() / (2 * module.eps))
    found = optimal_matching_loss(module, x0, x1, t, "stein", generator=generator(3))
    drift = module.drift(x, t)
    value = drift.square().sum(1) - 2 * (drift * (x1 - x0)).sum(1)
    value = value + 2 * t * module.eps * module.divergence(x, t)
    torch.testing.assert_close(found, value.mean() / (2 * module.eps))


@pytest.mark.parametrize("rows", [1, 5, 16, 100, 512])
@pytest.mark.parametrize("n_times", [1, 3])
def test_drawn_times_leave_no_row_out(rows, n_times):
    # A model whose drift is zero everywhere has the loss |x1 - x_t|^2 / (1 - t)^2 in every row.
    d = 3
    zero = LightSBModule(torch.zeros(1), torch.zeros(1, d), torch.zeros(1, d), 1e-12)
    x0 = normal(rows, d, dtype=torch.float32)
    difference = normal(rows, d, seed=1, dtype=torch.float32)
    found = optimal_matching_loss(
        zero, x0, x0 + difference, estimator="direct", n_times=n_times, generator=generator()
    )
    expected = difference.square().sum(1).mean() / 2e-12
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("plan", ["independent", "anti-monotone"])
def test_matching_and_energy_differ_by_a_constant(plan):
    n = 200_000
    x0, x1 = normal(n), 0.5 * normal(n, seed=1) + 1
    if plan == "anti-monotone":
        x0, x1 = x0[x0[:, 0].argsort()], x1[x1[:, 0].argsort(descending=True)]
    differences, cosines = [], []
    for seed in range(4):
        module = potential(seed)
        matching = optimal_matching_loss(module, x0, x1, n_times=2, generator=generator(seed))
        energy = energy_loss(module, x0, x1)
        differences.append((matching - energy).item())
        a, b = gradient(matching, module), gradient(energy, module)
        cosines.append(torch.cosine_similarity(a, b, dim=0).item())
    assert max(differences) - min(differences) < 0.05
    assert min(cosines) > 0.99


def test_the_estimators_differ_by_a_constant():
    n = 200_000
    x0, x1 = normal(n), 0.5 * normal(n, seed=1) + 1
    t = 0.9 * torch.rand(n, generator=generator(5), dtype=torch.float64)
    values = [
        [
            optimal_matching_loss(potential(seed), x0, x1, t, kind, generator=generator(9)).item()
            for kind in ("direct", "stein")
        ]
        for seed in range(3)
    ]
    differences = [direct - stein for direct, stein in values]
    assert max(differences) - min(differences) < 0.05


def test_the_true_potential_is_a_stationary_point_whatever_the_plan():
    module = potential(eps=0.5)
    n = 100_000
    x0 = normal(n)
    x1 = module.sample_conditional(x0, 1, generator(1))[:, 0]
    shuffled = x1[torch.randperm(n, generator=generator(2))]
    for target in (x1, shuffled):
        parts = [
            gradient(optimal_matching_loss(module, a, b, generator=generator(i)), module)
            for i, (a, b) in enumerate(zip(x0.chunk(50), target.chunk(50), strict=True))
        ]
        parts = torch.stack(parts)
        error = parts.std(0) / len(parts) ** 0.5
        assert (parts.mean(0).abs() < 4 * error).all()


def test_sorted_rows_and_random_rows_have_the_same_expected_loss():
    module, n = potential(), 512
    x0, x1 = normal(n), normal(n, seed=1)
    order = x0[:, 0].argsort()
    g = generator()
    losses = torch.tensor(
        [
            [
                optimal_matching_loss(module, a, b, generator=g).item()
                for a, b in ((x0, x1), (x0[order], x1[order]))
            ]
            for _ in range(400)
        ]
    )
    gap = losses[:, 0] - losses[:, 1]
    assert abs(gap.mean()) < 4 * gap.std() / len(gap) ** 0.5


def test_the_same_generator_gives_the_same_loss():
    module, x0, x1 = potential(), normal(9), normal(9, seed=1)
    a, b = (optimal_matching_loss(module, x0, x1, generator=generator(4)) for _ in range(2))
    assert torch.equal(a, b)


def test_the_objective_as_a_module():
    module, x0, x1 = potential(), normal(9), normal(9, seed=1)
    torch.testing.assert_close(
        BridgeObjective(module, "energy")(x0, x1), energy_loss(module, x0, x1)
    )
    torch.testing.assert_close(
        BridgeObjective(module, t=0.5, generator=generator())(x0, x1),
        optimal_matching_loss(module, x0, x1, 0.5, generator=generator()),
    )


def _gradients_of_rank(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    parallel = torch.nn.parallel.DistributedDataParallel(BridgeObjective(potential(), "energy"))
    rows = slice(8 * rank, 8 * (rank + 1))
    parallel(normal(16)[rows], normal(16, seed=1)[rows]).backward()
    dist.barrier()
    dist.destroy_process_group()
    return torch.cat([p.grad.flatten() for p in parallel.module.potential.parameters()])


def _other_rank(_, store):
    torch.set_num_threads(1)
    _gradients_of_rank(1, store)


def test_data_parallel_gradients_are_those_of_the_whole_batch(tmp_path):
    store = tmp_path / "store"
    other = mp.spawn(_other_rank, (store,), nprocs=1, join=False)
    found = _gradients_of_rank(0, store)
    assert other.join()
    module = potential()
    expected = gradient(energy_loss(module, normal(16), normal(16, seed=1)), module)
    torch.testing.assert_close(found, expected)


def test_training_lowers_either_objective():
    x0, x1 = normal(512), normal(512, seed=1) + 2
    for objective in ("matching", "energy"):
        module = copy.deepcopy(potential())
        before = energy_loss(module, x0, x1).item()
        loss = BridgeObjective(module, objective)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
        for _ in range(100):
            optimizer.zero_grad()
            loss(x0, x1).backward()
            optimizer.step()
        assert energy_loss(module, x0, x1).item() < before - 0.5


def test_bad_arguments():
    module, x0 = potential(), normal(5)
    with pytest.raises(ValueError, match="estimator must be one of"):
        optimal_matching_loss(module, x0, x0, estimator="score")
    with pytest.raises(ValueError, match="x0 and x1 must be pairs"):
        optimal_matching_loss(module, x0, normal(4))
    with pytest.raises(ValueError, match="t must be one time or one a row"):
        optimal_matching_loss(module, x0, x0, torch.zeros(4))
    with pytest.raises(ValueError, match="objective must be one of"):
        BridgeObjective(module, "score")
