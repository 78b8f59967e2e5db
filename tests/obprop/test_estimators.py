import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cameraready.obprop.estimators import ObPropClassifier, ObservableTransformer
from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.scoring import score_texts

TEXTS = ["Mary is a doctor", "So, John was here today", "Anna is here", "Peter is a friend"]


@pytest.fixture
def observable(tokenizer):
    return Observable.from_tokens(tokenizer, [" she"], [" he"])


@pytest.fixture
def pair(llama):
    return PromptPair(llama, "So, Mary really is", "So, John really is")


def test_columns_are_the_features_scores(llama, observable):
    features = [feature_vector(llama, observable, path) for path in ("1.0", "0.2:1.3")]
    transformer = ObservableTransformer(llama, features, token="last").fit()
    found = transformer.transform(np.array(TEXTS))
    frame = score_texts(llama, features, TEXTS, token="last")
    np.testing.assert_allclose(found, frame.score.to_numpy().reshape(4, 2), rtol=1e-5)
    assert list(transformer.get_feature_names_out()) == ["she-he 1.0", "she-he 0.2:1.3"]
    pipeline = make_pipeline(transformer, LogisticRegression()).fit(TEXTS, [1, 0, 1, 0])
    assert pipeline.predict(TEXTS).shape == (4,)
    assert transformer.transform([]).shape == (0, 2)


def test_texts_without_a_score_are_refused(llama, observable):
    feature = feature_vector(llama, observable, "1.0")
    with pytest.raises(ValueError, match="text 1 has no score: empty"):
        ObservableTransformer(llama, feature).fit_transform(["Mary", ""])
    with pytest.raises(ValueError, match="text 0 has no score: no such token"):
        ObservableTransformer(llama, feature, token="John").fit_transform(["Mary"])
    with pytest.raises(ValueError, match="not 'all'"):
        ObservableTransformer(llama, feature, token="all").fit()


def test_no_labels_are_needed(llama, observable, pair):
    classifier = ObPropClassifier(llama, observable, pair, "1.0", token=2).fit()
    assert list(classifier.classes_) == [False, True]
    ends = classifier.decision_function([pair.negative, pair.positive])
    assert ends[0] == pytest.approx(-ends[1], rel=1e-5)
    assert list(classifier.predict([pair.negative, pair.positive])) == list(ends > 0)
    feature = feature_vector(llama, observable, "1.0", pair)
    wanted = score_texts(llama, feature, TEXTS, token=2).score - classifier.threshold_
    np.testing.assert_allclose(classifier.decision_function(TEXTS), wanted, rtol=1e-5)


def test_labels_set_the_threshold(llama, observable, pair):
    labels = ["he", "she", "he", "she"]
    classifier = ObPropClassifier(llama, observable, pair, "1.0").fit(TEXTS, labels)
    scores = classifier.decision_function(TEXTS)
    assert scores[::2].mean() == pytest.approx(-scores[1::2].mean(), abs=1e-6)
    assert list(classifier.predict(TEXTS)) == ["she" if score > 0 else "he" for score in scores]
    with pytest.raises(ValueError, match="two kinds, not 1"):
        ObPropClassifier(llama, observable, pair, "1.0").fit(TEXTS, ["she"] * 4)
    with pytest.raises(ValueError, match="one text for each label"):
        ObPropClassifier(llama, observable, pair, "1.0").fit(None, labels)


def test_the_path_of_the_greatest_contribution_is_taken(llama, observable, pair):
    from cameraready.obprop.patching import search_paths

    classifier = ObPropClassifier(llama, observable, pair).fit()
    table = search_paths(llama, observable, [pair], max_length=2)
    best = table.sort_values("rank")["path"].iloc[0]
    assert str(classifier.feature_.path) == str(best)
