"""Distributionally robust optimisation: the worst weights of the losses, near uniform ones."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import wrightomega
from typing_extensions import override

from cameraready.common.checks import check_positive
from cameraready.minmax.arrays import is_tensor
from cameraready.minmax.inclusion import TwoPlayer, Variable, join
from cameraready.minmax.resolvents import CappedSimplex, ConvexSet, Simplex

__all__ = ["DRO", "KL", "CVaR", "ChiSquare", "LogisticLosses"]


class CVaR:
    """Weights of at most 1/(share n): the mean of the worst share of the losses.

    Parameters
    ----------
    share : float
        In (0, 1]; 0.1 is the worst tenth.
    """

    def __init__(self, share: float = 0.1) -> None:
        self.share = check_positive("share", share)
        if share > 1:
            raise ValueError(f"share must be at most 1, not {share!r}")

    def ambiguity(self, n: int) -> Any:
        """The set of weights of n losses, as a resolvent."""
        return CappedSimplex(1.0, 1.0 / (self.share * n))


class KL:
    """Weights q with KL(q, uniform) <= radius.

    Parameters
    ----------
    radius : float
        In nats, positive.
    """

    def __init__(self, radius: float) -> None:
        self.radius = check_positive("radius", radius)

    def ambiguity(self, n: int) -> Any:
        """The set of weights of n losses, as a resolvent."""
        return KLBall(self.radius)


class ChiSquare:
    """Weights q with n |q - uniform|²/2 <= radius, half the chi-square divergence.

    Parameters
    ----------
    radius : float
        Positive.
    """

    def __init__(self, radius: float) -> None:
        self.radius = check_positive("radius", radius)

    def ambiguity(self, n: int) -> Any:
        """The set of weights of n losses, as a resolvent."""
        return ChiSquareBall(self.radius)


class _Ambiguity(ConvexSet):
    """Projection of one vector in numpy; a tensor goes there and back."""

    @override
    def _resolve(self, z: Any, step: Any) -> Any:
        if is_tensor(z):
            import torch

            moved = self._resolve(z.detach().cpu().double().numpy(), step)
            return torch.as_tensor(moved, dtype=z.dtype, device=z.device)
        if z.ndim > 1:
            return np.stack([self._resolve(row, step) for row in z])
        return self._project(z)

    def _project(self, z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        raise NotImplementedError


class ChiSquareBall(_Ambiguity):
    """The simplex cut with n |q - uniform|²/2 <= radius.

    The projection is that of (z + t uniform)/(1 + t) on the simplex, with the t >= 0 that reaches
    the ball.
    """

    def __init__(self, radius: float) -> None:
        self.radius = check_positive("radius", radius)

    @override
    def _project(self, z: np.ndarray) -> np.ndarray:
        uniform, simplex = 1.0 / len(z), Simplex()
        largest = math.sqrt(2.0 * self.radius / len(z))

        def at(share: float) -> np.ndarray:
            return simplex.prox(uniform + share * (z - uniform), 1.0)

        def excess(share: float) -> float:
            return float(np.linalg.norm(at(share) - uniform)) - largest

        if excess(1.0) <= 0:
            return at(1.0)
        # In the logarithm, as the share may be tiny; where it is, the simplex is not active.
        spread = float(np.linalg.norm(z - z.mean()))
        low = math.log(min(1.0, 0.5 * largest / spread))
        return at(math.exp(brentq(lambda log: excess(math.exp(log)), low, 0.0, xtol=1e-14)))


class KLBall(_Ambiguity):
    """The simplex cut with sum q log(n q) <= radius.

    Stationarity q + t log(n q) = z - nu gives q = t omega((z - nu)/t - log(n t)), with Wright's
    omega; nu makes the sum 1, t reaches the ball.
    """

    def __init__(self, radius: float) -> None:
        self.radius = check_positive("radius", radius)

    @override
    def _project(self, z: np.ndarray) -> np.ndarray:
        on_simplex = Simplex().prox(z, 1.0)
        n = len(z)
        if _kl(on_simplex) <= self.radius:
            return on_simplex
        spread = float(z.max() - z.min())

        def at(log_t: float) -> np.ndarray:
            t = math.exp(log_t)

            def total(nu: float) -> float:
                return float((t * wrightomega((z - nu) / t - math.log(n * t))).sum()) - 1.0

            # q = 1/n in all entries for z - nu = 1/n.
            nu = brentq(total, z.min() - 1.0 / n, z.max() - 1.0 / n, xtol=1e-15, rtol=1e-15)
            q = t * wrightomega((z - nu) / t - math.log(n * t))
            return q / q.sum()

        low, high = math.log(1e-10 * (1.0 + spread)), math.log(1.0 + spread)
        while _kl(at(high)) > self.radius:
            high += 2.0
        if _kl(at(low)) <= self.radius:
            return at(low)
        return at(brentq(lambda log_t: _kl(at(log_t)) - self.radius, low, high, xtol=1e-13))


def _kl(q: np.ndarray) -> float:
    inside = q[q > 0]
    return float(inside @ np.log(len(q) * inside))


class DRO(TwoPlayer):
    """min over theta, max over weights q near uniform ones, of sum_i q_i loss_i(theta).

    Parameters
    ----------
    losses : callable
        losses(theta), a vector with one loss for each example. It is differentiated by torch,
        unless it has a method ``vjp(theta)`` that returns the vector and a function from q to the
        gradient of q'losses, as `LogisticLosses` has.
    theta0 : array, tensor, or dict of them
        Starting point.
    uncertainty : CVaR, KL or ChiSquare
        How far the weights may go.
    X : object with ``prox(z, step)``, optional
        Resolvent of theta: its set, or a regulariser's proximal map.

    Raises
    ------
    TypeError, ValueError
        If the losses are not a finite vector, or another argument is not of this kind.

    Examples
    --------
    >>> features, labels = np.array([[1.0], [2.0]]), np.array([1, 0])
    >>> problem = DRO(LogisticLosses(features, labels), np.zeros(1), CVaR(0.5))
    >>> problem.operator(problem.z0).round(6).tolist()
    [0.25, -0.693147, -0.693147]
    """

    def __init__(
        self,
        losses: Callable[[Any], Any],
        theta0: Any,
        uncertainty: CVaR | KL | ChiSquare | None = None,
        X: Any = None,  # noqa: N803
    ) -> None:
        if not callable(losses):
            raise TypeError(f"losses must be a function of theta, not {losses!r}")
        self.losses = losses
        self.uncertainty = CVaR() if uncertainty is None else uncertainty
        if not hasattr(self.uncertainty, "ambiguity"):
            raise TypeError(f"uncertainty must be CVaR, KL or ChiSquare, not {uncertainty!r}")
        theta = Variable("theta0", theta0, X)
        self._example = theta.unpack(theta.start)
        values, _ = self._pull_back(self._example)
        if len(tuple(values.shape)) != 1 or values.shape[0] == 0:
            raise ValueError(
                f"losses must return a vector, one loss for each example, not the shape "
                f"{tuple(values.shape)}"
            )
        if not math.isfinite(float(abs(values).max())):
            raise ValueError("losses must be finite at theta0, but some are NaN or infinite")
        n = int(values.shape[0])
        uniform = 0.0 * values + 1.0 / n
        super().__init__(theta, Variable("weights", uniform, self.uncertainty.ambiguity(n)))

    def _pull_back(self, theta: Any) -> tuple[Any, Callable[[Any], Any]]:
        """(losses, function from q to the gradient of q'losses)."""
        vjp: Any = getattr(self.losses, "vjp", None)
        if vjp is not None:
            return vjp(theta)
        import torch

        keys = list(theta) if isinstance(theta, dict) else None
        parts = list(theta.values()) if isinstance(theta, dict) else [theta]
        numpy = not is_tensor(parts[0])
        with torch.enable_grad():
            leaves = [
                (torch.tensor(part) if numpy else part.detach().clone()).requires_grad_(True)
                for part in parts
            ]
            values = self.losses(
                leaves[0] if keys is None else dict(zip(keys, leaves, strict=True))
            )
        if not is_tensor(values):
            raise TypeError("losses must return a torch tensor; otherwise give it a method vjp")

        def gradient(q: Any) -> Any:
            weights = torch.as_tensor(q, dtype=values.dtype, device=values.device)
            grads = torch.autograd.grad(
                values, leaves, weights, allow_unused=True, materialize_grads=True
            )
            grads = [grad.numpy() if numpy else grad for grad in grads]
            return grads[0] if keys is None else dict(zip(keys, grads, strict=True))

        shown = values.detach()
        return (shown.numpy() if numpy else shown), gradient

    @override
    def _evaluate(self, z: Any) -> Any:
        theta, weights = z[: self.split], z[self.split :]
        values, gradient = self._pull_back(self.x.unpack(theta))
        return join(self.x.pack(gradient(weights), "the gradient"), -values)

    def worst_case(self, theta: Any) -> float:
        """The largest weighted loss over the weights allowed, to about 1e-7 of their spread."""
        values, _ = self._pull_back(theta)
        values = np.asarray(values.cpu() if is_tensor(values) else values, dtype=float)
        spread = float(values.max() - values.min())
        if spread == 0:
            return float(values[0])
        # The projection of T losses maximises q'losses - |q|²/(2T).
        aim = (values - values.max()) * (1e7 / spread)
        weights = self.uncertainty.ambiguity(len(values)).prox(aim, 1.0)
        return float(weights @ values)


class LogisticLosses:
    """Logistic losses log(1 + exp(-s x'theta)) with s = ±1, and their pull-back in numpy.

    Parameters
    ----------
    features : matrix, (n, d)
        One row an example; add a column of ones for an intercept.
    labels : vector, (n,)
        Two classes; the greater one is s = +1.

    Raises
    ------
    ValueError
        If there are not two classes, or shapes do not fit.
    """

    def __init__(self, features: Any, labels: Any) -> None:
        features, labels = np.asarray(features, dtype=float), np.asarray(labels)
        if features.ndim != 2 or labels.shape != features.shape[:1]:
            raise ValueError(
                f"features must be a matrix with one row for each label, but their shapes are "
                f"{features.shape} and {labels.shape}"
            )
        self.classes = np.unique(labels)
        if len(self.classes) != 2:
            raise ValueError(f"labels must hold two classes, not {len(self.classes)}")
        sign = np.where(labels == self.classes[1], 1.0, -1.0)
        self._signed = sign[:, None] * features

    def __call__(self, theta: Any) -> np.ndarray:
        """The losses, (n,)."""
        return np.logaddexp(0.0, -(self._signed @ theta))

    def vjp(self, theta: Any) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """The losses, and the function from q to the gradient of q'losses."""
        margins = self._signed @ theta
        losses = np.logaddexp(0.0, -margins)
        slopes = -np.exp(-np.logaddexp(0.0, margins))
        return losses, lambda q: (q * slopes) @ self._signed
