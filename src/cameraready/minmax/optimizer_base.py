"""What the min-max optimizers for torch share: checks, states, evaluations of the closure."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from cameraready.common.checks import check_positive
from cameraready.minmax.resolvents import as_resolvent

__all__ = ["Bucket", "Closure", "LookAhead", "MinMaxOptimizer", "iterate"]

# What a group holds that is code, not state: never saved, kept when a state is loaded.
UNSAVED = ("resolvent", "weight_anchor")

Closure = Callable[[], Any]


@dataclass
class Bucket:
    """Parameters of one group that are at the same k: one call of a foreach kernel for all.

    The lists run parallel to `params`: `z` is where these are, `value` is F there, `correction`
    is c, of the group's resolvent, if it is known. All are in single precision or better.
    """

    group: dict[str, Any]
    params: list[Tensor]
    states: list[dict[str, Any]]
    z: list[Tensor]
    value: list[Tensor]
    correction: list[Tensor] | None
    step: float
    k: int
    base: list[Tensor] = field(default_factory=list)
    y: list[Tensor] = field(default_factory=list)
    new: list[Tensor] = field(default_factory=list)

    @property
    def certified(self) -> bool:
        """Whether v is in F(z) + A(z): c is known, or A = 0."""
        return self.correction is not None or self.group["resolvent"] is None

    @property
    def v(self) -> list[Tensor]:
        """F(z) + c."""
        if self.correction is None:
            return self.value
        return list(torch._foreach_add(self.value, self.correction))

    def gradients(self) -> list[Tensor]:
        """F at where the parameters are now; zero where the closure gave no gradient."""
        found = [_wide(torch.zeros_like(p) if p.grad is None else p.grad) for p in self.params]
        return list(torch._foreach_neg(found)) if self.group["maximize"] else found

    def write(self, points: list[Tensor]) -> None:
        """Put the parameters at ``points``, rounded to their type."""
        torch._foreach_copy_(self.params, points)

    def resolve(self, points: list[Tensor]) -> list[Tensor]:
        """J of every point, by the group's resolvent."""
        resolvent = self.group["resolvent"]
        if resolvent is None:
            return points
        return [as_resolvent(resolvent, "resolvent").prox(point, self.step) for point in points]

    def aim(self, y: list[Tensor]) -> None:
        """Find J(y), where to go."""
        self.y, self.new = y, self.resolve(y)

    def move(self) -> None:
        """Go to J(y), and remember c there."""
        self.write(self.new)
        if self.group["resolvent"] is not None:
            corrections = torch._foreach_sub(self.y, self.new)
            torch._foreach_div_(corrections, self.step)
            for state, correction in zip(self.states, corrections, strict=True):
                state["c"] = correction
        for param, state, point in zip(self.params, self.states, self.new, strict=True):
            state["k"] += 1
            if _is_half(param):
                state["iterate"] = point


