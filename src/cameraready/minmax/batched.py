"""Thousands of small problems at once: the solvers over a leading problem axis, in torch.

The iterations are those of `cameraready.minmax.solve`, with a step size, an anchor, an iteration
count and a stopping test for every problem; see there and `cameraready.minmax.anchored` for the
formulas. Problems that are done wait, and leave the batch when they are half of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cameraready.common.checks import check_choice, check_positive
from cameraready.minmax.anchored import RESTART_AFTER, RESTART_FACTOR
from cameraready.minmax.method import MOST_HALVINGS, SHORTER
from cameraready.minmax.resolvents import Resolvent, as_resolvent

__all__ = ["BatchedResult", "solve_batched"]

# After so many iterations the host asks which problems are done; a GPU runs ahead in between.
CHECK_EVERY = 16
# A resolvent with this small a step projects on the closure of A's domain.
NO_STEP = 1e-12


@dataclass(frozen=True)
class BatchedResult:
    """What `solve_batched` returns; every field has one entry a problem.

    Attributes
    ----------
    z : tensor, (problems, size)
        The last iterates.
    residual : tensor, (problems,)
        ‖F(z) + c‖ with c in A(z): a certified bound on the tangent residual. Infinite where no
        step has been made.
    converged : bool tensor, (problems,)
        residual <= tol.
    diverged : bool tensor, (problems,)
        F was not finite, or no step was short enough; z is the last finite iterate.
    n_iter : int tensor, (problems,)
        Iterations, two evaluations of F each.
    step : tensor, (problems,)
        As used last.
    """

    z: Tensor
    residual: Tensor
    converged: Tensor
    diverged: Tensor
    n_iter: Tensor
    step: Tensor


class _State(NamedTuple):
    """Where the problems are; the first axis of each tensor is theirs."""

    z: Tensor
    value: Tensor
    correction: Tensor
    anchor: Tensor
    step: Tensor
    rho: Tensor
    residual: Tensor
    first: Tensor  # residual after the first step since the last reset
    k: Tensor
    n_iter: Tensor
    halvings: Tensor
    done: Tensor
    diverged: Tensor


def solve_batched(
    operator: Callable[..., Tensor],
    z0: Tensor,
    A: Any = None,  # noqa: N803  the field's name
    *,
    data: Sequence[Tensor] = (),
    method: str = "feg",
    step: float | Tensor | str = "auto",
    rho: float | Tensor = 0.0,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    restart: str = "none",
) -> BatchedResult:
    """Solve 0 in F(z) + A(z) for many problems of one size.

    Parameters
    ----------
    operator : callable
        ``operator(z, *data)`` is F of one problem, with z of shape (size,) and that problem's
        part of `data`. `torch.func.vmap` maps it, so it must not branch on values;
        `torch.func.grad` may be in it.
    z0 : tensor, (problems, size)
        Where to start. Its type and device are those of the computation.
    A : resolvent, optional
        As `as_resolvent` takes, the same for all problems. It gets batches, with a step for each
        problem.
    data : sequence of tensors, each (problems, …)
        What tells the problems apart.
    method : "feg", "eag" or "eg"
        The fast extragradient method, the extra anchored gradient method with one resolvent, or
        extragradient.
    step : float, tensor of shape (problems,), or "auto"
        "auto" starts from a finite difference at z0 and shortens the step of a problem, with a
        reset of its anchor, when its F turns out steeper.
    rho : float or tensor of shape (problems,)
        The comonotonicity; zero for "eg".
    tol : float
        A problem is done when ‖F(z) + c‖ <= tol.
    max_iter : int
        The largest number of iterations.
    restart : "none" or "anchor"
        "anchor" makes a problem's present point its anchor when its residual has fallen by 4 in
        8 steps or more. It gives a linear rate on matrix games and linear programs; it is not the
        paper's.

    Returns
    -------
    BatchedResult

    Raises
    ------
    ValueError
        If shapes do not fit, or an argument is out of its range.
    TypeError
        If z0 or an entry of data is no tensor.

    Examples
    --------
    >>> from cameraready.minmax.resolvents import Product, Simplex
    >>> payoffs = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]], [[2.0, -1.0], [-1.0, 0.0]]])
    >>> def field(z, payoff):
    ...     return torch.cat([payoff @ z[2:], -(payoff.T @ z[:2])])
    >>> result = solve_batched(
    ...     field,
    ...     torch.tensor([[1.0, 0.0, 0.0, 1.0]]).repeat(2, 1),
    ...     Product([(Simplex(), 2), (Simplex(), 2)]),
    ...     data=[payoffs],
    ...     restart="anchor",
    ...     tol=1e-5,
    ... )
    >>> result.converged.tolist(), result.z[:, :2].round(decimals=3).tolist()
    ([True, True], [[0.5, 0.5], [0.25, 0.75]])
    """
    check_choice("method", method, ("feg", "eag", "eg"))
    check_choice("restart", restart, ("none", "anchor"))
    if restart == "anchor" and method == "eg":
        raise ValueError("method 'eg' has no anchor to reset; use restart='none'")
    z0 = _check_start(z0)
    data = _check_data(data, len(z0))
    tol = check_positive("tol", tol)
    if isinstance(max_iter, bool) or not isinstance(max_iter, int) or max_iter < 1:
        raise ValueError(f"max_iter must be a whole number from 1 on, not {max_iter!r}")
    rhos = _per_problem("rho", rho, z0)
    if method == "eg" and bool((rhos != 0).any()):
        raise ValueError("method 'eg' has no rho: use 'feg' or 'eag'")
    with torch.no_grad():
        batch = _Batch(torch.func.vmap(operator), as_resolvent(A), method, restart, tol, max_iter)
        return batch.run(z0, data, step, rhos)


class _Batch:
    """One call of `solve_batched`."""

    def __init__(
        self,
        operator: Callable[..., Tensor],
        resolvent: Resolvent,
        method: str,
        restart: str,
        tol: float,
        max_iter: int,
    ) -> None:
        self.operator, self.resolvent, self.method = operator, resolvent, method
        self.restart, self.tol, self.max_iter = restart == "anchor", tol, max_iter

    def run(
        self, z0: Tensor, data: list[Tensor], step: float | Tensor | str, rho: Tensor
    ) -> BatchedResult:
        """Iterate until every problem is done."""
        state = self._start(z0, data, step, rho)
        final = state
        left = torch.arange(len(z0), device=z0.device)
        count = 0
        while len(left):
            state = self._advance(state, data)
            count += 1
            if count % CHECK_EVERY:
                continue
            finished = int(state.done.sum())
            if finished == len(left):
                break
            if 2 * finished >= len(left):
                final = _put(final, left, state)
                keep = (~state.done).nonzero()[:, 0]
                left, data = left[keep], [part[keep] for part in data]
                state = _State(*(part[keep] for part in state))
        final = _put(final, left, state)
        return BatchedResult(
            z=final.z,
            residual=final.residual,
            converged=final.residual <= self.tol,
            diverged=final.diverged,
            n_iter=final.n_iter,
            step=final.step,
        )

    def _start(
        self, z0: Tensor, data: list[Tensor], step: float | Tensor | str, rho: Tensor
    ) -> _State:
        z = self.resolvent.prox(z0, NO_STEP)
        value = self.operator(z, *data)
        if value.shape != z.shape:
            raise ValueError(
                f"operator must return the shape {tuple(z.shape[1:])} of z, "
                f"not {tuple(value.shape[1:])}"
            )
        self.backtracking = isinstance(step, str)
        if isinstance(step, str):
            check_choice("step", step, ("auto",))
            steep = self._local_lipschitz(z, value, data)
            steps = self._default(rho * steep) / steep
        else:
            steps = _per_problem("step", step, z)
            if not bool((steps > 0).all()):
                raise ValueError("step must be positive for every problem")
        if not bool((steps + 2 * rho > 0).all()):
            raise ValueError("need step + 2·rho > 0 for every problem; raise step or rho")
        problems = z.new_zeros(len(z))
        never, zero = problems > 0, torch.zeros_like(problems, dtype=torch.long)
        return _State(
            z=z,
            value=value,
            correction=torch.zeros_like(z),
            anchor=z,
            step=steps,
            rho=rho,
            residual=problems + math.inf,
            first=problems,
            k=zero,
            n_iter=zero,
            halvings=zero,
            done=never,
            diverged=never,
        )

    def _local_lipschitz(self, z: Tensor, value: Tensor, data: list[Tensor]) -> Tensor:
        """‖F(z + d) - F(z)‖ / ‖d‖ for a small d along F(z)."""
        direction = torch.where((value != 0).any(-1, keepdim=True), value, torch.ones_like(value))
        size = _norm(direction)
        t = torch.finfo(z.dtype).eps ** 0.5 * (1.0 + _norm(z)) / size
        slope = _norm(self.operator(z + t[:, None] * direction, *data) - value) / (t * size)
        return torch.where(slope.isfinite() & (slope > 0), slope, torch.ones_like(slope))

    def _default(self, scaled_rho: Tensor) -> Tensor:
        """The default step times L, as a function of rho L."""
        if self.method != "eag":
            return torch.full_like(scaled_rho, 1.0 if self.method == "feg" else 0.7)
        negative = (1.0 + (-2.0 * scaled_rho).clamp_min(0.6)) / 2.0
        return torch.where(scaled_rho < 0, negative, 3.0**-0.5)

    def _advance(self, state: _State, data: list[Tensor]) -> _State:
        """One iteration of every problem that is not done."""
        z, value, step = state.z, state.value, state.step
        eta = step[:, None]
        if self.method == "eg":
            half = self.resolvent.prox(z - eta * value, step)
            base = z
        else:
            kept = 1.0 - 1.0 / (state.k + 1).to(z.dtype)[:, None]
            rho = state.rho[:, None]
            started = (state.k > 0)[:, None]
            v = torch.where(started, value + state.correction, torch.zeros_like(z))
            pulled = z + (1.0 - kept) * (state.anchor - z)
            ahead = kept * (eta + 2.0 * rho) if self.method == "feg" else eta + 2.0 * rho * kept
            half = pulled - ahead * v
            base = pulled - 2.0 * rho * kept * v
        half_value = self.operator(half, *data)
        y = base - eta * half_value
        new = self.resolvent.prox(y, step)
        new_value = self.operator(new, *data)
        correction = (y - new) / eta
        residual = _norm(new_value + correction)

        finite = residual < math.inf
        shorter = step / 2.0
        accepted = finite
        if self.backtracking:
            other, other_value = (z, value) if self.method == "eg" else (new, new_value)
            fits, fitting = self._fits(state, half, half_value, other, other_value)
            accepted = finite & fits
            shorter = torch.maximum(shorter, torch.where(finite, fitting, torch.zeros_like(step)))
        accepted = accepted & ~state.done
        rejected = ~accepted & ~state.done

        k = torch.where(accepted, state.k + 1, torch.where(rejected, 0, state.k))
        first = torch.where(accepted & (k == 1), residual, state.first)
        anew = rejected
        if self.restart:
            fallen = (k >= RESTART_AFTER) & (residual * RESTART_FACTOR <= first)
            anew = rejected | (accepted & fallen)
        k = torch.where(anew, 0, k)
        moved = accepted[:, None]
        z = torch.where(moved, new, z)
        n_iter = state.n_iter + accepted
        halvings = torch.where(accepted, 0, state.halvings + rejected)
        step = torch.where(rejected, shorter, step) if self.backtracking else step
        failed = rejected & ((halvings > MOST_HALVINGS) | ~(step + 2.0 * state.rho > 0))
        diverged = state.diverged | (failed if self.backtracking else rejected)
        residual = torch.where(accepted, residual, state.residual)
        return _State(
            z=z,
            value=torch.where(moved, new_value, value),
            correction=torch.where(moved, correction, state.correction),
            anchor=torch.where(anew[:, None], z, state.anchor),
            step=step,
            rho=state.rho,
            residual=residual,
            first=first,
            k=k,
            n_iter=n_iter,
            halvings=halvings,
            done=state.done | diverged | (residual <= self.tol) | (n_iter >= self.max_iter),
            diverged=diverged,
        )

    def _fits(
        self, state: _State, point: Tensor, value: Tensor, other: Tensor, other_value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Whether F is no steeper between two points than the step allows; if not, what fits."""
        rise, run = _norm(value - other_value), _norm(point - other)
        allowed = self._default(state.rho * rise / run) * run
        rounding = 64.0 * torch.finfo(run.dtype).eps
        noise = rounding * (_norm(point) + state.step * _norm(value))
        fits = (state.step * rise <= allowed + noise) | ~(run > 0)
        return fits, torch.minimum(SHORTER * allowed / rise, SHORTER * state.step)


