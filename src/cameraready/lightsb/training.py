"""The training loop: batches of pairs, steps, early stopping, and states to go on from."""

import json
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.common import atomic_write
from cameraready.lightsb.objectives import BridgeObjective, energy_loss
from cameraready.lightsb.plans import Plan, index_pairs
from cameraready.lightsb.potential import LightSBModule

__all__ = ["Batches", "Settings", "Training", "TrainingProgress", "training_step"]

CLIP_NORM = 10.0
# Checks of the loss and the validation energy in a run; the last share of the steps, to which a
# plateau leads; the share of the steps that a plateau has to last.
_CHECKS, _LAST_SHARE, _PLATEAU = 60, 0.3, 0.2
_SAVE_EVERY = 30.0  # seconds
_VALIDATION_ROWS = 4096
# With fewer numbers (pairs x components x features) a step has less to share out between threads
# than it costs them to meet.
_WORK_FOR_THREADS = 4_000_000


class TrainingProgress(NamedTuple):
    """What a callback is told."""

    iteration: int
    max_iter: int
    loss: float
    energy: float | None
    lr: float


@dataclass(frozen=True)
class Settings:
    """What a run of training is; it goes on only from a checkpoint with the same."""

    objective: str
    estimator: str
    plan: str
    polish: float
    max_iter: int
    batch_size: int
    lr: float
    tol: float | None


@dataclass
class Batches:
    """Random batches of the source and the target, with replacement, paired by a plan.

    Parameters
    ----------
    x0, x1 : Tensor of shape (n0, D), (n1, D)
        The data, on the device that trains.
    weights0, weights1 : arrays, optional
        Probabilities of the rows.
    plan : str or callable
        See `index_pairs`.
    eps : float
        For the "sinkhorn" plan.
    size : int
        Rows of a batch.
    generator, rng
        Sources of rows, and of plans.
    """

    x0: Tensor
    x1: Tensor
    weights0: Float[np.ndarray, " n0"] | None
    weights1: Float[np.ndarray, " n1"] | None
    plan: str | Plan
    eps: float
    size: int
    generator: torch.Generator
    rng: np.random.Generator
    _sums: list[Tensor | None] = field(init=False)

    def __post_init__(self) -> None:
        self._sums = [
            None if weights is None else _cumulative(weights, self.x0.device)
            for weights in (self.weights0, self.weights1)
        ]

    def draw(self) -> tuple[Tensor, Tensor]:
        """A batch of pairs."""
        i = self._rows(len(self.x0), self._sums[0])
        x0 = self.x0[i]
        if self.plan == "paired":
            return x0, self.x1[i]
        x1 = self.x1[self._rows(len(self.x1), self._sums[1])]
        return pair(self.plan, x0, x1, self.eps, self.rng)

    def _rows(self, rows: int, cumulative: Tensor | None) -> Tensor:
        device = self.x0.device
        if cumulative is None:
            return torch.randint(rows, (self.size,), generator=self.generator, device=device)
        u = torch.rand(self.size, generator=self.generator, device=device, dtype=cumulative.dtype)
        return torch.searchsorted(cumulative, u, right=True).clamp_(max=rows - 1)


