import pytest
import torch

from cameraready.obprop.sites import editing, norm_at, read_places

IDS = torch.tensor([[2, 30, 31, 32, 33], [3, 30, 40, 41, 42]])


def test_what_is_read_is_the_residual_stream(view):
    places = [(site, layer) for layer in range(view.L) for site in ("resid_pre", "resid_mid")]
    streams = read_places(view, IDS, places)
    acts = view.run(IDS)
    for site, layer in places:
        torch.testing.assert_close(streams[site, layer], acts.site(site, layer))


def test_layers_behind_the_last_place_do_not_run(llama):
    ran = []
    handle = llama.adapter.block(1).register_forward_hook(lambda *_: ran.append(1))
    read_places(llama, IDS, [("resid_pre", 1)])
    assert ran == []
    handle.remove()
    assert not any(m._forward_pre_hooks for m in llama.model.modules())


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid"])
def test_an_edit_changes_what_all_later_parts_see(view, site):
    """The logits are those of the rest of the model, computed from its parts, at the new stream."""
    moved = torch.randn(view.D, generator=torch.Generator().manual_seed(0))
    with editing(view, {(site, 1): lambda stream: stream + moved}):
        acts = view.run(IDS, attention=True)
    plain = view.run(IDS)
    adapter = view.adapter
    if site == "resid_pre" or adapter.parallel:
        torch.testing.assert_close(read_edited(view, site, moved), plain.resid_pre[1] + moved)
    middle = plain.resid_mid[1] + moved
    if site == "resid_mid" and not adapter.parallel:
        added = view.mlp(1, adapter.mlp_norm(1)(middle))
        after = adapter.norm_after_mlp(1)
        last = middle + (added if after is None else after(added))
        torch.testing.assert_close(acts.resid_pre[2], last, rtol=1e-4, atol=1e-4)
    again = view.run(IDS)
    torch.testing.assert_close(again.logits, plain.logits, rtol=0, atol=0)
    assert (acts.logits - plain.logits).abs().max() > 0.01


def read_edited(view, site, moved):
    seen = []
    with editing(view, {(site, 1): lambda stream: stream + moved}):
        handle = view.adapter.block(1).register_forward_pre_hook(
            lambda _, args, kwargs: seen.append(args[0] if args else kwargs["hidden_states"]),
            with_kwargs=True,
        )
        with torch.no_grad():
            view.model(IDS)
        handle.remove()
    return seen[0]


def test_the_norm_behind_a_site(llama):
    assert torch.equal(
        norm_at(llama, ("resid_mid", 1)).weight,
        llama.model.model.layers[1].post_attention_layernorm.weight,
    )
    assert torch.equal(
        norm_at(llama, ("resid_pre", 1)).weight, llama.model.model.layers[1].input_layernorm.weight
    )


def test_a_place_that_is_not_there(llama):
    with pytest.raises(ValueError, match="layer must be from 0 to 1, not 2"):
        read_places(llama, IDS, [("resid_pre", 2)])
    with pytest.raises(ValueError, match="site must be one of"):
        read_places(llama, IDS, [("resid_post", 1)])