def _norm(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=-1)


def _put(final: _State, where: Tensor, state: _State) -> _State:
    """``final`` with the problems of ``state`` at the rows ``where``."""
    return _State(*(old.index_copy(0, where, new) for old, new in zip(final, state, strict=True)))


def _check_start(z0: Any) -> Tensor:
    if not isinstance(z0, Tensor):
        raise TypeError(f"z0 must be a tensor, not {type(z0).__name__}")
    if z0.ndim != 2 or z0.numel() == 0:
        raise ValueError(f"z0 must have the shape (problems, size), not {tuple(z0.shape)}")
    if not z0.is_floating_point() or z0.dtype.itemsize < 4:
        raise ValueError(f"z0 must be in single or double precision, not {z0.dtype}")
    if not bool(z0.isfinite().all()):
        raise ValueError("z0 must be finite")
    return z0.detach()


def _check_data(data: Any, problems: int) -> list[Tensor]:
    if isinstance(data, Tensor):
        raise TypeError("data must be a sequence of tensors: put a single one into a list")
    parts = list(data)
    for i, part in enumerate(parts):
        if not isinstance(part, Tensor):
            raise TypeError(f"data[{i}] must be a tensor, not {type(part).__name__}")
        if part.ndim == 0 or len(part) != problems:
            raise ValueError(
                f"data[{i}] must have {problems} entries along its first axis, one a problem, "
                f"but has the shape {tuple(part.shape)}"
            )
    return parts


def _per_problem(name: str, value: Any, like: Tensor) -> Tensor:
    """``value`` as a tensor with an entry for every row of ``like``."""
    if not isinstance(value, Tensor):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} must be a number or a tensor, not {value!r}")
        value = torch.tensor(float(value), dtype=torch.float64)
    if value.ndim > 1 or (value.ndim == 1 and len(value) != len(like)):
        raise ValueError(
            f"{name} must be a number or have the shape ({len(like)},), not {tuple(value.shape)}"
        )
    value = value.detach().to(like)
    if not bool(value.isfinite().all()):
        raise ValueError(f"{name} must be finite")
    return value.expand(len(like)).clone()
