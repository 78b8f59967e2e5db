import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cameraready.obprop.report import coloured_tokens, scores_page
from cameraready.obprop.scoring import score_texts

TEXTS = ["Mary is a <b> doctor", "", "So, John was here today , Peter is the great friend . Anna"]


@pytest.fixture
def scores(llama):
    vector = torch.randn(llama.D, generator=torch.Generator().manual_seed(0))
    feature = SimpleNamespace(vector=vector, site="resid_pre", layer=1, name="direction")
    return score_texts(llama, feature, TEXTS, token="all")


def test_colours_say_how_far_from_the_middle(scores):
    found = scores[scores.status == "ok"].score
    coloured = coloured_tokens(scores)
    assert list(coloured) == [0, 2]
    tokens = [token for line in coloured.values() for token in line]
    assert [token.score for token in tokens] == list(found)
    assert {token.side for token in tokens if token.score > np.median(found)} == {"high"}
    assert {token.side for token in tokens if token.score < np.median(found)} == {"low"}
    far = max(tokens, key=lambda token: abs(token.score - np.median(found)))
    assert far.strength == 1
    assert all(0 <= token.strength <= 1 for token in tokens)


def test_the_page_shows_all_texts_and_the_extreme_windows(scores):
    page = scores_page(scores, "she & he", window=3, keep=2)
    assert "she &amp; he" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "1 without a token left out" in page
    shown = re.sub(r"<[^>]+>", "", page[page.index('id="texts"') :])
    assert "So, John was here today" in shown
    own = scores.loc[[2]]
    means = [own.score[i : i + 3].mean() for i in range(0, len(own), 3)]
    first = scores.loc[[0]].score
    means += [first[i : i + 3].mean() for i in range(0, len(first), 3)]
    best = f"{max(means):.3g}".replace("-", "−")
    assert best[:4] in page


def test_long_lists_are_cut_with_a_word_about_it(scores):
    page = scores_page(scores, "direction", show=1)
    assert "The first 1 of 2." in page


def test_what_has_no_page(scores):
    with pytest.raises(ValueError, match="no token with a score"):
        scores_page(scores[scores.status == "empty"], "direction")
    two = scores.assign(feature=["a", "b"] * (len(scores) // 2) + ["a"] * (len(scores) % 2))
    with pytest.raises(ValueError, match="of one feature"):
        scores_page(two, "direction")
