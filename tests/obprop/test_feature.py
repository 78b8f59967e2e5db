import copy
import json

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from cameraready.obprop.errors import PathError
from cameraready.obprop.feature import FeatureVector, feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import head_norms
from cameraready.obprop.paths import Node, Path
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.propagation import find_mlp_point
from cameraready.obprop.view import TransformerView

SHORT = ("So Mary is", "So John is")


def all_paths(view, length):
    """Every path of at least one node to the last token."""
    order = []
    for layer in range(view.L):
        heads, mlp = [(layer, head) for head in range(view.H)], [(layer, None)]
        order += [heads + mlp] if view.adapter.parallel else [heads, mlp]
    ends = [((), length - 1)]
    for level in reversed(order):
        ends += [
            ((Node(layer, head, token), *nodes), token)
            for nodes, read_at in ends
            for layer, head in level
            for token in (range(read_at + 1) if head is not None else [read_at])
        ]
    return [Path(nodes) for nodes, _ in ends if nodes]


def frozen_gradients(view, observable, ids, monkeypatch):
    """By autograd, the observable's gradient before each layer, with attention weights detached."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda *args, **named: softmax(*args, **named).detach()
    )
    streams = []

    def keep(_, arguments, named):
        x = arguments[0] if arguments else named["hidden_states"]
        x.requires_grad_() if x.is_leaf else x.retain_grad()
        streams.append(x)

    handles = [
        view.adapter.block(layer).register_forward_pre_hook(keep, with_kwargs=True)
        for layer in range(view.L)
    ]
    value = observable.of_logits(view.model(ids, use_cache=False).logits[0, -1])
    gradients = torch.autograd.grad(value, streams)
    for handle in handles:
        handle.remove()
    monkeypatch.undo()
    return [gradient[0] for gradient in gradients]


def test_all_paths_together_are_the_gradient_with_frozen_attention(view, observable, monkeypatch):
    pair = PromptPair(view, *SHORT)
    wanted = frozen_gradients(view, observable, pair.acts.ids[:1], monkeypatch)
    found = torch.zeros(view.L, pair.length, view.D)
    final = view.final_norm().pull_back(observable.pull_back(view.unembed), pair.final()[0])
    found[:, -1] += final
    for path in all_paths(view, pair.length):
        feature = feature_vector(
            view, observable, path, pair, mlp_point="positive", attention="scale"
        )
        found[: feature.layer + 1, feature.token] += feature.vector
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-4, atol=1e-4)
    assert found.abs().max() > 0.1


def test_the_direction_through_a_head_by_hand():
    config = LlamaConfig(
        vocab_size=3, hidden_size=2, num_hidden_layers=1, num_attention_heads=1, head_dim=1
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [1, 1]]))
        attention = model.model.layers[0].self_attn
        attention.v_proj.weight.copy_(torch.tensor([[2.0, 1]]))
        attention.o_proj.weight.copy_(torch.tensor([[1.0], [3]]))
    observable = Observable(torch.tensor([1.0, -1, 0]), "by hand")
    feature = feature_vector(TransformerView(model, None), observable, "0.0")
    assert feature.vector.tolist() == [-4, -2]
    assert (feature.site, feature.layer, feature.token, feature.norm) == (
        "resid_pre",
        0,
        None,
        "weights",
    )


def test_grouped_heads_are_heads_with_the_same_keys_and_values(
    llama, random_model, tokenizer, observable
):
    """Each architecture's paths are checked elsewhere; this one against repeated weights."""
    repeated = random_model("llama", num_key_value_heads=4)
    state = llama.model.state_dict()
    for name, weight in state.items():
        if "k_proj" in name or "v_proj" in name:
            state[name] = weight.unflatten(0, (2, 4)).repeat_interleave(2, 0).flatten(0, 1)
    repeated.load_state_dict(state)
    other = TransformerView(repeated, tokenizer)
    pairs = [PromptPair(view, *SHORT) for view in (llama, other)]
    for path in ("0.1", "1.3@1", "0.0@1:1.2@1", "0.2@1:mlp0:1.1@2:mlp1@2"):
        ours, theirs = (
            feature_vector(pair.view, observable, path, pair, attention="scale") for pair in pairs
        )
        torch.testing.assert_close(ours.vector, theirs.vector)
    torch.testing.assert_close(head_norms(llama, observable), head_norms(other, observable))
    assert not torch.equal(llama.wv(0, 1), llama.wv(0, 2))
    assert torch.equal(llama.wv(0, 0), llama.wv(0, 1))


@torch.no_grad()
def test_mlps_are_taken_where_the_functional_is_zero(gpt2, observable):
    pair = PromptPair(gpt2, *SHORT)
    norm = gpt2.adapter.mlp_norm(1)
    y = gpt2.final_norm().pull_back(observable.pull_back(gpt2.unembed), pair.final()[0])
    positive, negative = norm(pair.acts.resid_mid[1][:, -1])
    rises = [float(gpt2.mlp(1, end) @ y) for end in (negative, positive)]
    point = find_mlp_point(gpt2, 1, y, torch.stack([positive, negative]), "boundary")
    assert point.boundary_found == (rises[0] * rises[1] <= 0)
    # A functional that is sure to change sign: orthogonal to the mean of the two outputs.
    outputs = gpt2.mlp(1, torch.stack([positive, negative]))
    middle = outputs.mean(0)
    y = y - (y @ middle) / (middle @ middle) * middle
    point = find_mlp_point(gpt2, 1, y, torch.stack([positive, negative]), "boundary")
    assert point.boundary_found
    assert abs(float(gpt2.mlp(1, point.points[0]) @ y)) < 1e-4 * float(y.norm())
    along = (point.points[0] - negative) / (positive - negative)
    torch.testing.assert_close(along, along.mean().expand_as(along), rtol=1e-3, atol=1e-3)
    same = find_mlp_point(gpt2, 1, middle, torch.stack([positive, positive]), "boundary")
    assert not same.boundary_found
    for rule, place in (("positive", 1.0), ("negative", 0.0), ("midpoint", 0.5)):
        found = find_mlp_point(gpt2, 1, y, torch.stack([positive, negative]), rule)
        torch.testing.assert_close(found.points[0], torch.lerp(negative, positive, place))


