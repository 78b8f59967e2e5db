from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cameraready.obprop.scoring import flatten_texts, score_texts, stream_scores

TEXTS = [
    "Mary is a doctor",
    "So, John really is a great friend, isn't he",
    "",
    "Anna was here",
    "Peter",
]


def direction(view, seed=0, site="resid_pre", layer=1):
    vector = torch.randn(view.D, generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(vector=vector, site=site, layer=layer, name=f"direction {seed}")


def reference(view, feature, text, normalized):
    """The scores of a text's tokens, from a run on this text alone."""
    stream = view.run(text).site(feature.site, feature.layer)[0]
    norm = (view.adapter.attention_norm if feature.site == "resid_pre" else view.adapter.mlp_norm)(
        feature.layer
    )
    scores = stream @ feature.vector
    return (scores / norm.scale(stream) if normalized else scores).numpy()


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid"])
@pytest.mark.parametrize("normalized", [True, False])
def test_scores_of_all_tokens_are_those_of_each_text_alone(view, site, normalized):
    feature = direction(view, site=site)
    frame = score_texts(view, feature, TEXTS, token="all", normalized=normalized, batch_size=2)
    assert list(frame.columns) == ["text", "token", "position", "score", "status"]
    assert frame.index.name == "line"
    for line, text in enumerate(TEXTS):
        own = frame.loc[[line]]
        if not text:
            assert list(own.status) == ["empty"]
            assert own.score.isna().all()
            assert own.position.isna().all()
            continue
        assert set(own.status) == {"ok"}
        assert "".join(own.token) == text
        assert list(own.position) == list(range(len(own)))
        np.testing.assert_allclose(
            own.score, reference(view, feature, text, normalized), rtol=2e-4, atol=2e-5
        )


def test_rules_for_a_text(llama):
    feature = direction(llama)
    every = score_texts(llama, feature, TEXTS, token="all")
    by_text = every[every.status == "ok"].groupby(level="line").score
    mean = score_texts(llama, feature, TEXTS)
    np.testing.assert_allclose(mean.score.dropna(), by_text.mean(), rtol=1e-5)
    assert mean.token.isna().all()
    largest = score_texts(llama, feature, TEXTS, token="max")
    np.testing.assert_array_equal(largest.score.dropna(), by_text.max())
    at = every.set_index("position", append=True).score
    for line, position, score in zip(largest.index, largest.position, largest.score, strict=True):
        assert line == 2 or at.loc[line, position] == score
    last = score_texts(llama, feature, TEXTS, token="last")
    np.testing.assert_array_equal(last.score.dropna(), by_text.last())
    second = score_texts(llama, feature, TEXTS, token=1)
    assert list(second.status) == ["ok", "ok", "empty", "ok", "no such token"]
    assert list(second.token.dropna()) == [" is", ",", " was"]
    anchored = score_texts(llama, feature, TEXTS, token="a doctor")
    assert list(anchored.status)[:2] == ["ok", "no such token"]
    assert anchored.position[0] == 3
    own = score_texts(llama, feature, TEXTS, token=["Mary", "John", 0, "here", -1])
    assert list(own.token.dropna()) == ["Mary", " John", " here", "Peter"]
    with pytest.raises(ValueError, match="one entry for each text"):
        score_texts(llama, feature, TEXTS, token=["Mary"])


def test_several_features_name_their_rows(llama):
    features = [direction(llama, 0), direction(llama, 1, "resid_mid", 0), direction(llama, 2)]
    together = score_texts(llama, features, TEXTS, token="last")
    assert list(together.columns)[-1] == "feature"
    for feature in features:
        alone = score_texts(llama, feature, TEXTS, token="last")
        own = together[together.feature == feature.name]
        np.testing.assert_allclose(own.score, alone.score, rtol=1e-5)
    largest = score_texts(llama, features[:2], TEXTS, token="max")
    for feature in features[:2]:
        alone = score_texts(llama, feature, TEXTS, token="max")
        own = largest[largest.feature == feature.name]
        np.testing.assert_allclose(own.score, alone.score, rtol=1e-5)


def test_scores_do_not_depend_on_the_tokenizers_padding(llama):
    wanted = score_texts(llama, direction(llama), TEXTS)
    llama.tokenizer.padding_side = "left"
    try:
        found = score_texts(llama, direction(llama), TEXTS)
    finally:
        llama.tokenizer.padding_side = "right"
    np.testing.assert_array_equal(found.score, wanted.score)


LONG = " ".join(["So", *["Mary is a doctor , John was here ,"] * 9])


def test_a_text_longer_than_the_context_needs_a_stride(llama):
    assert len(llama.tokenizer(LONG)["input_ids"]) > 64
    with pytest.raises(ValueError, match=r"text 1 has .* more than the context of 64.*stride"):
        score_texts(llama, direction(llama), ["Mary", LONG])
    with pytest.raises(ValueError, match="stride must be from 1 to the context's 64"):
        score_texts(llama, direction(llama), [LONG], stride=65)


@pytest.mark.parametrize("stride", [1, 7, 40, 64])
def test_windows_score_each_token_once(llama, stride):
    feature = direction(llama)
    ids = llama.tokenizer(LONG)["input_ids"]
    frame = score_texts(llama, feature, ["Mary", LONG], token="all", stride=stride).loc[[1]]
    assert list(frame.position) == list(range(len(ids)))
    assert frame.score.notna().all()
    start, wanted = 0, []
    while len(wanted) < len(ids):
        acts = llama.run(torch.tensor(ids[start : start + 64])[None]).resid_pre[1][0]
        scores = acts @ feature.vector / llama.adapter.attention_norm(1).scale(acts)
        wanted.extend(scores[len(wanted) - start :].tolist())
        start = min(start + stride, len(ids) - 64)
    np.testing.assert_allclose(frame.score, wanted, rtol=1e-4, atol=1e-5)


def test_texts_come_in_many_forms():
    rows = [{"text": "a"}, ["b", {"text": "c"}], {"text": ["d", "e"]}, None, ("f",)]
    assert list(flatten_texts(rows)) == ["a", "b", "c", "d", "e", "", "f"]
    assert list(flatten_texts([{"body": "a"}], "body")) == ["a"]
    with pytest.raises(ValueError, match=r"text_column 'text' is not among .*body"):
        list(flatten_texts([{"body": "a"}]))
    with pytest.raises(TypeError, match="not one string"):
        list(flatten_texts("a"))
    with pytest.raises(TypeError, match="must hold strings, not int"):
        list(flatten_texts([1]))


def test_a_data_loader_is_read(llama):
    loader = torch.utils.data.DataLoader(TEXTS, batch_size=2)
    found = score_texts(llama, direction(llama), loader)
    np.testing.assert_array_equal(found.score, score_texts(llama, direction(llama), TEXTS).score)


def test_texts_are_read_as_they_are_scored(llama):
    """At most a chunk is taken at a time."""
    taken = []

    def texts():
        for i in range(100):
            taken.append(i)
            yield "Mary is here"

    stream = stream_scores(llama, direction(llama), texts(), batch_size=2)
    assert len(next(stream).lines) == 16
    assert len(taken) == 16
    assert sum(len(rows.lines) for rows in stream) == 84


def test_shards_are_the_rows_of_one_process(llama):
    texts = TEXTS * 9
    whole = score_texts(llama, direction(llama), texts, batch_size=1)
    parts = [
        rows.frame()
        for i in range(3)
        for rows in stream_scores(llama, direction(llama), texts, batch_size=1, shard=(i, 3))
    ]
    lines = np.concatenate([part.index for part in parts])
    scores = np.concatenate([part.score for part in parts])
    assert sorted(lines) == list(range(len(texts)))
    np.testing.assert_array_equal(scores[np.argsort(lines)], whole.score)


def test_activations_that_are_not_numbers_are_named(llama):
    llama.model.model.layers[0].mlp.down_proj.weight.data[0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"text 3 \('Anna was here'\) are NaN.*resid_pre\[1\]"):
        score_texts(llama, direction(llama), ["", None, "", "Anna was here"])


def test_what_cannot_be_scored(llama):
    with pytest.raises(ValueError, match="features must not be empty"):
        score_texts(llama, [], TEXTS)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        score_texts(llama, direction(llama), TEXTS, batch_size=0)
    with pytest.raises(ValueError, match="layer must be from 0 to 1, not 5"):
        score_texts(llama, direction(llama, layer=5), TEXTS)
    none = score_texts(llama, direction(llama), [])
    assert len(none) == 0
    assert list(none.columns) == ["text", "token", "position", "score", "status"]
