from types import SimpleNamespace

import pytest
import torch
from torch import nn

from cameraready.obprop.adapters import (
    GPT2Adapter,
    TransformerLensAdapter,
    register_adapter,
    supported_types,
)
from cameraready.obprop.errors import UnsupportedArchitectureError
from cameraready.obprop.patching import head_norms
from cameraready.obprop.view import TransformerView


def rebuilt(view, acts):
    """The logits from the heads, norms and MLPs that the adapter names, and the weights seen."""
    adapter = view.adapter
    stream = acts.resid_pre[0][0]
    for layer in range(view.L):
        normed = adapter.attention_norm(layer)(stream)
        shared = view.H // adapter.key_value_heads
        added = torch.zeros_like(stream)
        for head in range(view.H):
            values = normed @ view.wv(layer, head).T
            bias = adapter.value_bias(layer)
            if bias is not None:
                values = values + bias[head // shared]
            added = added + acts.attention[layer][0, head] @ values @ view.wo(layer, head).T
        if adapter.output_bias(layer) is not None:
            added = added + adapter.output_bias(layer)
        after = adapter.norm_after_attention(layer)
        middle = stream + (added if after is None else after(added))
        normed = adapter.mlp_norm(layer)(stream if adapter.parallel else middle)
        added = view.mlp(layer, normed)
        after = adapter.norm_after_mlp(layer)
        stream = middle + (added if after is None else after(added))
    logits = adapter.final_norm()(stream) @ view.unembed.T
    if adapter.unembedding_bias() is not None:
        logits = logits + adapter.unembedding_bias()
    return (
        logits if adapter.softcap is None else adapter.softcap * (logits / adapter.softcap).tanh()
    )


def test_the_pieces_rebuild_the_logits(view):
    text = "So, Mary really is a great friend, isn't"
    acts = view.run(text, attention=True)
    with torch.no_grad():
        wanted = view.model(acts.ids).logits[0]
        torch.testing.assert_close(rebuilt(view, acts), wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(acts.logits[0], wanted[-1])
    assert wanted.std() > 0.1


def test_capped_logits_are_rebuilt_too(random_model, tokenizer):
    view = TransformerView(random_model("gemma2", final_logit_softcapping=5.0), tokenizer)
    acts = view.run("So, Mary really", attention=True)
    with torch.no_grad():
        torch.testing.assert_close(rebuilt(view, acts)[-1], acts.logits[0], rtol=1e-4, atol=1e-4)
    assert view.adapter.softcap == 5


class Folded(nn.Module):
    """A norm whose weight has been folded away."""

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


class HookedAttention(nn.Module):
    def __init__(self, model, layer):
        super().__init__()
        self.layer, self.hook_pattern = layer, nn.Identity()
        self.weights = lambda name: getattr(model, name)[layer]

    def forward(self, x):
        heads = [torch.einsum("btd,hdk->bhtk", x, self.weights(f"W_{name}")) for name in "QKV"]
        query, key, value = heads
        scores = query @ key.mT / query.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        pattern = self.hook_pattern(scores.masked_fill(later, -torch.inf).softmax(-1))
        value = value + self.weights("b_V")[:, None]
        return torch.einsum("bhtk,hkd->btd", pattern @ value, self.weights("W_O")) + self.weights(
            "b_O"
        )


class HookedBlock(nn.Module):
    def __init__(self, model, layer):
        super().__init__()
        self.ln1, self.ln2, self.attn = Folded(), Folded(), HookedAttention(model, layer)
        self.mlp = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))

    def forward(self, stream):
        stream = stream + self.attn(self.ln1(stream))
        return stream + self.mlp(self.ln2(stream))


