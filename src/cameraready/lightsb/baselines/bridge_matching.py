"""Bridge matching: one Markovian projection of Brownian bridges over a plan."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from cameraready.common.checks import check_choice
from cameraready.lightsb.baselines.drift_network import (
    DriftNetwork,
    bridge_matching_loss,
    train,
)
from cameraready.lightsb.baselines.path_sampler import PathSampler
from cameraready.lightsb.plans import Plan, index_pairs
from cameraready.lightsb.sampling import sde_paths

__all__ = ["BridgeMatching"]


class BridgeMatching(PathSampler):
    """A neural drift regressed on Brownian bridges over a plan that is easy to sample.

    It transports the source to the target, but it is the Schrödinger bridge only if the plan is
    the optimal one already.

    Parameters
    ----------
    eps : float
        Variance rate of the reference process, in the data's units.
    plan : "independent", "minibatch", "sinkhorn" or callable
        How the points of a batch are paired, as in `LightSB`.
    hidden : sequence of int
        Widths of the network's layers.
    max_iter : int
        Gradient steps.
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
    network_ : DriftNetwork
    loss_curve_ : list of float

    References
    ----------
    Peluchetti, Non-Denoising Forward-Time Diffusions, 2021; Liu et al., Let us Build Bridges, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> x0 = np.random.default_rng(0).normal(size=(100, 2))
    >>> BridgeMatching(max_iter=2, random_state=0).fit(x0, x0 + 1).transform(x0).shape
    (100, 2)
    """

    def __init__(
        self,
        eps: float = 0.1,
        *,
        plan: str | Plan = "independent",
        hidden: Sequence[int] = (128, 128),
        max_iter: int = 5000,
        batch_size: int = 512,
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
        if isinstance(self.plan, str):
            check_choice("plan", self.plan, ("independent", "minibatch", "sinkhorn"))
        rng = np.random.default_rng(generator.initial_seed())
        self.network_ = DriftNetwork(torch.cat([x0, x1]), self.hidden, generator)

        def loss() -> Tensor:
            start = draw(x0, self.batch_size, generator)
            end = draw(x1, self.batch_size, generator)
            if self.plan != "independent":
                batches = start.cpu().numpy(), end.cpu().numpy()
                i, j = map(torch.from_numpy, index_pairs(self.plan, *batches, self.eps, rng))
                start, end = start[i], end[j]
            return bridge_matching_loss(self.network_, start, end, self.eps, generator)

        self.loss_curve_ = train(self.network_.parameters(), loss, self.max_iter, self.lr)

    @override
    def _paths(self, x0: Tensor, times: list[float], generator: torch.Generator) -> Tensor:
        return sde_paths(self.network_, x0, times, self.eps, self.n_steps, generator)


def draw(points: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Rows drawn with replacement."""
    return points[torch.randint(len(points), (n,), generator=generator, device=points.device)]
