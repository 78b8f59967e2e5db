"""What a model does on prompts: values of observables, and perplexity."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.obprop.observable import Observable

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["observable_values", "perplexity"]


def observable_values(
    view: "TransformerView",
    observables: Observable | Sequence[Observable],
    texts: Sequence[str],
    batch_size: int = 16,
) -> Float[np.ndarray, "texts observables"]:
    """Observables at the last token of prompts.

    Parameters
    ----------
    view
        The model.
    observables
        One or several.
    texts
        Prompts.
    batch_size
        Prompts that go through the model together.

    Raises
    ------
    ValueError
        If a prompt is empty or longer than the context.
    """
    chosen = [observables] if isinstance(observables, Observable) else list(observables)
    values = np.empty((len(texts), len(chosen)), dtype=np.float32)
    for rows, ids in _batches(view, texts, batch_size):
        with torch.no_grad():
            logits = view.adapter.run(ids, None, 1)[:, -1]
        for i, observable in enumerate(chosen):
            values[rows, i] = observable.of_logits(logits).cpu().numpy()
    return values


def perplexity(view: "TransformerView", texts: Sequence[str], batch_size: int = 8) -> float:
    """The perplexity of texts: exp of the mean negative log-likelihood of a token in nats.

    The first token of each text is given, not predicted.

    Parameters
    ----------
    view
        The model.
    texts
        Texts of at least two tokens.
    batch_size
        Texts that go through the model together.

    Raises
    ------
    ValueError
        If no text has two tokens.
    """
    total, count = 0.0, 0
    for _, ids in _batches(view, texts, batch_size):
        if ids.shape[1] < 2:
            continue
        with torch.no_grad():
            logits = view.adapter.run(ids, None, ids.shape[1])
        predicted, actual = logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(
            predicted.float(), actual.to(predicted.device), reduction="sum"
        )
        total, count = total + float(loss), count + len(actual)
    if count == 0:
        raise ValueError("texts must have at least one of two tokens or more")
    return float(np.exp(total / count))


def _batches(
    view: "TransformerView", texts: Sequence[str], batch_size: int
) -> Iterator[tuple[list[int], Tensor]]:
    """Batches of texts of equal length, so that nothing is padded, with the texts' numbers."""
    if isinstance(texts, str):
        raise TypeError("texts must be several texts, such as a list, not one string")
    by_length: dict[int, list[tuple[int, Any]]] = {}
    for i, text in enumerate(texts):
        ids = view.encode(text)
        by_length.setdefault(len(ids), []).append((i, ids))
    for own in by_length.values():
        for start in range(0, len(own), batch_size):
            rows, ids = zip(*own[start : start + batch_size], strict=True)
            yield list(rows), torch.stack(ids).to(view.adapter.input_device)
