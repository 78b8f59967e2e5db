"""Paths of the bridge: Brownian bridges between exact end points, and Euler-Maruyama."""

import math
from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["METHODS", "bridge_at", "bridge_paths", "sde_paths"]

METHODS = ("bridge", "sde")


def bridge_at(
    x0: Float[Tensor, "batch features"],
    x1: Float[Tensor, "batch features"],
    t: float | Float[Tensor, " batch"],
    eps: float,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch features"]:
    """Points at time t of Brownian bridges from x0 to x1 with variance rate eps."""
    time = torch.as_tensor(t, dtype=x0.dtype, device=x0.device)
    time = time[:, None] if time.ndim else time
    noise = torch.randn(x0.shape, generator=generator, device=x0.device, dtype=x0.dtype)
    return torch.lerp(x0, x1, time) + (eps * time * (1 - time)).sqrt() * noise


def bridge_paths(
    x0: Float[Tensor, "batch features"],
    x1: Float[Tensor, "batch features"],
    times: Float[Tensor, " times"],
    eps: float,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch times features"]:
    r"""Brownian bridges from x0 to x1 at increasing times, drawn one time after the other.

    The rest of a bridge is a bridge: from X_t the point at t' is normal with mean
    :math:`X_t + (t' - t)(x_1 - X_t)/(1 - t)` and variance
    :math:`\epsilon (t' - t)(1 - t')/(1 - t)`.
    """
    paths = x0.new_empty((x0.shape[0], len(times), x0.shape[1]))
    x, t = x0, 0.0
    for step, following in enumerate(times.tolist()):
        if following > t:
            share = (following - t) / (1 - t)
            noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
            x = torch.lerp(x, x1, share).add_(noise, alpha=math.sqrt(eps * share * (1 - following)))
            t = following
        paths[:, step] = x
    return paths


@torch.no_grad()
def sde_paths(
    drift: Callable[[Tensor, float], Tensor],
    x0: Float[Tensor, "batch features"],
    times: Iterable[float],
    eps: float,
    n_steps: int,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch times features"]:
    """Paths of dX = drift dt + sqrt(eps) dW by Euler-Maruyama.

    Parameters
    ----------
    drift : callable
        Of points (batch, features) and a time.
    x0 : Tensor of shape (batch, features)
        Where they start at time 0.
    times : iterable of float
        When to look: increasing, from 0 to 1.
    eps : float
        Variance rate.
    n_steps : int
        Steps are of 1 / n_steps at most.
    generator : torch.Generator, optional
        For the noise.
    """
    x, t, seen = x0, 0.0, []
    for following in times:
        # A little less, so that rounding does not add a step.
        pieces = math.ceil((following - t) * n_steps - 1e-6)
        dt = (following - t) / max(pieces, 1)
        for piece in range(pieces):
            noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
            step = x.add(drift(x, t + piece * dt), alpha=dt)
            x = step.add_(noise, alpha=math.sqrt(eps * dt))
        t = following
        seen.append(x)
    return torch.stack(seen, 1)
