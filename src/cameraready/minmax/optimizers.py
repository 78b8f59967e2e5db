"""Min-max methods as torch optimizers: one optimizer moves both players.

A step evaluates the closure twice, at the iterate and at a look-ahead point, so that both players
see the same extrapolated point. The players are parameter groups: ``maximize=True`` for the
ascending one, and a ``resolvent`` for the constraint or regulariser of a group, applied to every
parameter of it on its own.

With F the gradient (minus the gradient of a group that ascends), beta = 1/(k+1), anchor z_0, step
eta = lr, and v_k = F(z_k) + c_k (v_0 = 0), `FEG` does

    z_half = z_k + beta (z_0 - z_k) - (1 - beta)(eta + 2 rho) v_k
    y      = z_k + beta (z_0 - z_k) - eta F(z_half) - 2 rho (1 - beta) v_k
    z_k+1  = J(y),   c_k+1 = (y - z_k+1) / eta

and `EAG` the same with eta + 2 rho (1 - beta) in the first line; see Cai, Oikonomou, Zheng,
"Accelerated Algorithms for Constrained Nonconvex-Nonconcave Min-Max Optimization and Comonotone
Inclusion", ICML 2024. Their rate, ‖F(z_k) + c_k‖ in O(1/k), is for exact gradients. With minibatch
gradients it does not hold: the noise does not average out against a fixed anchor. Then use
``reset_every``, batches that grow (`cameraready.minmax.growing_batch`), or both.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from cameraready.minmax.optimizer_base import (
    Bucket,
    Closure,
    LookAhead,
    MinMaxOptimizer,
    iterate,
)

__all__ = ["EAG", "FEG", "OGDA", "ExtraGradient"]


class _Anchored(LookAhead):
    """What `FEG` and `EAG` share."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        rho: float = 0.0,
        maximize: bool = False,
        resolvent: Any = None,
        weight_anchor: Callable[[int], float] | None = None,
        reset_every: int | None = None,
        foreach: bool = True,
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "maximize": maximize,
            "resolvent": resolvent,
            "weight_anchor": weight_anchor,
            "reset_every": reset_every,
        }
        super().__init__(params, defaults, foreach)

    @override
    def _check(self, settings: dict[str, Any]) -> float:
        step, rho = super()._check(settings), settings["rho"]
        if not step + 2 * rho > 0:
            raise ValueError(
                f"need step + 2·rho > 0, but lr = {step:g} and rho = {rho:g}; raise lr or rho"
            )
        every = settings["reset_every"]
        if every is not None and (isinstance(every, bool) or not isinstance(every, int)):
            raise TypeError(f"reset_every must be a whole number or None, not {every!r}")
        if every is not None and every < 1:
            raise ValueError(f"reset_every must be 1 or more, not {every}")
        if settings["weight_anchor"] is not None and not callable(settings["weight_anchor"]):
            raise TypeError(
                f"weight_anchor must be a function of k, not {settings['weight_anchor']!r}"
            )
        return step

    @torch.no_grad()
    def reset_anchor(self) -> None:
        """Take the present point as the anchor of all parameters, and k = 0.

        The guarantee then counts from here. c is kept, but only `residual` uses it.
        """
        for group in self.param_groups:
            for param in group["params"]:
                if param in self.state:
                    _anchor_here(param, self.state[param])

    @override
    def _prepare(self, param: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        every = group["reset_every"]
        if "anchor" not in state or (every is not None and state["k"] >= every):
            _anchor_here(param, state)

    @override
    def _look_ahead(self, bucket: Bucket) -> tuple[list[Tensor], list[Tensor]]:
        if bucket.k == 0:
            return bucket.z, bucket.z
        beta, rho = _weight(bucket.group, bucket.k), bucket.group["rho"]
        anchors = [state["anchor"] for state in bucket.states]
        pulled = list(torch._foreach_lerp(bucket.z, anchors, beta))
        v, kept = bucket.v, 1.0 - beta
        half = torch._foreach_add(pulled, v, alpha=-self._ahead(bucket.step, rho, kept))
        base = torch._foreach_add(pulled, v, alpha=-2.0 * rho * kept) if rho else pulled
        return list(half), list(base)

    @abstractmethod
    def _ahead(self, step: float, rho: float, kept: float) -> float:
        """The factor of v in the look-ahead; ``kept`` is 1 - beta."""


class FEG(_Anchored):
    """The fast extragradient method with constraints, Composite-FEG.

    ‖F(z_k) + c_k‖ <= 2 ‖z_0 - z*‖ / ((lr + 2 rho) k) for every solution z*, if F is 1/lr-Lipschitz
    and F + A is rho-comonotone.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them. Each of lr, rho, maximize, resolvent, weight_anchor and
        reset_every may be set for a group.
    lr : float
        The step eta, at most 1/L with L the Lipschitz constant of F.
    rho : float
        The comonotonicity: 0 for convex-concave, negative down to -1/(2L) for mildly
        nonconvex-nonconcave losses. Needs lr + 2 rho > 0.
    maximize : bool
        Whether the parameters ascend.
    resolvent : object with ``prox(v, step)`` or function of (v, step), optional
        For each parameter on its own, whose last axis holds the vectors: a `Simplex` keeps every
        row of a matrix in the simplex.
    weight_anchor : callable, optional
        The anchor's weight beta as a function of k >= 1, in [0, 1]; 1/(k+1) when not given. The
        guarantee is for that one only.
    reset_every : int, optional
        Reset the anchor after so many steps.
    foreach : bool
        One kernel call for many parameters: faster with many small ones, but with more memory
        for intermediate results.

    Raises
    ------
    ValueError
        If lr or lr + 2 rho is not positive, or reset_every is below 1.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    The state of a parameter is ``anchor``, ``k`` and, with a resolvent, ``c``. Parameters in
    bfloat16 or half have these, and ``iterate``, in single precision. `torch.amp.GradScaler` takes
    no optimizer with a closure; autocast to bfloat16 needs none. A schedule that lowers lr works
    against the anchor, whose pull does not shrink with lr; reset the anchor when lr changes.

    Examples
    --------
    >>> x, y = torch.nn.Parameter(torch.tensor([1.0])), torch.nn.Parameter(torch.tensor([0.25]))
    >>> optimizer = FEG([{"params": [x]}, {"params": [y], "maximize": True}], lr=1.0)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (x * y).sum()
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(50):
    ...     loss = optimizer.step(closure)
    >>> optimizer.residual < 2 * 1.04 / 49
    True
    """

    @override
    def _ahead(self, step: float, rho: float, kept: float) -> float:
        return kept * (step + 2.0 * rho)


class EAG(_Anchored):
    """The extra anchored gradient method with constraints, Composite-EAG with one resolvent.

    Parameters
    ----------
    params, lr, rho, maximize, resolvent, weight_anchor, reset_every, foreach
        As for `FEG`, but with a step of 1/(√3 L) for rho = 0, and of
        (1 + max(0.6, -2 rho L)) / (2L) for negative rho; below rho = -0.2/L take `FEG`.

    Raises
    ------
    ValueError
        If lr or lr + 2 rho is not positive, or reset_every is below 1.
    TypeError
        If an argument is of another kind.
    """

    @override
    def _ahead(self, step: float, rho: float, kept: float) -> float:
        return step + 2.0 * rho * kept


class ExtraGradient(LookAhead):
    """The extragradient method: z_half = J(z - lr F(z)), z = J(z - lr F(z_half)).

    G. M. Korpelevich, The extragradient method for finding saddle points and other problems,
    Matecon 12 (1976).

    Parameters
    ----------
    params, lr, maximize, resolvent, foreach
        As for `FEG`, but with a step below 1/L.
    rho : float
        Zero: the method makes no use of it.

    Raises
    ------
    ValueError
        If lr is not positive or rho is not zero.
    TypeError
        If an argument is of another kind.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        rho: float = 0.0,
        maximize: bool = False,
        resolvent: Any = None,
        foreach: bool = True,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "maximize": maximize, "resolvent": resolvent}
        super().__init__(params, defaults, foreach)

    @override
    def _look_ahead(self, bucket: Bucket) -> tuple[list[Tensor], list[Tensor]]:
        ahead = list(torch._foreach_add(bucket.z, bucket.value, alpha=-bucket.step))
        return bucket.resolve(ahead), bucket.z


class OGDA(MinMaxOptimizer):
    """The optimistic gradient method: z_k+1 = J(z_k - lr (2 F(z_k) - F(z_k-1))).

    Its first step is one of gradient descent-ascent. One evaluation of the closure is enough for
    a step; it is needed all the same, so that the four optimizers can replace one another. See
    Y. Malitsky, M. K. Tam, A forward-backward splitting method for monotone inclusions without
    cocoercivity, SIAM Journal on Optimization 30 (2020).

    Parameters
    ----------
    params, lr, maximize, resolvent, foreach
        As for `FEG`, but with a step below 1/(2L).
    rho : float
        Zero: the method makes no use of it.

    Raises
    ------
    ValueError
        If lr is not positive or rho is not zero.
    TypeError
        If an argument is of another kind.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        rho: float = 0.0,
        maximize: bool = False,
        resolvent: Any = None,
        foreach: bool = True,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "maximize": maximize, "resolvent": resolvent}
        super().__init__(params, defaults, foreach)

    @torch.no_grad()
    @override
    def step(self, closure: Closure | None = None) -> Any:
        """One iteration, with one evaluation of the closure.

        Parameters
        ----------
        closure : callable
            As for `FEG`.

        Returns
        -------
        What the closure returned.

        Raises
        ------
        ValueError
            If there is no closure, or a resolvent does not fit a parameter's shape.
        """
        loss = self._checked(closure)()
        buckets = self._buckets()
        for bucket in buckets:
            value = bucket.value
            past = [s.get("past", f) for s, f in zip(bucket.states, value, strict=True)]
            y = torch._foreach_add(bucket.z, value, alpha=-2.0 * bucket.step)
            torch._foreach_add_(y, past, alpha=bucket.step)
            bucket.aim(list(y))
        for bucket in buckets:
            bucket.move()
            for state, f in zip(bucket.states, bucket.value, strict=True):
                state["past"] = f.clone()  # the next backward may write into the gradient
        return loss


def _weight(group: dict[str, Any], k: int) -> float:
    if group["weight_anchor"] is None:
        return 1.0 / (k + 1)
    beta = float(group["weight_anchor"](k))
    if not 0.0 <= beta <= 1.0:
        raise ValueError(f"weight_anchor must return a number from 0 to 1, not {beta} for k = {k}")
    return beta


def _anchor_here(param: Tensor, state: dict[str, Any]) -> None:
    state["anchor"] = iterate(param, state)
    state["k"] = 0
