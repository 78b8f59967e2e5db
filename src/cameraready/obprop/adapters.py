"""Where each architecture keeps its heads, norms and MLPs."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from cameraready.obprop.errors import UnsupportedArchitectureError
from cameraready.obprop.norms import Norm

__all__ = ["Adapter", "adapter_of", "register_adapter", "supported_types"]


class Adapter:
    """The pieces of a pre-norm decoder, as Llama names them; other architectures override.

    Layer l adds to the residual stream r what its heads and its MLP give:
    m = r + A(sum over heads of W_O W_V N1(r)) and r + ... + B(MLP(N2(m))), where A and B are the
    norms that some architectures have behind a component, and MLP(N2(r)) where `parallel`.

    Parameters
    ----------
    model
        A causal language model.
    """

    base = "model"
    blocks = "layers"
    attention_name = "self_attn"
    value_name = "v_proj"
    output_name = "o_proj"
    mlp_name = "mlp"
    attention_norm_name = "input_layernorm"
    mlp_norm_name = "post_attention_layernorm"
    final_norm_name = "norm"

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model
        self.config: Any = model.config
        self._check()
        self.body = model.get_submodule(self.base)
        self.layers: list[nn.Module] = list(self.body.get_submodule(self.blocks).children())
        self.heads: int = self.config.num_attention_heads
        self.width: int = self.config.hidden_size
        self.key_value_heads: int = getattr(self.config, "num_key_value_heads", None) or self.heads
        self.head_width: int = getattr(self.config, "head_dim", None) or self.width // self.heads

    def _check(self) -> None:
        """Raise if the model is a variant of its architecture that the adapter does not fit."""

    # --- how the model is put together

    @property
    def parallel(self) -> bool:
        """Whether attention and MLP of a layer read the same residual stream."""
        return False

    @property
    def input_device(self) -> torch.device:
        """Where token ids go."""
        embedding: Any = self.model.get_input_embeddings()
        return embedding.weight.device

    def block(self, layer: int) -> nn.Module:
        """The module whose first input is the residual stream before the layer."""
        return self.layers[layer]

    def attention(self, layer: int) -> nn.Module:
        """The module that gives the sum of the heads' outputs, alone or first in a tuple."""
        return self.layers[layer].get_submodule(self.attention_name)

    def attention_weights(self, layer: int) -> tuple[nn.Module, Callable[[Any], Tensor | None]]:
        """The module whose output holds the attention weights, and how to take them from it."""
        return self.attention(layer), lambda output: output[1]

    def mlp(self, layer: int) -> nn.Module:
        """The MLP, from the normed residual stream to what it adds."""
        return self.layers[layer].get_submodule(self.mlp_name)

    def final_norm_module(self) -> nn.Module:
        """The module whose first input is the residual stream after the last layer."""
        return self.body.get_submodule(self.final_norm_name)

    def run(self, ids: Tensor, mask: Tensor | None, keep: int) -> Tensor:
        """The logits of the last `keep` tokens."""
        settings = {} if mask is None else {"attention_mask": mask}
        return self.model(input_ids=ids, use_cache=False, logits_to_keep=keep, **settings).logits

    @property
    def attention_hint(self) -> str | None:
        """Why attention weights are not to be had, with the remedy, or None where they are."""
        used = getattr(self.config, "_attn_implementation", "eager")
        if used == "eager":
            return None
        return (
            f"attention implementation {used!r} gives no attention weights; load the model with "
            "attn_implementation='eager', or call model.set_attn_implementation('eager')"
        )

    # --- weights

    def value_weight(self, layer: int) -> Float[Tensor, "kv_heads head_width width"]:
        """W_V of each key/value head."""
        weight = self._matrix(self._value_module(layer))
        return weight.unflatten(0, (self.key_value_heads, self.head_width))

    def value_bias(self, layer: int) -> Float[Tensor, "kv_heads head_width"] | None:
        """The bias of each key/value head's values."""
        bias = self._value_module(layer).bias
        return None if bias is None else bias.unflatten(0, (self.key_value_heads, self.head_width))

    def output_weight(self, layer: int) -> Float[Tensor, "heads width head_width"]:
        """W_O of each head."""
        weight = self._matrix(self._output_module(layer))
        return weight.unflatten(1, (self.heads, self.head_width)).movedim(0, 1)

    def output_bias(self, layer: int) -> Float[Tensor, " width"] | None:
        """What attention adds whatever the heads give."""
        return self._output_module(layer).bias

    def attention_norm(self, layer: int) -> Norm:
        """The norm before attention."""
        return self._norm(self.layers[layer].get_submodule(self.attention_norm_name))

    def mlp_norm(self, layer: int) -> Norm:
        """The norm before the MLP."""
        return self._norm(self.layers[layer].get_submodule(self.mlp_norm_name))

    def norm_after_attention(self, layer: int) -> Norm | None:
        """The norm between attention and the residual stream, where there is one."""
        return None

    def norm_after_mlp(self, layer: int) -> Norm | None:
        """The norm between the MLP and the residual stream, where there is one."""
        return None

    def final_norm(self) -> Norm:
        """The norm before the unembedding."""
        return self._norm(self.final_norm_module())

    def unembedding(self) -> Float[Tensor, "vocabulary width"]:
        """W_U."""
        return self._matrix(self.model.get_output_embeddings())

    def unembedding_bias(self) -> Float[Tensor, " vocabulary"] | None:
        """What is added to the logits."""
        return self.model.get_output_embeddings().bias

    @property
    def softcap(self) -> float | None:
        """The c of logits c·tanh(x/c), with x the unembedding's output, or None.

        An observable is propagated from x: the cap is monotone and close to x for |x| far below c.
        """
        return getattr(self.config, "final_logit_softcapping", None)

    # --- reading modules

    def _value_module(self, layer: int) -> Any:
        return self.attention(layer).get_submodule(self.value_name)

    def _output_module(self, layer: int) -> Any:
        return self.attention(layer).get_submodule(self.output_name)

    def _matrix(self, module: Any) -> Float[Tensor, "out in"]:
        """A linear layer's weight; unpacked where the layer is quantised and can do that."""
        from transformers.pytorch_utils import Conv1D

        weight: Any = getattr(module, "weight", None)
        if isinstance(module, nn.Linear | Conv1D) and type(weight) in (Tensor, nn.Parameter):
            if weight.is_meta:
                raise ValueError(
                    f"the weights of layer {self._name(module)} are not in memory; load the model "
                    "without offloading"
                )
            if weight.is_floating_point():
                return weight.T if isinstance(module, Conv1D) else weight
        unpack = getattr(module, "dequantize", None)
        if unpack is None and isinstance(weight, Tensor) and type(weight) is not nn.Parameter:
            unpack = weight.dequantize  # a tensor type of its own, as torchao's
        if unpack is None:
            raise ValueError(
                f"layer {self._name(module)} ({type(module).__name__}) is quantised or wrapped and "
                "offers no dequantize(); load the model unquantised, with any adapter merged"
            )
        return unpack()

    def _name(self, module: nn.Module) -> str:
        names = (name for name, other in self.model.named_modules() if other is module)
        return next(names, type(module).__name__)

    def _norm(self, module: Any) -> Norm:
        """The norm that a module computes."""
        if isinstance(module, nn.LayerNorm):
            width = module.normalized_shape[0]
            weight = torch.ones(width) if module.weight is None else module.weight.detach().float()
            bias = None if module.bias is None else module.bias.detach().float()
            return Norm(weight, bias, module.eps, "layernorm")
        return Norm(module.weight.detach().float(), None, module.variance_epsilon, "rmsnorm")


