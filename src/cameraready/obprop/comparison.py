"""What a model says without and with an edit of its residual stream."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from cameraready.obprop.evaluation import observable_values
from cameraready.obprop.observable import Observable
from cameraready.obprop.steering import Steer

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.view import TransformerView

__all__ = ["steered_outputs"]


def steered_outputs(
    view: "TransformerView",
    steer: Steer,
    prompts: Sequence[str],
    observables: Sequence[Observable] = (),
    new_tokens: int = 0,
    temperature: float = 0.0,
    seed: int = 0,
    track: Callable[[Sequence[str]], Iterable[str]] = iter,
) -> "pd.DataFrame":
    """Run prompts without and with a `Steer`, beside each other.

    Parameters
    ----------
    view
        The model.
    steer
        The edit, not in use.
    prompts
        The prompts, which are run one after another.
    observables
        Whose values at the last token are wanted.
    new_tokens
        How many tokens to generate; 0 gives the likeliest next token instead.
    temperature
        0 takes the likeliest token each time; above it tokens are drawn, with the same random
        numbers without and with the edit.
    seed
        Of the drawing.
    track
        Wraps the prompts, to show progress.

    Returns
    -------
    outputs
        A row for each prompt and an ``edit`` of ``"none"`` or the steer's mode, with columns
        ``prompt, edit, output`` and one for each observable, by its name.

    Raises
    ------
    ValueError
        If a number is negative, or a prompt is empty or too long.
    """
    import pandas as pd

    if new_tokens < 0 or temperature < 0:
        raise ValueError(
            f"new_tokens and temperature must not be negative, not {new_tokens} and {temperature}"
        )
    rows: list[dict[str, Any]] = []
    for prompt in track(prompts):
        for edit, context in (("none", nullcontext()), (steer.mode, steer)):
            with context:
                values = observable_values(view, list(observables), [prompt])[0]
                output = _continue(view, prompt, new_tokens, temperature, seed)
            named = zip((each.name for each in observables), values.tolist(), strict=True)
            rows.append({"prompt": prompt, "edit": edit, "output": output, **dict(named)})
    columns = ["prompt", "edit", "output", *(each.name for each in observables)]
    return pd.DataFrame(rows, columns=columns)


def _continue(
    view: "TransformerView", prompt: str, new_tokens: int, temperature: float, seed: int
) -> str:
    ids = view.encode(prompt)[None].to(view.adapter.input_device)
    if new_tokens == 0:
        with torch.no_grad():
            logits = view.adapter.run(ids, None, 1)[0, -1]
        return view.tokenizer.decode([int(logits.argmax())])
    drawn: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        torch.manual_seed(seed)
        drawn = {"do_sample": True, "temperature": temperature}
    padding = view.tokenizer.pad_token_id
    model: Any = view.model
    generated = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new_tokens,
        pad_token_id=view.tokenizer.eos_token_id if padding is None else padding,
        **drawn,
    )
    return view.tokenizer.decode(generated[0, ids.shape[1] :], skip_special_tokens=True)
