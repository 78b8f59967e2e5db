"""Changing what a model does along feature vectors, while a block lasts."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from cameraready.common import check_choice
from cameraready.obprop.scoring import as_list, stream_scores
from cameraready.obprop.sites import Place, check_place, editing, place_of
from cameraready.obprop.tokens import RULES, Token, anchor_spans

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["Steer", "add", "center", "mean_score", "project", "swap", "unit_directions"]

Stream = Float[Tensor, "*tokens width"]
Mode = Literal["project", "add", "center", "swap"]


def unit_directions(
    vectors: Sequence[Float[Tensor, " width"]],
) -> Float[Tensor, "width features"]:
    """Orthonormal directions that span some vectors, by Gram and Schmidt (QR).

    Parameters
    ----------
    vectors
        The vectors. The first direction is that of the first one.

    Raises
    ------
    ValueError
        If the vectors are linearly dependent.

    Examples
    --------
    >>> unit_directions([torch.tensor([0.0, 2.0]), torch.tensor([3.0, 1.0])])
    tensor([[0., 1.],
            [1., 0.]])
    """
    matrix = torch.stack([vector.detach().to("cpu", torch.float64) for vector in vectors], dim=1)
    sizes = matrix.norm(dim=0)
    q, r = torch.linalg.qr(matrix / sizes.where(sizes > 0, torch.ones_like(sizes)))
    diagonal = r.diagonal()
    if len(vectors) > len(matrix) or bool((diagonal.abs() < 1e-6).any()):
        raise ValueError(
            "features must not be zero nor linearly dependent; leave out the ones that the others "
            "span"
        )
    return (q * diagonal.sign()).float() + 0.0  # no negative zeros


def project(
    stream: Stream, directions: Float[Tensor, "width features"], strength: float = 1.0
) -> Stream:
    """X less its part along the directions: x - strength (u·x) u for each u.

    Parameters
    ----------
    stream
        The residual stream x.
    directions
        Orthonormal.
    strength
        1 takes the part away, less leaves some of it, 2 mirrors it.
    """
    return stream - strength * (stream @ directions) @ directions.T


def add(
    stream: Stream, directions: Float[Tensor, "width features"], strength: float = 1.0
) -> Stream:
    """X + strength u, for each u.

    Parameters
    ----------
    stream
        The residual stream x.
    directions
        Orthonormal.
    strength
        How far to go, in the units of the stream.
    """
    return stream + strength * directions.sum(1)


def center(
    stream: Stream,
    directions: Float[Tensor, "width features"],
    mean: Float[Tensor, " features"],
    strength: float = 1.0,
) -> Stream:
    """X with its part along the directions moved to a mean: x - strength (u·x - mean) u.

    Parameters
    ----------
    stream
        The residual stream x.
    directions
        Orthonormal.
    mean
        u·x is moved to this, for each u.
    strength
        1 moves it all the way.
    """
    return stream - strength * (stream @ directions - mean) @ directions.T


def swap(
    stream: Stream,
    first: Float[Tensor, " width"],
    second: Float[Tensor, " width"],
    strength: float = 1.0,
) -> Stream:
    """X with its parts along two unit directions exchanged, at its own length.

    This is the reflection that takes one direction to the other: x - 2 (w·x) w with w along their
    difference.

    Parameters
    ----------
    stream
        The residual stream x.
    first, second
        Unit vectors. They need not be orthogonal.
    strength
        1 exchanges them.
    """
    across = first - second
    across = across / across.norm()
    return stream - 2 * strength * (stream @ across)[..., None] * across


def mean_score(
    view: "TransformerView",
    feature: Any,
    texts: Iterable[str],
    token: Token | Sequence[Token] = "all",
    skip: int = 0,
    batch_size: int = 16,
) -> float:
    """The mean of u·x over tokens of texts, with u the feature's unit vector: a mean to center on.

    Parameters
    ----------
    view
        The model.
    feature
        The feature.
    texts
        Neutral texts.
    token
        Which tokens, as for `cameraready.obprop.scoring.score_texts`.
    skip
        Tokens before this position are left out, such as the first one.
    batch_size
        Texts that go through the model together.

    Raises
    ------
    ValueError
        If no text has such a token.
    """
    chunks = stream_scores(view, feature, texts, token, normalized=False, batch_size=batch_size)
    scores = [rows.scores[rows.positions >= skip, 0] for rows in chunks]
    found = np.concatenate(scores) if scores else np.empty(0)
    found = found[np.isfinite(found)]
    if not len(found):
        raise ValueError("no text has such a token to take the mean of")
    return float(found.astype(np.float64).mean() / float(feature.vector.double().norm()))


class Steer:
    """Edit the residual stream along feature vectors while a ``with`` block lasts.

    It works on whatever calls the model within the block, ``generate`` with its cache too. The
    edit is made where the features live, in float32, before the layer reads the stream; it is gone
    after the block, also when that raises.

    Parameters
    ----------
    view
        The model.
    features
        One feature vector or several; those of one site and layer are made orthonormal, in order.
    mode
        ``"project"`` takes the part along the features away: x - (u·x) u. ``"add"`` goes along
        them: x + strength u. ``"center"`` moves the part to a mean: x - (u·x - mean) u. ``"swap"``
        exchanges the parts along two features of one site and layer.
    strength
        How much of that: 1 is all of it, and a length for ``"add"``.
    tokens
        ``"all"``; positions, counted from the text's first token, negative ones from the end of
        the prompt; a slice of positions, which reaches into generated text where it is open; or a
        string, of which every occurrence in the prompt is edited. Many models store in the first
        token's stream what they attend to when there is nothing to attend to: it is long, and
        editing it harms whatever comes after. ``slice(1, None)`` spares it.
    mean
        For ``"center"``: u·x to move to, a number for each feature; or a residual stream whose
        u·x to take; by default that of the tokens which are edited in the prompts of one pass.

    Raises
    ------
    ValueError
        If the mode is unknown, the features are linearly dependent or do not fit it, a position
        is not in a prompt, or a string does not stand in one.
    """

    def __init__(
        self,
        view: "TransformerView",
        features: Any,
        mode: Mode = "project",
        strength: float = 1.0,
        tokens: str | Sequence[int] | slice = "all",
        mean: float | Sequence[float] | Float[Tensor, " width"] | None = None,
    ) -> None:
        self.view, self.strength = view, float(strength)
        self.mode = check_choice("mode", mode, ("project", "add", "center", "swap"))
        self.tokens: str | slice | list[int]
        if isinstance(tokens, str):
            if tokens != "all" and (tokens in RULES or not tokens):
                raise ValueError(
                    f"tokens must be 'all', a list of positions or a string in the prompt, not "
                    f"{tokens!r}"
                )
            self.tokens = tokens
        elif isinstance(tokens, slice):
            if any((end or 0) < 0 for end in (tokens.start, tokens.stop)) or tokens.step:
                raise ValueError(f"tokens must be a slice without step or negative ends: {tokens}")
            self.tokens = tokens
        else:
            self.tokens = [int(position) for position in tokens]
        if mean is not None and mode != "center":
            raise ValueError(f"mean is for mode='center' only, not for {mode!r}")
        features = as_list(features)
        places: dict[Place, list[int]] = {}
        for i, feature in enumerate(features):
            places.setdefault(check_place(view, *place_of(feature)), []).append(i)
        if mode == "swap" and (len(features) != 2 or len(places) != 1):
            raise ValueError("mode='swap' needs two features of one site and layer")
        self._edits = {
            place: self._edit([features[i].vector for i in own], _means(mean, own, view.D))
            for place, own in places.items()
        }
        self._selection = _Selection(view, self.tokens)
        self._stack: ExitStack | None = None

    def __enter__(self) -> Self:
        if self._stack is not None:
            raise RuntimeError("this Steer is already in use; make another one")
        with ExitStack() as stack:
            stack.enter_context(self._selection.watching())
            stack.enter_context(editing(self.view, self._edits))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def _edit(
        self, vectors: list[Tensor], mean: float | Tensor | None
    ) -> Callable[[Tensor], Tensor | None]:
        change = self._change(vectors, mean)

        def edit(stream: Tensor) -> Tensor | None:
            chosen = self._selection.mask(stream)
            if chosen is not None and not chosen.any():
                return None
            # The whole stream is changed and the unchosen tokens put back: no copy by index, which
            # would not be differentiable on all devices.
            changed = change(stream.float(), chosen).to(stream.dtype)
            return changed if chosen is None else torch.where(chosen[..., None], changed, stream)

        return edit

    def _change(
        self, vectors: list[Tensor], mean: float | Tensor | None
    ) -> Callable[[Tensor, Tensor | None], Tensor]:
        strength = self.strength
        directions = unit_directions(vectors)
        if self.mode == "project":
            return lambda x, _: project(x, directions.to(x.device), strength)
        if self.mode == "add":
            return lambda x, _: add(x, directions.to(x.device), strength)
        if self.mode == "swap":
            first, second = (vector.detach().float() for vector in vectors)
            first, second = first / first.norm(), second / second.norm()
            return lambda x, _: swap(x, first.to(x.device), second.to(x.device), strength)
        return self._centering(vectors, directions, mean)

    def _centering(
        self, vectors: list[Tensor], directions: Tensor, mean: float | Tensor | None
    ) -> Callable[[Tensor, Tensor | None], Tensor]:
        if mean is None:
            kept: Tensor | None = None

            def around_own(x: Tensor, chosen: Tensor | None) -> Tensor:
                nonlocal kept
                own = directions.to(x.device)
                # In later steps of `generate` there is one new token: the prompt's mean is kept.
                if kept is None or self._selection.starts:
                    rows = x[self._selection.real(x) if chosen is None else chosen]
                    kept = (rows @ own).mean(0)
                return center(x, own, kept.to(x.device), self.strength)

            return around_own
        if isinstance(mean, Tensor) and len(mean) == len(directions):
            along = mean.detach().float().cpu() @ directions
        else:
            # Means along the features' own directions, seen along the orthonormal ones.
            units = torch.stack([vector.detach().double().cpu() for vector in vectors], dim=1)
            units = units / units.norm(dim=0)
            wanted = torch.as_tensor(mean, dtype=torch.float64).flatten()
            along = torch.linalg.solve((units.T @ directions.double()), wanted).float()
        return lambda x, _: center(x, directions.to(x.device), along.to(x.device), self.strength)


def _means(
    mean: float | Sequence[float] | Tensor | None, own: list[int], width: int
) -> float | Tensor | None:
    """The means of some of the features, or the residual stream to take them from."""
    if mean is None or (isinstance(mean, Tensor) and mean.ndim == 1 and len(mean) == width):
        return mean
    means = torch.as_tensor(mean, dtype=torch.float64).flatten()
    if len(means) == 1:
        means = means.expand(max(own) + 1)
    if len(means) <= max(own):
        raise ValueError(
            f"mean must be one number for each feature, or a residual stream of {width} numbers"
        )
    return means[own]


class _Selection:
    """Which tokens of a pass are edited.

    A pass may be a step of `generate`: a few new tokens behind those in the cache, and prompts of
    unequal length padded on the left. Positions are counted from each prompt's own first token.
    """

    def __init__(self, view: "TransformerView", tokens: str | slice | list[int]) -> None:
        self._view, self._tokens = view, tokens
        self.starts = True  # whether the pass begins a prompt
        self._mask: Tensor | None = None
        self._real: Tensor | None = None

    def watching(self) -> Any:
        """Look at what the model is given, before it runs."""
        stack = ExitStack()
        body = self._view.adapter.body
        stack.callback(body.register_forward_pre_hook(self._look, with_kwargs=True).remove)
        return stack

    def mask(self, stream: Stream) -> Bool[Tensor, "batch tokens"] | None:
        """True at the tokens to edit; None for all."""
        return None if self._mask is None else self._mask.to(stream.device)

    def real(self, stream: Stream) -> Bool[Tensor, "batch tokens"]:
        """True at tokens that are no padding."""
        if self._real is None:
            return torch.ones(stream.shape[:-1], dtype=torch.bool, device=stream.device)
        return self._real.to(stream.device)

    def _look(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = args[0] if args else kwargs.get("input_ids")
        batch, new = (kwargs["inputs_embeds"] if ids is None else ids).shape[:2]
        cache = kwargs.get("cache", kwargs.get("past_key_values"))
        before = 0 if cache is None else int(cache.get_seq_length())
        self.starts = before == 0
        padding = kwargs.get("attention_mask")
        if not isinstance(padding, Tensor) or padding.ndim != 2:
            padding = torch.ones(batch, before + new, dtype=torch.long)
        padding = padding.cpu().bool()
        self._real = padding[:, before : before + new]
        if self._tokens == "all":
            self._mask = None
        elif isinstance(self._tokens, str):
            self._mask = self._anchored(self._tokens, ids, self._real)
        elif isinstance(self._tokens, slice):
            self._mask = _sliced(self._tokens, padding)[:, before : before + new]
        else:
            self._mask = self._listed(self._tokens, padding)[:, before : before + new]

    def _anchored(self, anchor: str, ids: Tensor | None, real: Tensor) -> Tensor:
        if ids is None:
            raise ValueError("tokens given as a string need a model that is called with input_ids")
        mask = torch.zeros(ids.shape, dtype=torch.bool)
        if not self.starts:
            return mask
        for i, row in enumerate(ids.tolist()):
            spans = anchor_spans(self._view.tokenizer, row, anchor)
            for span in spans:
                mask[i, span.start : span.stop] = True
            if not (mask[i] & real[i]).any():
                raise ValueError(f"tokens names {anchor!r}, which does not stand in prompt {i}")
        return mask & real

    def _listed(self, positions: list[int], padding: Tensor) -> Tensor:
        mask = torch.zeros(padding.shape, dtype=torch.bool)
        for i, row in enumerate(padding):
            own = row.nonzero()[:, 0]
            for position in positions:
                if self.starts and not -len(own) <= position < len(own):
                    raise ValueError(
                        f"tokens names position {position}, but prompt {i} has {len(own)} tokens"
                    )
                # Later tokens of `generate` are beyond the prompt, whose end is fixed.
                if self.starts or position >= 0:
                    mask[i, own[position]] = True
        return mask


def _sliced(tokens: slice, padding: Tensor) -> Tensor:
    own = padding.long().cumsum(1) - 1
    stop = own.max() + 1 if tokens.stop is None else tokens.stop
    return padding & (own >= (tokens.start or 0)) & (own < stop)
