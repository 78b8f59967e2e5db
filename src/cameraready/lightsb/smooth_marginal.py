"""The density of what a bridge makes of its source, also where the source's points are sparse."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from cameraready.lightsb.bridge import LightSB

__all__ = ["fit_source", "smooth_marginal_log_prob"]

_MOST_COMPONENTS = 6
_DRAWS = 200  # for each target
_ROWS = 1000  # targets at a time
_LEAST_SHARE = 1e-3


def fit_source(x0: Float[np.ndarray, "n features"], seed: int | None = None) -> Any:
    """A Gaussian mixture for the source, of the kind and size that BIC prefers.

    Parameters
    ----------
    x0 : array of shape (n, D)
    seed : int, optional

    Returns
    -------
    sklearn.mixture.GaussianMixture
    """
    from sklearn.mixture import GaussianMixture

    spread = float(x0.var(axis=0).mean()) or 1.0
    best, least = None, math.inf
    for kind in ("full", "diag"):
        last = math.inf
        for size in range(1, min(_MOST_COMPONENTS, len(x0)) + 1):
            mixture = GaussianMixture(
                size,
                covariance_type=kind,
                reg_covar=1e-4 * spread,
                tol=1e-2,
                max_iter=1000,
                random_state=seed,
            ).fit(x0)
            bic = mixture.bic(x0)
            if bic < least:
                best, least = mixture, bic
            if bic >= last:
                break
            last = bic
    return best


@torch.no_grad()
def smooth_marginal_log_prob(
    bridge: LightSB, mixture: Any, x1: Float[Tensor, "n features"], seed: int = 0
) -> Float[np.ndarray, " n"]:
    r"""Logarithm of :math:`p_1(x_1) = \int p_0(x_0)\, \pi(x_1 \mid x_0)\, dx_0`, by sampling.

    For each target the better of two estimates is taken, by its effective number of draws. One has
    the source's points in place of p0, as `LightSB.marginal_log_prob`; where eps is small and
    features are many, few points or none have a share in it, and it comes out far too low. The
    other is for these targets: p0 is a Gaussian mixture, and x0 is drawn by importance. For each
    Gaussian of p0 and each component of the potential, were it alone, x0 given x1 would be
    Gaussian; the draws are from the mixture of these. With one of each it is exact.

    Parameters
    ----------
    bridge : LightSB
        Fitted with ``scale="none"``, to an unweighted source.
    mixture : sklearn.mixture.GaussianMixture
        The source; see `fit_source`.
    x1 : Tensor of shape (n, D)
        Points of the target.
    seed : int
        For the draws.
    """
    module = bridge.module_
    if bridge.source_ is None:
        raise ValueError("bridge has no source: fit it with fit")
    z0 = bridge.source_.to(module.means)
    log_c = module.log_c(z0)
    posterior = _Posterior(bridge, mixture)
    generator = torch.Generator().manual_seed(seed)
    found = []
    for rows in x1.split(_ROWS):
        z1 = rows.to(module.means)
        terms = torch.addmm(-log_c, z1, z0.mT, alpha=1 / module.eps) + module.log_v(z1)[:, None]
        seen, seen_size = _log_mean(terms.double().cpu())
        drawn, drawn_size = _log_mean(posterior.log_ratios(rows.double().cpu(), generator))
        found.append(torch.where(seen_size >= drawn_size, seen, drawn))
    return torch.cat(found).numpy()


class _Posterior:
    """x0 given x1, as if one Gaussian of the source and one component had been alone."""

    def __init__(self, bridge: LightSB, mixture: Any) -> None:
        module = bridge.module_
        self.bridge, self.mixture, self.eps = bridge, mixture, module.eps
        share = torch.from_numpy(mixture.weights_)
        self.centre = torch.from_numpy(mixture.means_)
        spread = torch.from_numpy(mixture.covariances_)
        if spread.ndim == 2:
            spread = torch.diag_embed(spread)
        noise = module.covariances().detach().double().cpu()
        slope, self.shift = noise / self.eps, module.means.detach().double().cpu()
        precision = torch.linalg.inv(spread)
        self.pull = torch.einsum("jde,je->jd", precision, self.centre)
        # Axis j is the source's Gaussian, k the potential's component.
        self.inner = torch.linalg.cholesky(precision[:, None] + slope / self.eps)
        self.outer = torch.linalg.cholesky(slope @ spread[:, None] @ slope.mT + noise)
        self.arrived = self.shift + torch.einsum("kde,je->jkd", slope, self.centre)
        taken = module.responsibilities(self.centre.to(module.means)).double().cpu()
        taken = taken.clamp(min=_LEAST_SHARE)
        self.log_share = (share[:, None] * taken / taken.sum(1, keepdim=True)).log()
        self.pairs = [(j, k) for j in range(len(share)) for k in range(len(self.shift))]

    def log_ratios(
        self, x1: Float[Tensor, "n features"], generator: torch.Generator
    ) -> Float[Tensor, "n draws"]:
        """Logarithms of p0(x0) pi(x1 | x0) / q(x0 | x1) for draws of x0 from q."""
        n, dim = x1.shape
        logits = [
            self.log_share[j, k] + _log_normal(x1 - self.arrived[j, k], self.outer[j, k])
            for j, k in self.pairs
        ]
        weights = torch.stack(logits, 1).softmax(1)
        means = [self._mean(j, k, x1) for j, k in self.pairs]
        chosen = weights.multinomial(_DRAWS, replacement=True, generator=generator)
        x0 = self._draw(means, chosen, generator)
        proposal = torch.full((n, _DRAWS), -math.inf, dtype=torch.float64)
        for p, (j, k) in enumerate(self.pairs):
            factor = self.inner[j, k]
            gap = (x0 - means[p][:, None]) @ factor
            density = factor.diagonal().log().sum() - 0.5 * gap.square().sum(-1)
            proposal = torch.logaddexp(proposal, weights[:, p, None].log() + density)
        proposal -= 0.5 * dim * math.log(2 * math.pi)
        flat = x0.flatten(0, 1)
        start = torch.from_numpy(self.mixture.score_samples(flat.numpy()))
        plan = self.bridge.conditional_log_prob(flat, x1.repeat_interleave(_DRAWS, 0))
        return (start + plan.double().cpu()).view(n, _DRAWS) - proposal

    def _mean(self, j: int, k: int, x1: Tensor) -> Tensor:
        linear = self.pull[j] + (x1 - self.shift[k]) / self.eps
        return torch.cholesky_solve(linear.mT, self.inner[j, k]).mT

    def _draw(
        self,
        means: list[Tensor],
        chosen: Int[Tensor, "n draws"],
        generator: torch.Generator,
    ) -> Float[Tensor, "n draws features"]:
        shape = (*chosen.shape, self.shift.shape[1])
        standard = torch.randn(shape, generator=generator, dtype=torch.float64)
        x0 = torch.empty_like(standard)
        for p, (j, k) in enumerate(self.pairs):
            rows, draws = (chosen == p).nonzero(as_tuple=True)
            # L L^T is the precision, so that L^-T z has its inverse as covariance.
            turned = torch.linalg.solve_triangular(
                self.inner[j, k].mT, standard[rows, draws].mT, upper=True
            )
            x0[rows, draws] = means[p][rows] + turned.mT
        return x0


def _log_normal(residual: Tensor, factor: Tensor) -> Tensor:
    """Log-density of N(0, L L^T) at each row."""
    white = torch.linalg.solve_triangular(factor, residual.mT, upper=False)
    constant = factor.diagonal().log().sum() + 0.5 * len(factor) * math.log(2 * math.pi)
    return -0.5 * white.square().sum(0) - constant


def _log_mean(terms: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithm of the mean of exp(terms) in each row, and how many terms it stands on."""
    total = terms.logsumexp(1)
    size = (2 * total - (2 * terms).logsumexp(1)).exp()
    return total - math.log(terms.shape[1]), size
