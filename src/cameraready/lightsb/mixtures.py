"""Entropic optimal transport problems whose plan, drift and moments are known in closed form."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from cameraready.common.checks import check_positive
from cameraready.lightsb.potential import LightSBModule

__all__ = ["EOTMixture", "make_eot_mixture"]

_BALANCING_STEPS, _BALANCING_POINTS = 200, 8192


@dataclass(frozen=True)
class EOTMixture:
    """A source, and the plan from it that a known potential defines.

    The target is defined by the plan: x1 is drawn given x0. By construction the plan is the
    solution of entropic optimal transport from the source to that target.

    Attributes
    ----------
    source_scale : float
        The source is N(0, source_scale² I).
    truth : LightSBModule
        The potential, in double precision: the plan, its moments, and the drift of the bridge.
    """

    source_scale: float
    truth: LightSBModule

    def sample_x0(
        self, n: int, seed: int | np.random.Generator | None = None
    ) -> Float[np.ndarray, "n features"]:
        """Points of the source."""
        generator = np.random.default_rng(seed)
        return self.source_scale * generator.standard_normal((n, self.truth.dim))

    def sample_x1(
        self, n: int, seed: int | np.random.Generator | None = None
    ) -> Float[np.ndarray, "n features"]:
        """Points of the target."""
        return self.sample_pair(n, seed)[1]

    def sample_pair(
        self, n: int, seed: int | np.random.Generator | None = None
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, "n features"]]:
        """Pairs of the plan, rows paired."""
        generator = np.random.default_rng(seed)
        x0 = self.sample_x0(n, generator)
        torch_generator = torch.Generator().manual_seed(int(generator.integers(2**62)))
        x1 = self.truth.sample_conditional(torch.from_numpy(x0), 1, torch_generator)
        return x0, x1[:, 0].numpy()

    def conditional_moments(
        self, x0: Float[np.ndarray, "n features"]
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, "n features features"]]:
        """Mean and covariance of x1 given each x0."""
        points = torch.as_tensor(x0, dtype=torch.float64)
        with torch.no_grad():
            mean = self.truth.conditional_mean(points)
            return mean.numpy(), self.truth.conditional_covariance(points).numpy()


def make_eot_mixture(
    dim: int,
    eps: float,
    n_components: int = 5,
    seed: int | None = 0,
    *,
    source_scale: float = 1.0,
) -> EOTMixture:
    """A source, a Gaussian, and a target that the known potential of a mixture makes of it.

    The potential's components lie in random directions at the distance 1.5 √dim from the origin
    (5 in more than 16 dimensions), with S_k diagonal, uniform from 0.2 to 1, and weights such that
    each is drawn equally often.

    Parameters
    ----------
    dim : int
        Features.
    eps : float
        Variance rate of the reference process.
    n_components : int
        Components of the potential.
    seed : int, optional
        For the components.
    source_scale : float
        Standard deviation of the source in each direction; 1 or 4 in the field's benchmark.

    Returns
    -------
    EOTMixture

    References
    ----------
    The construction is that of Gushchin et al., Building the Bridge of Schrödinger, NeurIPS 2023,
    Section 4; the components are ours.

    Examples
    --------
    >>> problem = make_eot_mixture(2, eps=0.5, seed=0)
    >>> x0, x1 = problem.sample_pair(4, seed=0)
    >>> x0.shape, x1.shape
    ((4, 2), (4, 2))
    """
    for name, count in (("dim", dim), ("n_components", n_components)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count!r}")
    check_positive("eps", eps)
    check_positive("source_scale", source_scale)
    generator = np.random.default_rng(seed)
    radius = 1.5 * dim**0.5 if dim <= 16 else 5.0
    means = generator.standard_normal((n_components, dim))
    means *= radius / np.linalg.norm(means, axis=1, keepdims=True)
    s = generator.uniform(0.2, 1.0, (n_components, dim))
    x0 = source_scale * generator.standard_normal((_BALANCING_POINTS, dim))
    return EOTMixture(
        source_scale,
        LightSBModule(
            torch.from_numpy(_balanced(means, s, x0, eps)),
            torch.from_numpy(means),
            torch.from_numpy(0.5 * np.log(s)),
            eps,
        ),
    )


def _balanced(means: np.ndarray, s: np.ndarray, x0: np.ndarray, eps: float) -> np.ndarray:
    """Logarithms of weights with which each component has the same mean responsibility."""
    from scipy.special import log_softmax, logsumexp

    terms = (np.square(x0) @ s.T + 2 * x0 @ means.T) / (2 * eps)
    log_alpha = np.zeros(len(means))
    for _ in range(_BALANCING_STEPS):
        shares = logsumexp(log_softmax(log_alpha + terms, axis=1), axis=0)
        log_alpha -= shares - logsumexp(shares) + np.log(len(means))
    return log_alpha - logsumexp(log_alpha)
