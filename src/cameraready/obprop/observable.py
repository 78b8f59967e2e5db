"""Linear functionals of the logits, such as the logit of " she" less that of " he"."""

import inspect
import json
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.common import atomic_write, check_choice
from cameraready.obprop.errors import TokenizationError

__all__ = ["Observable"]


@dataclass(frozen=True, eq=False)
class Observable:
    """A linear functional n of the logits; its value on a prompt is n·logits at one position.

    Dunefsky and Cohan, "Observable Propagation: Uncovering Feature Vectors in Transformers",
    ICML 2024, section 2.

    Parameters
    ----------
    vector
        n, float32. It may be shorter than a model's vocabulary, which is often padded.
    name
        What to call it.
    positive, negative
        The tokens with a weight of their own and those with its opposite.
    weights
        The weights of the positive tokens, then those of the negative ones before the sign is
        turned; all 1 when not given.

    Raises
    ------
    ValueError
        If n is zero or not finite.

    Examples
    --------
    >>> observable = Observable(torch.tensor([0.0, 1.0, -1.0]), "she-he", (" she",), (" he",))
    >>> observable.pull_back(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    tensor([-1.,  0.])
    """

    vector: Float[Tensor, " vocabulary"]
    name: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.vector.ndim != 1 or not torch.isfinite(self.vector).all():
            raise ValueError("vector must be one row of finite weights, one for each token")
        if not self.vector.any():
            raise ValueError("observable has no tokens")
        total, size = float(self.vector.sum()), float(self.vector.abs().sum())
        if abs(total) > 1e-4 * size:
            warnings.warn(
                f"the weights of observable {self.name!r} sum to {total:.3g}, not 0, so that it "
                "depends on a constant added to all logits; normalize='mean' balances unequal "
                "lists",
                stacklevel=3,
            )

    @classmethod
    def from_tokens(
        cls,
        tokenizer: Any,
        positive: Sequence[str],
        negative: Sequence[str],
        weights: Sequence[float] | None = None,
        normalize: Literal["mean"] | None = None,
        first_token: bool = False,
        name: str | None = None,
    ) -> "Observable":
        """The logits of some tokens less those of others.

        Parameters
        ----------
        tokenizer
            The model's tokenizer, of `transformers`.
        positive, negative
            Strings, each of exactly one token. Most tokenizers hold a word with the space in
            front of it as one token.
        weights
            A weight for each string, the positive ones first; all 1 when not given.
        normalize
            ``"mean"`` divides each side by the sum of its weights, so that lists of unequal length
            balance.
        first_token
            Take the first token of a string that has several, with a warning.
        name
            What to call it; made of the strings when not given.

        Raises
        ------
        TokenizationError
            If a string is not exactly one token; the message shows its pieces.
        ValueError
            If there are no tokens, they cancel, or the weights do not fit.
        """
        check_choice("normalize", normalize, (None, "mean"))
        for argument, strings in (("positive", positive), ("negative", negative)):
            if isinstance(strings, str):
                raise TypeError(f"{argument} must be a list of strings, not the string {strings!r}")
        strings = [*positive, *negative]
        if not strings:
            raise ValueError("observable has no tokens: positive and negative are empty")
        sizes = [1.0] * len(strings) if weights is None else [float(weight) for weight in weights]
        if len(sizes) != len(strings):
            raise ValueError(
                f"weights must hold one number for each of the {len(strings)} strings, "
                f"not {len(sizes)}"
            )
        split = len(positive)
        if normalize == "mean":
            totals = [sum(sizes[:split])] * split + [sum(sizes[split:])] * len(negative)
            if any(total <= 0 for total in totals):
                raise ValueError("normalize='mean' needs weights with a positive sum on each side")
            sizes = [size / total for size, total in zip(sizes, totals, strict=True)]
        vector = torch.zeros(len(tokenizer))
        taken = []
        for i, (string, size) in enumerate(zip(strings, sizes, strict=True)):
            argument = "positive" if i < split else "negative"
            token, text = _single_token(tokenizer, argument, string, first_token)
            vector[token] += size if i < split else -size
            taken.append(text)
        return cls(
            vector,
            name or "-".join(_joined(side) for side in (taken[:split], taken[split:]) if side),
            tuple(taken[:split]),
            tuple(taken[split:]),
            None if all(size == 1 for size in sizes) else tuple(sizes),
        )

    @classmethod
    def parse(cls, text: str, tokenizer: Any, **settings: Any) -> "Observable":
        """The observable that a text in a line gives: ``"+ she,- he"``.

        A comma stands between tokens. Each has a sign in front; all that follows the sign is the
        token, its leading space too. A token with a comma needs `from_tokens` or a file.

        Parameters
        ----------
        text
            Signs and tokens.
        tokenizer
            The model's tokenizer.
        **settings
            As for `from_tokens`.

        Raises
        ------
        ValueError
            If a sign or a token is missing.
        """
        sides: dict[str, list[str]] = {"+": [], "-": []}
        for item in text.split(","):
            found = re.fullmatch(r"\s*([+-])(.+)", item, flags=re.DOTALL)
            if found is None:
                raise ValueError(
                    f"observable {text!r} must be signs and tokens with commas between them, "
                    f"such as '+ she,- he'; {item!r} is not"
                )
            sides[found[1]].append(found[2])
        return cls.from_tokens(tokenizer, sides["+"], sides["-"], **settings)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str], tokenizer: Any) -> "Observable":
        """Read an observable from a file.

        Parameters
        ----------
        path
            A JSON object with ``positive`` and ``negative``, lists of strings, and where wanted
            ``name``, ``weights`` and ``normalize``, as for `from_tokens`.
        tokenizer
            The model's tokenizer.

        Raises
        ------
        ValueError
            If the file does not hold such an object.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"observable file {path} is not JSON: {error}") from None
        known = {"name", "positive", "negative", "weights", "normalize"}
        if not isinstance(content, dict) or not {"positive", "negative"} <= set(content) <= known:
            raise ValueError(
                f"observable file {path} must hold an object with 'positive' and 'negative' and, "
                "where wanted, 'name', 'weights' and 'normalize'"
            )
        for side in ("positive", "negative"):
            strings = content[side]
            if not isinstance(strings, list) or not all(isinstance(s, str) for s in strings):
                raise ValueError(f"{side!r} in observable file {path} must be a list of strings")
        content.setdefault("name", Path(path).stem)
        return cls.from_tokens(tokenizer, **content)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the observable so that `from_json` reads it with the same tokenizer.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        ValueError
            If the observable was made of a vector alone.
        """
        if not self.positive and not self.negative:
            raise ValueError(
                f"observable {self.name!r} was made of a vector without its tokens and cannot be "
                "written as JSON"
            )
        content: dict[str, Any] = {
            "name": self.name,
            "positive": list(self.positive),
            "negative": list(self.negative),
        }
        if self.weights is not None:
            content["weights"] = list(self.weights)
        with atomic_write(path) as file:
            file.write(json.dumps(content, ensure_ascii=False, indent=2) + "\n")

    def pull_back(self, unembed: Float[Tensor, "vocabulary width"]) -> Float[Tensor, " width"]:
        """The functional on what the unembedding reads: W_U'n, in float32.

        Parameters
        ----------
        unembed
            The unembedding W_U, one row for each token.

        Raises
        ------
        ValueError
            If a token of the observable is beyond the unembedding's rows.
        """
        # An observable has few tokens: only their rows are read and cast.
        tokens = self.vector.nonzero()[:, 0].to(unembed.device)
        self._check_vocabulary(unembed.shape[0])
        return unembed[tokens].float().T @ self.vector.to(unembed.device)[tokens].float()

    def of_logits(self, logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch"]:
        """n·logits along the last axis, in float32.

        Parameters
        ----------
        logits
            Logits of one or more positions.

        Raises
        ------
        ValueError
            If a token of the observable is beyond the vocabulary.
        """
        tokens = self.vector.nonzero()[:, 0].to(logits.device)
        self._check_vocabulary(logits.shape[-1])
        return logits[..., tokens].float() @ self.vector.to(logits.device)[tokens].float()

    def value(
        self, model: Any, text_or_ids: str | Sequence[int] | Tensor, position: int = -1
    ) -> float:
        """The observable on one prompt.

        Parameters
        ----------
        model
            A `TransformerView`, or a causal language model of `transformers` when ids are given.
        text_or_ids
            The prompt, as text or as one row of token ids.
        position
            The token whose logits are read.

        Raises
        ------
        ValueError
            If the prompt is empty or has no such position, or a text comes without a tokenizer.
        """
        tokenizer = None
        if not isinstance(model, torch.nn.Module):
            tokenizer, model = model.tokenizer, model.model
        if isinstance(text_or_ids, str):
            if tokenizer is None:
                raise ValueError(
                    "a text needs a tokenizer: pass a TransformerView as model, or token ids"
                )
            text_or_ids = tokenizer(text_or_ids)["input_ids"]
        ids = torch.as_tensor(text_or_ids, dtype=torch.long).flatten()
        if not -len(ids) <= position < len(ids):
            raise ValueError(f"position must be one of the {len(ids)} tokens, not {position}")
        # Later tokens do not matter to a causal model: the wanted position becomes the last one.
        ids = ids[: position % len(ids) + 1].to(_device(model))
        settings: dict[str, Any] = {"use_cache": False}
        if "logits_to_keep" in inspect.signature(model.forward).parameters:
            settings["logits_to_keep"] = 1
        with torch.no_grad():
            logits = model(input_ids=ids[None], **settings).logits
        return float(self.of_logits(logits[0, -1]))

    def _check_vocabulary(self, rows: int) -> None:
        last = int(self.vector.nonzero()[-1])
        if last >= rows:
            raise ValueError(
                f"observable {self.name!r} has the token {last}, but the model's vocabulary has "
                f"only {rows}; make it with this model's tokenizer"
            )


def _single_token(tokenizer: Any, argument: str, string: str, first_token: bool) -> tuple[int, str]:
    ids = tokenizer.encode(string, add_special_tokens=False)
    if len(ids) == 1:
        return ids[0], string
    pieces = [tokenizer.decode([token]) for token in ids]
    if first_token and ids:
        piece = pieces[0]
        if tokenizer.encode(piece, add_special_tokens=False) == ids[:1]:
            warnings.warn(
                f"{string!r} is {len(ids)} tokens {pieces}; the first, {piece!r}, stands for it",
                stacklevel=4,
            )
            return ids[0], piece
    message = (
        f"{string!r} in {argument} must be exactly one token, but is {len(ids)}: {pieces}"
        if ids
        else f"{string!r} in {argument} must be exactly one token, but is none"
    )
    other = string[1:] if string.startswith(" ") else f" {string}"
    if len(tokenizer.encode(other, add_special_tokens=False)) == 1:
        space = "without the" if string.startswith(" ") else "with a"
        message += f"; {other!r}, {space} leading space, is one"
    elif not first_token:
        space = "without its" if string.startswith(" ") else "with a"
        message += f"; choose another word, try it {space} leading space, or pass first_token=True"
    raise TokenizationError(message)


def _joined(strings: Sequence[str]) -> str:
    return "+".join(string.strip() or repr(string) for string in strings)


def _device(model: Any) -> torch.device:
    return model.get_input_embeddings().weight.device
