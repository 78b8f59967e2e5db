import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from cameraready.obprop.norms import (
    Norm,
    boundary_point,
    layernorm_angle,
    layernorm_angle_bound,
)

D = 12


def random_norm(kind, bias, seed=0, eps=1e-5):
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(4, D, generator=generator, dtype=torch.float64)
    weight, b, y, x = draw
    return Norm(1 + 0.5 * weight, b if bias else None, eps, kind), y, 3 * x + 1


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_a_norm_and_its_pull_back_are_torch_s(kind, bias):
    norm, y, x = random_norm(kind, bias)
    functional = torch.nn.functional
    x.requires_grad_()
    if kind == "layernorm":
        wanted = functional.layer_norm(x, (D,), norm.weight, norm.bias, norm.eps)
    else:
        wanted = functional.rms_norm(x, (D,), norm.weight, norm.eps)
        wanted = wanted if norm.bias is None else wanted + norm.bias
    torch.testing.assert_close(norm(x), wanted)
    (gradient,) = torch.autograd.grad(wanted @ y, x)
    torch.testing.assert_close(norm.pull_back(y, x.detach()), gradient)


@given(st.integers(0, 10_000), st.sampled_from(["layernorm", "rmsnorm"]))
def test_without_bias_the_boundary_is_the_projection(seed, kind):
    norm, y, x = random_norm(kind, False, seed, eps=1e-12)
    q = norm.direction(y)
    point = boundary_point(norm, y, x)
    assert point.found
    torch.testing.assert_close(point.x, x - (q @ x) / (q @ q) * q)
    assert abs(float(norm(point.x) @ y)) < 1e-9 * float(y.norm())
    gradient = norm.pull_back(y, point.x)
    assert float(torch.cosine_similarity(gradient, q, 0)) > 1 - 1e-6
    torch.testing.assert_close(gradient, q / norm.scale(point.x))


@given(st.integers(0, 10_000), st.sampled_from(["layernorm", "rmsnorm"]))
def test_with_a_bias_the_boundary_is_the_root_on_the_line(seed, kind):
    norm, y, x = random_norm(kind, True, seed)
    q = norm.direction(y)

    def height(t):
        return float(norm(x + t * q) @ y)

    point = boundary_point(norm, y, x)
    far = 1e6
    assert point.found == (height(-far) < 0 < height(far))
    if point.found:
        root = brentq(height, -far, far, xtol=1e-12)
        torch.testing.assert_close(point.x, x + root * q, rtol=1e-6, atol=1e-6)
    else:
        assert torch.equal(point.x, x)


def test_where_the_bias_is_too_large_there_is_no_boundary():
    norm, y, x = random_norm("layernorm", True)
    norm = Norm(norm.weight, 100 * y, norm.eps, "layernorm")
    assert not boundary_point(norm, y, x).found
    assert not boundary_point(norm, torch.zeros(D, dtype=torch.float64), x).found


# Computed with mpmath to 20 digits from the two integrals.
EXACT = {
    8: (0.4908738521, 0.7751933734, 0.3043965576),
    16: (0.3290388790, 0.5223148218, 0.2070456778),
    64: (0.1585305558, 0.2526477263, 0.1006539441),
    576: (0.0522895422, 0.0834299601, 0.0332788967),
    2048: (0.0277047386, 0.0442085673, 0.0176359479),
}


@pytest.mark.parametrize("d", EXACT)
def test_angles_are_the_closed_forms(d):
    layernorm, bound, rmsnorm = EXACT[d]
    assert layernorm_angle(d) == pytest.approx(layernorm, abs=1e-9)
    assert layernorm_angle_bound(d) == pytest.approx(bound, abs=1e-9)
    assert layernorm_angle(d, "rmsnorm") == pytest.approx(rmsnorm, abs=1e-9)
    assert rmsnorm < layernorm < bound


def test_angles_of_wide_models_follow_their_limits():
    d = 1_000_000  # a half-normal coordinate, and a Rayleigh pair of them, over sqrt(d)
    assert layernorm_angle(d) == pytest.approx(math.sqrt(math.pi / 2 / d), rel=1e-5)
    assert layernorm_angle(d, "rmsnorm") == pytest.approx(math.sqrt(2 / math.pi / d), rel=1e-5)


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("d", [8, 64])
def test_angles_are_those_of_random_directions(kind, d):
    generator = torch.Generator().manual_seed(1)
    y, x = torch.randn(2, 50_000, d, generator=generator, dtype=torch.float64)
    norm = Norm(torch.ones(d, dtype=torch.float64), None, 0.0, kind)
    cosines = torch.cosine_similarity(y, norm.pull_back(y, x), -1)
    angles = np.arccos(cosines.clamp(-1, 1).numpy())
    assert angles.mean() == pytest.approx(layernorm_angle(d, kind), rel=0.01)


def test_angles_need_a_width_and_a_kind():
    with pytest.raises(ValueError, match="d must be at least 3"):
        layernorm_angle(2)
    with pytest.raises(ValueError, match="d must be at least 8"):
        layernorm_angle_bound(7)
    with pytest.raises(ValueError, match="kind must be one of"):
        layernorm_angle(8, "batchnorm")
