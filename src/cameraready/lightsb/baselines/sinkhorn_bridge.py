"""The entropic plan between the points themselves, with Brownian bridges along it."""

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from typing_extensions import override

from cameraready.lightsb.baselines.path_sampler import PathSampler
from cameraready.lightsb.sampling import bridge_paths

__all__ = ["SinkhornBridge"]

_ROWS = 1024  # of distances to the target at a time


class SinkhornBridge(PathSampler):
    """Sinkhorn's plan between two samples; new points are mapped with its potentials.

    Given a new x0, x1 is one of the target's points, drawn with the weights
    exp((g_j - |x0 - x1_j|² / 2) / eps), where g is the potential of the plan. On the points it was
    fitted to these are the rows of the plan.

    Parameters
    ----------
    eps : float
        Variance rate of the reference process, in the data's units; Sinkhorn's regularisation of
        the squared distance is twice that.
    max_iter : int
        Sinkhorn's iterations at most.
    tol : float
        Stop when the target's marginal is met so closely.
    device : str
    random_state : int, RandomState or None
        For sampling.

    Attributes
    ----------
    points_ : Tensor of shape (m, D)
        The target.
    log_weights_ : Tensor of shape (m,)
        g_j / eps, up to a constant.

    References
    ----------
    Cuturi, Sinkhorn Distances, NeurIPS 2013; Pooladian, Niles-Weed, Entropic Estimation of Optimal
    Transport Maps, 2021; Pooladian, Niles-Weed, Plug-in Estimation of Schrödinger Bridges, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> x0 = np.random.default_rng(0).normal(size=(100, 2))
    >>> bridge = SinkhornBridge(eps=0.5, random_state=0).fit(x0, x0 + 1)
    >>> bridge.sample_paths(x0, [0.5, 1.0]).shape
    (100, 2, 2)
    """

    _dtype = torch.float64

    def __init__(
        self,
        eps: float = 0.1,
        *,
        max_iter: int = 5000,
        tol: float = 1e-6,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.eps = eps
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.random_state = random_state

    @override
    def _fit(self, x0: Tensor, x1: Tensor, generator: torch.Generator) -> None:
        import ot

        a, b = (torch.full((len(x),), 1 / len(x), dtype=x.dtype, device=x.device) for x in (x0, x1))
        _, log = ot.bregman.sinkhorn_log(
            a,
            b,
            _squared_distances(x0, x1),
            2 * self.eps,
            numItermax=self.max_iter,
            stopThr=self.tol,
            log=True,
            warn=False,
        )
        if not float(log["err"][-1]) <= self.tol:
            warnings.warn(
                f"Sinkhorn's marginals were {float(log['err'][-1]):.1e} off after "
                f"{self.max_iter} iterations; raise max_iter or eps",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.points_, self.log_weights_ = x1, log["log_v"]

    @override
    def conditional_moments(
        self,
        X0: Float[Any, "n features"],
        n_samples: int | None = None,
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, "n features features"]]:
        """Mean (the entropic map) and covariance of x1 given each x0, exactly.

        Parameters
        ----------
        X0 : array of shape (n, D)
        n_samples
            Not needed here.
        """
        means, covariances = [], []
        for rows in self._checked(X0).split(_ROWS):
            weights = self._weights(rows)
            mean = weights @ self.points_
            means.append(mean)
            # E[x1 x1ᵀ] about the target's mean, where fewer digits are lost.
            centre = self.points_.mean(0)
            away = self.points_ - centre
            moment = torch.stack([(w[:, None] * away).mT @ away for w in weights])
            gap = mean - centre
            covariances.append(moment - gap[:, :, None] * gap[:, None, :])
        return torch.cat(means).cpu().numpy(), torch.cat(covariances).cpu().numpy()

    @override
    def _paths(self, x0: Tensor, times: list[float], generator: torch.Generator) -> Tensor:
        x1 = torch.cat([self._draw(rows, generator) for rows in x0.split(_ROWS)])
        return bridge_paths(x0, x1, torch.tensor(times, dtype=torch.float64), self.eps, generator)

    def _weights(self, x0: Tensor) -> Tensor:
        logits = self.log_weights_ - _squared_distances(x0, self.points_) / (2 * self.eps)
        return logits.softmax(1)

    def _draw(self, x0: Tensor, generator: torch.Generator) -> Tensor:
        return self.points_[self._weights(x0).multinomial(1, generator=generator)[:, 0]]


def _squared_distances(x: Tensor, y: Tensor) -> Tensor:
    return torch.cdist(x, y).square()