def pair(
    plan: str | Plan, x0: Tensor, x1: Tensor, eps: float, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """The pairs that a plan makes of two batches."""
    if plan in ("independent", "paired"):
        return x0, x1
    i, j = index_pairs(plan, x0.cpu().numpy(), x1.cpu().numpy(), eps, rng)
    return x0[torch.as_tensor(i, device=x0.device)], x1[torch.as_tensor(j, device=x1.device)]


def training_step(
    objective: torch.nn.Module, optimizer: torch.optim.Optimizer, x0: Tensor, x1: Tensor
) -> Tensor:
    """One step down the gradient of ``objective(x0, x1)``; the loss, left on its device."""
    optimizer.zero_grad()
    loss = objective(x0, x1)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(objective.parameters(), CLIP_NORM)
    optimizer.step()
    return loss.detach()


class Training:
    """A run of training, with all the state that it goes on from.

    Parameters
    ----------
    module : LightSBModule
        Trained in place.
    settings : Settings
        Steps, step size, and the rest.
    generator, rng
        Sources of randomness, which are part of the state.
    validation : pair of Tensors, optional
        Held-out rows of both sides, for the energy.
    """

    def __init__(
        self,
        module: LightSBModule,
        settings: Settings,
        generator: torch.Generator,
        rng: np.random.Generator,
        validation: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        self.module, self.settings = module, settings
        self.generator, self.rng = generator, rng
        self.validation = validation and tuple(x[:_VALIDATION_ROWS] for x in validation)
        self.optimizer = torch.optim.Adam(module.parameters(), lr=settings.lr, fused=True)
        matching = {"estimator": settings.estimator, "generator": generator}
        self.objective = BridgeObjective(
            module, settings.objective, **(matching if settings.objective == "matching" else {})
        )
        self.energy = BridgeObjective(module, "energy")
        self.iteration = 0  # steps made
        self.position = 0  # place in the schedule, which a plateau moves on
        self.losses: list[float] = []
        self.energies: list[float] = []
        self.best = math.inf
        self.mark, self.marked_at = math.inf, 0  # the last gain of more than tol
        self.best_state: dict[str, Tensor] = {}
        self._recent: list[Tensor] = []

    @property
    def lr(self) -> float:
        """The step size here: a cosine from `settings.lr` to zero."""
        share = min(1.0, self.position / self.settings.max_iter)
        return self.settings.lr * 0.5 * (1 + math.cos(math.pi * share))

    @property
    def check_every(self) -> int:
        """Steps between two looks at the loss."""
        return max(1, self.settings.max_iter // _CHECKS)

    @contextmanager
    def threads(self) -> Generator[None]:
        """One thread on a CPU for steps that are too small for more."""
        work = self.settings.batch_size * self.module.means.numel()
        before = torch.get_num_threads()
        if self.module.means.device.type != "cpu" or work >= _WORK_FOR_THREADS or before == 1:
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def step(self, x0: Tensor, x1: Tensor, lr: float | None = None) -> None:
        """One step, with no wait for the device."""
        polishing = self.position >= self.settings.max_iter * (1 - self.settings.polish)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr if lr is None else lr
        objective = self.energy if polishing else self.objective
        self._recent.append(training_step(objective, self.optimizer, x0, x1))
        self.iteration += 1
        self.position += 1

    def run(
        self,
        batches: Batches,
        *,
        callback: Callable[[TrainingProgress], Any] | None = None,
        checkpoint: Path | None = None,
        fingerprint: str = "",
    ) -> str:
        """Train to the end of the schedule.

        Returns
        -------
        str
            "finished", "plateau", "stopped" by the callback, or "interrupted" by Ctrl-C.

        Raises
        ------
        RuntimeError
            If the loss stops being finite; the module is then at its last finite state.
        """
        status = "finished"
        snapshot = self.state()
        saved = time.monotonic()
        final = int(self.settings.max_iter * (1 - max(_LAST_SHARE, self.settings.polish)))
        try:
            while self.position < self.settings.max_iter:
                self.step(*batches.draw())
                done = self.position >= self.settings.max_iter
                if self.iteration % self.check_every and not done:
                    continue
                self.check(snapshot)
                if self._on_plateau() and self.position < final:
                    status, self.position = "plateau", final
                snapshot = self.state()
                if checkpoint is not None and (done or time.monotonic() - saved > _SAVE_EVERY):
                    save_state(checkpoint, snapshot, fingerprint)
                    saved = time.monotonic()
                if callback is not None and callback(self.progress()):
                    status = "stopped"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
            self.load(snapshot)
        if status in ("stopped", "interrupted") and checkpoint is not None:
            save_state(checkpoint, snapshot, fingerprint)
        self._keep_the_best()
        return status

    def check(self, snapshot: dict[str, Any]) -> None:
        """Look at the losses since the last check, and at the validation energy."""
        if not self._recent:
            return
        recent = torch.stack(self._recent).tolist()
        self._recent = []
        energy = self._validation_energy()
        finite = np.isfinite(recent)
        if not finite.all() or not math.isfinite(energy or 0.0):
            step = self.iteration - len(recent) + (int(np.argmin(finite)) if recent else 0)
            lr = self.optimizer.param_groups[0]["lr"]
            self.load(snapshot)
            raise RuntimeError(
                f"the loss is not finite at step {step} (learning rate {lr:.3g}); the model is as "
                f"it was after step {self.iteration}: lower lr, or look for outliers in the data"
            )
        self.losses.extend(recent)
        if energy is not None:
            self.energies.append(energy)
            if energy < self.mark - (self.settings.tol or 0.0):
                self.mark, self.marked_at = energy, self.iteration
            if energy < self.best:
                self.best = energy
                self.best_state = _copy(self.module.state_dict())

    def progress(self) -> TrainingProgress:
        """Where training is."""
        return TrainingProgress(
            self.iteration,
            self.settings.max_iter - (self.position - self.iteration),
            float(np.mean(self.losses[-self.check_every :])),
            self.energies[-1] if self.energies else None,
            self.lr,
        )

    def state(self) -> dict[str, Any]:
        """Everything that training goes on from: tensors, and what JSON holds."""
        tensors = {f"module.{k}": v for k, v in self.module.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best_state.items()}
        for index, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{name}": value for name, value in entry.items()}
        tensors["generator"] = self.generator.get_state()
        numbers = {
            "iteration": self.iteration,
            "position": self.position,
            "losses": list(self.losses),
            "energies": list(self.energies),
            "best": self.best,
            "mark": self.mark,
            "marked_at": self.marked_at,
            "rng": self.rng.bit_generator.state,
        }
        return {"tensors": _copy(tensors), "numbers": numbers}

    def load(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        tensors, numbers = state["tensors"], state["numbers"]
        self.module.load_state_dict(_part(tensors, "module."))
        self.best_state = _part(tensors, "best.")
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in _part(tensors, "adam.").items():
            index, name = key.split(".")
            moments.setdefault(int(index), {})[name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.generator.set_state(tensors["generator"].cpu())
        self.rng.bit_generator.state = numbers["rng"]
        self.iteration, self.position = numbers["iteration"], numbers["position"]
        self.losses, self.energies = list(numbers["losses"]), list(numbers["energies"])
        self.best = numbers["best"]
        self.mark, self.marked_at = numbers["mark"], numbers["marked_at"]
        self._recent = []

    def _validation_energy(self) -> float | None:
        if self.validation is None:
            return None
        with torch.no_grad():
            return float(energy_loss(self.module, *self.validation))

    def _on_plateau(self) -> bool:
        if self.settings.tol is None or self.validation is None:
            return False
        return self.iteration - self.marked_at >= _PLATEAU * self.settings.max_iter

    def _keep_the_best(self) -> None:
        """Go back to the state of least validation energy, if the last is clearly worse."""
        if self.validation is None or not self.best_state:
            return
        source, target = self.validation
        with torch.no_grad():
            last = self.module.log_c(source), self.module.log_v(target)
            last_state = _copy(self.module.state_dict())
            self.module.load_state_dict(self.best_state)
            rise = last[0] - self.module.log_c(source), self.module.log_v(target) - last[1]
            error = sum(float(x.var(correction=0)) / len(x) for x in rise) ** 0.5
            if float(rise[0].mean() + rise[1].mean()) <= 2 * error:
                self.module.load_state_dict(last_state)


def save_state(path: Path, state: dict[str, Any], fingerprint: str) -> None:
    """Write a state whole or not at all."""
    from safetensors.torch import save

    metadata = {"state": json.dumps(state["numbers"]), "fingerprint": fingerprint}
    tensors = {name: value.contiguous().cpu() for name, value in state["tensors"].items()}
    with atomic_write(path, "wb") as file:
        file.write(save(tensors, metadata))


def load_state(path: Path, fingerprint: str) -> dict[str, Any]:
    """Read a state that was written for the same fit.

    Raises
    ------
    ValueError
        If the file is damaged or belongs to another fit.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
        numbers = json.loads(metadata["state"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"checkpoint {path} cannot be read ({error}); delete it") from error
    if metadata.get("fingerprint") != fingerprint:
        raise ValueError(
            f"checkpoint {path} belongs to a fit of other data or settings: delete it, or name "
            "another"
        )
    return {"tensors": tensors, "numbers": numbers}


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors.items()}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _cumulative(weights: Float[np.ndarray, " n"], device: torch.device) -> Tensor:
    sums = np.cumsum(weights)
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.as_tensor(sums / sums[-1], dtype=dtype, device=device)
