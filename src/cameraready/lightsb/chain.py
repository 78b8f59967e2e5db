"""Bridges through a series of snapshots, one for each interval."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor

from cameraready.common import check_positive
from cameraready.lightsb.bridge import LightSB
from cameraready.lightsb.caller_warning import warn_caller
from cameraready.lightsb.persistence import read_model, write_model
from cameraready.lightsb.points import check_points, check_weights, like_input
from cameraready.lightsb.sampling import METHODS
from cameraready.lightsb.training import TrainingProgress

__all__ = ["ChainedLightSB"]


class ChainedLightSB:
    """Schrödinger bridges between successive snapshots, with one diffusion throughout.

    The interval from tau_i to tau_{i+1} has its own `LightSB` with eps = sigma2 (tau_{i+1} -
    tau_i), so that the noise a unit of time is the same everywhere. All intervals share one
    scale. Given where it is at a snapshot, a path's future does not depend on its past. Weights
    stand for masses: they are renormalised, and the ratios of the masses are kept; birth and
    death themselves are not modelled.

    Parameters
    ----------
    times : sequence of float
        Times tau_0 < ... < tau_m of the snapshots.
    sigma2 : float
        Variance of the diffusion a unit of time, in scaled units.
    **settings
        Settings of the bridges; see `LightSB`.

    Attributes
    ----------
    bridges_ : list of LightSB
        One for each interval, in units that are scaled already.
    mass_ratios_ : list of float
        Sum of the weights at the end of each interval over that at its start.
    scale_ : float
        Divisor of the data.
    n_features_in_ : int
        D.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> snapshots = [rng.normal(day, 1, (500, 2)) for day in (0, 2, 3)]
    >>> chain = ChainedLightSB([0, 2, 3], 0.1, n_components=2, max_iter=200, random_state=0)
    >>> chain.fit(snapshots).sample_paths(snapshots[0][:5], [0, 1, 2.5, 3]).shape
    (5, 4, 2)
    """

    bridges_: list[LightSB]
    mass_ratios_: list[float]
    scale_: float
    n_features_in_: int

    def __init__(self, times: Sequence[float], sigma2: float, **settings: Any) -> None:
        self.times = [float(time) for time in times]
        if len(self.times) < 2 or not np.isfinite(self.times).all():
            raise ValueError(f"times must be two or more finite numbers, not {list(times)!r}")
        if (np.diff(self.times) <= 0).any():
            raise ValueError(f"times must increase, not {list(times)!r}")
        self.sigma2 = check_positive("sigma2", sigma2)
        if "eps" in settings:
            raise TypeError("eps follows from sigma2 and times; leave it out")
        LightSB(**settings)  # names what is unknown
        self.settings = settings

    def fit(
        self,
        snapshots: Sequence[Any],
        sample_weights: Sequence[Any] | None = None,
        *,
        callback: Callable[[int, TrainingProgress], Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit a bridge to each interval.

        Ctrl-C in the last interval ends training with a warning and leaves a chain that can be
        used, as in `LightSB.fit`; before, it ends the fit, which goes on from a checkpoint.

        Parameters
        ----------
        snapshots : sequence of arrays of shape (n_i, D)
            One for each time.
        sample_weights : sequence of arrays of shape (n_i,) or None, optional
            Masses of the rows; None stands for one each.
        callback : callable, optional
            callback(interval, progress), as in `LightSB.fit`.
        checkpoint : path, optional
            A folder for the states of training; the fit goes on from what is there.

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted before all intervals were fitted. The chain is then as before.
        ValueError
            If there is not one snapshot for each time, or one is wrong.
        """
        if len(snapshots) != len(self.times):
            raise ValueError(
                f"snapshots must be one for each of the {len(self.times)} times, "
                f"not {len(snapshots)}"
            )
        weights = [None] * len(snapshots) if sample_weights is None else list(sample_weights)
        if len(weights) != len(snapshots):
            raise ValueError(
                f"sample_weights must be one for each of the {len(snapshots)} snapshots"
            )
        points: list[Tensor] = []
        for index, snapshot in enumerate(snapshots):
            dim = points[0].shape[1] if points else None
            points.append(check_points(f"snapshots[{index}]", snapshot, dim))
        shares = [
            check_weights(f"sample_weights[{i}]", w, len(x))
            for i, (w, x) in enumerate(zip(weights, points, strict=True))
        ]
        masses = [
            float(len(x)) if w is None else float(np.sum(np.asarray(w, dtype=float)))
            for w, x in zip(weights, points, strict=True)
        ]
        scale = 1.0
        if self.settings.get("scale", "global") == "global":
            scale = _pooled_spread(points, shares)
        scaled = [x.double() / scale for x in points]
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        bridges = []
        for i, bridge in enumerate(self._unfitted()):

            def report(progress: TrainingProgress, interval: int = i) -> Any:
                return callback(interval, progress) if callback is not None else None

            bridge._fit(
                scaled[i],
                scaled[i + 1],
                shares[i],
                shares[i + 1],
                callback=report,
                checkpoint=None if folder is None else folder / f"interval-{i}.safetensors",
            )
            bridges.append(bridge)
            if bridge.stopped_ == "interrupted" and len(bridges) < len(self.times) - 1:
                raise KeyboardInterrupt
        if bridges[-1].stopped_ == "interrupted":
            warn_caller(
                f"training was interrupted in the last interval after {bridges[-1].n_iter_} of "
                f"{bridges[-1].max_iter} steps; the chain can be used"
            )
        self.n_features_in_ = points[0].shape[1]
        self.scale_ = scale
        self.bridges_ = bridges
        self.mass_ratios_ = [after / before for before, after in pairwise(masses)]
        return self

    def sample_paths(
        self,
        X: Any,  # noqa: N803
        times: Any,
        *,
        start: float | None = None,
        method: str = "bridge",
        n_steps: int = 100,
        random_state: Any = None,
    ) -> Any:
        """Draw paths that start at X, through as many intervals as it takes.

        Parameters
        ----------
        X : array-like or Tensor of shape (n, D)
            Points at time `start`.
        times : array-like
            Increasing times, in the units of the snapshots, not before `start`.
        start : float, optional
            One of the snapshots' times; the first by default.
        method : {"bridge", "sde"}
            As in `LightSB.sample_paths`; `n_steps` is for one interval.
        n_steps : int
            Steps of Euler-Maruyama in each interval.
        random_state : int or Generator, optional
            Instead of the settings'.

        Returns
        -------
        array or Tensor of shape (n, times, D)
        """
        first = self._snapshot(self.times[0] if start is None else start)
        grid = self._check_times(times, self.times[first])
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
        x = self._points(X) / self.scale_
        state = self.settings.get("random_state") if random_state is None else random_state
        rng = _generator(state)
        parts: list[Tensor] = []
        if grid[0] == self.times[first]:
            parts.append(x[:, None])
            grid = grid[1:]
        for i in range(first, len(self.bridges_)):
            if not len(grid):
                break
            low, high = self.times[i], self.times[i + 1]
            inside = grid[grid <= high]
            # The end is needed to go on from, whether it was asked for or not.
            asked = len(inside) and inside[-1] == high
            local = (inside if asked else np.append(inside, high)) - low
            paths = self.bridges_[i].sample_paths(
                x,
                np.minimum(local / (high - low), 1.0),
                n_steps=n_steps,
                method=method,
                random_state=rng,
            )
            x = paths[:, -1]
            parts.append(paths[:, : len(inside)])
            grid = grid[len(inside) :]
        paths = torch.cat([part.to(x.dtype) for part in parts], 1) * self.scale_
        return like_input(paths, X)

    def sample_at(
        self,
        X: Any,  # noqa: N803
        time: float,
        *,
        start: float | None = None,
        random_state: Any = None,
    ) -> Any:
        """Draw where X, at time `start`, is at a later time; (n, D). See `sample_paths`."""
        return self.sample_paths(X, [time], start=start, random_state=random_state)[:, 0]

    def interpolate(
        self, time: float, n_samples: int | None = None, *, random_state: Any = None
    ) -> Any:
        """Draw from the law at any time between the first and the last.

        The bridge of that interval starts from the snapshot before, each row once, or
        `n_samples` rows by their weights.

        Returns
        -------
        array of shape (n, D)
        """
        moment = float(self._check_times([time], self.times[0])[0])
        i = min(int(np.searchsorted(self.times, moment, side="right")), len(self.bridges_)) - 1
        bridge = self.bridges_[i]
        state = self.settings.get("random_state") if random_state is None else random_state
        rng = _generator(state)
        source = bridge.source_
        assert source is not None
        weights = bridge.source_weights_
        if n_samples is not None or weights is not None:
            count = len(source) if n_samples is None else n_samples
            source = source[torch.from_numpy(rng.choice(len(source), count, p=weights))]
        points = source * self.scale_
        return like_input(
            self.sample_at(points, moment, start=self.times[i], random_state=rng), np.empty(0)
        )

    def drift(self, X: Any, time: float) -> Any:  # noqa: N803
        """The drift a unit of time at points X; (n, D). At a snapshot, that of what follows."""
        moment = float(self._check_times([time], self.times[0])[0])
        i = min(int(np.searchsorted(self.times, moment, side="right")), len(self.bridges_)) - 1
        low, high = self.times[i], self.times[i + 1]
        x = self._points(X) / self.scale_
        drift = self.bridges_[i].drift(x, (moment - low) / (high - low))
        return like_input(drift * (self.scale_ / (high - low)), X)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the chain to a folder, with one folder in it for each bridge."""
        self._check_fitted()
        folder = Path(path)
        for i, bridge in enumerate(self.bridges_):
            bridge.save(folder / f"interval-{i}")
        settings = {
            "times": self.times,
            "sigma2": self.sigma2,
            "settings": self.settings,
            "mass_ratios": self.mass_ratios_,
            "scale": self.scale_,
        }
        write_model(folder, "ChainedLightSB", settings, {})

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto") -> "ChainedLightSB":
        """Read a chain that `save` wrote.

        Raises
        ------
        FileNotFoundError, ValueError
            If it is not there, or cannot be read.
        """
        settings, _ = read_model(path, "ChainedLightSB")
        try:
            chain = cls(settings["times"], settings["sigma2"], **settings["settings"])
            chain.mass_ratios_ = settings["mass_ratios"]
            chain.scale_ = settings["scale"]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} holds no ChainedLightSB that can be read ({error})"
            ) from error
        chain.bridges_ = [
            LightSB.load(Path(path) / f"interval-{i}", device) for i in range(len(chain.times) - 1)
        ]
        chain.n_features_in_ = chain.bridges_[0].n_features_in_
        return chain

    def _unfitted(self) -> list[LightSB]:
        settings: dict[str, Any] = {**self.settings, "scale": "none"}
        return [LightSB(**settings, eps=self.sigma2 * float(gap)) for gap in np.diff(self.times)]

    def _check_fitted(self) -> None:
        if not hasattr(self, "bridges_"):
            raise NotFittedError("this ChainedLightSB is not fitted yet; call fit before")

    def _points(self, points: Any) -> Tensor:
        self._check_fitted()
        return check_points("X", points, self.n_features_in_).double()

    def _snapshot(self, start: float) -> int:
        if start not in self.times[:-1]:
            raise ValueError(
                f"start must be a snapshot's time but the last, one of {self.times[:-1]}, "
                f"not {start!r}"
            )
        return self.times.index(start)

    def _check_times(self, times: Any, start: float) -> np.ndarray:
        self._check_fitted()
        grid = np.asarray(times, dtype=float)
        good = grid.ndim == 1 and grid.size and np.isfinite(grid).all()
        if (
            not good
            or grid.min() < start
            or grid.max() > self.times[-1]
            or (np.diff(grid) <= 0).any()
        ):
            raise ValueError(
                f"times must be increasing numbers from {start:g} to {self.times[-1]:g}"
            )
        return grid


def _pooled_spread(points: list[Tensor], weights: list[np.ndarray | None]) -> float:
    """The mean over features of the standard deviation of all snapshots, each counting the same."""
    means, squares = [], []
    for x, weight in zip(points, weights, strict=True):
        array = x.double().cpu().numpy()
        mean = np.average(array, axis=0, weights=weight)
        means.append(mean)
        squares.append(np.average((array - mean) ** 2, axis=0, weights=weight))
    spread = np.sqrt(np.mean(squares, axis=0) + np.var(means, axis=0))
    return float(spread.mean()) or 1.0


def _generator(state: Any) -> np.random.Generator:
    if isinstance(state, np.random.RandomState):
        state = int(state.randint(2**31))
    return np.random.default_rng(state)
