import matplotlib.pyplot as plt
import numpy as np
import pytest

from cameraready.obprop.coupling import MeasuredCoupling
from cameraready.obprop.plots import (
    crossing_of,
    plot_coupling,
    plot_coupling_matrix,
    plot_gaps,
    plot_heads,
    plot_label_curves,
    plot_scores,
)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    figure.canvas.draw()  # what cannot be drawn fails here
    plt.close(figure)


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("sign", [1, -1])
def test_heads_show_their_numbers(ax, sign):
    values = np.random.default_rng(0).random((5, 3))
    values[4, 1] = sign * 9.0
    assert plot_heads(values, ax, title="norms", label="length", mark=2) is ax
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), values)
    assert image.get_clim() == ((0.0, 9.0) if sign > 0 else (-9.0, 9.0))
    assert len(ax.texts) == 2
    assert "4.1" in texts(ax)


def test_no_head_at_all_can_be_drawn(ax):
    plot_heads(np.zeros((2, 2)), ax)


def test_the_line_is_that_of_least_squares(ax):
    x = np.array([0.0, 1.0, 2.0, 3.0])
    assert plot_scores(x, 2 * x + 1, ax, ["a", "b", "a", "b"], "she-he") is ax
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), [1, 7])
    assert line.get_label() == "r² = 1.000"
    assert len(ax.collections) == 2
    assert ax.get_ylabel() == "she-he"


def test_the_crossing_is_marked(ax):
    curves = {"probe": {2: 0.5, 8: 0.7, 32: 0.9}, "mean": {2: 0.4, 8: 0.5}}
    assert plot_label_curves(curves, 0.6, ax) is ax
    marks = [line for line in ax.lines if line.get_marker() == "x"]
    assert [line.get_xdata()[0] for line in marks] == [4.0]
    assert texts(ax) == ["4"]
    assert list(ax.get_xticks()) == [2, 8, 32]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["probe", "mean", "feature vector, no labels"]


def test_where_a_curve_crosses():
    assert crossing_of({2: 0.1, 4: 0.2}, 0.5) is None
    assert crossing_of({2: 0.7, 4: 0.9}, 0.5) is None
    assert crossing_of({2: 0.7, 4: 0.3, 16: 0.7}, 0.5) == pytest.approx(8.0)


def test_couplings_lie_beside_the_diagonal(ax):
    measured = {
        "26.2": MeasuredCoupling(0.99, 1.0, 0.0, 0.99, 0.99, np.zeros((3, 2))),
        "25.2": MeasuredCoupling(0.92, 0.94, 0.0, 0.97, 0.97, np.zeros((3, 2))),
    }
    assert plot_coupling(measured, ax) is ax
    (points,) = ax.collections
    np.testing.assert_allclose(points.get_offsets(), [[0.99, 1.0], [0.92, 0.94]])
    assert texts(ax) == ["26.2 (r² 0.99)", "25.2 (r² 0.97)"]


def test_the_matrix_shows_its_numbers(ax):
    assert plot_coupling_matrix(np.array([[1.0, -0.5], [2.0, 1.0]]), ["a", "b"], ax) is ax
    assert texts(ax) == ["1.00", "-0.50", "2.00", "1.00"]


def test_bars_are_the_gaps(ax):
    gaps = {
        "before": {"she-he": 12.0, "occupation": 6.0},
        "after": {"she-he": -1.0, "occupation": 2},
    }
    assert plot_gaps(gaps, ax) is ax
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert heights == [[12.0, 6.0], [-1.0, 2]]