def test_the_mean_of_the_mlp_points_averages_the_features(gpt2, observable):
    pair = PromptPair(gpt2, *SHORT)
    mean, positive, negative = (
        feature_vector(gpt2, observable, "mlp1", pair, norm="weights", mlp_point=rule).vector
        for rule in ("mean", "positive", "negative")
    )
    torch.testing.assert_close(mean, (positive + negative) / 2)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_ways_through_a_norm_agree_on_what_they_share(name, random_model, tokenizer, observable):
    view = TransformerView(random_model(name), tokenizer)
    pair = PromptPair(view, *SHORT)
    vectors = {
        norm: feature_vector(view, observable, "1.2@1", pair, norm=norm).vector
        for norm in ("weights", "jacobian", "boundary", "scale")
    }
    scales = view.final_norm().scale(pair.final()).mean()
    scales = scales * view.adapter.attention_norm(1).scale(pair.acts.resid_pre[1][:, 1]).mean()
    torch.testing.assert_close(vectors["scale"] * scales, vectors["weights"])
    # At the boundary the final norm only scales, so what is left is the norm before the head.
    before = feature_vector(view, observable, "1.2@1", norm="weights").vector
    torch.testing.assert_close(before, vectors["weights"])
    assert not torch.allclose(vectors["boundary"], vectors["jacobian"])


def test_a_feature_is_read_as_it_was_written(gpt2, observable, tmp_path):
    pair = PromptPair(gpt2, *SHORT)
    feature = feature_vector(gpt2, observable, "0.1@1:mlp0@1:1.2@1", pair)
    feature.save(tmp_path / "she.safetensors")
    read = FeatureVector.load(tmp_path / "she.safetensors", gpt2)
    assert torch.equal(read.vector, feature.vector)
    for name in ("site", "layer", "token", "path", "observable", "norm", "provenance"):
        assert getattr(read, name) == getattr(feature, name)
    assert read.provenance["positive"] == SHORT[0]
    assert read.provenance["boundary_found"].keys() == {"mlp0@1"}
    assert json.dumps(read.provenance)


def test_a_feature_of_another_model_is_refused(gpt2, random_model, tokenizer, observable, tmp_path):
    file = tmp_path / "she.safetensors"
    feature_vector(gpt2, observable, "1.2").save(file)
    other = TransformerView(random_model("gpt2", seed=1), tokenizer)
    with pytest.raises(ValueError, match="made of another model"):
        FeatureVector.load(file, other)
    assert FeatureVector.load(file, other, force=True).layer == 1
    wider = TransformerView(random_model("gpt2", hidden_size=32), tokenizer)
    with pytest.raises(ValueError, match="has width 16"):
        FeatureVector.load(file, wider, force=True)
    (tmp_path / "none").write_text("no tensors")
    with pytest.raises(ValueError, match="holds no feature vector"):
        FeatureVector.load(tmp_path / "none")
    same = TransformerView(copy.deepcopy(gpt2.model).bfloat16(), tokenizer)
    assert FeatureVector.load(file, same).layer == 1


def test_what_needs_a_pair_says_so(gpt2, observable):
    with pytest.raises(PathError, match="node mlp1: MLP nodes need a prompt pair"):
        feature_vector(gpt2, observable, "0.1:mlp1")
    with pytest.raises(ValueError, match="norm 'jacobian' needs a prompt pair"):
        feature_vector(gpt2, observable, "0.1", norm="jacobian")
    with pytest.raises(ValueError, match="attention 'scale' needs a prompt pair"):
        feature_vector(gpt2, observable, "0.1", attention="scale")
    with pytest.raises(ValueError, match="mlp_point must be one of"):
        feature_vector(gpt2, observable, "0.1", mlp_point="middle")


def test_a_short_type_gives_nearly_the_same_direction(llama, tokenizer, observable):
    short = TransformerView(copy.deepcopy(llama.model).bfloat16(), tokenizer)
    pairs = [PromptPair(view, *SHORT) for view in (llama, short)]
    ours, theirs = (
        feature_vector(pair.view, observable, "0.1@1:mlp0@1:1.2@1", pair, mlp_point="positive")
        for pair in pairs
    )
    assert theirs.vector.dtype == torch.float32
    assert torch.cosine_similarity(ours.vector, theirs.vector, 0) > 0.99


def test_a_score_is_the_products_with_the_stream(gpt2, observable):
    feature = feature_vector(gpt2, observable, "1.2@1", PromptPair(gpt2, *SHORT))
    # Not of the pair's own prompt: there the gradient of a norm is orthogonal to the stream.
    scores = feature.score(gpt2, "So Anna is here", normalized=False)
    stream = gpt2.run("So Anna is here").resid_pre[1][0]
    assert scores["score"].item() == pytest.approx(float(stream[1] @ feature.vector), rel=1e-5)
