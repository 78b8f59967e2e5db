from contextlib import ExitStack

import pytest
import torch

from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import contribution, head_norms, patch_scores, search_paths
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.view import TransformerView

PAIR = ("So, Mary is here", "So, John is here")


def outputs_of(modules, model, ids):
    """What modules give in one run; of a tuple, the first."""
    kept = {}
    with ExitStack() as hooks, torch.no_grad():
        for module in modules:
            handle = module.register_forward_hook(
                lambda module, _, out: kept.update(
                    {module: out[0] if isinstance(out, tuple) else out}
                )
            )
            hooks.callback(handle.remove)
        value = model(ids).logits[0, -1]
    return kept, value


def hooked_scores(view, observable, pair, output_name, layers=None):
    """Each head's contribution by a run of its own, everything behind it held by hooks."""
    model, adapter, ids = view.model, view.adapter, pair.acts.ids
    parts = [
        part for layer in range(view.L) for part in (adapter.attention(layer), adapter.mlp(layer))
    ]
    values = [adapter.attention(layer).v_proj for layer in range(view.L)]
    held, logits = outputs_of(parts, model, ids[:1])
    before = observable.of_logits(logits)
    positive, _ = outputs_of(values, model, ids[:1])
    negative, _ = outputs_of(values, model, ids[1:])
    scores = torch.zeros(view.L, view.H)
    shared = view.H // adapter.key_value_heads
    width = adapter.head_width
    for layer in range(view.L) if layers is None else layers:
        for head in range(view.H):
            own = slice(head // shared * width, (head // shared + 1) * width)
            difference = (negative[values[layer]] - positive[values[layer]])[0, :, own]
            mixed = pair.acts.attention[layer][0, head, -1] @ difference

            def patch(_, arguments, head=head, mixed=mixed):
                (heads,) = arguments
                heads = heads.clone()
                heads[0, -1, head * width : (head + 1) * width] += mixed
                return (heads,)

            output = adapter.attention(layer).get_submodule(output_name)
            with ExitStack() as hooks:
                hooks.callback(output.register_forward_pre_hook(patch).remove)
                later = parts[2 * layer + 1 :]
                for part in later:

                    def hold(module, _, out):
                        return (held[module], *out[1:]) if isinstance(out, tuple) else held[module]

                    hooks.callback(part.register_forward_hook(hold).remove)
                _, logits = outputs_of([], model, ids[:1])
            scores[layer, head] = before - observable.of_logits(logits)
    return scores


@pytest.mark.parametrize(
    ("name", "output"),
    [("llama", "o_proj"), ("gemma2", "o_proj"), ("gpt_neo", "out_proj"), ("phi", "dense")],
)
def test_patch_scores_are_those_of_a_run_for_each_head(
    name, output, random_model, tokenizer, observable
):
    view = TransformerView(random_model(name), tokenizer)
    pair = PromptPair(view, *PAIR)
    wanted = hooked_scores(view, observable, pair, output)
    torch.testing.assert_close(patch_scores(view, observable, pair), wanted, rtol=1e-4, atol=1e-4)
    assert wanted.abs().min() > 1e-3


def linear_toy(random_model, tokenizer):
    """GPT-2 with linear MLPs, norms that only take the mean away, and equal attention weights."""
    model = random_model("gpt2", activation_function="linear", layer_norm_epsilon=1e12)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".ln_" in name:
                weight.copy_(torch.full_like(weight, 0 if name.endswith("bias") else 1e6))
            if "c_attn" in name:
                weight[..., :16] = 0
    return TransformerView(model, tokenizer)


def test_in_a_linear_model_contributions_add_up_to_the_change(random_model, tokenizer, observable):
    view = linear_toy(random_model, tokenizer)
    pair = PromptPair(view, *PAIR)
    table = search_paths(view, observable, pair, max_length=1, keep=1000)
    change = observable.value(view, PAIR[0]) - observable.value(view, PAIR[1])
    assert table["contribution"].sum() == pytest.approx(change, rel=1e-4)
    heads = table[~table["path"].str.startswith("mlp")]["contribution"].sum()
    assert heads == pytest.approx(float(patch_scores(view, observable, pair).sum()), rel=1e-4)
    # A path's contribution is then that of its feature, times the change of the stream it reads.
    feature = feature_vector(view, observable, "0.1@2:mlp0@2:1.2@2", pair, attention="scale")
    positive, negative = pair.acts.resid_pre[0][:, 2]
    assert contribution(view, observable, feature.path, pair) == pytest.approx(
        float(feature.vector @ (positive - negative)), rel=1e-4
    )


def test_longer_paths_split_the_contribution_of_their_last_node(
    random_model, tokenizer, observable
):
    view = linear_toy(random_model, tokenizer)
    pair = PromptPair(view, *PAIR)
    table = search_paths(view, observable, pair, max_length=2, width=1000, keep=10_000)
    drops = table.set_index("path")["contribution"]
    behind = drops[drops.index.str.endswith(":1.2@2")]
    # Token 2 is the one that differs: what 1.2 reads there is the embedding or comes from nodes.
    embedding = pair.acts.resid_pre[0][:, 2]
    feature = feature_vector(view, observable, "1.2@2", pair, attention="scale").vector
    direct = float(feature @ (embedding[0] - embedding[1]))
    assert direct + behind.sum() == pytest.approx(drops["1.2@2"], rel=1e-4)
    assert len(behind) == view.H + 1


def test_every_path_of_a_search_has_its_own_contribution(view, observable):
    pair = PromptPair(view, *PAIR)
    table = search_paths(view, observable, pair, max_length=3, width=4, keep=5)
    assert list(table.columns) == ["path", "norm", "contribution", "rank"]
    assert table["rank"].tolist() == list(range(1, len(table) + 1))
    assert table["contribution"].is_monotonic_decreasing
    assert table["path"].is_unique
    assert {0, 1} <= {text.count(":") for text in table["path"]} <= {0, 1, 2}
    for path, norm, drop in table[["path", "norm", "contribution"]].itertuples(index=False):
        assert contribution(view, observable, path, pair) == pytest.approx(drop, rel=1e-3, abs=1e-4)
        feature = feature_vector(view, observable, path, pair)
        assert float(feature.vector.norm()) == pytest.approx(norm, rel=1e-5)


def test_a_search_is_the_best_of_all_paths(gpt2, observable):
    """With a beam as wide as the model it finds what trying every path of two nodes finds."""
    pair = PromptPair(gpt2, *PAIR)
    table = search_paths(gpt2, observable, pair, max_length=2, width=1000, keep=10_000)
    heads = [f"{layer}.{head}@" for layer in range(gpt2.L) for head in range(gpt2.H)]
    tokens = range(pair.first_difference, pair.length)
    firsts = [f"{head}{token}" for head in heads for token in tokens]
    firsts += [f"mlp{layer}@{token}" for layer in range(gpt2.L) for token in tokens]
    found = {}
    for path in [*firsts, *(f"{a}:{b}" for a in firsts for b in firsts)]:
        try:
            found[path] = contribution(gpt2, observable, path, pair)
        except ValueError:
            continue
    assert set(table["path"]) == set(found)
    best = max(found, key=found.__getitem__)
    assert found[best] == pytest.approx(table["contribution"][0], rel=1e-4)


def test_filters_leave_only_what_is_asked_for(gpt2, observable):
    pair = PromptPair(gpt2, *PAIR)
    table = search_paths(gpt2, observable, pair, kinds=("attn",), layers=[0], tokens=[2, -1])
    assert len(table)
    assert table["path"].str.fullmatch(r"0\.\d@(2|4)").all()
    none = search_paths(gpt2, observable, pair, layers=[])
    assert none.empty
    assert list(none.columns) == ["path", "norm", "contribution", "rank"]


def test_pairs_are_averaged(gpt2, observable):
    pairs = [
        PromptPair(gpt2, f"So, {a} is here", f"So, {b} is here")
        for a, b in (("Mary", "John"), ("Anna", "Peter"))
    ]
    table = search_paths(gpt2, observable, pairs, max_length=2)
    for path, drop in table[["path", "contribution"]].itertuples(index=False):
        mean = sum(contribution(gpt2, observable, path, pair) for pair in pairs) / 2
        assert drop == pytest.approx(mean, rel=1e-3, abs=1e-5)
    scores = [patch_scores(gpt2, observable, pair) for pair in pairs]
    torch.testing.assert_close(patch_scores(gpt2, observable, pairs), sum(scores) / 2)


def test_anchors_match_tokens_of_prompts_of_unequal_length(gpt2, observable):
    pairs = [
        PromptPair(gpt2, "So, Mary really is here", "So, John really is here"),
        PromptPair(gpt2, "So, Anna is here", "So, Peter is here"),
    ]
    with pytest.raises(ValueError, match="same number of tokens, not"):
        search_paths(gpt2, observable, pairs)
    table = search_paths(gpt2, observable, pairs, anchors=[[2, 4], [2, 3]], max_length=2)
    assert not table["path"].str.contains("@3").any()
    for path, drop in table[["path", "contribution"]].itertuples(index=False):
        other = path.replace("@4", "@3").replace("@5", "@4")
        drops = [
            contribution(gpt2, observable, path, pairs[0]),
            contribution(gpt2, observable, other, pairs[1]),
        ]
        assert drop == pytest.approx(sum(drops) / 2, rel=1e-3, abs=1e-5)
    for anchors in ([[2]], [[2], [2, 3]], [[2], [9]], [[4, 2], [3, 2]], [[5], [4]]):
        with pytest.raises(ValueError, match="anchors"):
            search_paths(gpt2, observable, pairs, anchors=anchors)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"width": 0}, "width must be at least 1"),
        ({"keep": 0}, "keep must be at least 1"),
        ({"kinds": ["head"]}, "kinds must be one of"),
        ({"pairs": []}, "at least one prompt pair"),
    ],
)
def test_bad_settings_are_told(setting, message, gpt2, observable):
    pairs = setting.pop("pairs", None)
    pairs = PromptPair(gpt2, *PAIR) if pairs is None else pairs
    with pytest.raises(ValueError, match=message):
        search_paths(gpt2, observable, pairs, **setting)


