"""The estimator: a Schrödinger bridge between two samples."""

import hashlib
import json
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from typing_extensions import override

from cameraready.common import check_choice, check_positive, resolve_device
from cameraready.lightsb.caller_warning import warn_caller
from cameraready.lightsb.fitted_bridge import FittedBridge
from cameraready.lightsb.initialisation import (
    COVARIANCE_TYPES,
    INITS,
    initial_potential,
    nearest_squares,
)
from cameraready.lightsb.objectives import ESTIMATORS, OBJECTIVES
from cameraready.lightsb.persistence import (
    module_from,
    module_tensors,
    read_model,
    write_model,
)
from cameraready.lightsb.plans import PLANS, Plan
from cameraready.lightsb.points import check_count, check_points, check_weights
from cameraready.lightsb.scaling import SCALES, Scaling
from cameraready.lightsb.training import (
    Batches,
    Settings,
    Training,
    TrainingProgress,
    load_state,
    pair,
)

__all__ = ["Components", "LightSB"]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_DEFAULT_LR = {"matching": 2e-2, "energy": 1e-2}
_DEFAULT_RANK = 10
# Components with a smaller share of the source than this over K count as dead.
_ACTIVE = 0.01
# eps times s below so much of the neighbours' squared distance over D is too narrow.
_NARROW = 0.05
_NEIGHBOUR_ROWS = 2000
# partial_fit takes its scale and its first centres from at least so many rows.
_FIRST_ROWS = 2048


class Components(NamedTuple):
    """The potential's parameters, in scaled units."""

    log_alpha: Float[np.ndarray, " components"]
    means: Float[np.ndarray, "components features"]
    scales: Float[np.ndarray, "components scales"]
    rotations: np.ndarray | None