class MinMaxOptimizer(torch.optim.Optimizer):
    """Checks, states, the first evaluation's residual, and what is saved."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], foreach: bool) -> None:
        self.foreach = foreach
        self._squares: list[Tensor] | None = None
        super().__init__(params, defaults)

    @override
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch; what a group sets is checked.

        Raises
        ------
        ValueError
            If a setting of the group is out of its range.
        TypeError
            If it is of another kind.
        """
        settings = {**self.defaults, **param_group}
        if not isinstance(settings["maximize"], bool):
            raise TypeError(f"maximize must be True or False, not {settings['maximize']!r}")
        if settings["resolvent"] is not None:
            as_resolvent(settings["resolvent"], "resolvent")
        self._check(settings)
        super().add_param_group(param_group)

    def _check(self, settings: dict[str, Any]) -> float:
        """The step of a group, after checks; schedulers may have changed it."""
        step = check_positive("lr", float(settings["lr"]))
        if settings.get("rho", 0.0) and "reset_every" not in self.defaults:
            raise ValueError(f"{type(self).__name__} makes no use of rho; take FEG or EAG")
        return step

    @property
    def residual(self) -> float:
        """‖F(z) + c‖ at the iterate the last step began from: zero exactly at a solution.

        Infinite before the first step, and as long as a group with a resolvent has no c, which
        is during its first step. Reading it waits for the device.
        """
        if self._squares is None:
            return math.inf
        return math.sqrt(sum(float(square) for square in self._squares))

    def _checked(self, closure: Closure | None) -> Closure:
        if closure is None:
            raise ValueError(
                f"{type(self).__name__}.step needs a closure that reevaluates the model and "
                "returns the loss, as torch.optim.LBFGS does"
            )
        return torch.enable_grad()(closure)

    def _buckets(self) -> list[Bucket]:
        """The parameters with a gradient, put together; the residual is measured on the way."""
        buckets = []
        for group in self.param_groups:
            step = self._check(group)
            for params in self._alike(group):
                states = [self.state[param] for param in params]
                corrections = [state["c"] for state in states if "c" in state]
                z = [iterate(p, state) for p, state in zip(params, states, strict=True)]
                bucket = Bucket(group, params, states, z, [], corrections or None, step, 0)
                bucket.value = bucket.gradients()
                bucket.k = states[0]["k"]
                buckets.append(bucket)
        if all(bucket.certified for bucket in buckets):
            norms = [norm for bucket in buckets for norm in torch._foreach_norm(bucket.v)]
            self._squares = [norm.double() ** 2 for norm in norms]
        else:
            self._squares = None
        return buckets

    def _alike(self, group: dict[str, Any]) -> Iterator[list[Tensor]]:
        alike: dict[Any, list[Tensor]] = {}
        for param in group["params"]:
            if param.grad is None:
                continue
            if param.grad.is_sparse:
                raise ValueError(f"{type(self).__name__} needs dense gradients, not sparse ones")
            state = self.state[param]
            if not state:
                state["k"] = 0
            self._prepare(param, state, group)
            key = (param.device, param.dtype, state["k"], "c" in state)
            alike.setdefault(key if self.foreach else param, []).append(param)
        yield from alike.values()

    def _prepare(self, param: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """What a method needs in the state before a step."""

    @override
    def state_dict(self) -> dict[str, Any]:
        """As in torch; resolvents and other functions stay out, so that it is safe to store."""
        saved = super().state_dict()
        for group in saved["param_groups"]:
            for name in UNSAVED:
                group.pop(name, None)
        return saved

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch; resolvents and other functions are those this optimizer was made with.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.
        """
        kept = [{n: group[n] for n in UNSAVED if n in group} for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, functions in zip(self.param_groups, kept, strict=True):
            group.update(functions)
        # torch casts a state to its parameter's type; anchors of half-precision ones are wider.
        ids = [i for group in state_dict["param_groups"] for i in group["params"]]
        params = [param for group in self.param_groups for param in group["params"]]
        for i, param in zip(ids, params, strict=True):
            for name, value in state_dict["state"].get(i, {}).items():
                if isinstance(value, Tensor):
                    self.state[param][name] = value.detach().clone().to(param.device)


class LookAhead(MinMaxOptimizer):
    """What the optimizers with two evaluations of the closure share."""

    @torch.no_grad()
    @override
    def step(self, closure: Closure | None = None) -> Any:
        """One iteration.

        Parameters
        ----------
        closure : callable
            As for `torch.optim.LBFGS`: it sets gradients to zero, computes the loss, calls
            ``backward`` and returns the loss. It is evaluated twice, at the iterate and at the
            look-ahead point. If the second evaluation fails, the parameters are put back.

        Returns
        -------
        What the closure returned at the iterate.

        Raises
        ------
        ValueError
            If there is no closure, or a resolvent does not fit a parameter's shape.
        """
        closure = self._checked(closure)
        loss = closure()
        buckets = self._buckets()
        try:
            for bucket in buckets:
                half, bucket.base = self._look_ahead(bucket)
                bucket.write(half)
            closure()
            for bucket in buckets:
                value = bucket.gradients()
                bucket.aim(list(torch._foreach_add(bucket.base, value, alpha=-bucket.step)))
        except BaseException:
            for bucket in buckets:
                bucket.write(bucket.z)
            raise
        for bucket in buckets:
            bucket.move()
        return loss

    @abstractmethod
    def _look_ahead(self, bucket: Bucket) -> tuple[list[Tensor], list[Tensor]]:
        """The points to evaluate F at, and those to go on from: y = base - step F(half)."""


def _is_half(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype.itemsize < 4


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if _is_half(tensor) else tensor


def iterate(param: Tensor, state: dict[str, Any]) -> Tensor:
    """A copy of where the parameter is; in half precision, with the digits that it cannot hold."""
    if not _is_half(param):
        return param.detach().clone()
    if "iterate" not in state:
        return param.detach().float()
    wide = state["iterate"]
    # Where somebody else has moved the parameter, what it says counts.
    return torch.where(wide.to(param.dtype) == param, wide, param.float())