def test_head_norms_are_the_lengths_of_the_features_without_data(view, observable):
    norms = head_norms(view, observable)
    assert norms.shape == (view.L, view.H)
    for layer in range(view.L):
        for head in range(view.H):
            feature = feature_vector(view, observable, f"{layer}.{head}")
            assert float(norms[layer, head]) == pytest.approx(
                float(feature.vector.norm()), rel=1e-4
            )


def test_smollm2_tells_she_from_he(smollm2):
    observable = Observable.from_tokens(smollm2.tokenizer, [" she"], [" he"])
    prompts = [f"So, {name} really is a great friend, isn't" for name in ("Mary", "John")]
    assert observable.value(smollm2, prompts[0]) > 1
    assert observable.value(smollm2, prompts[1]) < -1
    norms = head_norms(smollm2, observable)
    assert divmod(int(norms.argmax()), smollm2.H) == (26, 2)
    pair = PromptPair(smollm2, *prompts)
    scores = patch_scores(smollm2, observable, pair)
    assert divmod(int(scores.argmax()), smollm2.H) == (26, 2)
    table = search_paths(smollm2, observable, pair, max_length=2, width=3, keep=3)
    assert table["path"][:2].tolist() == ["26.2@4", "25.2@2:26.2@4"]
    for path in table["path"]:
        ours, free = (
            feature_vector(smollm2, observable, path, pair, norm=norm).vector
            for norm in ("jacobian", "weights")
        )
        assert torch.cosine_similarity(ours, free, 0) > 0.95


def test_smollm2_scores_are_those_of_a_run_for_each_head(smollm2):
    observable = Observable.from_tokens(smollm2.tokenizer, [" she"], [" he"])
    pair = PromptPair(
        smollm2,
        "So, Mary really is a great friend, isn't",
        "So, John really is a great friend, isn't",
    )
    wanted = hooked_scores(smollm2, observable, pair, "o_proj", layers=[3, 26])[[3, 26]]
    found = patch_scores(smollm2, observable, pair)[[3, 26]]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
