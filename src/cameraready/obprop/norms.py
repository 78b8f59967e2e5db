"""Pulling a direction back through a LayerNorm or an RMSNorm, and how far that turns it."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.common import check_choice

__all__ = [
    "BoundaryPoint",
    "Norm",
    "boundary_point",
    "layernorm_angle",
    "layernorm_angle_bound",
]

NormKind = Literal["layernorm", "rmsnorm"]


@dataclass(frozen=True, eq=False)
class Norm:
    """N(x) = g·u / s + b with u = Px and s = sqrt(|u|²/D + eps).

    P takes the mean away for a LayerNorm and is the identity for an RMSNorm.

    Parameters
    ----------
    weight
        The effective g, float32: for a norm that multiplies by 1 + weight, that sum.
    bias
        b, or None.
    eps
        What is added to the mean square.
    kind
        ``"layernorm"`` or ``"rmsnorm"``.

    Examples
    --------
    >>> norm = Norm(torch.ones(2), None, 0.0, "rmsnorm")
    >>> norm(torch.tensor([3.0, 4.0])) * 12.5**0.5
    tensor([3., 4.])
    >>> norm.pull_back(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.0]))  # scaling x is lost
    tensor([0., 0.])
    """

    weight: Float[Tensor, " width"]
    bias: Float[Tensor, " width"] | None
    eps: float
    kind: NormKind

    def to(self, device: torch.device) -> "Norm":
        """The norm with its weights on a device."""
        bias = None if self.bias is None else self.bias.to(device)
        return Norm(self.weight.to(device), bias, self.eps, self.kind)

    def center(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Px."""
        return x - x.mean(-1, keepdim=True) if self.kind == "layernorm" else x

    def scale(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch"]:
        """s, by which the norm divides at x."""
        return (self.center(x).square().mean(-1) + self.eps).sqrt()

    def __call__(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """N(x)."""
        normed = self.weight * self.center(x) / self.scale(x)[..., None]
        return normed if self.bias is None else normed + self.bias

    def direction(self, y: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """P(g·y): the pull-back of y without data, at the points where it is turned least.

        It carries neither 1/s nor the sqrt(D) by which an RMSNorm on the unit sphere multiplies.
        """
        return self.center(self.weight * y)

    def pull_back(
        self, y: Float[Tensor, "*batch width"], x: Float[Tensor, "*batch width"]
    ) -> Float[Tensor, "*batch width"]:
        """The gradient of y·N at x: (z - (z·u) u / (D s²)) / s with z = P(g·y)."""
        z, u, s = self.direction(y), self.center(x), self.scale(x)[..., None]
        along = (z * u).sum(-1, keepdim=True) / (u.shape[-1] * s.square())
        return (z - along * u) / s


class BoundaryPoint(NamedTuple):
    """Where y·N(x) is zero, and whether there is such a point on the line that was searched."""

    x: Float[Tensor, " width"]
    found: bool


def boundary_point(
    norm: Norm, y: Float[Tensor, " width"], x: Float[Tensor, " width"]
) -> BoundaryPoint:
    """The point on the line through x along q = P(g·y) at which y·N is zero.

    Without a bias this is the orthogonal projection of x on y·N = 0, and the gradient there is
    q / s. With k = y·b, y·N = -k needs q·u = -k s: s² is quadratic along the line, so that the
    root is known in closed form, and exists when k² < D |q|².

    Parameters
    ----------
    norm
        The norm.
    y
        The functional of its output.
    x
        An input.

    Returns
    -------
    point
        With ``found`` False, x itself.
    """
    q = norm.direction(y)
    squared = q.dot(q)
    if not squared > 0:
        return BoundaryPoint(x, False)
    along = q.dot(x)
    target = x.new_zeros(()) if norm.bias is None else -y.dot(norm.bias)
    width = x.shape[-1]
    room = 1 - target.square() / (width * squared)
    if not room > 0:
        return BoundaryPoint(x, False)
    across = norm.center(x) - along / squared * q
    wanted = target * ((across.square().sum() / width + norm.eps) / room).sqrt()
    return BoundaryPoint(x + (wanted - along) / squared * q, True)


def layernorm_angle(d: int, kind: NormKind = "layernorm") -> float:
    """The mean angle between y and the gradient of y·N, with equal g and y of random direction.

    The gradient is the projection of y on the complement of Px and, for a LayerNorm, of 1, so
    that P(angle > t) = cos(t)^(d-2) for a LayerNorm. For an RMSNorm the sine of the angle is the
    size of one coordinate of a random unit vector. Unequal g turn the direction further: P(g·y)
    takes the place of y.

    Parameters
    ----------
    d
        The width, at least 3.
    kind
        ``"layernorm"`` or ``"rmsnorm"``.

    Returns
    -------
    angle
        In radians.

    Raises
    ------
    ValueError
        If d is less than 3 or the kind is unknown.

    Examples
    --------
    >>> round(layernorm_angle(576), 6), round(layernorm_angle(576, "rmsnorm"), 6)
    (0.05229, 0.033279)
    """
    check_choice("kind", kind, ("layernorm", "rmsnorm"))
    if d < 3:
        raise ValueError(f"d must be at least 3, not {d}")
    # The integral of cos(t)^n from 0 to a right angle.
    half = math.sqrt(math.pi) / 2 * math.exp(math.lgamma((d - 1) / 2) - math.lgamma(d / 2))
    if kind == "layernorm":
        return half
    from scipy.integrate import quad

    end = min(math.pi / 2, 12 / math.sqrt(d - 2))  # beyond, cos(t)^(d-2) < exp(-72)
    first, _ = quad(lambda t: t * math.cos(t) ** (d - 2), 0, end, epsabs=0, epsrel=1e-10)
    return first / half


def layernorm_angle_bound(d: int) -> float:
    """The paper's bound on `layernorm_angle`, 2 arccos(sqrt(1 - 1/(d-1))), for d of at least 8.

    Parameters
    ----------
    d
        The width.

    Returns
    -------
    bound
        In radians.

    Raises
    ------
    ValueError
        If d is less than 8, where the bound is not shown to hold.

    Examples
    --------
    >>> round(layernorm_angle_bound(576), 6)
    0.08343
    """
    if d < 8:
        raise ValueError(f"d must be at least 8, not {d}")
    return 2 * math.acos(math.sqrt(1 - 1 / (d - 1)))
