"""Closed forms against quadrature, differentiation, and each other."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.lightsb.potential import LightSBModule

KINDS = ("diag", "full", "tied_full", "spherical", "lowrank")


def potential(kind, k=3, d=4, q=2, eps=0.3, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    columns = {"spherical": 1, "lowrank": q + 1}.get(kind, d)
    shape = {"full": (k, d, d), "tied_full": (1, d, d), "lowrank": (d, q)}.get(kind)
    rotations = None if shape is None else torch.linalg.qr(randn(*shape))[0].to(dtype)
    return LightSBModule(
        randn(k).to(dtype),
        randn(k, d).to(dtype),
        (0.4 * randn(k, columns)).to(dtype),
        eps,
        rotations,
    )


def as_full(module):
    """The same potential, with a full covariance for each component."""
    values, vectors = torch.linalg.eigh(module.covariances().detach() / module.eps)
    return LightSBModule(
        module.log_alpha.detach(), module.means.detach(), 0.5 * values.log(), module.eps, vectors
    )


def points(n=7, d=4, seed=1, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def close(a, b, tolerance=1e-8):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


TIMES = [0.0, 0.3, 1.0, torch.linspace(0, 1, 7, dtype=torch.float64)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_told_from_the_shapes(kind):
    assert potential(kind).covariance_type == kind


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "full"])
def test_every_kind_is_a_case_of_full(kind):
    module, x, y = potential(kind), points(), points(seed=2)
    full = as_full(module)
    for name in (
        "log_v",
        "log_c",
        "conditional_mean",
        "conditional_covariance",
        "conditional_variance",
    ):
        close(getattr(module, name)(x), getattr(full, name)(x))
    for t in TIMES:
        for name in ("drift", "divergence", "log_potential", "responsibilities"):
            close(getattr(module, name)(x, t), getattr(full, name)(x, t))
    close(module.conditional_log_prob(x, y), full.conditional_log_prob(x, y))
    close(module.variances(), torch.diagonal(module.covariances(), dim1=1, dim2=2))


def test_full_without_rotation_is_diagonal_and_spherical_is_diagonal_with_equal_scales():
    diag, x = potential("diag"), points()
    eye = torch.eye(4, dtype=torch.float64)
    args = diag.log_alpha.detach(), diag.means.detach()
    scales = diag.log_scales.detach()
    close(diag.drift(x, 0.7), LightSBModule(*args, scales, 0.3, eye.repeat(3, 1, 1)).drift(x, 0.7))
    one = scales[:, :1]
    close(
        LightSBModule(*args, one, 0.3).drift(x, 0.7),
        LightSBModule(*args, one.repeat(1, 4), 0.3).drift(x, 0.7),
    )


def test_low_rank_with_all_directions_is_tied():
    tied, x = potential("tied_full"), points()
    factor = tied.rotations.detach()[0]
    scales = torch.cat([tied.log_scales.detach(), torch.zeros(3, 1, dtype=torch.float64)], 1)
    lowrank = LightSBModule(tied.log_alpha, tied.means, scales, 0.3, factor)
    for t in (0.0, 0.4, 1.0):
        close(lowrank.drift(x, t), tied.drift(x, t))
        close(lowrank.divergence(x, t), tied.divergence(x, t))
    close(lowrank.log_v(x), tied.log_v(x))


@pytest.mark.parametrize("kind", KINDS)
def test_the_drift_is_the_gradient_of_the_potential(kind):
    module, x = potential(kind), points().requires_grad_()
    for t in TIMES:
        (gradient,) = torch.autograd.grad(module.log_potential(x, t).sum(), x)
        close(module.eps * gradient, module.drift(x, t))


@pytest.mark.parametrize("kind", KINDS)
def test_the_divergence_is_the_trace_of_the_jacobian(kind):
    module, x = potential(kind), points()
    for t in (0.0, 0.6, 1.0):
        jacobian = torch.autograd.functional.jacobian(lambda x, t=t: module.drift(x, t).sum(0), x)
        close(torch.einsum("dbd->b", jacobian), module.divergence(x, t))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_parameters(kind):
    module, x = potential(kind, k=2, d=3, q=1), points(3, 3)
    t = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    # The diagonal of Householder's parameter is held at plus or minus one, and must not be moved.
    names = [
        name
        for name, _ in module.named_parameters()
        if kind != "lowrank" or "parametrizations" not in name
    ]

    def function(*values):
        parameters = dict(zip(names, values, strict=True))
        call = torch.func.functional_call
        return call(_Outputs(module), {f"module.{n}": v for n, v in parameters.items()}, (x, t))

    values = tuple(module.get_parameter(name).detach().clone().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(function, values)


class _Outputs(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, t):
        return torch.cat(
            [
                self.module.drift(x, t).flatten(),
                self.module.divergence(x, t),
                self.module.log_c(x),
                self.module.log_v(x),
                self.module.conditional_log_prob(x, x.flip(0)),
            ]
        )


def quadrature():
    axis = torch.linspace(-15, 15, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    return grid, float(axis[1] - axis[0]) ** 2


@pytest.mark.parametrize("kind", KINDS)
def test_drift_and_log_c_against_quadrature(kind):
    module = potential(kind, d=2, q=1, eps=0.5)
    grid, cell = quadrature()
    with torch.no_grad():
        log_v, x = module.log_v(grid), points(3, 2)
        assert math.isclose(float(log_v.exp().sum() * cell), float(module.log_alpha.exp().sum()))
        exponent = x @ grid.T / module.eps + log_v
        close(module.log_c(x), exponent.logsumexp(1) + math.log(cell), 1e-10)
        for t in (0.0, 0.8):
            variance = module.eps * (1 - t)
            squares = (grid[None] - x[:, None]).square().sum(-1)
            exponent = -squares / (2 * variance) + grid.square().sum(1) / (2 * module.eps) + log_v
            weights = exponent.softmax(1)
            # The gradient of a Gaussian's logarithm in x is (x1 - x) / variance.
            drift = (weights @ grid - x) / (1 - t)
            close(module.drift(x, t), drift, 1e-10)


def test_the_formulas_of_section_three_at_one_time():
    # An independent way: the Gaussian integrals by matrices, one component and point at a time.
    module, x, t = potential("full", d=3), points(4, 3), 0.6
    eps, covariances = module.eps, module.covariances().detach()
    log_alpha, means = module.log_alpha.detach(), module.means.detach()
    drifts = []
    for point in x:
        logs, moved = [], []
        for k in range(3):
            # N(x1; x, eps (1 - t)) exp(|x1|^2 / 2 eps) N(x1; r, eps S) over x1.
            prior = torch.linalg.inv(covariances[k])
            precision = prior + torch.eye(3, dtype=torch.float64) * (1 / (1 - t) - 1) / eps
            linear = prior @ means[k] + point / (eps * (1 - t))
            mean = torch.linalg.solve(precision, linear)
            logs.append(
                log_alpha[k]
                - 0.5 * torch.logdet(precision)
                - 0.5 * torch.logdet(covariances[k])
                + 0.5 * linear @ mean
                - 0.5 * means[k] @ prior @ means[k]
            )
            moved.append((mean - point) / (1 - t))
        drifts.append(torch.stack(logs).softmax(0) @ torch.stack(moved))
    close(module.drift(x, t), torch.stack(drifts), 1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan(kind):
    module, x, y = potential(kind), points(), points(seed=2)
    log_prob = module.conditional_log_prob(x, y)
    close(log_prob, (x * y).sum(1) / module.eps + module.log_v(y) - module.log_c(x))
    mixture = module.conditional(x)
    close(log_prob, mixture.log_prob(y))
    close(mixture.mean, module.conditional_mean(x))
    close(module.conditional_mean(x) - x, module.drift(x, 0.0))
    close(mixture.variance, module.conditional_variance(x))
    covariance = module.conditional_covariance(x)
    close(torch.diagonal(covariance, dim1=1, dim2=2), module.conditional_variance(x))
    close(module.responsibilities(x), mixture.mixture_distribution.probs)
    # d^2 log c / dx^2 is the covariance over eps^2.
    hessian = torch.autograd.functional.hessian(lambda x: module.log_c(x[None])[0], x[0])
    close(module.eps**2 * hessian, covariance[0])


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_the_plan(kind):
    module, x, n = potential(kind), points(2), 100_000
    samples = module.sample_conditional(x, n, torch.Generator().manual_seed(0))
    assert samples.shape == (2, n, 4)
    mean, covariance = module.conditional_mean(x), module.conditional_covariance(x)
    error = (torch.diagonal(covariance, dim1=1, dim2=2) / n).sqrt()
    assert ((samples.mean(1) - mean).abs() < 4 * error).all()
    for found, expected in zip(samples, covariance, strict=True):
        products = (found - found.mean(0))[:, :, None] * (found - found.mean(0))[:, None]
        assert ((products.mean(0) - expected).abs() < 4.5 * products.std(0) / n**0.5).all()


def test_gaussian_oracle():
    # p0 = N(0, 1), p1 = N(2, 1/4), eps = 1/2: slope and conditional variance in closed form.
    mu, square, eps = 2.0, 0.25, 0.5
    slope = math.sqrt(square + eps**2 / 4) - eps / 2
    module = LightSBModule(
        torch.zeros(1, dtype=torch.float64),
        torch.tensor([[mu]], dtype=torch.float64),
        torch.tensor([[0.5 * math.log(slope)]], dtype=torch.float64),
        eps,
    )
    x = points(5, 1)
    close(module.conditional_mean(x), mu + 0.30901699437494745 * x)
    close(module.conditional_variance(x), torch.full((5, 1), 0.15450849718747373).double())
    # The law of x1 is p1.
    assert math.isclose(slope**2 + eps * slope, square)


@pytest.mark.parametrize("kind", ["full", "tied_full"])
def test_equivariance(kind):
    # Both sides moved, x -> Q x + b: with c = Q^T b the potential's parameters become
    # S' = Q S Q^T, r' = Q (r - S c) + b, log alpha' = log alpha - (2 r c - c S c) / (2 eps).
    module, x = potential(kind), points()
    log_alpha, means = module.log_alpha.detach(), module.means.detach()
    q, b = torch.linalg.qr(points(4, 4, seed=5))[0], points(1, 4, seed=6)[0]
    c, s = q.T @ b, module.covariances().detach() / module.eps
    moved = LightSBModule(
        log_alpha - (2 * means @ c - torch.einsum("i,kij,j->k", c, s, c)) / (2 * module.eps),
        (means - s @ c) @ q.T + b,
        module.log_scales.detach(),
        module.eps,
        q @ module.rotations.detach(),
    )
    for t in (0.0, 0.5, 1.0):
        close(moved.drift(x @ q.T + b, t), module.drift(x, t) @ q.T)
        close(moved.responsibilities(x @ q.T + b, t), module.responsibilities(x, t))


@pytest.mark.parametrize("kind", KINDS)
def test_translation(kind):
    module, moved = potential(kind), potential(kind)
    x, b = points(), points(1, seed=6)[0]
    moved.translate(b)
    for t in (0.0, 0.5, 1.0):
        close(moved.drift(x + b, t), module.drift(x, t))
        close(moved.responsibilities(x + b, t), module.responsibilities(x, t))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eps", [1e-3, 1.0, 100.0])
def test_finite_at_extremes(kind, eps, dtype):
    d = 32 if kind in ("full", "tied_full") else 512
    module = potential(kind, k=4, d=d, q=3, eps=eps, dtype=dtype)
    spread = torch.linspace(math.log(1e-4), math.log(1e2), module.log_scales.numel(), dtype=dtype)
    with torch.no_grad():
        module.log_scales.copy_(0.5 * spread.view_as(module.log_scales))
    x = points(6, d, dtype=dtype)
    for t in (0.0, 0.5, 1 - 1e-6, 1.0):
        loss = module.drift(x, t).square().sum() + module.divergence(x, t).sum()
        assert torch.isfinite(loss)
        gradients = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True)
        assert all(torch.isfinite(g).all() for g in gradients if g is not None)
    assert torch.isfinite(module.log_c(x) + module.log_v(x)).all()
    assert torch.isfinite(module.conditional_log_prob(x, x)).all()


def test_single_precision_near_the_end():
    single, double = (potential("diag", eps=0.1, dtype=t) for t in (torch.float32, torch.float64))
    x = points()
    for t in (0.99, 0.9999, 1.0):
        found = single.drift(x.float(), t).double()
        assert (found - double.drift(x, t)).abs().max() < 2e-5 * double.drift(x, t).abs().max()


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.floats(1e-2, 10),
    st.lists(st.floats(-50, 50), min_size=4, max_size=4),
    st.floats(0, 1),
)
def test_invariants(kind, eps, point, t):
    module = potential(kind, eps=eps)
    x = torch.tensor([point], dtype=torch.float64)
    with torch.no_grad():
        assert torch.isfinite(module.log_c(x)).all()
        assert math.isclose(float(module.responsibilities(x, t).sum()), 1.0, rel_tol=1e-12)
        covariance = module.conditional_covariance(x)[0]
        least = float(torch.linalg.eigvalsh(covariance)[0])
        assert least >= -1e-10 * float(covariance.trace())


def test_low_rank_takes_no_table_of_all_features():
    # Elementwise work in tables of (rows, components, features) would need 64 MB here.
    module = potential("lowrank", k=16, d=2048, q=2, dtype=torch.float32)
    x, t = points(512, 2048, dtype=torch.float32), torch.linspace(0, 1, 512)
    with (
        torch.no_grad(),
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile,
    ):
        module.divergence(x, t)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 3 * x.numel() * 4


def test_normalise_changes_no_drift():
    module, x = potential("diag"), points()
    before = module.drift(x, 0.5)
    module.normalise()
    assert abs(module.log_alpha.logsumexp(0).item()) < 1e-12
    close(module.drift(x, 0.5), before)


def test_rotations_stay_orthogonal_in_training():
    for kind in ("full", "tied_full", "lowrank"):
        module, x = potential(kind), points()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (module.log_c(x).mean() - module.log_v(x).mean()).backward()
            optimizer.step()
        gram = module.rotations.mT @ module.rotations
        close(gram, torch.eye(gram.shape[-1], dtype=torch.float64).expand_as(gram))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": 0.0}, "eps must be"),
        ({"eps": math.nan}, "eps must be"),
        ({"log_alpha": torch.zeros(2)}, "log_alpha must have the shape"),
        ({"means": torch.zeros(3)}, "means must have the shape"),
        ({"log_scales": torch.zeros(3, 2)}, "do not fit"),
        ({"rotations": torch.zeros(2, 4, 4)}, "do not fit"),
        ({"rotations": torch.zeros(3, 4, 4)}, "orthonormal"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {
        "log_alpha": torch.zeros(3),
        "means": torch.zeros(3, 4),
        "log_scales": torch.zeros(3, 4),
        "eps": 1.0,
    }
    with pytest.raises(ValueError, match=message):
        LightSBModule(**{**arguments, **change})


def test_bad_points_and_times():
    module = potential("diag")
    with pytest.raises(ValueError, match="points must have the shape"):
        module.drift(torch.zeros(4, dtype=torch.float64), 0.0)
    with pytest.raises(ValueError, match="t must be one time or one a row"):
        module.drift(points(), torch.zeros(3))


def test_the_module_shows_what_it_is():
    assert "n_components=3, dim=4, eps=0.3" in repr(potential("diag"))
    assert np.isclose(potential("diag").eps, 0.3)
