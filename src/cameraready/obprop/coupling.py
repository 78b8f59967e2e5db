"""How strongly the scores of two features move together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.obprop.errors import SiteMismatchError

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = [
    "CouplingInterval",
    "MeasuredCoupling",
    "check_same_site",
    "cosine",
    "coupling",
    "coupling_interval",
    "coupling_matrix",
    "measured_coupling",
]


class CouplingInterval(NamedTuple):
    """The mean and the extremes of feature 2's score where feature 1's is k."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class MeasuredCoupling:
    """The regression of feature 2's scores on feature 1's, beside what was predicted.

    Parameters
    ----------
    predicted
        C(y1, y2).
    slope, intercept, r2
        Of the least-squares line.
    cosine
        Of the two vectors.
    scores
        Both features' scores, a row for each token.
    """

    predicted: float
    slope: float
    intercept: float
    r2: float
    cosine: float
    scores: Float[np.ndarray, "tokens 2"]


def coupling(f1: Any, f2: Any) -> float:
    """The coupling coefficient C(y1, y2) = y1·y2 / |y1|². It is not symmetric.

    Where x is spread evenly over the points of one length with x·y1 = k, x·y2 is k C(y1, y2) on
    average, so that C predicts the slope of feature 2's scores on feature 1's. Dunefsky and Cohan,
    "Observable Propagation: Uncovering Feature Vectors in Transformers", ICML 2024, section 3.3.

    Parameters
    ----------
    f1, f2
        Features of one site and layer, or two vectors of one length.

    Returns
    -------
    coefficient

    Raises
    ------
    SiteMismatchError
        If the features live at different sites or layers.
    ValueError
        If the first vector is zero or the lengths differ.

    Examples
    --------
    >>> coupling(torch.tensor([3.0, 0.0, 4.0, 0.0]), torch.tensor([1.0, 2.0, 2.0, -4.0]))
    0.44
    """
    return float(coupling_matrix([f1, f2])[0, 1])


def cosine(f1: Any, f2: Any) -> float:
    """The cosine of the angle between two features.

    Parameters
    ----------
    f1, f2
        As for `coupling`.

    Raises
    ------
    SiteMismatchError
        If the features live at different sites or layers.
    ValueError
        If a vector is zero or the lengths differ.
    """
    y1, y2 = _vectors([f1, f2])
    return float(y1.dot(y2) / (y1.norm() * y2.norm()))


def coupling_matrix(features: Sequence[Any]) -> Float[Tensor, "features features"]:
    """C(y_i, y_j) in row i and column j, in float64.

    Parameters
    ----------
    features
        As for `coupling`.

    Raises
    ------
    SiteMismatchError
        If the features live at different sites or layers.
    ValueError
        If a vector is zero or the lengths differ.
    """
    gram = (stacked := torch.stack(_vectors(features))) @ stacked.T
    return gram / gram.diagonal()[:, None]


def coupling_interval(f1: Any, f2: Any, k: float, s: float) -> CouplingInterval:
    """What feature 2's score can be at an x of length s where feature 1's is k.

    With theta the angle between the vectors, the extremes are

        (|y2| / |y1|) (k cos(theta) ± sin(theta) sqrt(s² |y1|² - k²))

    and both are attained.

    Parameters
    ----------
    f1, f2
        As for `coupling`.
    k
        Feature 1's score.
    s
        The length of x, at least |k| / |y1|.

    Returns
    -------
    interval
        The mean over all such x, k C(y1, y2), and the extremes.

    Raises
    ------
    SiteMismatchError
        If the features live at different sites or layers.
    ValueError
        If a vector is zero, or no x of length s has the score k.

    Examples
    --------
    >>> y1, y2 = torch.tensor([3.0, 0.0, 4.0, 0.0]), torch.tensor([1.0, 2.0, 2.0, -4.0])
    >>> [round(value, 5) for value in coupling_interval(y1, y2, k=5, s=4)]
    [2.2, -15.18965, 19.58965]
    """
    y1, y2 = _vectors([f1, f2])
    size = float(y1.norm())
    if not (math.isfinite(k) and math.isfinite(s) and abs(k) <= s * size):
        raise ValueError(
            f"no x of length s = {s:g} has the score k = {k:g} with a feature of length "
            f"{size:.4g}; |k| must not exceed s·|y1| = {s * size:.4g}"
        )
    # |y2| sin(theta) is the length of what remains of y2 beside y1, without the loss of 1 - cos².
    along = float(y1.dot(y2)) / size
    across = float((y2 - along / size * y1).norm())
    mean = k / size * along
    spread = across * math.sqrt(max(0.0, s**2 - (k / size) ** 2))
    return CouplingInterval(mean, mean - spread, mean + spread)


def measured_coupling(
    view: "TransformerView",
    f1: Any,
    f2: Any,
    texts: Iterable[str],
    token: Any = "all",
    skip: int = 0,
    normalized: bool = True,
    batch_size: int = 16,
) -> MeasuredCoupling:
    """How feature 2's scores go with feature 1's on texts, beside the predicted slope.

    Parameters
    ----------
    view
        The model.
    f1, f2
        Features of one site and layer.
    texts
        The texts.
    token
        Which tokens to score, as for `cameraready.obprop.scoring.score_texts`.
    skip
        Tokens before this position are left out. The first tokens of a text draw most attention
        and have residual streams unlike all others.
    normalized
        Whether scores are divided by what the norm behind the site divides by.
    batch_size
        Texts that go through the model together.

    Returns
    -------
    measured

    Raises
    ------
    SiteMismatchError
        If the features live at different sites or layers.
    ValueError
        If fewer than three tokens are left, or feature 1 has one score on all of them.
    """
    from scipy.stats import linregress

    from cameraready.obprop.scoring import stream_scores

    predicted, angle = coupling(f1, f2), cosine(f1, f2)
    rows = [
        chunk.scores[((chunk.positions >= skip) | (chunk.positions < 0)) & chunk.found]
        for chunk in stream_scores(
            view, [f1, f2], texts, token=token, normalized=normalized, batch_size=batch_size
        )
    ]
    scores = np.concatenate(rows) if rows else np.empty((0, 2))
    if len(scores) < 3 or np.ptp(scores[:, 0]) == 0:
        raise ValueError(
            f"texts give {len(scores)} tokens to regress on; at least 3 with different scores are "
            "needed"
        )
    line = linregress(scores[:, 0], scores[:, 1])
    return MeasuredCoupling(
        predicted, float(line.slope), float(line.intercept), float(line.rvalue**2), angle, scores
    )


def check_same_site(features: Sequence[Any]) -> None:
    """Check that features live at one site and layer.

    Parameters
    ----------
    features
        Features; plain vectors among them are not checked.

    Raises
    ------
    SiteMismatchError
        If they do not.
    """
    places = {(f.site, f.layer) for f in features if not isinstance(f, Tensor)}
    if len(places) > 1:
        named = ", ".join(f"{site}[{layer}]" for site, layer in sorted(places))
        raise SiteMismatchError(
            f"features must live at one site and layer to be coupled, not at {named}"
        )


def _vectors(features: Sequence[Any]) -> list[Float[Tensor, " width"]]:
    check_same_site(features)
    vectors = [
        (f if isinstance(f, Tensor) else f.vector).detach().to("cpu", torch.float64)
        for f in features
    ]
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError("features must have vectors of one length")
    if not all(vector.any() for vector in vectors):
        raise ValueError("features must not have the zero vector: it has no coupling")
    return vectors