class GPT2Adapter(Adapter):
    """GPT-2: one matrix for queries, keys and values, stored transposed."""

    base = "transformer"
    blocks = "h"
    attention_name = "attn"
    value_name = "c_attn"
    output_name = "c_proj"
    attention_norm_name = "ln_1"
    mlp_norm_name = "ln_2"
    final_norm_name = "ln_f"

    @override
    def _check(self) -> None:
        if getattr(self.config, "add_cross_attention", False):
            raise UnsupportedArchitectureError("gpt2 with cross-attention", supported_types())

    @override
    def value_weight(self, layer: int) -> Float[Tensor, "kv_heads head_width width"]:
        weight = self._matrix(self._value_module(layer))[2 * self.width :]
        return weight.unflatten(0, (self.heads, self.head_width))

    @override
    def value_bias(self, layer: int) -> Float[Tensor, "kv_heads head_width"] | None:
        bias = self._value_module(layer).bias[2 * self.width :]
        return bias.unflatten(0, (self.heads, self.head_width))


class GPTNeoAdapter(Adapter):
    """GPT-Neo."""

    base = "transformer"
    blocks = "h"
    attention_name = "attn.attention"
    output_name = "out_proj"
    attention_norm_name = "ln_1"
    mlp_norm_name = "ln_2"
    final_norm_name = "ln_f"


class GPTJAdapter(GPTNeoAdapter):
    """GPT-J: parallel, with one norm for attention and MLP."""

    attention_name = "attn"
    mlp_norm_name = "ln_1"

    @property
    @override
    def parallel(self) -> bool:
        return True


