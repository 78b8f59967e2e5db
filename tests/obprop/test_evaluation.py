import math

import numpy as np
import pytest
import torch

from cameraready.obprop.evaluation import observable_values, perplexity
from cameraready.obprop.observable import Observable

TEXTS = ["Mary is a doctor", "So, John was here today", "Anna is here", "Peter is a friend"]


def test_values_are_those_of_single_prompts(view):
    she = Observable.from_tokens(view.tokenizer, [" she"], [" he"])
    her = Observable.from_tokens(view.tokenizer, [" her"], [" him"])
    found = observable_values(view, [she, her], TEXTS, batch_size=2)
    wanted = [[each.value(view, text) for each in (she, her)] for text in TEXTS]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(observable_values(view, she, TEXTS, 2), found[:, :1])
    with pytest.raises(ValueError, match="has no tokens"):
        observable_values(view, she, [""])
    with pytest.raises(TypeError, match="not one string"):
        observable_values(view, she, "Mary")


def test_perplexity_is_that_of_the_models_own_loss(llama):
    losses, count = 0.0, 0
    for text in TEXTS:
        ids = llama.encode(text)[None]
        with torch.no_grad():
            loss = llama.model(ids, labels=ids).loss
        losses, count = losses + float(loss) * (ids.shape[1] - 1), count + ids.shape[1] - 1
    assert perplexity(llama, [*TEXTS, "Mary"]) == pytest.approx(math.exp(losses / count), rel=1e-5)
    with pytest.raises(ValueError, match="two tokens"):
        perplexity(llama, ["Mary"])
