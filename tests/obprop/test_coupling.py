import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.obprop.coupling import (
    cosine,
    coupling,
    coupling_interval,
    coupling_matrix,
    measured_coupling,
)
from cameraready.obprop.errors import SiteMismatchError

Y1, Y2 = torch.tensor([3.0, 0.0, 4.0, 0.0]), torch.tensor([1.0, 2.0, 2.0, -4.0])


def on_the_set(y1, k, s, direction):
    """The point of length s with score k that lies in a direction across y1."""
    unit = y1 / np.linalg.norm(y1)
    across = direction - unit @ direction * unit
    across /= np.linalg.norm(across)
    along = k / np.linalg.norm(y1)
    return along * unit + math.sqrt(max(0.0, s**2 - along**2)) * across


def test_the_worked_example():
    assert coupling(Y1, Y2) == pytest.approx(0.44, abs=1e-12)
    mean, low, high = coupling_interval(Y1, Y2, k=5, s=4)
    assert (mean, low, high) == pytest.approx((2.2, -15.18965, 19.58965), abs=5e-6)


def test_simulation_agrees_with_the_mean_and_fills_the_interval():
    y1, y2 = Y1.double().numpy(), Y2.double().numpy()
    generator = np.random.default_rng(0)
    points = np.array([on_the_set(y1, 5, 4, generator.normal(size=4)) for _ in range(20_000)])
    assert points @ y1 == pytest.approx(5)
    assert np.linalg.norm(points, axis=1) == pytest.approx(4)
    scores = points @ y2
    mean, low, high = coupling_interval(Y1, Y2, k=5, s=4)
    assert abs(scores.mean() - mean) < 4 * scores.std() / math.sqrt(len(scores))
    assert low <= scores.min() < low + 0.05
    assert high - 0.05 < scores.max() <= high


vectors = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).normal(size=(3, 5)) * 2.0 ** (seed % 7)
)


@settings(max_examples=60, deadline=None)
@given(vectors, st.floats(-1, 1), st.floats(0.1, 10))
def test_scores_stay_in_the_interval_and_attain_its_ends(rows, share, s):
    y1, y2, direction = rows
    k = share * s * np.linalg.norm(y1) * (1 - 1e-9)
    interval = coupling_interval(torch.from_numpy(y1), torch.from_numpy(y2), k, s)
    room = 1e-9 * (1 + np.linalg.norm(y2) * s)
    assert interval.low - room <= on_the_set(y1, k, s, direction) @ y2 <= interval.high + room
    assert on_the_set(y1, k, s, y2) @ y2 == pytest.approx(interval.high, abs=room)
    assert on_the_set(y1, k, s, -y2) @ y2 == pytest.approx(interval.low, abs=room)
    assert interval.mean == pytest.approx(k * coupling(*map(torch.from_numpy, (y1, y2))), abs=room)


@given(st.floats(-100, 100).filter(lambda a: abs(a) > 1e-3))
def test_a_multiple_couples_by_its_factor(a):
    assert coupling(Y1, a * Y1.double()) == pytest.approx(a, rel=1e-12)
    assert cosine(Y1, a * Y1.double()) == pytest.approx(math.copysign(1, a), rel=1e-12)
    assert coupling_interval(Y1, a * Y1.double(), 2.0, 3.0) == pytest.approx((2 * a,) * 3)


def test_the_matrix_holds_the_coefficients_of_all_pairs():
    matrix = coupling_matrix([Y1, Y2, -Y1])
    assert matrix.shape == (3, 3)
    assert matrix[0, 1] == pytest.approx(11 / 25)
    assert matrix[1, 0] == pytest.approx(11 / 25 * 25 / 25)
    assert matrix[0, 2] == pytest.approx(-1)
    assert matrix.diagonal().tolist() == pytest.approx([1, 1, 1])


def test_no_point_is_short_of_its_score():
    with pytest.raises(ValueError, match=r"\|k\| must not exceed s·\|y1\| = 5"):
        coupling_interval(Y1, Y2, k=5.1, s=1)
    with pytest.raises(ValueError, match="no x of length"):
        coupling_interval(Y1, Y2, k=1, s=float("nan"))


def test_vectors_that_have_no_coupling():
    with pytest.raises(ValueError, match="zero vector"):
        coupling(torch.zeros(4), Y2)
    with pytest.raises(ValueError, match="one length"):
        cosine(Y1, Y2[:3])


TEXTS = ["Mary is a doctor , here", "So, John was here today", "", "Peter is a friend"]


def feature(view, seed, layer=1):
    vector = torch.randn(view.D, generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(vector=vector, site="resid_pre", layer=layer, name=str(seed))


def test_the_measured_slope_is_that_of_the_scores(llama):
    first, second = feature(llama, 0), feature(llama, 1)
    measured = measured_coupling(llama, first, second, TEXTS, skip=2)
    rows = []
    for text in TEXTS:
        if text:
            stream = llama.run(text).resid_pre[1][0, 2:]
            scale = llama.adapter.attention_norm(1).scale(stream)
            rows.append(torch.stack([stream @ f.vector / scale for f in (first, second)], 1))
    scores = torch.cat(rows).numpy()
    np.testing.assert_allclose(measured.scores, scores, rtol=1e-3, atol=1e-4)
    slope, intercept = np.polyfit(scores[:, 0], scores[:, 1], 1)
    assert measured.slope == pytest.approx(slope, rel=1e-3)
    assert measured.intercept == pytest.approx(intercept, rel=1e-3, abs=1e-4)
    assert measured.r2 == pytest.approx(np.corrcoef(scores.T)[0, 1] ** 2, rel=1e-3)
    assert measured.predicted == coupling(first, second)
    assert measured.cosine == cosine(first, second)
    double = SimpleNamespace(vector=2 * first.vector, site="resid_pre", layer=1, name="double")
    measured = measured_coupling(llama, first, double, TEXTS, token="mean")
    assert measured.slope == pytest.approx(2.0, rel=1e-5)
    assert len(measured.scores) == 3


def test_features_of_different_places_are_not_coupled(llama):
    with pytest.raises(SiteMismatchError, match=r"resid_pre\[0\], resid_pre\[1\]"):
        coupling(feature(llama, 0), feature(llama, 1, layer=0))
    with pytest.raises(SiteMismatchError):
        measured_coupling(llama, feature(llama, 0), feature(llama, 1, layer=0), TEXTS)
    with pytest.raises(ValueError, match="give 0 tokens"):
        measured_coupling(llama, feature(llama, 0), feature(llama, 1), [""])