class GPTNeoXAdapter(Adapter):
    """GPT-NeoX and Pythia: query, key and value of one head lie side by side in one matrix."""

    base = "gpt_neox"
    attention_name = "attention"
    value_name = "query_key_value"
    output_name = "dense"
    final_norm_name = "final_layer_norm"

    @property
    @override
    def parallel(self) -> bool:
        return self.config.use_parallel_residual

    @override
    def value_weight(self, layer: int) -> Float[Tensor, "kv_heads head_width width"]:
        weight = self._matrix(self._value_module(layer))
        return weight.unflatten(0, (self.heads, 3, self.head_width))[:, 2]

    @override
    def value_bias(self, layer: int) -> Float[Tensor, "kv_heads head_width"] | None:
        bias = self._value_module(layer).bias
        return None if bias is None else bias.unflatten(0, (self.heads, 3, self.head_width))[:, 2]


class OPTAdapter(Adapter):
    """OPT with its norms before the components, as all sizes but 350m have them."""

    base = "model.decoder"
    output_name = "out_proj"
    attention_norm_name = "self_attn_layer_norm"
    mlp_norm_name = "final_layer_norm"
    final_norm_name = "final_layer_norm"

    @override
    def _check(self) -> None:
        if not self.config.do_layer_norm_before or self.config._remove_final_layer_norm:
            raise UnsupportedArchitectureError(
                "opt with norms after its components, or without a final norm", supported_types()
            )

    @override
    def mlp(self, layer: int) -> nn.Module:
        block: Any = self.layers[layer]
        return nn.Sequential(block.fc1, block.activation_fn, block.fc2)

    @override
    def unembedding(self) -> Float[Tensor, "vocabulary width"]:
        project: Any = self.body.project_out
        unembedding = super().unembedding()
        return unembedding if project is None else unembedding @ self._matrix(project)


class GemmaAdapter(Adapter):
    """Gemma, whose norms multiply by 1 + weight."""

    @override
    def _norm(self, module: Any) -> Norm:
        return Norm(1 + module.weight.detach().float(), None, module.eps, "rmsnorm")


class Gemma2Adapter(GemmaAdapter):
    """Gemma 2 and 3, with norms behind attention and MLP too."""

    mlp_norm_name = "pre_feedforward_layernorm"

    @override
    def norm_after_attention(self, layer: int) -> Norm | None:
        return self._norm(self.layers[layer].get_submodule("post_attention_layernorm"))

    @override
    def norm_after_mlp(self, layer: int) -> Norm | None:
        return self._norm(self.layers[layer].get_submodule("post_feedforward_layernorm"))


class PhiAdapter(Adapter):
    """Phi 1 and 2: parallel, with one norm for attention and MLP."""

    output_name = "dense"
    mlp_norm_name = "input_layernorm"
    final_norm_name = "final_layernorm"

    @property
    @override
    def parallel(self) -> bool:
        return True


class Phi3Adapter(Adapter):
    """Phi-3: queries, keys and values one after the other in one matrix."""

    value_name = "qkv_proj"

    @override
    def value_weight(self, layer: int) -> Float[Tensor, "kv_heads head_width width"]:
        start = (self.heads + self.key_value_heads) * self.head_width
        weight = self._matrix(self._value_module(layer))[start:]
        return weight.unflatten(0, (self.key_value_heads, self.head_width))


