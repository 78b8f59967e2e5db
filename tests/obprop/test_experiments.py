"""What the claims of obprop are measured with."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneOut, cross_val_score

from cameraready.obprop import experiments
from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.scoring import score_texts


@pytest.fixture(scope="module")
def view():
    return experiments.tiny_view()


@pytest.fixture
def prompts():
    return ["So, Mary really is", "Well, John really did enjoy it", "So, Anna really is"]


def test_the_tiny_model_has_the_words_as_single_tokens(view):
    for text in (experiments.SHE_HE, experiments.HER_HIM, *experiments.OTHERS.values()):
        Observable.parse(text, view.tokenizer)
    female, male = experiments.people(view, 4)
    assert female == ["Mary", "Anna", "Sarah", "Emma"]
    assert len(male) == 4


def test_what_is_read_is_what_single_runs_have(view, prompts):
    observable = Observable.parse(experiments.SHE_HE, view.tokenizer)
    at = [
        experiments.last_token_of(view, prompt, name)
        for prompt, name in zip(prompts, ("Mary", "John", "Anna"), strict=True)
    ]
    streams, values = experiments.read(view, observable, prompts, at)
    for i, prompt in enumerate(prompts):
        acts = view.run(prompt)
        assert view.tokenizer.decode(acts.ids[0, at[i]]).strip() in ("Mary", "John", "Anna")
        expected = torch.stack([acts.resid_pre[layer][0, at[i]] for layer in range(view.L)])
        torch.testing.assert_close(streams[i], expected)
        assert values[i] == pytest.approx(observable.value(view, prompt), abs=1e-4)


def test_scores_are_those_of_score_texts(view, prompts):
    observable = Observable.parse(experiments.SHE_HE, view.tokenizer)
    feature = feature_vector(view, observable, "2.1")
    streams, _ = experiments.read(view, observable, prompts, [2, 2, 2])
    expected = score_texts(view, feature, prompts, token=2)["score"].to_numpy()
    np.testing.assert_allclose(experiments.score(view, feature, streams), expected, rtol=1e-4)


def test_ridge_takes_the_penalty_that_leave_one_out_takes():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(12, 30))
    y = x @ generator.normal(size=30) + 3.0 * generator.normal(size=12)
    spread = np.square(x - x.mean(0)).sum(1).mean()
    models = [Ridge(alpha=spread * 10.0**power) for power in np.linspace(-3, 2, 11)]
    losses = [
        -cross_val_score(m, x, y, cv=LeaveOneOut(), scoring="neg_mean_squared_error").mean()
        for m in models
    ]
    best = models[int(np.argmin(losses))].fit(x, y)
    np.testing.assert_allclose(experiments.ridge(x, y), best.coef_, rtol=1e-6)


def test_the_area_is_scikit_learns():
    generator = np.random.default_rng(0)
    positive = generator.random(30) < 0.4
    scores = generator.integers(6, size=30).astype(float)  # with ties
    expected = roc_auc_score(positive, scores)
    assert experiments.area_under_curve(positive, scores) == pytest.approx(expected)


def test_matched_pairs_are_a_woman_and_a_man_in_one_template():
    female = np.tile([True, True, False, False, False], 3)
    drawn = experiments.matched_pairs(female, 5, np.random.default_rng(1))
    assert len(drawn) == len(set(drawn)) == 12
    first, second = drawn[::2], drawn[1::2]
    assert female[first].all()
    assert not female[second].any()
    assert (first // 5 == second // 5).all()


def test_the_first_two_politicians_have_prompts_of_equal_length():
    at = np.array([3, 4, 5, 6, 5, 7, 7, 8])
    for seed in range(5):
        drawn = experiments.same_lengths(at, 4, np.random.default_rng(seed))
        assert drawn[:2].tolist() == [2, 4]
        assert sorted(drawn) == list(range(8))
        assert (drawn[::2] < 4).all()


def test_paths_by_the_mlp_that_they_start_at():
    paths = ["25.2@2", "mlp24@2:25.2@2", "mlp3@2:25.2@2", "mlp24@2:26.2@2", "mlp24@4:26.2@4"]
    found = experiments.first_of_mlps(paths, 2)
    assert {layer: str(path) for layer, path in found.items()} == {
        24: "mlp24@2:25.2@2",
        3: "mlp3@2:25.2@2",
    }


def test_rivals_are_judged_on_what_they_have_not_seen():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 5, 8)).astype(np.float32)
    values = 2.0 * x[:, 4, 0]  # what layer 4 holds and layer 1 does not
    found = experiments.fitted(x, values, values > 0, np.arange(30), generator)
    assert set(found["ridge"]) == {"1", "4"}
    assert found["ridge"]["4"] > 0.99
    assert found["ridge"]["1"] < 0.5
    assert found["shuffled"]["4"] < 0.5
    assert 0.5 < found["mean difference"]["4"] < found["ridge"]["4"]


def test_pairs_of_code_are_equally_long_in_the_pretrained_model(smollm2):
    assert all(experiments.equally_long(smollm2, *pair) for pair in experiments.CODE_PAIRS)
