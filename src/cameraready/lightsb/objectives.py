"""The two objectives: optimal bridge matching, and the energy of LightSB.

Both are KL divergences from a mixture of Brownian bridges to the model's bridge, up to a constant
that does not depend on the model.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from cameraready.common import check_choice
from cameraready.lightsb.potential import LightSBModule

__all__ = [
    "ESTIMATORS",
    "OBJECTIVES",
    "SAFE_TIME",
    "BridgeObjective",
    "energy_loss",
    "optimal_matching_loss",
]

OBJECTIVES = ("matching", "energy")

ESTIMATORS = ("stein", "direct")
# The direct estimator divides by 1 - t: its times end so far before 1.
SAFE_TIME = 1e-2
# A time is drawn for each block of so many rows, and so many times at least for a batch: enough
# for the noise of shared times to vanish in that of the rows.
_BLOCK_ROWS, _LEAST_BLOCKS = 32, 16


def optimal_matching_loss(
    module: LightSBModule,
    x0: Float[Tensor, "batch features"],
    x1: Float[Tensor, "batch features"],
    t: float | Tensor | None = None,
    estimator: str = "stein",
    *,
    n_times: int = 1,
    generator: torch.Generator | None = None,
) -> Float[Tensor, ""]:
    r"""Optimal bridge matching: how far the drift is from the bridges between paired rows.

    With x_t from the Brownian bridge between x0 and x1, it is an unbiased estimate of

    .. math::
        \frac{1}{2\epsilon} E \left\| \frac{x_1 - x_t}{1 - t} - g(x_t, t) \right\|^2,

    whose minimum over all potentials is the Schrödinger bridge, whatever the pairing. "stein"
    estimates the same up to a constant, by Stein's lemma on the bridge's noise, as

    .. math::
        \frac{1}{2\epsilon} E \left[ \|g\|^2 - 2 \langle g, x_1 - x_0 \rangle
        + 2 t \epsilon \nabla \cdot g \right].

    Parameters
    ----------
    module : LightSBModule
        The potential.
    x0, x1 : Tensor of shape (B, D)
        Pairs of any coupling of the source and the target.
    t : float or Tensor of shape (B,), optional
        Times; uniform on [0, 1] by default ([0, 0.99] for "direct"), stratified, and shared by
        blocks of rows so that all is matrix products. Times that are not uniform change the
        minimum, because the potentials are a restricted class.
    estimator : {"stein", "direct"}
        "stein" has less noise, and holds up to t = 1.
    n_times : int
        Draws of time and noise for each pair.
    generator : torch.Generator, optional
        Source of times and noise, on the points' device.

    Returns
    -------
    Tensor
        A number in nats.

    References
    ----------
    Gushchin et al., ICML 2024, Section 3 ("direct"). "stein" is ours.

    Examples
    --------
    >>> import torch
    >>> module = LightSBModule(torch.zeros(1), torch.zeros(1, 2), torch.zeros(1, 2), eps=0.5)
    >>> x0 = torch.zeros(4, 2)
    >>> optimal_matching_loss(module, x0, x0 + 1, t=0.0, estimator="direct").item()
    2.0
    """
    check_choice("estimator", estimator, ESTIMATORS)
    _check_pairs(x0, x1)
    rows, dim = x0.shape
    device, dtype = x0.device, x0.dtype
    padding = 0
    if t is None:
        block_rows = min(_BLOCK_ROWS, -(-rows // _LEAST_BLOCKS))
        blocks = -(-rows // block_rows)
        padding = blocks * block_rows - rows
        if padding:
            x0, x1 = (torch.cat([x, x.new_zeros(padding, dim)]) for x in (x0, x1))
        # Rows that lie together, as in sorted data, go to different blocks.
        x0, x1 = (x.view(block_rows, blocks, dim).transpose(0, 1) for x in (x0, x1))
        end = 1.0 if estimator == "stein" else 1.0 - SAFE_TIME
        count = n_times * blocks
        # Strata in random order, so that no row's time depends on where it stands.
        strata = torch.randperm(count, generator=generator, device=device)
        uniform = torch.rand(count, generator=generator, device=device, dtype=dtype)
        time = (strata + uniform) * (end / count)
    else:
        time = torch.as_tensor(t, device=device, dtype=dtype)
        if time.ndim == 0:
            x0, x1, time = x0[None], x1[None], time[None]
        elif time.shape == x0.shape[:1]:
            x0, x1 = x0[:, None], x1[:, None]
        else:
            raise ValueError(
                f"t must be one time or one a row: its shape is {tuple(time.shape)}, "
                f"the points' {(rows, dim)}"
            )
        time = time.repeat(n_times)
    if n_times > 1:
        x0, x1 = x0.repeat(n_times, 1, 1), x1.repeat(n_times, 1, 1)
    loss = _matching_rows(module, x0, x1, time, estimator, generator)
    if padding:
        # The padded rows are the last of the last blocks.
        present = torch.arange(x0.shape[1] * x0.shape[0] // n_times, device=device) < rows
        present = present.view(x0.shape[1], -1).T.repeat(n_times, 1)
        loss = torch.where(present, loss, 0.0)
    return loss.sum() / (2 * module.eps * rows * n_times)


def energy_loss(
    module: LightSBModule,
    x0: Float[Tensor, "source features"],
    x1: Float[Tensor, "target features"],
) -> Float[Tensor, ""]:
    r"""LightSB's energy, :math:`E \log c(x_0) - E \log v(x_1)`: no pairs, no times, no noise.

    Its gradient is that of `optimal_matching_loss` in expectation, at every potential. Up to a
    constant of the data and eps it is the KL divergence from the true plan to the model's.

    Parameters
    ----------
    module : LightSBModule
        The potential.
    x0 : Tensor of shape (B, D)
        Points of the source.
    x1 : Tensor of shape (B', D)
        Points of the target.

    Returns
    -------
    Tensor
        A number in nats.

    References
    ----------
    Korotin, Gushchin, Burnaev, Light Schrödinger Bridge, ICLR 2024, Section 3.2.
    """
    return module.log_c(x0).mean() - module.log_v(x1).mean()


class BridgeObjective(nn.Module):
    """An objective as a module, whose call is the loss of a batch.

    This is what to wrap for data-parallel training (torch's DistributedDataParallel, Accelerate):
    gradients are averaged between processes only when the wrapped module itself is called.

    Parameters
    ----------
    potential : LightSBModule
        The potential to train.
    objective : {"matching", "energy"}
        `optimal_matching_loss` or `energy_loss`.
    **settings
        Passed to `optimal_matching_loss`.

    Examples
    --------
    >>> import torch
    >>> potential = LightSBModule(torch.zeros(1), torch.ones(1, 2), torch.zeros(1, 2), eps=0.5)
    >>> loss = BridgeObjective(potential, "energy")(torch.zeros(3, 2), torch.ones(4, 2))
    >>> loss.backward()
    """

    def __init__(
        self, potential: LightSBModule, objective: str = "matching", **settings: Any
    ) -> None:
        super().__init__()
        self.potential = potential
        self.objective = check_choice("objective", objective, OBJECTIVES)
        self.settings = settings

    @override
    def forward(self, x0: Tensor, x1: Tensor) -> Tensor:
        """The loss of a batch."""
        if self.objective == "energy":
            return energy_loss(self.potential, x0, x1)
        return optimal_matching_loss(self.potential, x0, x1, **self.settings)


def _matching_rows(
    module: LightSBModule,
    x0: Tensor,
    x1: Tensor,
    time: Tensor,
    estimator: str,
    generator: torch.Generator | None,
) -> Tensor:
    """The loss of each row in blocks of shape (N, B, D), times 2 eps."""
    t = time[:, None, None]
    difference = x1 - x0
    noise = torch.randn(x0.shape, generator=generator, device=x0.device, dtype=x0.dtype)
    spread = (module.eps * t * (1 - t)).sqrt()
    x = torch.addcmul(torch.addcmul(x0, t, difference), spread, noise)
    if estimator == "direct":
        drift = module.blocks(x, time).drift
        return ((x1 - x) / (1 - t) - drift).square().sum(-1)
    _, drift, divergence = module.blocks(x, time, divergence=True)
    assert divergence is not None
    inner = (drift * (drift - 2 * difference)).sum(-1)
    return torch.addcmul(inner, 2 * module.eps * time[:, None], divergence)


def _check_pairs(x0: Tensor, x1: Tensor) -> None:
    if x0.ndim != 2 or x0.shape != x1.shape:
        raise ValueError(
            "x0 and x1 must be pairs of rows: their shapes are "
            f"{tuple(x0.shape)} and {tuple(x1.shape)}"
        )
