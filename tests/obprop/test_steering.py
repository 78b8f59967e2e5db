from types import SimpleNamespace

import pytest
import torch

from cameraready.obprop.sites import read_places
from cameraready.obprop.steering import Steer, mean_score, swap, unit_directions

IDS = torch.tensor([[2, 30, 31, 32, 33], [3, 30, 40, 41, 42]])


def direction(view, seed=0, site="resid_pre", layer=1):
    vector = torch.randn(view.D, generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(vector=vector, site=site, layer=layer, name=f"direction {seed}")


def read_edited(view, feature, ids=IDS, **settings):
    """The stream that the layer reads, with the edit done."""
    place = feature.site, feature.layer
    return read_places(view, ids, [place])[place]


def score(stream, feature):
    return stream @ feature.vector / feature.vector.norm()


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid"])
def test_a_removed_feature_scores_nothing(view, site):
    features = [direction(view, seed, site) for seed in (0, 1)]
    assert score(read_edited(view, features[0]), features[0]).abs().min() > 1e-3
    with Steer(view, features, "project"):
        stream = read_edited(view, features[0])
        for feature in features:
            assert score(stream, feature).abs().max() < 1e-5


def test_modes_do_what_they_say(llama):
    feature, other = direction(llama, 0), direction(llama, 1)
    plain = read_edited(llama, feature)
    unit = feature.vector / feature.vector.norm()
    with Steer(llama, feature, "add", strength=3.0):
        torch.testing.assert_close(read_edited(llama, feature), plain + 3 * unit)
    with Steer(llama, feature, "project", strength=0.25):
        left = score(read_edited(llama, feature), feature)
        torch.testing.assert_close(left, 0.75 * score(plain, feature))
    with Steer(llama, feature, "center", mean=0.5):
        left = score(read_edited(llama, feature), feature)
        torch.testing.assert_close(left, torch.full_like(left, 0.5))
    with Steer(llama, [feature, other], "swap"):
        swapped = read_edited(llama, feature)
    torch.testing.assert_close(score(swapped, feature), score(plain, other))
    torch.testing.assert_close(score(swapped, other), score(plain, feature))
    torch.testing.assert_close(swapped.norm(dim=-1), plain.norm(dim=-1))


def test_means_to_center_on(llama):
    """Without a mean the edited tokens' own; a residual stream gives what it scores."""
    features = [direction(llama, seed) for seed in (0, 1)]
    plain = read_edited(llama, features[0])
    with Steer(llama, features, "center", tokens=[1, 2]):
        stream = read_edited(llama, features[0])
    for feature in features:
        wanted = score(plain, feature)[:, 1:3].mean().expand(2, 2)
        torch.testing.assert_close(score(stream, feature)[:, 1:3], wanted)
    torch.testing.assert_close(stream[:, [0, 3, 4]], plain[:, [0, 3, 4]], rtol=0, atol=0)
    for mean in (plain[0, 3], [float(score(plain[0, 3], feature)) for feature in features]):
        with Steer(llama, features, "center", mean=mean):
            stream = read_edited(llama, features[0])
        for feature in features:
            wanted = score(plain[0, 3], feature).expand(2, 5)
            torch.testing.assert_close(score(stream, feature), wanted)


def test_features_of_several_layers_are_removed_together(llama):
    first, second = direction(llama, 0, layer=0), direction(llama, 1, "resid_mid", 1)
    with Steer(llama, [first, second]):
        assert score(read_edited(llama, first), first).abs().max() < 1e-5
        assert score(read_edited(llama, second), second).abs().max() < 1e-5


def test_a_string_is_edited_wherever_it_stands(llama):
    feature = direction(llama)
    ids = llama.encode("Mary, Mary is here")[None]
    text = llama.tokenizer.decode(ids[0])
    assert text.count("Mary") == 2
    plain = read_edited(llama, feature, ids)
    with Steer(llama, feature, tokens="Mary"):
        stream = read_edited(llama, feature, ids)
    changed = (stream != plain).any(-1)[0].tolist()
    assert changed == [True, False, True, False, False]
    with Steer(llama, feature, tokens="Peter"), pytest.raises(ValueError, match="does not stand"):
        llama.model(ids)


def test_hooks_are_gone_after_an_exception(view):
    with torch.no_grad():
        plain = view.model(IDS).logits
        with pytest.raises(RuntimeError, match="stop"), Steer(view, direction(view)):  # noqa: PT012
            assert not torch.equal(view.model(IDS).logits, plain)
            raise RuntimeError("stop")
        assert torch.equal(view.model(IDS).logits, plain)
    assert not any(module._forward_pre_hooks for module in view.model.modules())


SETTINGS = {"do_sample": False, "max_new_tokens": 6, "pad_token_id": 1}


def generated(view, ids, **settings):
    return view.model.generate(ids, **SETTINGS, **settings)


@pytest.mark.parametrize("mode", ["project", "add", "center"])
@pytest.mark.parametrize("tokens", ["all", [1, -1], slice(1, 7), slice(1, None), "Mary"])
def test_generate_with_a_cache_is_the_same_as_without(llama, mode, tokens):
    ids = llama.encode("So, Mary really is")[None]
    mask = torch.ones_like(ids)
    feature = direction(llama)
    strength = 8.0 if mode == "add" else 1.0
    settings = {} if mode != "center" else {"mean": 0.3}
    plain = generated(llama, ids, attention_mask=mask)
    with Steer(llama, feature, mode, strength, tokens, **settings):
        steered = generated(llama, ids, attention_mask=mask)
    if tokens != [1, -1]:  # without a cache every step's last token is the end of its prompt
        with Steer(llama, feature, mode, strength, tokens, **settings):
            wanted = generated(llama, ids, attention_mask=mask, use_cache=False)
        assert torch.equal(steered, wanted)
    if mode == "add" and tokens == "all":
        assert not torch.equal(steered, plain)
    assert torch.equal(generated(llama, ids, attention_mask=mask), plain)


@pytest.mark.parametrize("tokens", ["all", [0, 1], [-2], slice(1, None), "Mary"])
def test_prompts_padded_on_the_left_are_steered_as_alone(llama, tokens):
    """Positions count from each prompt's own first token."""
    texts = ["Mary is", "So, Mary really is a great friend"]
    rows = [llama.encode(text) for text in texts]
    width = max(map(len, rows))
    ids, mask = torch.ones(2, width, dtype=torch.long), torch.zeros(2, width, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :], mask[i, width - len(row) :] = row, 1
    with Steer(llama, direction(llama), "add", 8.0, tokens):
        together = generated(llama, ids, attention_mask=mask)
        for i, row in enumerate(rows):
            alone = generated(llama, row[None], attention_mask=torch.ones(1, len(row)).long())
            assert torch.equal(together[i, width:], alone[0, len(row) :])


def test_a_mean_of_prompts_holds_in_later_steps(llama):
    ids = llama.encode("So, Mary really is")[None]
    feature = direction(llama)
    wanted = float(score(read_edited(llama, feature, ids), feature).mean())
    seen = []
    with Steer(llama, feature, "center"):
        handle = llama.adapter.block(1).register_forward_pre_hook(
            lambda _, args: seen.append(score(args[0], feature))
        )
        generated(llama, ids, attention_mask=torch.ones_like(ids))
        handle.remove()
    assert [tuple(row.shape) for row in seen] == [(1, 5)] + [(1, 1)] * 5
    for row in seen:
        torch.testing.assert_close(row, torch.full_like(row, wanted))


def test_the_edit_follows_the_models_type(tokenizer, llama):
    plain = read_edited(llama, direction(llama))
    llama.model.to(torch.bfloat16)
    with Steer(llama, direction(llama), "add", 5.0):
        stream = read_edited(llama, direction(llama))
    assert stream.dtype == torch.bfloat16
    assert (stream.float() - plain).norm(dim=-1).mean() == pytest.approx(5.0, rel=0.1)


def test_the_mean_score_is_that_of_unit_vectors(llama):
    feature = direction(llama)
    texts = ["Mary is here", "John is a doctor, Mary"]
    streams = [read_edited(llama, feature, llama.encode(text)[None])[0] for text in texts]
    wanted = score(torch.cat(streams), feature).mean()
    assert mean_score(llama, feature, texts) == pytest.approx(float(wanted), rel=1e-5)
    at = torch.stack([streams[0][0], streams[1][5]])
    found = mean_score(llama, feature, texts, token="Mary")
    assert found == pytest.approx(float(score(at, feature).mean()), rel=1e-5)
    rest = torch.cat([stream[1:] for stream in streams])
    found = mean_score(llama, feature, texts, skip=1)
    assert found == pytest.approx(float(score(rest, feature).mean()), rel=1e-5)
    with pytest.raises(ValueError, match="no text has such a token"):
        mean_score(llama, feature, [""])


def test_swapping_is_its_own_inverse():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator)
    first, second = torch.nn.functional.normalize(torch.randn(2, 5, generator=generator))
    torch.testing.assert_close(swap(swap(x, first, second), first, second), x)


