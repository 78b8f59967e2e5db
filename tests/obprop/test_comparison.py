from types import SimpleNamespace

import pytest
import torch

from cameraready.obprop.comparison import steered_outputs
from cameraready.obprop.steering import Steer

PROMPT = "So, Mary really is a great friend, isn't"


@pytest.fixture
def edit(llama):
    vector = torch.randn(llama.D, generator=torch.Generator().manual_seed(1))
    feature = SimpleNamespace(vector=vector, site="resid_pre", layer=1)
    return Steer(llama, feature, "add", strength=30.0)


def test_rows_without_and_with_the_edit(llama, edit, observable):
    found = steered_outputs(llama, edit, [PROMPT, "Mary was here"], [observable])
    assert list(found.columns) == ["prompt", "edit", "output", observable.name]
    assert found["edit"].tolist() == ["none", "add", "none", "add"]
    before = observable.value(llama, PROMPT)
    with edit:
        after = observable.value(llama, PROMPT)
    assert found[observable.name].tolist()[:2] == pytest.approx([before, after], rel=1e-5)
    assert abs(before - after) > 1e-3
    ids = llama.encode(PROMPT)[None]
    likeliest = llama.model(ids).logits[0, -1].argmax()
    assert found["output"][0] == llama.tokenizer.decode([int(likeliest)])


def test_generation_begins_with_the_likeliest_token(llama, edit):
    short = steered_outputs(llama, edit, [PROMPT])
    long = steered_outputs(llama, edit, [PROMPT], new_tokens=4)
    for first, whole in zip(short["output"], long["output"], strict=True):
        assert whole.startswith(first)
        assert len(whole) > len(first)


def test_drawn_tokens_depend_on_the_seed_only(llama, edit):
    def drawn(seed):
        found = steered_outputs(llama, edit, [PROMPT], (), 8, temperature=2.0, seed=seed)
        return found["output"].tolist()

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


@pytest.mark.parametrize("numbers", [{"new_tokens": -1}, {"temperature": -0.5}])
def test_negative_numbers_are_refused(llama, edit, numbers):
    with pytest.raises(ValueError, match="must not be negative"):
        steered_outputs(llama, edit, [PROMPT], **numbers)
