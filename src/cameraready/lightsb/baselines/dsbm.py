"""Diffusion Schrödinger bridge matching: iterated Markovian fitting with neural drifts."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from cameraready.lightsb.baselines.bridge_matching import draw
from cameraready.lightsb.baselines.drift_network import (
    DriftNetwork,
    bridge_matching_loss,
    train,
)
from cameraready.lightsb.baselines.path_sampler import PathSampler
from cameraready.lightsb.sampling import sde_paths

__all__ = ["DSBM"]

_PAIRS = 2**14  # simulated for each projection


class DSBM(PathSampler):
    """Markovian projections in turn, forward and backward, until the bridge is reached.

    Each projection is bridge matching over the pairs that the last one's process joins; they
    alternate in direction, so that errors in the marginals do not add up. The first starts from
    independent pairs, and the last is forward.

    Parameters
    ----------
    eps : float
        Variance rate of the reference process, in the data's units.
    n_projections : int
        How many; with 1 it is `BridgeMatching`.
    hidden : sequence of int
        Widths of each network's layers.
    max_iter : int
        Gradient steps of all projections together.
    batch_size : int
    lr : float
        First learning rate of Adam; it falls to 0 along a cosine in each projection.
    n_steps : int
        Euler-Maruyama steps from 0 to 1.
    device : str
    random_state : int, RandomState or None
        Training and sampling each start from it.

    Attributes
    ----------
    forward_, backward_ : DriftNetwork
        The backward one in time that runs from the target to the source.
    loss_curve_ : list of float

    References
    ----------
    Shi, De Bortoli, Campbell, Doucet, Diffusion Schrödinger Bridge Matching, NeurIPS 2023,
    Algorithm 1; Peluchetti, Diffusion Bridge Mixture Transports, JMLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> x0 = np.random.default_rng(0).normal(size=(100, 2))
    >>> bridge = DSBM(n_projections=2, max_iter=4, n_steps=10, random_state=0).fit(x0, x0 + 1)
    >>> bridge.transform(x0).shape
    (100, 2)
    """

    def __init__(
        self,
        eps: float = 0.1,
        *,
        n_projections: int = 5,
        hidden: Sequence[int] = (128, 128),
        max_iter: int = 10_000,
        batch_size: int = 512,
        lr: float = 5e-3,
        n_steps: int = 100,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.eps = eps
        self.n_projections = n_projections
        self.hidden = hidden
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.lr = lr
        self.n_steps = n_steps
        self.device = device
        self.random_state = random_state

    @override
    def _fit(self, x0: Tensor, x1: Tensor, generator: torch.Generator) -> None:
        if self.n_projections < 1:
            raise ValueError(f"n_projections must be at least 1, not {self.n_projections!r}")
        both = torch.cat([x0, x1])
        self.forward_ = DriftNetwork(both, self.hidden, generator)
        self.backward_ = DriftNetwork(both, self.hidden, generator)
        self.loss_curve_ = []
        starts = draw(x0, _PAIRS, generator)
        ends = draw(x1, _PAIRS, generator)
        shares = torch.arange(self.max_iter).tensor_split(self.n_projections)
        for left in reversed(range(self.n_projections)):
            forward = left % 2 == 0
            network = self.forward_ if forward else self.backward_
            pairs = (starts, ends) if forward else (ends, starts)

            def loss(
                network: DriftNetwork = network, pairs: tuple[Tensor, Tensor] = pairs
            ) -> Tensor:
                rows = torch.randint(
                    _PAIRS, (self.batch_size,), generator=generator, device=both.device
                )
                return bridge_matching_loss(
                    network, pairs[0][rows], pairs[1][rows], self.eps, generator
                )

            steps = len(shares[left])
            self.loss_curve_ += train(network.parameters(), loss, steps, self.lr)
            if left:
                first = draw(x0 if forward else x1, _PAIRS, generator)
                last = self._simulate(network, first, [1.0], generator)[:, 0]
                starts, ends = (first, last) if forward else (last, first)

    @override
    def _paths(self, x0: Tensor, times: list[float], generator: torch.Generator) -> Tensor:
        return self._simulate(self.forward_, x0, times, generator)

    def _simulate(
        self, network: DriftNetwork, x: Tensor, times: list[float], generator: torch.Generator
    ) -> Tensor:
        return sde_paths(network, x, times, self.eps, self.n_steps, generator)
