import torch


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
