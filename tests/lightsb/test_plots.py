"""Pictures: what is drawn, and that it can be drawn whatever was found."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from cameraready.common import plot_style
from cameraready.lightsb.plots import (
    plot_bridge,
    plot_cells,
    plot_plan_errors,
    plot_projections,
    plot_translations,
)


@pytest.fixture
def ax():
    with plot_style():
        axes = Figure().subplots()
        yield axes
        axes.figure.canvas.draw()


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_bridge_in_the_plane(ax):
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(30, 2)), rng.normal(3, 1, size=(20, 2))
    paths = rng.normal(size=(4, 6, 2))
    assert plot_bridge(source, target, paths, ax) is ax
    assert labels(ax) == ["source", "target"]
    first, second, lines = ax.collections
    np.testing.assert_array_equal(first.get_offsets(), source)
    np.testing.assert_array_equal(second.get_offsets(), target)
    segments = lines.get_segments()
    assert len(segments) == 4 * 5
    np.testing.assert_array_equal(segments[7], paths[1, 2:4])
    np.testing.assert_allclose(lines.get_array(), np.tile([0.1, 0.3, 0.5, 0.7, 0.9], 4))
    # All points are to be seen.
    low, high = ax.dataLim.get_points()
    assert (low <= np.concatenate([source, target, paths.reshape(-1, 2)]).min(0)).all()
    assert (high >= np.concatenate([source, target, paths.reshape(-1, 2)]).max(0)).all()


def test_a_bridge_at_its_own_times(ax):
    points = np.zeros((3, 2))
    plot_bridge(points, points, np.zeros((1, 3, 2)), ax, [0, 24, 72])
    assert ax.collections[2].get_array().tolist() == [12, 48]
    with pytest.raises(ValueError, match="times must be one for each of the 3"):
        plot_bridge(points, points, np.zeros((1, 3, 2)), ax, [0, 1])
    with pytest.raises(ValueError, match="two features"):
        plot_bridge(points[:, :1], points[:, :1], np.zeros((1, 3, 1)), ax)


def test_a_bridge_in_space_is_seen_along_its_principal_axes(ax):
    rng = np.random.default_rng(0)
    scales = np.array([0.1, 5.0, 1.0])
    source, target = rng.normal(size=(200, 3)) * scales, rng.normal(size=(200, 3)) * scales
    plot_bridge(source, target, np.stack([source, target], 1)[:3], ax)
    drawn = ax.collections[0].get_offsets()
    for k, axis in enumerate((1, 2)):
        assert abs(np.corrcoef(drawn[:, k], source[:, axis])[0, 1]) > 0.99
    segments = np.array(ax.collections[2].get_segments())
    np.testing.assert_allclose(segments[:, 0], drawn[:3])


def test_projections(ax):
    single = {"independent": 0.617, "optimal": 0.62}
    assert plot_projections([0.55, 0.61], single, 0.618, ax) is ax
    exact, fitting, first, second = ax.lines
    assert exact.get_ydata()[0] == 0.618
    assert fitting.get_xdata().tolist() == [1, 2]
    assert fitting.get_ydata().tolist() == [0.55, 0.61]
    assert (first.get_ydata()[0], second.get_ydata()[0]) == (0.617, 0.62)
    assert abs(first.get_xdata()[0] - 1) < 0.2
    assert labels(ax)[2:] == ["one fit, independent plan", "one fit, optimal plan"]


def test_projections_of_one_plan(ax):
    plot_projections([0.5], {"independent": 0.6}, 0.618, ax)
    assert ax.lines[2].get_xdata()[0] == 1


def test_plan_errors(ax):
    errors = {"ours": {"independent": 0.8, "optimal": 0.5}, "SF2M": {"optimal": 20.0}}
    assert plot_plan_errors(errors, ax) is ax
    assert [patch.get_height() for patch in ax.patches] == [0.8, 0.5, 20.0]
    centres = [patch.get_x() + patch.get_width() / 2 for patch in ax.patches]
    np.testing.assert_allclose(centres, [-0.2, 0.2, 1.0])
    # A plan has its colour whoever used it.
    assert ax.patches[1].get_facecolor() == ax.patches[2].get_facecolor()
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["ours", "SF2M"]
    assert ax.get_yscale() == "log"
    assert labels(ax) == ["independent", "optimal"]


def test_plan_errors_of_one_plan_need_no_legend(ax):
    plot_plan_errors({"ours": {"D = 2": 0.8}}, ax)
    assert ax.get_legend() is None


def test_cells(ax):
    rng = np.random.default_rng(0)
    observed, drawn, before = (rng.normal(size=(n, 4)) for n in (5, 8, 3))
    assert plot_cells(observed, drawn, ax, {"24 h": before}) is ax
    assert labels(ax) == ["24 h", "interpolated", "observed"]
    for collection, points in zip(ax.collections, (before, drawn, observed), strict=True):
        np.testing.assert_array_equal(collection.get_offsets(), points[:, :2])
    other = Figure().subplots()
    plot_cells(observed, drawn, other)
    assert labels(other) == ["interpolated", "observed"]


def test_translations(ax):
    sources = np.arange(2.0)[:, None, None] + np.zeros((2, 3, 4))
    translated = np.arange(6.0).reshape(2, 3, 1, 1) + np.full((2, 3, 3, 4), 10)
    assert plot_translations(sources, translated, ax) is ax
    mosaic = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert mosaic.shape == (2 * 4 - 1, 4 * 5 + 1 - 1)
    assert (mosaic[4:7, :4] == 1).all()
    assert (mosaic[:3, 6:10] == 10).all()
    assert (mosaic[4:7, 16:20] == 15).all()
    assert np.isnan(mosaic[3]).all()
    assert np.isnan(mosaic[:, 4:6]).all()
    left, right = ax.get_xticks()
    assert (left, right) == (1.5, 12.5)
    with pytest.raises(ValueError, match="sources must have the shape"):
        plot_translations(sources, sources, ax)


def test_the_colours_are_those_of_the_theme():
    with plot_style("dark"):
        axes = Figure().subplots()
        plot_cells(np.zeros((2, 2)), np.zeros((2, 2)), axes)
        assert np.allclose(axes.collections[1].get_edgecolors()[0], to_rgba("C0"))


def test_no_figure_is_left_open():
    before = plt.get_fignums()
    plot_cells(np.zeros((2, 2)), np.zeros((2, 2)), Figure().subplots())
    assert plt.get_fignums() == before