class HookedTransformer(nn.Module):
    """What is used of TransformerLens' class of this name, with the shapes it documents."""

    def __init__(self, kind="LNPre"):
        super().__init__()
        torch.manual_seed(0)
        shapes = {"Q": (8, 4), "K": (8, 4), "V": (8, 4), "O": (4, 8)}
        for name, shape in shapes.items():
            setattr(self, f"W_{name}", nn.Parameter(torch.randn(2, 2, *shape) / 2))
        self.b_V = nn.Parameter(torch.randn(2, 2, 4))
        self.b_O = nn.Parameter(torch.randn(2, 8))
        self.W_E, self.W_U = nn.Parameter(torch.randn(64, 8)), nn.Parameter(torch.randn(8, 64))
        self.b_U = nn.Parameter(torch.randn(64))
        self.cfg = SimpleNamespace(
            n_heads=2,
            d_model=8,
            d_head=4,
            eps=1e-5,
            normalization_type=kind,
            parallel_attn_mlp=False,
            n_ctx=16,
        )
        self.hook_dict = {}
        self.blocks = nn.ModuleList(HookedBlock(self, layer) for layer in range(2))
        self.ln_final = Folded()

    def forward(self, ids, attention_mask=None):
        stream = self.W_E[ids]
        for block in self.blocks:
            stream = block(stream)
        return self.ln_final(stream) @ self.W_U + self.b_U


def test_a_hooked_transformer_is_rebuilt_from_its_pieces(tokenizer, observable):
    view = TransformerView(HookedTransformer(), tokenizer)
    assert isinstance(view.adapter, TransformerLensAdapter)
    assert (view.L, view.H, view.D) == (2, 2, 8)
    assert view.adapter.attention_norm(0).weight.eq(1).all()
    acts = view.run("So, Mary really is", attention=True)
    with torch.no_grad():
        wanted = view.model(acts.ids)[0]
        torch.testing.assert_close(rebuilt(view, acts), wanted, rtol=1e-4, atol=1e-4)
    assert head_norms(view, observable).gt(0).all()


def test_a_hooked_transformer_with_another_norm_is_refused(tokenizer):
    with pytest.raises(UnsupportedArchitectureError, match="normalization SoLU"):
        TransformerView(HookedTransformer("SoLU"), tokenizer)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("opt", {"do_layer_norm_before": False}, "norms after its components"),
        ("gpt2", {"add_cross_attention": True}, "cross-attention"),
    ],
)
def test_variants_that_do_not_fit_are_refused(name, changes, message, random_model, tokenizer):
    with pytest.raises(UnsupportedArchitectureError, match=message):
        TransformerView(random_model(name, **changes), tokenizer)


def test_a_model_without_logits_is_refused(gpt2, tokenizer):
    with pytest.raises(UnsupportedArchitectureError, match="without a language modelling head"):
        TransformerView(gpt2.model.transformer, tokenizer)


def test_a_user_s_architecture_can_be_added(monkeypatch, gpt2, tokenizer):
    gpt2.model.config.model_type = "house_gpt"
    with pytest.raises(UnsupportedArchitectureError, match="'house_gpt'"):
        TransformerView(gpt2.model, tokenizer)
    monkeypatch.setattr("cameraready.obprop.adapters._ADAPTERS", {})
    register_adapter("house_gpt", GPT2Adapter)
    assert supported_types() == ["house_gpt"]
    assert isinstance(TransformerView(gpt2.model, tokenizer).adapter, GPT2Adapter)
    with pytest.raises(TypeError, match="must be a subclass of Adapter"):
        register_adapter("house_gpt", gpt2.adapter)


class Packed(nn.Module):
    """A layer whose weight is not kept as numbers; what a quantised linear layer looks like."""

    def __init__(self, linear):
        super().__init__()
        self.weight = nn.Parameter(linear.weight.detach().mul(16).char(), requires_grad=False)
        self.bias = None


class Unpackable(Packed):
    def dequantize(self):
        return self.weight / 16


def test_quantised_layers_are_unpacked_or_named(llama):
    attention = llama.model.model.layers[1].self_attn
    linear = attention.v_proj
    attention.v_proj = Unpackable(linear)
    assert (llama.wv(1, 3) - linear.weight[4:]).abs().max() <= 1 / 16
    attention.v_proj = Packed(linear)
    with pytest.raises(ValueError, match=r"layer model.layers.1.self_attn.v_proj \(Packed\)"):
        llama.wv(1, 3)
    attention.v_proj = nn.Linear(16, 8, device="meta")
    with pytest.raises(ValueError, match="are not in memory"):
        llama.wv(1, 3)