class TransformerLensAdapter(Adapter):
    """A `HookedTransformer` of TransformerLens.

    Its weights are stored by head, and norms whose weight was folded into the matrices behind
    them (``LNPre``, ``RMSPre``) have g = 1. Only attributes that its documentation names are used.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model
        self.config = self.model.cfg
        self._check()
        self.layers = list(self.model.blocks)
        self.heads = self.config.n_heads
        self.width = self.config.d_model
        self.key_value_heads = self.heads  # W_V repeats the key/value heads
        self.head_width = self.config.d_head

    @override
    def _check(self) -> None:
        kind = self.config.normalization_type
        if kind not in ("LN", "LNPre", "RMS", "RMSPre"):
            raise UnsupportedArchitectureError(
                f"HookedTransformer with normalization {kind}", supported_types()
            )

    @property
    @override
    def parallel(self) -> bool:
        return self.config.parallel_attn_mlp

    @property
    @override
    def input_device(self) -> torch.device:
        return self.model.W_E.device

    @override
    def attention(self, layer: int) -> nn.Module:
        return self.model.blocks[layer].attn

    @override
    def attention_weights(self, layer: int) -> tuple[nn.Module, Callable[[Any], Tensor | None]]:
        return self.model.blocks[layer].attn.hook_pattern, lambda output: output

    @override
    def mlp(self, layer: int) -> nn.Module:
        return self.model.blocks[layer].mlp

    @override
    def final_norm_module(self) -> nn.Module:
        return self.model.ln_final

    @override
    def run(self, ids: Tensor, mask: Tensor | None, keep: int) -> Tensor:
        return self.model(ids, attention_mask=mask)[:, -keep:]

    @property
    @override
    def attention_hint(self) -> str | None:
        return None

    @override
    def value_weight(self, layer: int) -> Float[Tensor, "kv_heads head_width width"]:
        return self.model.W_V[layer].mT

    @override
    def value_bias(self, layer: int) -> Float[Tensor, "kv_heads head_width"] | None:
        return self.model.b_V[layer]

    @override
    def output_weight(self, layer: int) -> Float[Tensor, "heads width head_width"]:
        return self.model.W_O[layer].mT

    @override
    def output_bias(self, layer: int) -> Float[Tensor, " width"] | None:
        return self.model.b_O[layer]

    @override
    def attention_norm(self, layer: int) -> Norm:
        return self._norm(self.model.blocks[layer].ln1)

    @override
    def mlp_norm(self, layer: int) -> Norm:
        return self._norm(self.model.blocks[layer].ln2)

    @override
    def norm_after_attention(self, layer: int) -> Norm | None:
        module = getattr(self.model.blocks[layer], "ln1_post", None)
        return None if module is None else self._norm(module)

    @override
    def norm_after_mlp(self, layer: int) -> Norm | None:
        module = getattr(self.model.blocks[layer], "ln2_post", None)
        return None if module is None else self._norm(module)

    @override
    def unembedding(self) -> Float[Tensor, "vocabulary width"]:
        return self.model.W_U.T

    @override
    def unembedding_bias(self) -> Float[Tensor, " vocabulary"] | None:
        return self.model.b_U

    @property
    @override
    def softcap(self) -> float | None:
        cap = getattr(self.config, "output_logits_soft_cap", -1.0)
        return cap if cap > 0 else None

    @override
    def _norm(self, module: Any) -> Norm:
        # A folded norm has no w; a LayerNorm that is not folded has b beside it.
        weight, bias = getattr(module, "w", None), getattr(module, "b", None)
        return Norm(
            torch.ones(self.width) if weight is None else weight.detach().float(),
            None if bias is None else bias.detach().float(),
            self.config.eps,
            "layernorm" if self.config.normalization_type.startswith("LN") else "rmsnorm",
        )


_ADAPTERS: dict[str, type[Adapter]] = {
    "gpt2": GPT2Adapter,
    "gpt_neo": GPTNeoAdapter,
    "gpt_neox": GPTNeoXAdapter,
    "gptj": GPTJAdapter,
    "opt": OPTAdapter,
    "llama": Adapter,
    "mistral": Adapter,
    "qwen2": Adapter,
    "qwen3": Adapter,
    "gemma": GemmaAdapter,
    "gemma2": Gemma2Adapter,
    "gemma3_text": Gemma2Adapter,
    "phi": PhiAdapter,
    "phi3": Phi3Adapter,
}


def supported_types() -> list[str]:
    """The model types that have an adapter."""
    return sorted(_ADAPTERS)


def register_adapter(model_type: str, adapter: type[Adapter]) -> None:
    """Let models of one more type be viewed.

    Parameters
    ----------
    model_type
        As the model's configuration names it (``model.config.model_type``).
    adapter
        A subclass of `Adapter`.

    Raises
    ------
    TypeError
        If it is not one.
    """
    if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
        raise TypeError(f"adapter must be a subclass of Adapter, not {adapter!r}")
    _ADAPTERS[model_type] = adapter


def model_type_of(model: Any) -> str:
    """What a model calls its architecture."""
    if _is_hooked_transformer(model):
        return "HookedTransformer"
    return getattr(getattr(model, "config", None), "model_type", type(model).__name__)


def adapter_of(model: Any) -> Adapter:
    """The adapter for a model.

    Parameters
    ----------
    model
        A causal language model of `transformers`, or a `HookedTransformer`.

    Raises
    ------
    UnsupportedArchitectureError
        If its type has none, or it is not a decoder with a language modelling head.
    """
    if _is_hooked_transformer(model):
        return TransformerLensAdapter(model)
    model_type = model_type_of(model)
    if model_type not in _ADAPTERS:
        raise UnsupportedArchitectureError(model_type, supported_types())
    head = getattr(model, "get_output_embeddings", lambda: None)()
    if head is None:
        raise UnsupportedArchitectureError(
            f"{model_type} without a language modelling head", supported_types()
        )
    return _ADAPTERS[model_type](model)


def _is_hooked_transformer(model: Any) -> bool:
    # Told by what is used of it, so that TransformerLens need not be there.
    return all(hasattr(model, name) for name in ("blocks", "W_V", "W_O", "W_U", "hook_dict"))
