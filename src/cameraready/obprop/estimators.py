"""Scores and observables as scikit-learn transformers and classifiers of texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Bool, Float
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import search_paths
from cameraready.obprop.paths import Path
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.scoring import as_list, feature_name, stream_scores
from cameraready.obprop.sites import check_place, place_of
from cameraready.obprop.tokens import Token

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["ObPropClassifier", "ObservableTransformer"]


class ObservableTransformer(TransformerMixin, BaseEstimator):
    """Texts to a column of scores for each feature.

    Nothing is learned: `fit` only checks.

    Parameters
    ----------
    view
        The model.
    features
        One feature vector or several.
    token
        As for `cameraready.obprop.scoring.score_texts`, but not ``"all"``.
    normalized
        Whether scores are divided by what the norm behind the site divides by.
    batch_size
        Texts that go through the model together.
    stride
        For texts longer than the model's context.
    """

    def __init__(
        self,
        view: "TransformerView",
        features: Any,
        token: Token = "mean",
        normalized: bool = True,
        batch_size: int = 16,
        stride: int | None = None,
    ) -> None:
        self.view = view
        self.features = features
        self.token = token
        self.normalized = normalized
        self.batch_size = batch_size
        self.stride = stride

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Check that the features fit the model.

        Parameters
        ----------
        X, y
            Not needed.

        Raises
        ------
        ValueError
            If a feature's place is not in the model, or ``token`` is ``"all"``.
        """
        if self.token == "all":
            raise ValueError("token must give one score for each text, not 'all'")
        features = as_list(self.features)
        for feature in features:
            check_place(self.view, *place_of(feature))
        self.feature_names_out_ = np.array([feature_name(f) for f in features], dtype=object)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "texts features"]:  # noqa: N803
        """The scores of texts.

        Parameters
        ----------
        X
            Texts.

        Raises
        ------
        ValueError
            If a text is empty or does not have the token.
        """
        check_is_fitted(self, "feature_names_out_")
        return _scores(
            self.view,
            self.features,
            X,
            self.token,
            self.normalized,
            self.batch_size,
            self.stride,
        )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The features' names."""
        check_is_fitted(self, "feature_names_out_")
        return self.feature_names_out_


class ObPropClassifier(ClassifierMixin, BaseEstimator):
    """Texts told apart by a feature of an observable; labels are not needed.

    Parameters
    ----------
    view
        The model.
    observable
        What tells the classes apart.
    pair
        Two prompts that differ in it, from which the feature is made.
    path
        The path of the feature; by default the one of the greatest contribution on the pair, of up
        to two nodes.
    token
        As for `cameraready.obprop.scoring.score_texts`, but not ``"all"``.
    batch_size
        Texts that go through the model together.
    stride
        For texts longer than the model's context.

    Attributes
    ----------
    feature_ : FeatureVector
        The feature.
    threshold_ : float
        The score between the classes: with labels the midpoint of their means, without labels
        that of the pair's two prompts.
    classes_ : ndarray of shape (2,)
        The labels, the positive one last; False and True when there were none.
    """

    def __init__(
        self,
        view: "TransformerView",
        observable: Observable,
        pair: PromptPair,
        path: str | Path | None = None,
        token: Token = "mean",
        batch_size: int = 16,
        stride: int | None = None,
    ) -> None:
        self.view = view
        self.observable = observable
        self.pair = pair
        self.path = path
        self.token = token
        self.batch_size = batch_size
        self.stride = stride

    def fit(self, X: Any = None, y: Sequence[Any] | None = None) -> Self:  # noqa: N803
        """Make the feature, and set the threshold.

        Parameters
        ----------
        X
            Texts; not needed without labels.
        y
            Their labels, of two kinds; the later in order is the positive one.

        Raises
        ------
        ValueError
            If there are labels of other than two kinds or without texts, or ``token`` is
            ``"all"``.
        """
        if self.token == "all":
            raise ValueError("token must give one score for each text, not 'all'")
        path = self.path
        if path is None:
            found = search_paths(self.view, self.observable, [self.pair], max_length=2, keep=1)
            path = str(found["path"].iloc[0])
        self.feature_ = feature_vector(self.view, self.observable, path, self.pair)
        if y is None:
            self.classes_ = np.array([False, True])
            scores = self._scores([self.pair.negative, self.pair.positive])
            self.threshold_ = float(scores.mean())
            return self
        self.classes_, positive = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(f"y must have labels of two kinds, not {len(self.classes_)}")
        if X is None or len(X) != len(positive):
            raise ValueError("X must hold one text for each label of y")
        scores = self._scores(X)
        self.threshold_ = float((scores[positive == 0].mean() + scores[positive == 1].mean()) / 2)
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " texts"]:  # noqa: N803
        """The scores of texts, from the threshold.

        Parameters
        ----------
        X
            Texts.
        """
        check_is_fitted(self, "feature_")
        return self._scores(X) - self.threshold_

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The labels of texts.

        Parameters
        ----------
        X
            Texts.
        """
        positive: Bool[np.ndarray, " texts"] = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def _scores(self, texts: Any) -> Float[np.ndarray, " texts"]:
        return _scores(
            self.view, self.feature_, texts, self.token, True, self.batch_size, self.stride
        )[:, 0]


def _scores(
    view: "TransformerView",
    features: Any,
    texts: Any,
    token: Token,
    normalized: bool,
    batch_size: int,
    stride: int | None,
) -> Float[np.ndarray, "texts features"]:
    texts = texts.tolist() if hasattr(texts, "tolist") else texts
    found = [np.empty((0, len(as_list(features))))]
    for rows in stream_scores(view, features, texts, token, normalized, batch_size, stride):
        if not rows.found.all():
            i = int(np.argmin(rows.found))
            raise ValueError(
                f"text {rows.lines[i]} has no score: {rows.statuses[i]} (token={token!r})"
            )
        found.append(rows.scores)
    return np.concatenate(found)
