"""What a fitted bridge answers: samples, moments, densities, paths, drifts, ancestors."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cameraready.common import check_choice
from cameraready.lightsb.caller_warning import warn_caller
from cameraready.lightsb.points import (
    check_count,
    check_points,
    check_times,
    in_chunks,
    like_input,
)
from cameraready.lightsb.potential import LightSBModule
from cameraready.lightsb.sampling import METHODS, bridge_at, bridge_paths, sde_paths
from cameraready.lightsb.scaling import Scaling

__all__ = ["FittedBridge"]

# transform warns of points so many standard deviations from the source's mean.
_FAR = 6.0


class FittedBridge(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """The part of `LightSB` that needs only a potential, a scaling and a source.

    All methods take arrays or tensors in data units, and give back the same kind. They go through
    the rows in chunks of at most `max_memory` megabytes. Tables must have the columns of the fit,
    in their order; arrays come back, from `transform` a table after
    ``set_output(transform="pandas")``.
    """

    module_: LightSBModule
    scaling_: Scaling
    eps_data_units_: float
    source_: Tensor | None
    source_weights_: Float[np.ndarray, " n"] | None
    n_features_in_: int
    feature_names_in_: np.ndarray
    max_memory: float
    random_state: Any
    _source_spread: np.ndarray

    def transform(
        self,
        X0: Any,  # noqa: N803
        n_samples: int = 1,
        *,
        random_state: Any = None,
    ) -> Any:
        """Draw from the plan given each row of X0.

        Parameters
        ----------
        X0 : array-like or Tensor of shape (n, D)
            Points of the source.
        n_samples : int
            Draws for each; one only where `set_output` asks for tables.
        random_state : int or Generator, optional
            Instead of the estimator's.

        Returns
        -------
        array or Tensor of shape (n, D), or (n, n_samples, D) with several samples

        Warns
        -----
        UserWarning
            If rows lie further from the source's mean than 6 standard deviations, where one
            component takes all.
        """
        n_samples = check_count("n_samples", n_samples)
        points = self._points(X0)
        self._warn_of_far(points)
        _, generator = self._generators(random_state, self._device_of_module())

        def draw(part: slice) -> Tensor:
            z = self.scaling_.into(points[part], self.module_.means)
            return self.scaling_.out(self.module_.sample_conditional(z, n_samples, generator))

        samples = self._in_chunks(draw, len(points), self._row_bytes(n_samples))
        return like_input(samples.squeeze(1) if n_samples == 1 else samples, X0)

    def predict(self, X0: Any) -> Any:  # noqa: N803
        """The plan's mean given each row of X0 (the barycentric map), of shape (n, D)."""
        return self._map(X0, lambda z: self.scaling_.out(self.module_.conditional_mean(z)))

    def conditional_moments(
        self,
        X0: Any,  # noqa: N803
        *,
        diagonal: bool = False,
    ) -> tuple[Any, Any]:
        """Mean and covariance of the plan given each row of X0.

        Returns
        -------
        mean : array or Tensor of shape (n, D)
        covariance : array or Tensor of shape (n, D, D), or (n, D) with `diagonal`
        """
        check_is_fitted(self)
        square = self.scaling_.scale**2
        of = "conditional_variance" if diagonal else "conditional_covariance"
        covariance = self._map(
            X0, lambda z: square * getattr(self.module_, of)(z), self._broadcast_bytes()
        )
        return self.predict(X0), covariance

    def conditional_log_prob(self, X0: Any, X1: Any) -> Any:  # noqa: N803
        """Logarithm of the plan's density of X1 given X0, rows paired, in data units; (n,)."""
        check_is_fitted(self)
        constant = self.n_features_in_ * math.log(self.scaling_.scale)
        return self._map_pairs(
            X0, X1, lambda z0, z1: self.module_.conditional_log_prob(z0, z1) - constant
        )

    def plan_log_density(self, X0: Any, X1: Any, source: Any = None) -> Any:  # noqa: N803
        """Logarithm of the plan's density with respect to its marginals' product, rows paired.

        It is the logarithm of d pi / d(p0 x p1) for the model's own p1, the pointwise mutual
        information of a pair.

        Parameters
        ----------
        X0, X1 : array-like or Tensor of shape (n, D)
            Pairs.
        source : array-like or Tensor of shape (m, D), optional
            Points that stand for p0; the training source by default.
        """
        marginal = self.marginal_log_prob(X1, source)
        return self.conditional_log_prob(X0, X1) - marginal

    def marginal_log_prob(self, X1: Any, source: Any = None) -> Any:  # noqa: N803
        """Logarithm of the density at X1 of what the plan makes of the source, in data units.

        On held-out targets its mean is a score that can be compared between any two fits of the
        same data, whatever their eps; but every eps has a bridge with the right marginals, so it
        tells how well a model fits, not which eps is true.

        Parameters
        ----------
        X1 : array-like or Tensor of shape (n, D)
            Points of the target.
        source : array-like or Tensor of shape (m, D), optional
            Points that stand for p0; the training source by default.
        """
        check_is_fitted(self)
        z0, log_weights = self._source(source)
        constant = self.n_features_in_ * math.log(self.scaling_.scale)

        def density(z1: Tensor) -> Tensor:
            logits = torch.addmm(log_weights, z1, z0.mT, alpha=1 / self.module_.eps)
            return self.module_.log_v(z1) + logits.logsumexp(-1) - constant

        return self._map(X1, density, self._row_bytes(1) + 4 * len(z0) * z0.element_size())

    def sample_at(
        self,
        X0: Any,  # noqa: N803
        t: Any,
        *,
        random_state: Any = None,
    ) -> Any:
        """Draw the bridge at time t from each row of X0, exactly, in one step; (n, D).

        Parameters
        ----------
        X0 : array-like or Tensor of shape (n, D)
            Where the bridge starts.
        t : float or array of shape (n,)
            Times from 0 to 1.
        random_state : int or Generator, optional
            Instead of the estimator's.
        """
        points = self._points(X0)
        time = self._time(t, len(points))
        _, generator = self._generators(random_state, self._device_of_module())

        def draw(part: slice) -> Tensor:
            z = self.scaling_.into(points[part], self.module_.means)
            end = self.scaling_.out(self.module_.sample_conditional(z, 1, generator)[:, 0])
            start = points[part].to(end)
            return bridge_at(
                start, end, time[part] if time.ndim else time, self.eps_data_units_, generator
            )

        return like_input(self._in_chunks(draw, len(points), self._row_bytes(2)), X0)

    def sample_paths(
        self,
        X0: Any,  # noqa: N803
        times: Any = None,
        *,
        n_steps: int = 100,
        method: str = "bridge",
        random_state: Any = None,
    ) -> Any:
        """Draw whole paths from each row of X0.

        Parameters
        ----------
        X0 : array-like or Tensor of shape (n, D)
            Where the paths start.
        times : array-like, optional
            Increasing times from 0 to 1; n_steps + 1 of equal distance by default.
        n_steps : int
            For "sde" also the steps of Euler-Maruyama on [0, 1].
        method : {"bridge", "sde"}
            "bridge" is exact at all times; "sde" follows the drift step by step, as one does to
            steer or to stop paths, and agrees as n_steps grows.
        random_state : int or Generator, optional
            Instead of the estimator's.

        Returns
        -------
        array or Tensor of shape (n, times, D)
        """
        check_choice("method", method, METHODS)
        n_steps = check_count("n_steps", n_steps)
        grid = torch.from_numpy(
            check_times(np.linspace(0.0, 1.0, n_steps + 1) if times is None else times)
        )
        points = self._points(X0)
        _, generator = self._generators(random_state, self._device_of_module())

        def draw(part: slice) -> Tensor:
            z = self.scaling_.into(points[part], self.module_.means)
            if method == "sde":
                module = self.module_
                seen = sde_paths(module.drift, z, grid.tolist(), module.eps, n_steps, generator)
                return self.scaling_.out(seen)
            end = self.scaling_.out(self.module_.sample_conditional(z, 1, generator)[:, 0])
            return bridge_paths(points[part].to(end), end, grid, self.eps_data_units_, generator)

        return like_input(self._in_chunks(draw, len(points), self._row_bytes(2 + len(grid))), X0)

    def drift(self, X: Any, t: Any) -> Any:  # noqa: N803
        """The drift of the bridge at points X and times t (one, or one a row); (n, D)."""
        check_is_fitted(self)
        scale = self.scaling_.scale
        return self._map_times(X, t, lambda z, time: scale * self.module_.drift(z, time))

    def divergence(self, X: Any, t: Any) -> Any:  # noqa: N803
        """The divergence of the drift at points X and times t (one, or one a row); (n,)."""
        check_is_fitted(self)
        return self._map_times(X, t, self.module_.divergence)

    def ancestors(self, X1: Any, source: Any = None) -> Any:  # noqa: N803
        """Probabilities that the source's points are where each row of X1 comes from.

        Parameters
        ----------
        X1 : array-like or Tensor of shape (n1, D)
            Points of the target.
        source : array-like or Tensor of shape (m, D), optional
            Possible ancestors; the training source, with its weights, by default.

        Returns
        -------
        array or Tensor of shape (n1, m)
            Rows sum to one. It is exact for a source that has only these points.
        """
        check_is_fitted(self)
        z0, log_weights = self._source(source)
        return self._map(
            X1,
            lambda z1: torch.addmm(log_weights, z1, z0.mT, alpha=1 / self.module_.eps).softmax(-1),
            4 * len(z0) * z0.element_size(),
        )

    def inverse_transform(
        self,
        X1: Any,  # noqa: N803
        n_samples: int = 1,
        *,
        source: Any = None,
        random_state: Any = None,
    ) -> Any:
        """Draw points of the source from which each row of X1 may come.

        Parameters
        ----------
        X1 : array-like or Tensor of shape (n, D)
            Points of the target.
        n_samples : int
            Draws for each.
        source : array-like or Tensor of shape (m, D), optional
            Points to draw from; the training source, with its weights, by default.
        random_state : int or Generator, optional
            Instead of the estimator's.

        Returns
        -------
        array or Tensor of shape (n, D), or (n, n_samples, D) with several samples
        """
        check_is_fitted(self)
        n_samples = check_count("n_samples", n_samples)
        z0, log_weights = self._source(source)
        _, generator = self._generators(random_state, self._device_of_module())

        def draw(z1: Tensor) -> Tensor:
            logits = torch.addmm(log_weights, z1, z0.mT, alpha=1 / self.module_.eps)
            cumulative = logits.softmax(-1).cumsum(-1)
            u = torch.rand(
                len(z1), n_samples, generator=generator, device=z1.device, dtype=z1.dtype
            )
            chosen = torch.searchsorted(cumulative, u * cumulative[:, -1:], right=True)
            samples = self.scaling_.out(z0[chosen.clamp_(max=len(z0) - 1)])
            return samples.squeeze(1) if n_samples == 1 else samples

        return self._map(X1, draw, 6 * len(z0) * z0.element_size() + self._row_bytes(n_samples))

    def score(self, X0: Any, X1: Any) -> float:  # noqa: N803
        """Minus the energy of LightSB, in data units; larger is better at the same eps.

        It equals minus the KL divergence from the true plan to the model's plus a constant of
        the data *and of eps*. It ranks models of one eps; `marginal_log_prob`, or
        `conditional_log_prob` of true pairs, also ranks models of different eps. So search no grid
        of eps with it (`GridSearchCV`): `choose_eps` does that.

        Parameters
        ----------
        X0, X1 : array-like or Tensor of shape (n0, D), (n1, D)
            Held-out samples of both sides; rows need not correspond.
        """
        check_is_fitted(self)
        scaling = self.scaling_
        shift = torch.as_tensor(scaling.shift)
        means = [
            points.mean(0, dtype=torch.float64).cpu()
            for points in (self._points(X0, "X0"), self._points(X1, "X1"))
        ]
        log_c = float(np.mean(_as_float(self._map(X0, self.module_.log_c))))
        log_v = float(np.mean(_as_float(self._map(X1, self.module_.log_v))))
        # What the shift of both sides, and the scale of the target's density, add.
        moved = float(shift @ (means[0] - shift + means[1])) / self.eps_data_units_
        return log_v - log_c - moved - self.n_features_in_ * math.log(scaling.scale)

    def _device_of_module(self) -> torch.device:
        return self.module_.means.device

    def _generators(
        self, random_state: Any, device: torch.device
    ) -> tuple[np.random.Generator, torch.Generator]:
        """NumPy's and torch's generators; None is the estimator's random_state."""
        state = self.random_state if random_state is None else random_state
        if isinstance(state, np.random.RandomState):
            state = int(state.randint(2**31))
        if state is None or isinstance(state, Integral):
            rng = np.random.default_rng(None if state is None else int(state))
        elif isinstance(state, np.random.Generator):
            rng = np.random.default_rng(int(state.integers(2**62)))
        else:
            raise TypeError(f"random_state must be an int, a Generator or None, not {state!r}")
        generator = torch.Generator(device)
        generator.manual_seed(int(rng.integers(2**62)))
        return rng, generator

    def _points(self, points: Any, name: str = "X") -> Tensor:
        check_is_fitted(self)
        self._check_names(points, name)
        return check_points(name, points, self.n_features_in_)

    def _check_names(self, points: Any, name: str) -> None:
        """A table's columns must be those of the fit, where that had names too."""
        names, columns = getattr(self, "feature_names_in_", None), getattr(points, "columns", None)
        if names is not None and columns is not None and list(columns) != list(names):
            raise ValueError(
                f"{name} must have the columns of X0 in fit, in their order: {list(names)}, not "
                f"{list(columns)}"
            )

    def _time(self, t: Any, rows: int) -> Tensor:
        time = torch.as_tensor(t, dtype=self.module_.means.dtype, device=self._device_of_module())
        if time.ndim > 1 or (time.ndim == 1 and len(time) != rows):
            raise ValueError(
                f"t must be one time or one a row: its shape is {tuple(time.shape)}, there are "
                f"{rows} rows"
            )
        if not bool(((time >= 0) & (time <= 1)).all()):
            raise ValueError("times t must be from 0 to 1")
        return time

    def _source(self, source: Any) -> tuple[Tensor, Tensor]:
        """Points that stand for p0, and log of their weights over c."""
        if source is None and self.source_ is None:
            raise ValueError("source must be given: after partial_fit there is no training source")
        points = self.source_ if source is None else self._points(source, "source")
        assert points is not None
        z = self.scaling_.into(points, self.module_.means)
        with torch.no_grad():
            log_c = self._in_chunks(
                lambda part: self.module_.log_c(z[part]), len(z), self._row_bytes(1)
            )
        if source is None and self.source_weights_ is not None:
            log_weights = torch.as_tensor(self.source_weights_).to(log_c).log()
        else:
            log_weights = torch.full_like(log_c, -math.log(len(z)))
        return z, log_weights - log_c

    def _map(
        self, points: Any, function: Callable[[Tensor], Tensor], row_bytes: int | None = None
    ) -> Any:
        """``function`` of the points in scaled units, chunk by chunk, in the input's kind."""
        x = self._points(points)

        def of(part: slice) -> Tensor:
            with torch.no_grad():
                return function(self.scaling_.into(x[part], self.module_.means))

        size = self._row_bytes(1) if row_bytes is None else row_bytes
        return like_input(self._in_chunks(of, len(x), size), points)

    def _map_pairs(
        self, points0: Any, points1: Any, function: Callable[[Tensor, Tensor], Tensor]
    ) -> Any:
        x0, x1 = self._points(points0, "X0"), self._points(points1, "X1")
        if len(x0) != len(x1):
            raise ValueError(f"X0 and X1 must have as many rows: there are {len(x0)} and {len(x1)}")

        def of(part: slice) -> Tensor:
            with torch.no_grad():
                return function(
                    self.scaling_.into(x0[part], self.module_.means),
                    self.scaling_.into(x1[part], self.module_.means),
                )

        return like_input(self._in_chunks(of, len(x0), self._broadcast_bytes()), points0)

    def _map_times(self, points: Any, t: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Any:
        x = self._points(points)
        time = self._time(t, len(x))

        def of(part: slice) -> Tensor:
            z = self.scaling_.into(x[part], self.module_.means)
            with torch.no_grad():
                return function(z, time[part] if time.ndim else time)

        size = self._broadcast_bytes() if time.ndim else self._row_bytes(1)
        return like_input(self._in_chunks(of, len(x), size), points)

    def _in_chunks(self, function: Callable[[slice], Tensor], rows: int, row_bytes: int) -> Tensor:
        return in_chunks(function, rows, row_bytes, self.max_memory * 1e6)

    def _row_bytes(self, n_vectors: int) -> int:
        """Memory of a row where tables over components and features are shared by all rows."""
        if self.module_.covariance_type == "full":
            return self._broadcast_bytes() + 32 * n_vectors * self.module_.dim
        itemsize = self.module_.means.element_size()
        return itemsize * (8 * self.module_.n_components + (8 + 6 * n_vectors) * self.module_.dim)

    def _broadcast_bytes(self) -> int:
        """Memory of a row where each has a table of its own."""
        module = self.module_
        return 16 * module.means.element_size() * (module.n_components + 1) * module.dim

    def _warn_of_far(self, points: Tensor) -> None:
        centre, spread = self._source_spread
        z = self.scaling_
        low = torch.as_tensor(z.shift + z.scale * (centre - _FAR * spread))
        high = torch.as_tensor(z.shift + z.scale * (centre + _FAR * spread))
        least, most = (f(points, 0).to("cpu", torch.float64) for f in (torch.amin, torch.amax))
        slack = 1e-6 * z.scale
        if bool((least < low - slack).any()) or bool((most > high + slack).any()):
            warn_caller(
                "X0 has rows more than 6 standard deviations from the training source, where the "
                "plan is an extrapolation"
            )


def _as_float(values: Any) -> np.ndarray:
    array = values.cpu().numpy() if isinstance(values, Tensor) else values
    return array.astype(float)
