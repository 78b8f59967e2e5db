"""A neural drift: the network, and its training by regression."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from cameraready.lightsb.sampling import bridge_at

__all__ = ["DriftNetwork", "bridge_matching_loss", "train", "uniform_times"]


class DriftNetwork(nn.Module):
    """A multilayer perceptron of (x, t) with values in the space of x.

    It sees the data centred and scaled to a mean variance of 1, and its values are in units of
    that scale, so that it learns the same whatever the unit.

    Parameters
    ----------
    data : Tensor of shape (n, D)
        Says where points will lie.
    hidden : sequence of int
        Widths of the hidden layers.
    generator : torch.Generator
        For the first weights.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        data: Float[Tensor, "n features"],
        hidden: Sequence[int],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        dim = data.shape[1]
        self.register_buffer("shift", data.mean(0))
        scale = (data - data.mean(0)).square().mean().sqrt()
        self.register_buffer("scale", torch.where(scale > 0, scale, torch.ones_like(scale)))
        layers: list[nn.Module] = []
        # The time enters as t, cos(pi t) and sin(pi t).
        widths = [dim + 3, *hidden]
        for before, after in pairwise(widths):
            layers += [_linear(before, after, generator), nn.SiLU()]
        last = _linear(widths[-1], dim, generator)
        nn.init.zeros_(last.weight)  # so that the first drift is zero
        self.layers = nn.Sequential(*layers, last).to(data.device)

    @override
    def forward(
        self, x: Float[Tensor, "batch features"], t: float | Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch features"]:
        time = torch.as_tensor(t, dtype=x.dtype, device=x.device).expand(len(x))[:, None]
        angle = math.pi * time
        features = [(x - self.shift) / self.scale, time, angle.cos(), angle.sin()]
        return self.scale * self.layers(torch.cat(features, 1))


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    # nn.Linear by itself would draw its first weights with torch's global seed.
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs, device=generator.device)
    nn.init.kaiming_uniform_(layer.weight, math.sqrt(5), generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def train(
    parameters: Iterable[nn.Parameter], loss: Callable[[], Tensor], steps: int, lr: float
) -> list[float]:
    """Minimise a stochastic loss with Adam; the learning rate falls to 0 along a cosine.

    Parameters
    ----------
    parameters
        What to train.
    loss
        Draws a batch and returns the loss on it.
    steps
        How many steps.
    lr
        The first learning rate.

    Returns
    -------
    list of float
        The losses.
    """
    parameters = list(parameters)
    optimizer = torch.optim.Adam(parameters, lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    curve = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()
        schedule.step()
        curve.append(value.detach())
    return torch.stack(curve).tolist() if curve else []


def bridge_matching_loss(
    drift: Callable[[Tensor, Tensor], Tensor],
    x0: Float[Tensor, "batch features"],
    x1: Float[Tensor, "batch features"],
    eps: float,
    generator: torch.Generator,
) -> Tensor:
    """The regression whose minimiser is the drift of the Markovian projection.

    E (1 - t) |(x1 - x_t) / (1 - t) - drift(x_t, t)|², with x_t from the Brownian bridge and t
    uniform. The weight 1 - t keeps the variance finite; it moves the minimiser only as far as the
    network cannot represent it.

    Parameters
    ----------
    drift
        Of points and one time a point.
    x0, x1
        Rows paired.
    eps
        Variance rate of the reference process.
    generator
        For times and noise.

    References
    ----------
    Shi et al., Diffusion Schrödinger Bridge Matching, NeurIPS 2023, Equation 7.
    """
    t = uniform_times(x0, generator)
    x = bridge_at(x0, x1, t, eps, generator)
    left = (1 - t[:, None]).sqrt()
    return ((x1 - x) / left - left * drift(x, t)).square().sum(1).mean()


def uniform_times(x: Tensor, generator: torch.Generator) -> Tensor:
    """One time in (0, 1) a row, one from each of as many equal intervals."""
    n = x.shape[0]
    within = torch.rand(n, generator=generator, device=x.device, dtype=x.dtype)
    times = (torch.arange(n, device=x.device) + within) / n
    return times.clamp(1e-6, 1 - 1e-6)
