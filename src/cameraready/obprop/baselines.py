"""Directions that are fitted to data, to compare features with.

Each has ``vector``, ``site``, ``layer`` and ``name`` once it is fitted, as a feature vector has,
and can be used wherever one can: in scores, in steering, in coupling.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from cameraready.common import check_choice, check_positive
from cameraready.obprop.activations import Site
from cameraready.obprop.observable import Observable
from cameraready.obprop.sites import check_place, editing, read_places
from cameraready.obprop.tokens import Token, check_token, positions_of

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["DAS1d", "FittedDirection", "Gradient", "LinearProbe", "MeanDifference"]


class FittedDirection(ABC):
    """A direction of the residual stream at one site, fitted to prompts.

    Parameters
    ----------
    view
        The model.
    layer
        The layer at which the direction lives.
    site
        ``"resid_pre"`` or ``"resid_mid"``.
    token
        The token of each prompt that is read: a position, a string in the prompt, or ``"last"``;
        or a sequence with one for each prompt.

    Attributes
    ----------
    vector : Tensor of shape (width,)
        The direction, once fitted.
    """

    def __init__(
        self,
        view: "TransformerView",
        layer: int,
        site: Site = "resid_pre",
        token: Token | Sequence[Token] = "last",
    ) -> None:
        check_place(view, site, layer)
        self.view, self.layer, self.site, self.token = view, layer, site, token
        self._vector: Tensor | None = None

    @property
    def name(self) -> str:
        """What to call it in a table."""
        return type(self).__name__

    @property
    def vector(self) -> Float[Tensor, " width"]:
        """The direction."""
        if self._vector is None:
            raise AttributeError(f"{self.name} has no vector before it is fitted; call fit")
        return self._vector

    @abstractmethod
    def fit(self, texts: Sequence[str], targets: Sequence[float]) -> Self:
        """Fit the direction to prompts and their targets."""

    def _encode(self, texts: Sequence[str]) -> tuple[list[Int[Tensor, " tokens"]], list[int]]:
        """The tokens of prompts and the position that is read in each."""
        single = isinstance(self.token, str | int)
        tokens = [self.token] * len(texts) if single else list(self.token)
        if len(tokens) != len(texts):
            raise ValueError(
                f"token must hold one entry for each of the {len(texts)} texts, not {len(tokens)}"
            )
        rows, positions = [], []
        for text, token in zip(texts, tokens, strict=True):
            ids = self.view.encode(text)
            if check_token(token) in ("all", "mean", "max"):
                raise ValueError(f"token must name one token of each prompt, not {token!r}")
            found = positions_of(self.view.tokenizer, ids.tolist(), [0] * len(ids), token)
            if not found:
                raise ValueError(f"token {token!r} is not in the prompt {text!r}")
            rows.append(ids)
            positions.append(found[0])
        return rows, positions

    def _activations(
        self, texts: Sequence[str], batch_size: int = 16
    ) -> Float[Tensor, "prompts width"]:
        """The residual stream at the tokens that are read."""
        rows, positions = self._encode(texts)
        place = (self.site, self.layer)
        found = []
        for start in range(0, len(rows), batch_size):
            batch = slice(start, start + batch_size)
            ids = torch.nn.utils.rnn.pad_sequence(rows[batch], batch_first=True)
            stream = read_places(self.view, ids, [place])[place].float().cpu()
            found.append(stream[torch.arange(len(stream)), torch.tensor(positions[batch])])
        return torch.cat(found)


class MeanDifference(FittedDirection):
    """The mean activation where the label is positive less that where it is not.

    Parameters
    ----------
    view, layer, site, token
        As for `FittedDirection`.
    """

    @override
    def fit(self, texts: Sequence[str], targets: Sequence[float]) -> Self:
        """Take the difference.

        Parameters
        ----------
        texts
            Prompts.
        targets
            Labels: positive numbers, True among them, against the rest.

        Raises
        ------
        ValueError
            If there is no prompt on one side.
        """
        positive = _targets(texts, targets) > 0
        if positive.all() or not positive.any():
            raise ValueError("targets must have positive and other ones")
        x = self._activations(texts)
        self._vector = x[torch.from_numpy(positive)].mean(0) - x[~torch.from_numpy(positive)].mean(
            0
        )
        return self


class LinearProbe(FittedDirection):
    """The weights of a linear model of scikit-learn on activations.

    Parameters
    ----------
    view, layer
        As for `FittedDirection`.
    kind
        ``"ridge"`` regresses numbers, such as the values of an observable; ``"logistic"``
        separates positive labels from the others.
    site, token
        As for `FittedDirection`.
    penalty
        The weight of |w|²: in units of the mean squared length of the activations less their mean
        (0 takes the shortest of the least-squares solutions), or for ``"logistic"`` scikit-learn's
        1/C.
    """

    def __init__(
        self,
        view: "TransformerView",
        layer: int,
        kind: Literal["ridge", "logistic"] = "ridge",
        site: Site = "resid_pre",
        token: Token | Sequence[Token] = "last",
        penalty: float | None = None,
    ) -> None:
        super().__init__(view, layer, site, token)
        self.kind = check_choice("kind", kind, ("ridge", "logistic"))
        default = 0.0 if kind == "ridge" else 1.0
        self.penalty = default if penalty is None else penalty
        if not self.penalty >= 0 or (kind == "logistic" and self.penalty == 0):
            raise ValueError(f"penalty must not be negative, nor 0 for 'logistic', not {penalty}")

    @property
    @override
    def name(self) -> str:
        return f"LinearProbe({self.kind})"

    @override
    def fit(self, texts: Sequence[str], targets: Sequence[float]) -> Self:
        """Fit the linear model.

        Parameters
        ----------
        texts
            Prompts.
        targets
            Numbers, or labels for ``"logistic"``.

        Raises
        ------
        ValueError
            If all targets are the same.
        """
        from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

        y = _targets(texts, targets)
        x = self._activations(texts).double().numpy()
        if self.kind == "logistic":
            y = y > 0
        if (y == y[0]).all():
            raise ValueError("targets must differ")
        if self.kind == "logistic":
            model = LogisticRegression(C=1 / self.penalty, max_iter=10_000).fit(x, y)
        elif self.penalty == 0:
            model = LinearRegression().fit(x, y)
        else:
            size = np.square(x - x.mean(0)).sum(1).mean()
            model = Ridge(alpha=self.penalty * size).fit(x, y)
        self._vector = torch.from_numpy(np.ravel(model.coef_)).float()
        return self


class Gradient(FittedDirection):
    """The gradient of an observable at prompts, attention included, by autograd.

    Parameters
    ----------
    view
        The model.
    observable
        What is differentiated.
    layer, site, token
        As for `FittedDirection`.
    """

    def __init__(
        self,
        view: "TransformerView",
        observable: Observable,
        layer: int,
        site: Site = "resid_pre",
        token: Token | Sequence[Token] = "last",
    ) -> None:
        super().__init__(view, layer, site, token)
        self.observable = observable

    @override
    def fit(self, texts: Sequence[str], targets: Sequence[float] = ()) -> Self:
        """Take the mean gradient over prompts; one is enough.

        Parameters
        ----------
        texts
            Prompts.
        targets
            Not needed.
        """
        gradients = []
        for ids, position in zip(*self._encode(texts), strict=True):
            leaf: Tensor | None = None

            def replace(stream: Tensor) -> Tensor:
                nonlocal leaf
                leaf = stream.detach().clone().requires_grad_()
                return leaf * 1.0  # what the MLP's norm is handed is written into

            with torch.enable_grad(), editing(self.view, {(self.site, self.layer): replace}):
                logits = self.view.adapter.run(
                    ids[None].to(self.view.adapter.input_device), None, 1
                )
                value = self.observable.of_logits(logits[0, -1])
            assert leaf is not None
            (gradient,) = torch.autograd.grad(value, leaf)
            gradients.append(gradient[0, position].float().cpu())
        self._vector = torch.stack(gradients).mean(0)
        return self


class DAS1d(FittedDirection):
    """Distributed alignment search for one dimension.

    It finds the unit vector u such that an interchange intervention along it, on a base prompt's
    residual stream x and a source prompt's x',

        x + (u·x' - u·x) u,

    makes the model answer as it does to the source. Geiger, Wu, Potts, Icard, Goodman, "Finding
    Alignments Between Interpretable Causal Variables and Distributed Neural Representations",
    CLeaR 2024: there the subspace is that of the first columns of a rotation, trained with the
    cross-entropy of the source's answer. Here the rotation has one column, the answers are the two
    signs of the observable, and their cross-entropy is that of a logistic model whose logit is the
    observable.

    Parameters
    ----------
    view
        The model; it is not changed.
    observable
        Its sign is the model's answer.
    layer, site, token
        As for `FittedDirection`.
    steps
        Steps of Adam.
    learning_rate
        Its first step size; it falls to zero linearly.
    batch_size
        Pairs of base and source in a step, drawn anew each time.
    seed
        Of the first u and the pairs.
    """

    def __init__(
        self,
        view: "TransformerView",
        observable: Observable,
        layer: int,
        site: Site = "resid_pre",
        token: Token | Sequence[Token] = "last",
        steps: int = 40,
        learning_rate: float = 0.05,
        batch_size: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__(view, layer, site, token)
        self.observable = observable
        if steps < 1 or batch_size < 1:
            raise ValueError(f"steps and batch_size must be at least 1, not {steps}, {batch_size}")
        self.steps, self.batch_size, self.seed = steps, batch_size, seed
        self.learning_rate = check_positive("learning_rate", learning_rate)

    @override
    def fit(self, texts: Sequence[str], targets: Sequence[float] = ()) -> Self:
        """Search for the direction.

        Parameters
        ----------
        texts
            Prompts with the same number of tokens.
        targets
            The answers to them, positive numbers against the rest; by default the signs of the
            observable.

        Raises
        ------
        ValueError
            If the prompts differ in length or all have one answer.
        """
        rows, positions = self._encode(texts)
        if len({len(row) for row in rows}) > 1:
            raise ValueError("texts must have the same number of tokens for an interchange")
        ids, at = torch.stack(rows), torch.tensor(positions)
        upper = _Upper(self.view, self.site, self.layer, ids, self.observable)
        values = _targets(texts, targets) if len(targets) else upper.values.cpu().numpy()
        positive = torch.from_numpy(values > 0)
        if bool(positive.all()) or not bool(positive.any()):
            raise ValueError("texts must have both answers, positive and not")
        self._vector = self._search(upper, at, positive)
        return self

    def _search(self, upper: "_Upper", at: Tensor, positive: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        x = upper.stream[torch.arange(len(at)), at].float()
        free = torch.randn(x.shape[1], generator=generator).to(x.device).requires_grad_()
        optimizer = torch.optim.Adam([free], lr=self.learning_rate)
        rows = torch.arange(self.batch_size)
        with torch.no_grad():
            free /= free.norm()
        for step in range(self.steps):
            optimizer.param_groups[0]["lr"] = self.learning_rate * (1 - step / self.steps)
            # Bases of one answer and sources of the other: the same answer teaches nothing.
            source = torch.randint(len(at), (self.batch_size,), generator=generator)
            base = torch.stack(
                [_draw((positive != positive[i]).nonzero()[:, 0], generator) for i in source]
            )
            unit = free / free.norm()
            moved = ((x[source] - x[base]) @ unit)[:, None] * unit
            change = torch.zeros_like(upper.stream[base], dtype=torch.float32)
            change = change.index_put((rows, at[base]), moved)
            values = upper(base, change)
            sign = torch.where(positive[source], 1.0, -1.0).to(values.device)
            loss = torch.nn.functional.softplus(-sign * values).mean()
            (free.grad,) = torch.autograd.grad(loss, free)
            optimizer.step()
        return (free / free.norm()).detach().cpu()


class _Upper:
    """The layers above a site, as a function of the residual stream there.

    The lower layers run once, for all prompts; each block's arguments are kept, so that the upper
    ones can be called again with another stream.
    """

    def __init__(
        self,
        view: "TransformerView",
        site: Site,
        layer: int,
        ids: Int[Tensor, "prompts tokens"],
        observable: Observable,
    ) -> None:
        self.view, self.place = view, (site, layer)
        self.observable = observable
        self._calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        adapter = view.adapter
        ids = ids.to(adapter.input_device)
        inputs: list[Tensor] = []
        streams: list[Tensor] = []
        with ExitStack() as hooks, torch.no_grad():
            # The arguments of one prompt, such as its mask, are broadcast over any batch.
            for i in range(layer, view.L):
                block = adapter.block(i)
                handle = block.register_forward_pre_hook(self._keep, with_kwargs=True)
                hooks.callback(handle.remove)
            adapter.run(ids[:1], None, 1)
        with (
            torch.no_grad(),
            editing(view, {("resid_pre", layer): inputs.append}),
            editing(view, {self.place: streams.append}),
        ):
            logits = adapter.run(ids, None, 1)
        self._input = inputs[0]
        self.stream: Float[Tensor, "prompts tokens width"] = streams[0].clone()
        self.values: Float[Tensor, " prompts"] = observable.of_logits(logits[:, -1])
        self._read = observable.pull_back(view.unembed)
        self._norm = view.final_norm()
        bias = adapter.unembedding_bias()
        self._shift = 0.0 if bias is None else float(observable.of_logits(bias.detach()))

    def _keep(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._calls.append((module, args[1:], {**kwargs}))

    def __call__(
        self, rows: Int[Tensor, " batch"], change: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, " batch"]:
        """The observable where the stream of some prompts is changed."""
        stream = self._input[rows]
        with torch.enable_grad(), editing(self.view, {self.place: lambda x: x + change.to(x)}):
            for block, args, kwargs in self._calls:
                named = {key: value for key, value in kwargs.items() if key != "hidden_states"}
                output = block(stream, *args, **named)
                stream = output[0] if isinstance(output, tuple) else output
        last = stream[:, -1].float()
        return self._norm.to(last.device)(last) @ self._read.to(last.device) + self._shift


def _draw(choices: Tensor, generator: torch.Generator) -> Tensor:
    return choices[torch.randint(len(choices), (), generator=generator)]


def _targets(texts: Sequence[str], targets: Sequence[float]) -> np.ndarray:
    found = np.asarray(targets, dtype=float)
    if found.shape != (len(texts),) or not np.isfinite(found).all():
        raise ValueError(f"targets must hold one finite number for each of the {len(texts)} texts")
    return found
