"""Runs of a model that keep the residual stream and the attention weights."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cameraready.obprop.adapters import Adapter

__all__ = ["Activations", "Site", "run_model"]

Site = Literal["resid_pre", "resid_mid"]


@dataclass(eq=False)
class Activations:
    """What was kept of a run on a batch of prompts, in float32, each layer on its own device.

    Parameters
    ----------
    ids
        Token ids.
    resid_pre
        The residual stream before each kept layer; under the key L, that after the last layer.
    resid_mid
        That between attention and MLP; for parallel blocks that before the layer.
    attention_output
        What the heads give together, with the bias, before any norm behind them.
    attention
        Attention weights of each head, destination before source, where they were asked for.
    logits
        Logits of the last token, for prompts without padding.
    """

    ids: Int[Tensor, "batch tokens"]
    resid_pre: dict[int, Float[Tensor, "batch tokens width"]] = field(default_factory=dict)
    resid_mid: dict[int, Float[Tensor, "batch tokens width"]] = field(default_factory=dict)
    attention_output: dict[int, Float[Tensor, "batch tokens width"]] = field(default_factory=dict)
    attention: dict[int, Float[Tensor, "batch heads tokens tokens"]] = field(default_factory=dict)
    logits: Float[Tensor, "batch vocabulary"] | None = None

    def site(self, site: Site, layer: int) -> Float[Tensor, "batch tokens width"]:
        """The residual stream at a site of a layer."""
        return self.resid_pre[layer] if site == "resid_pre" else self.resid_mid[layer]


def run_model(
    adapter: Adapter,
    ids: Int[Tensor, "batch tokens"],
    names: Sequence[str],
    layers: Collection[int],
    attention: bool = False,
    mask: Int[Tensor, "batch tokens"] | None = None,
) -> Activations:
    """Run a model once and keep what hooks see.

    Parameters
    ----------
    adapter
        The model's adapter.
    ids
        Token ids.
    names
        What to call each prompt in an error.
    layers
        The layers to keep; the number of layers is the stream after the last one.
    attention
        Keep the attention weights of these layers too.
    mask
        For prompts padded on the right: 1 for tokens, 0 for padding.

    Raises
    ------
    ValueError
        If attention weights are not to be had or an activation is not finite.
    """
    if attention and adapter.attention_hint is not None:
        raise ValueError(adapter.attention_hint)
    kept = Activations(ids)
    padding = None if mask is None else mask.to(adapter.input_device)

    def keep(store: dict[int, Tensor], layer: int, value: Tensor) -> None:
        value = value.detach().reshape(*ids.shape, adapter.width).float()
        seen = value if mask is None else value * mask.to(value.device)[..., None]
        finite = seen.isfinite().flatten(1).all(1)
        if not finite.all():
            raise ValueError(
                f"layer {layer} has activations that are NaN or infinite on the prompt "
                f"{names[int(finite.int().argmin())]}"
            )
        store[layer] = value

    def keep_attention(layer: int, weights: Tensor | None) -> None:
        if weights is None:
            raise ValueError(
                f"layer {layer} gave no attention weights; load the model with "
                "attn_implementation='eager'"
            )
        kept.attention[layer] = weights.detach().float()

    with ExitStack() as hooks, torch.no_grad():
        for layer in layers:
            if layer == len(adapter.layers):
                module = adapter.final_norm_module()
                _on_input(hooks, module, lambda x, at=layer: keep(kept.resid_pre, at, x))
                continue
            module = adapter.block(layer)
            _on_input(hooks, module, lambda x, at=layer: keep(kept.resid_pre, at, x))
            module = adapter.attention(layer)
            _on_output(
                hooks, module, lambda out, at=layer: keep(kept.attention_output, at, _first(out))
            )
            if attention:
                module, take = adapter.attention_weights(layer)
                _on_output(
                    hooks, module, lambda out, at=layer, take=take: keep_attention(at, take(out))
                )
        logits = adapter.run(ids.to(adapter.input_device), padding, 1)
    if mask is None:
        kept.logits = logits[:, -1].float()
    for layer, output in kept.attention_output.items():
        norm = adapter.norm_after_attention(layer)
        added = output if norm is None else norm.to(output.device)(output)
        stream = kept.resid_pre[layer]
        kept.resid_mid[layer] = stream if adapter.parallel else stream + added.to(stream.device)
    return kept


def _on_input(hooks: ExitStack, module: nn.Module, action: Callable[[Tensor], None]) -> None:
    def hook(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        action(arguments[0] if arguments else named["hidden_states"])

    hooks.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)


def _on_output(hooks: ExitStack, module: nn.Module, action: Callable[[Any], None]) -> None:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        action(output)

    hooks.callback(module.register_forward_hook(hook).remove)


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output
