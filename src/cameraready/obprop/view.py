"""A language model seen as heads, norms and MLPs around a residual stream."""

import hashlib
import os
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cameraready.obprop.activations import Activations, Site, run_model
from cameraready.obprop.adapters import Adapter, adapter_of, model_type_of, supported_types
from cameraready.obprop.errors import UnsupportedArchitectureError
from cameraready.obprop.norms import Norm

__all__ = ["TransformerView"]


class TransformerView:
    """Weights by head, and runs that keep the residual stream.

    The model is put into evaluation mode. Weights are cast to float32 when they are asked for, a
    layer at a time, and what is computed from them is float32 whatever the model's type.

    Parameters
    ----------
    model
        A causal language model of `transformers`, or a `HookedTransformer`.
    tokenizer
        Its tokenizer, of `transformers`. Prompts become what it makes of them, with a token for
        the beginning of the text only where it adds one itself.

    Attributes
    ----------
    L, H, D : int
        Layers, query heads of a layer, and the width of the residual stream.
    adapter : Adapter
        Where the architecture keeps its parts.

    Raises
    ------
    UnsupportedArchitectureError
        If no adapter knows the model's architecture.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.adapter: Adapter = adapter_of(model)
        self.model = model.eval()
        self.model_type = model_type_of(model)
        self.tokenizer = tokenizer
        self.L = len(self.adapter.layers)
        self.H = self.adapter.heads
        self.D = self.adapter.width

    def __repr__(self) -> str:
        return f"TransformerView({self.model_type}, L={self.L}, H={self.H}, D={self.D})"

    @classmethod
    def from_pretrained(
        cls,
        path_or_id: str | os.PathLike[str],
        dtype: str | torch.dtype = "float32",
        device_map: Any = None,
        **hf_kwargs: Any,
    ) -> "TransformerView":
        """Load a model and its tokenizer.

        Parameters
        ----------
        path_or_id
            A folder, a name on the Hugging Face hub, or a GGUF file.
        dtype
            The type in which the weights are held.
        device_map
            As for `transformers`; ``"auto"`` spreads the layers over the devices there are.
        **hf_kwargs
            Further settings of ``AutoModelForCausalLM.from_pretrained``.

        Raises
        ------
        UnsupportedArchitectureError
            If no adapter knows the architecture.
        ValueError
            If it is a path at which there is nothing.
        """
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

        path, source = Path(path_or_id), str(path_or_id)
        settings: dict[str, Any] = {}
        if path.suffix == ".gguf":
            if not path.is_file():
                raise ValueError(f"path_or_id {source} is not a file")
            source, settings = str(path.parent), {"gguf_file": path.name}
            hf_kwargs.setdefault("quantization_config", GgufConfig(dequantize=True))
        elif isinstance(path_or_id, os.PathLike) and not path.is_dir():
            raise ValueError(f"path_or_id {source} is not a folder")
        # Told before any weight is read.
        config = AutoConfig.from_pretrained(source, **settings)
        if config.model_type not in supported_types():
            raise UnsupportedArchitectureError(config.model_type, supported_types())
        tokenizer = AutoTokenizer.from_pretrained(source, **settings)
        hf_kwargs.setdefault("attn_implementation", "eager")
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, device_map=device_map, **settings, **hf_kwargs
        )
        return cls(model, tokenizer)

    # --- weights

    @property
    def unembed(self) -> Float[Tensor, "vocabulary width"]:
        """W_U, in the model's type."""
        return self.adapter.unembedding().detach()

    def wv(self, layer: int, head: int) -> Float[Tensor, "head_width width"]:
        """W_V of a query head; with grouped-query attention that of its key/value head."""
        shared = self.H // self.adapter.key_value_heads
        return self.adapter.value_weight(layer)[head // shared].detach().float()

    def wo(self, layer: int, head: int) -> Float[Tensor, "width head_width"]:
        """W_O of a head."""
        return self.adapter.output_weight(layer)[head].detach().float()

    def values(self, layer: int) -> Float[Tensor, "heads head_width width"]:
        """W_V of all query heads of a layer."""
        weight = self.adapter.value_weight(layer).detach().float()
        return weight.repeat_interleave(self.H // len(weight), 0)

    def outputs(self, layer: int) -> Float[Tensor, "heads width head_width"]:
        """W_O of all heads of a layer."""
        return self.adapter.output_weight(layer).detach().float()

    @property
    def mlp_site(self) -> Site:
        """The site that MLPs read."""
        return "resid_pre" if self.adapter.parallel else "resid_mid"

    def mlp(self, layer: int, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """An MLP, in float32, of its normed input."""
        module = self.adapter.mlp(layer)
        weights = dict(module.named_parameters())
        first = next(iter(weights.values()), x)
        if all(weight.dtype in (torch.float32, torch.float64) for weight in weights.values()):
            return module(x.to(first)).to(x)
        weights = {
            name: weight.float() if weight.is_floating_point() else weight
            for name, weight in weights.items()
        }
        return torch.func.functional_call(module, weights, (x.to(first.device),)).to(x)

    def final_norm(self) -> Norm:
        """The norm before the unembedding."""
        return self.adapter.final_norm()

    @cached_property
    def fingerprint(self) -> str:
        """A hash that tells the model from others: of its shape and of some of its weights.

        The weights are rounded to bfloat16 first, so that the same model held in a shorter type
        has the same hash.
        """
        adapter = self.adapter
        shape = (
            self.model_type,
            *(self.L, self.H, adapter.key_value_heads, self.D, adapter.head_width),
            len(self.unembed),
        )
        digest = hashlib.sha256(repr(shape).encode())
        for weight in (self.final_norm().weight, self.wv(self.L // 2, 0)):
            rounded = weight.to(torch.bfloat16).contiguous().cpu()
            digest.update(rounded.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    # --- runs

    def encode(self, text: str) -> Int[Tensor, " tokens"]:
        """The tokens of a prompt, as the tokenizer makes them.

        Raises
        ------
        ValueError
            If there is none, or there are more than the model reads.
        """
        ids = self.tokenizer(text)["input_ids"]
        if not ids:
            raise ValueError(f"the prompt {text!r} has no tokens")
        longest = self.context
        if longest is not None and len(ids) > longest:
            raise ValueError(
                f"the prompt {_short(text)!r} has {len(ids)} tokens, but the model reads at most "
                f"{longest}; shorten it or split it into windows"
            )
        return torch.tensor(ids)

    @property
    def context(self) -> int | None:
        """How many tokens the model reads at most, where its configuration says so."""
        config = self.adapter.config
        return getattr(config, "max_position_embeddings", getattr(config, "n_ctx", None))

    def run(
        self,
        prompts: str | Sequence[str] | Int[Tensor, "batch tokens"],
        layers: Collection[int] | None = None,
        attention: bool = False,
        mask: Int[Tensor, "batch tokens"] | None = None,
    ) -> Activations:
        """Run prompts of equal length and keep the residual stream.

        Parameters
        ----------
        prompts
            Texts, or token ids.
        layers
            The layers to keep, all when None; L is the stream after the last one.
        attention
            Keep the attention weights of these layers too.
        mask
            For prompts padded on the right: 1 for tokens, 0 for padding.

        Raises
        ------
        ValueError
            If the prompts are of unequal length, attention weights are not to be had, or an
            activation is not finite.
        """
        if isinstance(prompts, Tensor):
            ids, names = prompts, [f"of tokens {row.tolist()}" for row in prompts[:, :8]]
        else:
            texts = [prompts] if isinstance(prompts, str) else prompts
            rows = [self.encode(text) for text in texts]
            if len({len(row) for row in rows}) > 1:
                raise ValueError(
                    f"prompts must have the same number of tokens, not {[len(row) for row in rows]}"
                )
            ids, names = torch.stack(rows), [repr(_short(text)) for text in texts]
        kept = range(self.L + 1) if layers is None else sorted(set(layers))
        return run_model(self.adapter, ids, names, kept, attention, mask)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