class LightSB(FittedBridge):
    """A Schrödinger bridge from one sample to another, by optimal bridge matching.

    Among all processes that carry the law of X0 at time 0 to the law of X1 at time 1, it is the
    closest to Brownian motion with variance rate `eps`. The fit gives the conditional plan as a
    mixture of Gaussians: `transform` draws from it, `predict` is its mean, and paths between are
    exact. Rows of X0 and X1 need not correspond.

    Parameters
    ----------
    n_components : int
        K, components of the potential.
    eps : float
        Variance rate of the reference process, in units in which the data have standard deviation
        one (`scale="global"`): how diverse the map is. See `eps_from` for other conventions.
    covariance_type : {"diag", "full", "spherical", "tied_full", "lowrank"}
        Covariances of the components. "lowrank" has `rank` directions for all, with scales of
        their own, and one scale for the rest: for hundreds of features.
    rank : int, optional
        For "lowrank"; by default the lesser of 10 and D.
    objective : {"matching", "energy"}
        `optimal_matching_loss` (the paper's) or `energy_loss` (LightSB's). Both have the same
        minimum; the energy has less noise when the plan is poor.
    estimator : {"stein", "direct"}
        For matching.
    plan : str or callable
        How batches are paired: "independent", "minibatch", "sinkhorn", "paired" (row i of X0 with
        row i of X1) or a function; see `index_pairs`. The minimum does not depend on it.
    polish : float
        Share of the steps, at the end, that use the energy instead of matching: less noise, same
        minimum. 0.25 is a good choice.
    max_iter, batch_size : int
        Steps, and pairs in each.
    lr : float, optional
        Adam's step size, which falls to zero by a cosine; 0.02 for matching, 0.01 for the energy.
    init : {"kmeans++", "random"}
        Where components start: at the means of clusters of the target, or at rows of it.
    init_scale : "auto" or float
        Eigenvalue s of the S_k at the start.
    scale : {"global", "none"}
        "global" works in units in which the mean standard deviation is one.
    tol : float, optional
        When the energy of held-out rows has gained less than this (in nats) for a fifth of
        `max_iter`, the run goes on to its last three tenths (or its polish, if that is more). None
        never stops early.
    validation_fraction : float
        Share of the rows of each side that is held out; 0 for none.
    device : str
        "auto", "cpu", "cuda", ...
    dtype : {"float32", "float64"}
        Precision.
    max_memory : float
        Megabytes that one chunk of rows may take.
    random_state : int, Generator or None
        An int gives the same fit, and the same noise at each call that draws: who maps rows in
        several calls passes a Generator to `transform`, or the calls' samples depend on each
        other.
    verbose : int
        With 1, progress on a terminal.

    Attributes
    ----------
    module_ : LightSBModule
        The potential, in scaled units.
    components_ : Components
        Its parameters: log_alpha, means, scales (standard deviations over sqrt(eps)), rotations.
    scaling_ : Scaling
        From data units to scaled units.
    eps_data_units_ : float
        eps times the square of the scale.
    loss_curve_, energy_curve_ : list of float
        The loss of every step, and the held-out energy at each check.
    n_iter_ : int
        Steps made.
    n_active_ : int
        Components whose mean responsibility is above 1 / (100 K).
    stopped_ : str
        Why training ended: "finished", "plateau", "stopped" (by the callback), "interrupted".
    source_, source_weights_
        The training source, to which `inverse_transform` goes back.
    n_features_in_ : int
        D.
    feature_names_in_ : array of str
        Names of X0's columns, if it was a table.

    Notes
    -----
    In a scikit-learn pipeline the steps before see X0 only: after a `StandardScaler` the bridge
    leads from scaled rows of X0 to rows of X1 as they are. Where both sides are to be transformed,
    do so before; for units alone, `scale="global"` does it here.

    References
    ----------
    Gushchin, Kholkin, Burnaev, Korotin, Light and Optimal Schrödinger Bridge Matching, ICML 2024.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x0, x1 = rng.normal(0, 1, (2000, 1)), rng.normal(3, 0.5, (2000, 1))
    >>> bridge = LightSB(1, eps=0.1, max_iter=300, random_state=0).fit(x0, x1)
    >>> y = bridge.transform(x0)
    >>> bool(abs(y.mean() - 3) < 0.1), bool(abs(y.std() - 0.5) < 0.05)
    (True, True)
    """

    loss_curve_: list[float]
    energy_curve_: list[float]
    n_iter_: int
    n_active_: int
    stopped_: str

    def __init__(
        self,
        n_components: int = 10,
        eps: float = 0.1,
        *,
        covariance_type: str = "diag",
        rank: int | None = None,
        objective: str = "matching",
        estimator: str = "stein",
        plan: str | Plan = "independent",
        polish: float = 0.0,
        max_iter: int = 3000,
        batch_size: int = 512,
        lr: float | None = None,
        init: str = "kmeans++",
        init_scale: str | float = "auto",
        scale: str = "global",
        tol: float | None = 1e-4,
        validation_fraction: float = 0.1,
        device: str = "auto",
        dtype: str = "float32",
        max_memory: float = 512.0,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.eps = eps
        self.covariance_type = covariance_type
        self.rank = rank
        self.objective = objective
        self.estimator = estimator
        self.plan = plan
        self.polish = polish
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.lr = lr
        self.init = init
        self.init_scale = init_scale
        self.scale = scale
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.device = device
        self.dtype = dtype
        self.max_memory = max_memory
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X0: Any,  # noqa: N803
        X1: Any,  # noqa: N803
        *,
        sample_weight0: Any = None,
        sample_weight1: Any = None,
        callback: Callable[[TrainingProgress], Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit the bridge from X0 to X1.

        Ctrl-C ends training with a warning and leaves a model that can be used.

        Parameters
        ----------
        X0 : array-like or Tensor of shape (n0, D)
            The source.
        X1 : array-like or Tensor of shape (n1, D)
            The target.
        sample_weight0, sample_weight1 : array-like of shape (n0,), (n1,), optional
            Weights of the rows; only their ratios matter.
        callback : callable, optional
            callback(progress) at each check, some 60 times a run, with a `TrainingProgress`; a
            true return value ends training.
        checkpoint : path, optional
            A file for the state of training, written each half minute and at the end; if it is
            there, training goes on from it, as if it had not been interrupted.

        Raises
        ------
        ValueError, TypeError
            If an argument is wrong; the message names it.
        RuntimeError
            If the loss stops being finite; the estimator then holds the last finite state.
        """
        self._fit(X0, X1, sample_weight0, sample_weight1, callback, checkpoint)
        if self.stopped_ == "interrupted":
            warn_caller(
                f"training was interrupted after {self.n_iter_} of {self.max_iter} steps; the "
                "model can be used"
            )
        return self

    def _fit(
        self,
        X0: Any,  # noqa: N803
        X1: Any,  # noqa: N803
        sample_weight0: Any = None,
        sample_weight1: Any = None,
        callback: Callable[[TrainingProgress], Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """As `fit`, but only `stopped_` tells that training was interrupted."""
        self._check_settings()
        self.__dict__.pop("_training", None)
        source = check_points("X0", X0)
        target = check_points("X1", X1)
        if source.shape[1] != target.shape[1]:
            raise ValueError(
                "X0 and X1 must have the same number of features: their shapes are "
                f"{tuple(source.shape)} and {tuple(target.shape)}"
            )
        if self.plan == "paired" and len(source) != len(target):
            raise ValueError(
                "plan='paired' needs as many rows in X0 as in X1: there are "
                f"{len(source)} and {len(target)}"
            )
        weights = (
            check_weights("sample_weight0", sample_weight0, len(source)),
            check_weights("sample_weight1", sample_weight1, len(target)),
        )
        if self.plan == "paired" and weights[1] is not None:
            raise ValueError(
                "sample_weight1 has no meaning with plan='paired': pairs are weighted by "
                "sample_weight0"
            )
        validate_data(self, X0, skip_check_array=True)  # for the names of the features
        self._check_names(X1, "X1")
        rng, generator = self._generators(self.random_state, self._device())
        kept, held = self._split(len(source), len(target), rng)
        parts = zip(weights * 2, (*kept, *(held or (None, None))), strict=True)
        if any(w is not None and k is not None and not w[k.numpy()].any() for w, k in parts):
            # Few rows carry all the weight: none of them can be spared.
            kept, held = (None, None), None
        self._scale(source, target, weights)
        # From here on in scaled units, on the device.
        like = torch.empty(0, dtype=_DTYPES[self.dtype], device=self._device())
        x0, x1 = self.scaling_.into(source, like), self.scaling_.into(target, like)
        train0, train1 = (
            x if k is None else x[k.to(x.device)] for x, k in zip((x0, x1), kept, strict=True)
        )
        weight0, weight1 = (
            w if w is None or k is None else w[k.numpy()] / w[k.numpy()].sum()
            for w, k in zip(weights, kept, strict=True)
        )
        # Away from the origin the means and the covariances are hard to tell apart.
        origin = _mean(train0, weight0)
        train0, train1 = train0 - origin, train1 - origin
        self._start(train0, train1, weight0, weight1, rng)
        validation = held and (
            x0[_drawn(held[0], weights[0], rng).to(x0.device)] - origin,
            x1[_drawn(held[1], weights[1], rng).to(x1.device)] - origin,
        )
        training = Training(self.module_, self._settings(), generator, rng, validation)
        batches = Batches(
            train0,
            train1,
            weight0,
            weight1,
            self.plan,
            self.module_.eps,
            self.batch_size,
            generator,
            rng,
        )
        self.source_, self.source_weights_ = source, weights[0]
        path = None if checkpoint is None else Path(checkpoint)
        fingerprint = self._fingerprint(source, target, weights) if path is not None else ""
        if path is not None and path.exists():
            training.load(load_state(path, fingerprint))
        self.stopped_ = "not finite"
        try:
            with training.threads(), self._progress(callback) as report:
                self.stopped_ = training.run(
                    batches, callback=report, checkpoint=path, fingerprint=fingerprint
                )
        finally:
            self.module_.translate(origin)
            self._finish(training, x0, weights[0])
        return self

    def partial_fit(self, loader: Iterable[tuple[Any, Any]]) -> Self:
        """Train on batches from a loader, one step a batch; for data larger than memory.

        The first call takes the scale and the first centres from its first batches, 2048 rows or
        more. The step size falls over `max_iter` batches, over all calls, to a hundredth of its
        start, where it stays. After `fit` or `load` it goes on from what is there.

        Parameters
        ----------
        loader : iterable of (x0, x1)
            Batches of the same number of rows of both sides, in random order.
        """
        self._check_settings()
        batches = iter(loader)
        if not hasattr(self, "module_"):
            first = []
            for x0, x1 in batches:
                first.append(self._batch(x0, x1))
                if sum(len(x0) for x0, _ in first) >= max(_FIRST_ROWS, self.n_components):
                    break
            if not first:
                raise ValueError("loader gave no batches")
            source, target = (torch.cat(side) for side in zip(*first, strict=True))
            rng, _ = self._generators(self.random_state, self._device())
            self._scale(source, target, (None, None))
            like = torch.empty(0, dtype=_DTYPES[self.dtype], device=self._device())
            x0, x1 = self.scaling_.into(source, like), self.scaling_.into(target, like)
            # As in fit: about the source's mean.
            origin = x0.mean(0)
            self._start(x0 - origin, x1 - origin, None, None, rng)
            batches = (batch for part in (first, batches) for batch in part)
        else:
            origin = torch.as_tensor(self._source_spread[0]).to(self.module_.means)
            self.module_.translate(-origin)
        self.source_ = self.source_weights_ = None
        training = getattr(self, "_training", None)
        if training is None:
            rng, generator = self._generators(self.random_state, self._device_of_module())
            training = self._training = Training(self.module_, self._settings(), generator, rng)
            training.iteration = training.position = getattr(self, "n_iter_", 0)
            training.losses = list(getattr(self, "loss_curve_", ()))
            training.energies = list(getattr(self, "energy_curve_", ()))
        snapshot = training.state()
        x0 = None
        try:
            with training.threads():
                for source, target in batches:
                    source, target = self._batch(source, target)
                    x0 = self.scaling_.into(source, self.module_.means) - origin
                    x1 = self.scaling_.into(target, self.module_.means) - origin
                    lr = max(training.lr, 0.01 * training.settings.lr)
                    training.step(*pair(self.plan, x0, x1, self.module_.eps, training.rng), lr=lr)
                    if training.iteration % training.check_every == 0:
                        training.check(snapshot)
                        snapshot = training.state()
            training.check(snapshot)
        finally:
            self.module_.translate(origin)
            self.stopped_ = "finished"
            if x0 is not None:
                self._finish(training, x0 + origin, None)
        return self

    @property
    def components_(self) -> Components:
        """The potential's parameters."""
        check_is_fitted(self)
        module = self.module_
        rotations = module.rotations
        return Components(
            module.log_alpha.detach().cpu().numpy(),
            module.means.detach().cpu().numpy(),
            module.log_scales.detach().exp().cpu().numpy(),
            None if rotations is None else rotations.detach().cpu().numpy(),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted bridge to a folder: safetensors and JSON, each file whole or not at all.

        Raises
        ------
        ValueError
            If the plan is a function of your own or random_state a generator, which JSON cannot
            hold.
        """
        check_is_fitted(self)
        params = self.get_params()
        for name in ("plan", "random_state"):
            if not isinstance(params[name], str | int | None):
                raise ValueError(
                    f"{name}={params[name]!r} cannot be saved; set it to a name, a number or None "
                    "with set_params before"
                )
        tensors = module_tensors(self.module_)
        tensors["shift"] = torch.from_numpy(self.scaling_.shift)
        tensors["loss_curve"] = torch.tensor(self.loss_curve_, dtype=torch.float64)
        tensors["energy_curve"] = torch.tensor(self.energy_curve_, dtype=torch.float64)
        tensors["source_spread"] = torch.from_numpy(self._source_spread)
        if self.source_ is not None:
            tensors["source"] = self.source_
        if self.source_weights_ is not None:
            tensors["source_weights"] = torch.from_numpy(self.source_weights_)
        names = getattr(self, "feature_names_in_", None)
        learned = {
            "scale": self.scaling_.scale,
            "n_iter": self.n_iter_,
            "n_active": self.n_active_,
            "stopped": self.stopped_,
            "eps": self.module_.eps,
            "feature_names": None if names is None else list(names),
        }
        write_model(path, "LightSB", {"params": params, "learned": learned}, tensors)

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto") -> "LightSB":
        """Read a bridge that `save` wrote.

        Parameters
        ----------
        path : path
            The folder.
        device : str
            Where to put it.

        Raises
        ------
        FileNotFoundError, ValueError
            If it is not there, or cannot be read.
        """
        settings, tensors = read_model(path, "LightSB")
        try:
            params: dict[str, Any] = {**settings["params"], "device": device}
            bridge = cls(**params)
            learned = settings["learned"]
            bridge.module_ = module_from(tensors, learned["eps"]).to(resolve_device(device))
            bridge.scaling_ = Scaling(tensors["shift"].numpy(), learned["scale"])
            bridge.n_iter_, bridge.n_active_ = learned["n_iter"], learned["n_active"]
            bridge.stopped_ = learned["stopped"]
            bridge.loss_curve_ = tensors["loss_curve"].tolist()
            bridge.energy_curve_ = tensors["energy_curve"].tolist()
            bridge._source_spread = tensors["source_spread"].numpy()
            if learned["feature_names"] is not None:
                bridge.feature_names_in_ = np.array(learned["feature_names"], dtype=object)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} holds no LightSB that can be read ({error})") from error
        bridge.eps_data_units_ = bridge.module_.eps * bridge.scaling_.scale**2
        bridge.n_features_in_ = bridge.module_.dim
        bridge.source_ = tensors.get("source")
        weights = tensors.get("source_weights")
        bridge.source_weights_ = None if weights is None else weights.numpy()
        return bridge

    @override
    def __getstate__(self) -> dict[str, Any]:
        # torch pickles no module with a parameterisation, and no training needs to go along.
        state = {**super().__getstate__()}
        state.pop("_training", None)
        if "module_" in state:
            state["module_"] = module_tensors(self.module_), self.module_.eps
        return state

    @override
    def __setstate__(self, state: dict[str, Any]) -> None:
        if "module_" in state:
            device = torch.device(resolve_device(state["device"]))
            state = {**state, "module_": module_from(*state["module_"]).to(device)}
        super().__setstate__(state)

    def _check_settings(self) -> None:
        check_positive("eps", self.eps)
        check_count("n_components", self.n_components)
        check_count("max_iter", self.max_iter)
        check_count("batch_size", self.batch_size)
        if self.rank is not None:
            check_count("rank", self.rank)
        check_choice("covariance_type", self.covariance_type, COVARIANCE_TYPES)
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("estimator", self.estimator, ESTIMATORS)
        check_choice("init", self.init, INITS)
        check_choice("scale", self.scale, SCALES)
        check_choice("dtype", self.dtype, tuple(_DTYPES))
        if not callable(self.plan):
            check_choice("plan", self.plan, PLANS)
        if self.lr is not None:
            check_positive("lr", self.lr)
        if self.init_scale != "auto":
            check_positive("init_scale", self.init_scale)
        if self.tol is not None and not self.tol >= 0:
            raise ValueError(f"tol must be at least 0, or None, not {self.tol!r}")
        if not 0 <= self.polish <= 1:
            raise ValueError(f"polish must be from 0 to 1, not {self.polish!r}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be at least 0 and below 1, not "
                f"{self.validation_fraction!r}"
            )
        check_positive("max_memory", self.max_memory)

    def _settings(self) -> Settings:
        return Settings(
            self.objective,
            self.estimator,
            self.plan if isinstance(self.plan, str) else getattr(self.plan, "__name__", "callable"),
            self.polish,
            self.max_iter,
            self.batch_size,
            _DEFAULT_LR[self.objective] if self.lr is None else self.lr,
            self.tol,
        )

    def _split(
        self, rows0: int, rows1: int, rng: np.random.Generator
    ) -> tuple[tuple[Tensor | None, Tensor | None], tuple[Tensor, Tensor] | None]:
        """Rows to train on and rows held out, of both sides."""
        held0, held1 = (int(self.validation_fraction * rows) for rows in (rows0, rows1))
        left = rows1 - (held1 if held0 and held1 else 0)
        if left < self.n_components:
            where = "X1" if left == rows1 else "X1 that are not held out for validation"
            raise ValueError(
                f"n_components={self.n_components} is more than the {left} rows of {where}: "
                f"set n_components to at most {left}, or validation_fraction to 0"
            )
        if not (held0 and held1):
            return (None, None), None
        order0 = torch.from_numpy(rng.permutation(rows0))
        order1 = order0 if self.plan == "paired" else torch.from_numpy(rng.permutation(rows1))
        return (order0[held0:], order1[held1:]), (order0[:held0], order1[:held1])

    def _scale(
        self,
        source: Tensor,
        target: Tensor,
        weights: tuple[np.ndarray | None, np.ndarray | None],
    ) -> None:
        self.scaling_, constant = Scaling.fit(self.scale, source, target, weights)
        self.n_features_in_ = source.shape[1]
        self.eps_data_units_ = float(self.eps) * self.scaling_.scale**2
        if constant:
            warn_caller(f"columns {constant} are constant in both X0 and X1")

    def _start(
        self,
        x0: Tensor,
        x1: Tensor,
        weights0: np.ndarray | None,
        weights1: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:
        """The module to train, after a look whether eps suits the data."""
        dim = x1.shape[1]
        rank = min(_DEFAULT_RANK, dim) if self.rank is None else self.rank
        if rank > dim:
            raise ValueError(f"rank={rank} is more than the {dim} features")
        host = x1.double().cpu().numpy() if x1.device.type != "mps" else x1.cpu().numpy()
        module = initial_potential(
            _mean(x0, weights0).cpu().numpy().astype(float),
            host,
            weights1,
            n_components=self.n_components,
            eps=float(self.eps),
            covariance_type=self.covariance_type,
            rank=rank,
            init=self.init,
            init_scale=self.init_scale,
            dtype=_DTYPES[self.dtype],
            rng=rng,
        )
        self.module_ = module.to(x0.device)
        rows = min(len(host), _NEIGHBOUR_ROWS)
        if rows > 1:
            some = host if rows == len(host) else host[rng.choice(len(host), rows, replace=False)]
            s = float(module.log_scales.detach().mul(2).exp().min())
            least = _NARROW * float(np.median(nearest_squares(some))) / dim / s
            if self.eps < least:
                warn_caller(
                    f"eps={self.eps:g} is small against the distances between neighbouring rows of "
                    f"X1, so that the fit may follow single rows; take eps >= {least:.2g} (in "
                    "scaled units), or more rows"
                )

    def _finish(self, training: Training, x0: Tensor, weights: np.ndarray | None) -> None:
        """What was learned, from the state that training is in."""
        module = self.module_
        module.normalise()
        self.loss_curve_, self.energy_curve_ = list(training.losses), list(training.energies)
        self.n_iter_ = training.iteration
        mean = torch.zeros(module.n_components, dtype=x0.dtype, device=x0.device)
        weight = None if weights is None else torch.as_tensor(weights, dtype=x0.dtype)
        size = max(1, int(self.max_memory * 1e6 // self._row_bytes(1)))
        with torch.no_grad():
            for start in range(0, len(x0), size):
                part = slice(start, start + size)
                shares = module.responsibilities(x0[part])
                mean += (
                    shares.sum(0) / len(x0)
                    if weight is None
                    else weight[part].to(x0.device) @ shares
                )
        self.n_active_ = int((mean > _ACTIVE / module.n_components).sum())
        centre, spread = x0.double().mean(0), x0.double().std(0, correction=0)
        self._source_spread = torch.stack([centre, spread]).cpu().numpy()

    def _fingerprint(
        self,
        source: Tensor,
        target: Tensor,
        weights: tuple[np.ndarray | None, np.ndarray | None],
    ) -> str:
        params = self.get_params()
        for name in ("verbose", "device", "max_memory"):
            del params[name]
        digest = hashlib.sha256(json.dumps(params, default=repr, sort_keys=True).encode())
        for part in (source, target, *weights):
            if part is None:
                digest.update(b"none")
                continue
            array = part.cpu().numpy() if isinstance(part, Tensor) else part
            digest.update(repr((array.shape, str(array.dtype))).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @contextmanager
    def _progress(
        self, callback: Callable[[TrainingProgress], Any] | None
    ) -> Generator[Callable[[TrainingProgress], Any] | None]:
        """The callback, with a bar on a terminal if `verbose` asks for it."""
        if not self.verbose or not sys.stderr.isatty():
            yield callback
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True)) as bars:
            task = bars.add_task("fitting", total=self.max_iter)

            def show(progress: TrainingProgress) -> Any:
                shown = progress.loss if progress.energy is None else progress.energy
                bars.update(
                    task,
                    completed=progress.iteration,
                    total=progress.max_iter,
                    description=f"energy {shown:.4g}",
                )
                return callback(progress) if callback is not None else None

            yield show

    def _batch(self, x0: Any, x1: Any) -> tuple[Tensor, Tensor]:
        dim = getattr(self, "n_features_in_", None)
        source, target = check_points("x0", x0, dim), check_points("x1", x1, dim)
        self._check_names(x0, "x0")
        self._check_names(x1, "x1")
        if source.shape != target.shape:
            raise ValueError(
                "loader must give batches of the same shape for both sides, not "
                f"{tuple(source.shape)} and {tuple(target.shape)}"
            )
        return source, target

    def _device(self) -> torch.device:
        return torch.device(resolve_device(self.device))


def _drawn(rows: Tensor, weights: np.ndarray | None, rng: np.random.Generator) -> Tensor:
    """Held-out rows, drawn by their weights where there are any."""
    if weights is None:
        return rows
    share = weights[rows.numpy()]
    return rows[torch.from_numpy(rng.choice(len(rows), len(rows), p=share / share.sum()))]


def _mean(points: Tensor, weights: np.ndarray | None) -> Tensor:
    if weights is None:
        return points.mean(0)
    return torch.as_tensor(weights).to(points) @ points