def test_directions_are_orthonormal_and_start_with_the_first():
    vectors = list(torch.randn(3, 6, generator=torch.Generator().manual_seed(0)))
    directions = unit_directions(vectors)
    torch.testing.assert_close(directions.T @ directions, torch.eye(3))
    torch.testing.assert_close(directions[:, 0], vectors[0] / vectors[0].norm())
    assert all(directions[:, i] @ vectors[i] > 0 for i in range(3))


def test_what_cannot_be_steered(llama):
    feature = direction(llama)
    with pytest.raises(ValueError, match="linearly dependent"):
        Steer(llama, [feature, feature])
    zero = SimpleNamespace(vector=torch.zeros(llama.D), site="resid_pre", layer=0)
    with pytest.raises(ValueError, match="zero"):
        Steer(llama, zero)
    with pytest.raises(ValueError, match="mode must be one of"):
        Steer(llama, feature, "remove")
    with pytest.raises(ValueError, match="swap"):
        Steer(llama, feature, "swap")
    with pytest.raises(ValueError, match="features must not be empty"):
        Steer(llama, [])
    with pytest.raises(ValueError, match="layer must be from 0 to 1"):
        Steer(llama, direction(llama, layer=2))
    with pytest.raises(ValueError, match="mean is for"):
        Steer(llama, feature, mean=1.0)
    with pytest.raises(ValueError, match="one number for each feature"):
        Steer(llama, [feature, direction(llama, 1), direction(llama, 2)], "center", mean=[1.0, 2.0])
    with pytest.raises(ValueError, match="slice without step"):
        Steer(llama, feature, tokens=slice(-2, None))
    with pytest.raises(ValueError, match="tokens must be"):
        Steer(llama, feature, tokens="mean")
    with Steer(llama, feature, tokens=[7]), pytest.raises(ValueError, match="prompt 0 has 5"):
        llama.model(IDS)
    steer = Steer(llama, feature)
    with steer, pytest.raises(RuntimeError, match="already in use"):
        steer.__enter__()
