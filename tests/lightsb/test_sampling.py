"""Paths: Brownian bridges in law, and Euler-Maruyama beside them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.lightsb.points import check_times
from cameraready.lightsb.potential import LightSBModule
from cameraready.lightsb.sampling import bridge_at, bridge_paths, sde_paths


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def potential():
    return LightSBModule(
        torch.tensor([0.0, 0.5]),
        torch.tensor([[2.0, 0.0], [-2.0, 1.0]]),
        torch.tensor([[-0.5, 0.0], [0.2, -1.0]]),
        0.5,
    )


def test_bridges_have_the_covariance_of_a_brownian_bridge():
    n, eps, times = 200_000, 0.7, torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    x0, x1 = torch.zeros(n, 1, dtype=torch.float64), torch.ones(n, 1, dtype=torch.float64)
    paths = bridge_paths(x0, x1, times, eps, generator())[..., 0]
    variance = eps * times * (1 - times)
    assert ((paths.mean(0) - times).abs() < 4 * (variance / n).sqrt()).all()
    expected = (
        eps * torch.minimum(times, times[:, None]) * (1 - torch.maximum(times, times[:, None]))
    )
    assert (torch.cov(paths.T) - expected).abs().max() < 5 * eps * 0.25 * (2 / n) ** 0.5
    at = bridge_at(x0, x1, 0.5, eps, generator(1))
    assert abs(at.mean() - 0.5) < 4 * (eps / 4 / n) ** 0.5
    assert abs(at.var() - eps / 4) < 5 * eps / 4 * (2 / n) ** 0.5


def test_bridges_start_and_end_where_they_must():
    x0, x1 = torch.randn(5, 3, generator=generator()), torch.randn(5, 3, generator=generator(1))
    paths = bridge_paths(x0, x1, torch.tensor([0.0, 0.4, 1.0]), 0.5, generator())
    assert torch.equal(paths[:, 0], x0)
    torch.testing.assert_close(paths[:, -1], x1)
    assert torch.equal(bridge_at(x0, x1, 0.0, 0.5), x0)
    torch.testing.assert_close(bridge_at(x0, x1, torch.ones(5), 0.5), x1)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6, unique=True))
def test_any_increasing_times_give_finite_paths(times):
    grid = torch.tensor(sorted(times), dtype=torch.float64)
    x = torch.randn(3, 2, generator=generator(), dtype=torch.float64)
    assert torch.isfinite(bridge_paths(x, x + 1, grid, 0.3, generator())).all()


def energy_statistic(a, b):
    """Unbiased energy distance, and its standard error over ten parts."""
    parts = []
    for x, y in zip(a.chunk(10), b.chunk(10), strict=True):
        n = len(x)
        within = (torch.cdist(x, x).sum() + torch.cdist(y, y).sum()) / (n * (n - 1))
        parts.append(2 * torch.cdist(x, y).mean() - within)
    parts = torch.stack(parts)
    return parts.mean(), parts.std() / 10**0.5


@pytest.mark.parametrize("t", [0.5, 1.0])
def test_euler_maruyama_agrees_with_exact_sampling(t):
    module, n = potential(), 6000
    x0 = torch.randn(n, 2, generator=generator())
    sde = sde_paths(module.drift, x0, [t], module.eps, 500, generator(1))[:, 0]
    other = torch.randn(n, 2, generator=generator(2))
    x1 = module.sample_conditional(other, 1, generator(3))[:, 0]
    distance, error = energy_statistic(sde, bridge_at(other, x1, t, module.eps, generator(4)))
    assert abs(distance) < 3 * error


def test_euler_maruyama_is_what_it_says():
    module, x0 = potential(), torch.zeros(4, 2)
    paths = sde_paths(module.drift, x0, [0.0, 0.5, 1.0], module.eps, 2, generator())
    noise = generator()
    x = x0
    assert torch.equal(paths[:, 0], x0)
    for step, t in enumerate((0.0, 0.5)):
        z = torch.randn(4, 2, generator=noise)
        x = x + 0.5 * module.drift(x, t).detach() + (0.5 * 0.5) ** 0.5 * z
        torch.testing.assert_close(paths[:, step + 1], x)


def test_euler_maruyama_of_an_ornstein_uhlenbeck_process():
    x0 = torch.ones(100_000, 1, dtype=torch.float64)
    paths = sde_paths(lambda x, t: -x, x0, [0.0, 0.37, 1.0], 0.5, 100, generator())[..., 0]
    assert torch.equal(paths[:, 0], x0[:, 0])
    for k, t in ((1, 0.37), (2, 1.0)):
        # The scheme's own moments at t: 37 and 100 steps of (1 - h).
        decay = 0.99 ** round(100 * t)
        variance = 0.5 * 0.01 * (1 - decay**2) / (1 - 0.99**2)
        assert paths[:, k].mean().item() == pytest.approx(decay, abs=4 * (variance / 1e5) ** 0.5)
        assert paths[:, k].var().item() == pytest.approx(variance, rel=4 * (2 / 1e5) ** 0.5)


@pytest.mark.parametrize(
    "times", [[0.5, 0.2], [0.1, 1.1], [-0.1], [], [[0.1]], [np.nan], [0.3, 0.3]]
)
def test_bad_times(times):
    with pytest.raises(ValueError, match="times must be increasing"):
        check_times(times)
