import itertools
import json

import pytest
import torch

from cameraready.obprop.errors import PathError
from cameraready.obprop.feature import FeatureVector, feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.paths import Node, Path
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.view import TransformerView

SHORT = ("So Mary is", "So John is")


@pytest.fixture(scope="session")
def observable(tokenizer):
    return Observable.from_tokens(tokenizer, [" she", " her"], [" he", " him"])


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
