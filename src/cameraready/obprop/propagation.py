"""Pulling a direction at a component's output back to its input.

Dunefsky and Cohan, "Observable Propagation: Uncovering Feature Vectors in Transformers", ICML
2024, section 3.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.obprop.norms import Norm

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["MLPPoint", "find_mlp_point", "pull_back_head", "pull_back_mlp", "pull_back_norm"]

NormMode = Literal["weights", "jacobian", "scale"]
MLPPointRule = Literal["boundary", "midpoint", "positive", "negative", "mean"]


def pull_back_head(
    view: "TransformerView", layer: int, head: int, y: Float[Tensor, "*batch width"]
) -> Float[Tensor, "*batch width"]:
    """W_V'W_O'y: exact where the attention weights are held constant, up to their factor.

    Parameters
    ----------
    view
        The model.
    layer, head
        The head.
    y
        A functional of what the head adds; the weights are moved to its device.
    """
    values = y @ view.wo(layer, head).to(y.device)
    return values @ view.wv(layer, head).to(y.device)


def pull_back_norm(
    norm: Norm,
    y: Float[Tensor, " width"],
    points: Float[Tensor, "prompts width"] | None,
    mode: NormMode,
) -> Float[Tensor, " width"]:
    """A functional of a norm's output as one of its input.

    Parameters
    ----------
    norm
        The norm.
    y
        The functional.
    points
        The norm's inputs in the prompts, the one to linearise at first; not needed for
        ``"weights"``.
    mode
        ``"weights"`` gives P(g·y), ``"jacobian"`` the gradient at the first point, ``"scale"``
        P(g·y) over the mean s of the points.
    """
    norm = norm.to(y.device)
    if mode == "weights" or points is None:
        return norm.direction(y)
    points = points.to(y.device)
    if mode == "jacobian":
        return norm.pull_back(y, points[0])
    return norm.direction(y) / norm.scale(points).mean()


def pull_back_mlp(
    view: "TransformerView",
    layer: int,
    y: Float[Tensor, " width"],
    points: Float[Tensor, "points width"],
) -> Float[Tensor, " width"]:
    """J'y for the Jacobian J of an MLP, averaged over points.

    Parameters
    ----------
    view
        The model.
    layer
        The MLP's layer.
    y
        A functional of what the MLP gives.
    points
        Normed inputs.
    """
    with torch.enable_grad():
        x = points.detach().clone().requires_grad_()
        value = (view.mlp(layer, x) * y.to(x.device)).sum()
        (gradient,) = torch.autograd.grad(value, x)
    return gradient.mean(0).to(y.device)


class MLPPoint(NamedTuple):
    """Where an MLP is linearised."""

    points: Float[Tensor, "points width"]
    boundary_found: bool | None  # None where no boundary was looked for


def find_mlp_point(
    view: "TransformerView",
    layer: int,
    y: Float[Tensor, " width"],
    ends: Float[Tensor, "2 width"],
    rule: MLPPointRule,
) -> MLPPoint:
    """The point between two normed inputs at which to linearise an MLP.

    Parameters
    ----------
    view
        The model.
    layer
        The MLP's layer.
    y
        A functional of what the MLP gives.
    ends
        Its normed inputs in the positive and the negative prompt.
    rule
        ``"boundary"`` is where y·MLP is zero on the line between the two, or, where it has the
        same sign at both, half-way; ``"mean"`` keeps both, to average over.
    """
    if rule == "mean":
        return MLPPoint(ends, None)
    positive, negative = ends
    places = {"positive": 1.0, "negative": 0.0, "midpoint": 0.5}
    if rule in places:
        return MLPPoint(torch.lerp(negative, positive, places[rule])[None], None)
    from scipy.optimize import brentq

    def height(t: float) -> float:
        with torch.no_grad():
            return float(view.mlp(layer, torch.lerp(negative, positive, t)).to(y.device) @ y)

    found = height(0) * height(1) <= 0
    place = float(brentq(height, 0, 1, xtol=1e-6)) if found else 0.5
    return MLPPoint(torch.lerp(negative, positive, place)[None], found)
