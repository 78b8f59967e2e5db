"""What all baselines share: checks, shapes and seeds around the paths from given points."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state
from torch import Tensor

from cameraready.common.checks import check_positive
from cameraready.common.device import resolve_device
from cameraready.lightsb.points import check_points, check_times

__all__ = ["PathSampler"]

_PATHS = 2**15  # points of paths kept at a time


class PathSampler(BaseEstimator):
    """A stochastic map from one sample to another that also gives the paths between them.

    A method fills in `_fit` and `_paths`.
    """

    eps: float
    device: str
    random_state: Any
    _dtype = torch.float32

    def fit(
        self,
        X0: Float[Any, "n features"],  # noqa: N803
        X1: Float[Any, "m features"],  # noqa: N803
    ) -> Self:
        """Fit to two unpaired samples.

        Parameters
        ----------
        X0, X1 : array of shape (n, D), (m, D)
            Source and target.

        Raises
        ------
        ValueError
            If they have different features or are not finite, or a parameter is wrong.
        """
        check_positive("eps", self.eps)
        self._device = torch.device(resolve_device(self.device))
        source, target = (self._tensor(name, x) for name, x in (("X0", X0), ("X1", X1)))
        if source.shape[1] != target.shape[1]:
            raise ValueError(
                "X0 and X1 must have the same features: shapes "
                f"{tuple(source.shape)} and {tuple(target.shape)}"
            )
        self._fit(source, target, self._generator(0))
        self.n_features_in_ = source.shape[1]
        return self

    def transform(
        self,
        X0: Float[Any, "n features"],  # noqa: N803
        n_samples: int = 1,
    ) -> Float[np.ndarray, "n *n_samples features"]:
        """Samples of x1 given each x0.

        Parameters
        ----------
        X0 : array of shape (n, D)
        n_samples : int
            How many for each.

        Returns
        -------
        ndarray of shape (n, D), or (n, n_samples, D) if `n_samples` is not 1
        """
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, not {n_samples!r}")
        points = self._checked(X0)
        ends = self._sampled(points, [1.0], n_samples)[:, 0]
        return ends if n_samples == 1 else ends.reshape(len(points), n_samples, -1)

    def sample_paths(
        self,
        X0: Float[Any, "n features"],  # noqa: N803
        times: Float[Any, " times"],
    ) -> Float[np.ndarray, "n times features"]:
        """One path from each x0, at the times given.

        Parameters
        ----------
        X0 : array of shape (n, D)
        times : array of shape (T,)
            Increasing, from 0 to 1 at most.

        Returns
        -------
        ndarray of shape (n, T, D)
        """
        points = self._checked(X0)
        return self._sampled(points, check_times(times).tolist(), 1)

    def conditional_moments(
        self,
        X0: Float[Any, "n features"],  # noqa: N803
        n_samples: int = 1000,
    ) -> tuple[Float[np.ndarray, "n features"], Float[np.ndarray, "n features features"]]:
        """Mean and covariance of x1 given each x0, estimated from samples.

        Parameters
        ----------
        X0 : array of shape (n, D)
        n_samples : int
            How many for each.
        """
        if n_samples < 2:
            raise ValueError(f"n_samples must be at least 2, not {n_samples!r}")
        samples = self.transform(X0, n_samples).astype(float)
        mean = samples.mean(1)
        samples -= mean[:, None]
        return mean, np.swapaxes(samples, 1, 2) @ samples / (n_samples - 1)

    @abstractmethod
    def _fit(self, x0: Tensor, x1: Tensor, generator: torch.Generator) -> None:
        """Learn from the samples."""

    @abstractmethod
    def _paths(self, x0: Tensor, times: list[float], generator: torch.Generator) -> Tensor:
        """Paths from each row at increasing times, of shape (n, T, D)."""

    def _sampled(self, points: Tensor, times: list[float], repeats: int) -> np.ndarray:
        """Paths from each row, so many times in a row, of shape (n · repeats, T, D)."""
        generator = self._generator(1)
        rows = max(1, _PATHS // (repeats * len(times)))
        with torch.no_grad():
            paths = [
                self._paths(chunk.repeat_interleave(repeats, 0), times, generator).cpu().numpy()
                for chunk in points.split(rows)
            ]
        return np.concatenate(paths)

    def _checked(self, points: Any) -> Tensor:
        check_is_fitted(self)
        rows = self._tensor("X0", points)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X0 has {rows.shape[1]} features, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_}"
            )
        return rows

    def _tensor(self, name: str, points: Any) -> Tensor:
        return check_points(name, points).to(self._device, self._dtype)

    def _generator(self, stream: int) -> torch.Generator:
        # One seed for fitting and one for sampling, so that their noises are independent.
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        return torch.Generator(self._device).manual_seed(int(seeds[stream]))
