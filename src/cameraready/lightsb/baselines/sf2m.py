"""Simulation-free score and flow matching, through torchcfm."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from cameraready.common.checks import check_choice
from cameraready.lightsb.baselines.bridge_matching import draw
from cameraready.lightsb.baselines.drift_network import (
    DriftNetwork,
    train,
    uniform_times,
)
from cameraready.lightsb.baselines.path_sampler import PathSampler
from cameraready.lightsb.sampling import sde_paths

__all__ = ["SF2M"]


class SF2M(PathSampler):
    """A flow and a score regressed on Brownian bridges over minibatch optimal transport.

    Parameters
    ----------
    eps : float
        Variance rate of the reference process, in the data's units: torchcfm's sigma².
    plan : "exact" or "sinkhorn"
        Transport within a batch; the bridge's is "sinkhorn", which needs large batches.
    hidden : sequence of int
        Widths of each network's layers.
    max_iter : int
        Gradient steps, of both networks at once.
    batch_size : int
    lr : float
        First learning rate of Adam; it falls to 0 along a cosine.
    n_steps : int
        Euler-Maruyama steps from 0 to 1.
    device : str
    random_state : int, RandomState or None
        Training and sampling each start from it.

    Attributes
    ----------
    flow_, score_ : DriftNetwork
        The drift is their sum: the score network's values are eps/2 times the score.
    loss_curve_ : list of float

    References
    ----------
    Tong et al., Simulation-free Schrödinger Bridges via Score and Flow Matching, AISTATS 2024,
    Algorithm 1.
    """

    def __init__(
        self,
        eps: float = 0.1,
        *,
        plan: str = "exact",
        hidden: Sequence[int] = (128, 128),
        max_iter: int = 10_000,
        batch_size: int = 128,
        lr: float = 5e-3,
        n_steps: int = 100,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.eps = eps
        self.plan = plan
        self.hidden = hidden
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.lr = lr
        self.n_steps = n_steps
        self.device = device
        self.random_state = random_state

    @override
    def _fit(self, x0: Tensor, x1: Tensor, generator: torch.Generator) -> None:
        try:
            from torchcfm import SchrodingerBridgeConditionalFlowMatcher
        except ImportError as error:
            raise ImportError(
                "SF2M needs torchcfm: pip install --no-deps torchcfm torchdyn, and torchdiffeq"
            ) from error
        plan = check_choice("plan", self.plan, ("exact", "sinkhorn"))
        matcher = SchrodingerBridgeConditionalFlowMatcher(self.eps**0.5, ot_method=plan)
        both = torch.cat([x0, x1])
        self.flow_ = DriftNetwork(both, self.hidden, generator)
        self.score_ = DriftNetwork(both, self.hidden, generator)

        def loss() -> Tensor:
            start, end = (draw(x, self.batch_size, generator) for x in (x0, x1))
            # torchcfm draws from the plan with global seeds, so its plan is drawn from here.
            weights = torch.as_tensor(matcher.ot_sampler.get_map(start, end), device=x0.device)
            cells = weights.flatten().multinomial(self.batch_size, True, generator=generator)
            start, end = start[cells // len(end)], end[cells % len(end)]
            t = uniform_times(start, generator)
            noise = torch.randn(start.shape, generator=generator, device=x0.device)
            x = matcher.sample_xt(start, end, t, noise)
            velocity = matcher.compute_conditional_flow(start, end, t, x)
            scale = matcher.compute_lambda(t)[:, None]
            flow_loss = (self.flow_(x, t) - velocity).square().sum(1).mean()
            score_loss = (scale * self.score_(x, t) + noise).square().sum(1).mean()
            return flow_loss + score_loss

        parameters = [*self.flow_.parameters(), *self.score_.parameters()]
        self.loss_curve_ = train(parameters, loss, self.max_iter, self.lr)

    @override
    def _paths(self, x0: Tensor, times: list[float], generator: torch.Generator) -> Tensor:
        def drift(x: Tensor, t: float) -> Tensor:
            return self.flow_(x, t) + self.score_(x, t)

        return sde_paths(drift, x0, times, self.eps, self.n_steps, generator)
