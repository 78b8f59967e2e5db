"""Pictures: what is drawn, and that it can be drawn whatever was found."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from cameraready.change_detection import CompositeEDetector, ConfidenceSequenceDetector, cs
from cameraready.change_detection.base import Detection
from cameraready.change_detection.plots import plot_detection, plot_run_lengths
from cameraready.change_detection.simulation import RunLengths
from cameraready.datasets import nile


@pytest.fixture
def ax():
    return Figure().subplots()


def vertical(ax):
    """Where vertical lines stand."""
    return [
        float(line.get_xdata()[0])
        for line in ax.lines
        if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1]
    ]


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_nile_with_everything(ax):
    data = nile()
    result = ConfidenceSequenceDetector(cs.Gaussian(140.0, rho=10.0), arl=100).detect(
        data["volume"]
    )
    got = plot_detection(data["volume"], [result.detection], ax, trace=result.trace, x=data["year"])
    assert got is ax
    series = ax.lines[0]
    np.testing.assert_array_equal(series.get_xdata(), data["year"])
    np.testing.assert_array_equal(series.get_ydata(), data["volume"])
    assert vertical(ax) == [data["year"][result.index - 1], 1898.5]
    (span,) = ax.patches
    assert (span.get_x(), span.get_x() + span.get_width()) == (1898.0, 1899.0)
    (band,) = ax.collections
    bottom, top = band.get_paths()[0].get_extents().get_points()[:, 1]
    assert ax.get_ylim()[0] <= bottom < top <= ax.get_ylim()[1]
    assert labels(ax) == [
        "data",
        "intersection of all sequences",
        "alarm",
        "change point",
        "change interval",
    ]


def test_positions_count_from_one(ax):
    values = [0.1] * 50 + [0.9] * 20
    result = CompositeEDetector(arl=100).detect(values)
    plot_detection(values, [result.detection], ax)
    assert ax.lines[0].get_xdata()[[0, -1]].tolist() == [1, 70]
    assert vertical(ax) == [result.index, 50.5]
    assert not ax.collections


def test_several_alarms_share_their_labels(ax):
    values = np.repeat([0.1, 0.9, 0.1], 100)
    detector = CompositeEDetector(arl=100)
    detector.detect_all(values)
    assert len(detector.detections_) == 2
    plot_detection(values, detector.detections_, ax)
    assert len(vertical(ax)) == 4
    assert labels(ax) == ["data", "alarm", "change point"]


def test_the_labels_are_there_although_the_first_alarm_lacks_the_parts(ax):
    bare = Detection(3, None, None, None)
    full = Detection(8, 5, (4, 6), ((1, 4), (7, 8)))
    plot_detection(np.arange(10.0), [bare, full], ax)
    assert labels(ax) == ["data", "alarm", "change point", "change interval"]


@pytest.mark.parametrize(
    "detection",
    [
        Detection(10, 10, (9, 10), None),
        Detection(10, None, (1, 1), None),
        Detection(1, None, None, None),
        Detection(10, 9, (1, 9), None),
    ],
)
def test_changes_at_the_edges(ax, detection):
    assert plot_detection(np.arange(10.0), [detection], ax) is ax
    ax.figure.canvas.draw()


@pytest.mark.parametrize("values", [[0.5] * 30, [3.0], [1e300, -1e300, 1e300]])
def test_odd_series(ax, values):
    n = len(values)
    trace = np.full(n, -np.inf), np.full(n, np.inf)
    plot_detection(values, [], ax, trace=trace)
    ax.figure.canvas.draw()
    assert labels(ax)[0] == "data"


def test_the_trace_may_be_shorter_than_the_series(ax):
    values = np.concatenate([np.zeros(60), np.full(60, 3.0)])
    result = ConfidenceSequenceDetector(cs.Gaussian(), arl=100).detect(values)
    assert len(result.trace[0]) < len(values)
    plot_detection(values, [result.detection], ax, trace=result.trace)
    ax.figure.canvas.draw()


def test_run_lengths(ax):
    found = {
        "fast": RunLengths(3.0, 1.0, 2.0, np.array([2, 4, 4, 9]), np.array([1, 1, 1, 0], bool), 9),
        "silent": RunLengths(9.0, 0.0, 5.0, np.array([9, 9]), np.array([False, False]), 9),
    }
    assert plot_run_lengths(found, 5.0, ax) is ax
    fast, silent = ax.lines[:2]
    assert fast.get_xdata().tolist() == [0, 2, 4, 9]
    assert fast.get_ydata().tolist() == [1.0, 0.75, 0.25, 0.25]
    assert silent.get_xdata().tolist() == [0, 9]
    assert silent.get_ydata().tolist() == [1.0, 1.0]
    assert vertical(ax) == [5.0]
    assert labels(ax) == ["fast", "silent", "guaranteed mean: 5"]


def test_no_figure_is_left_open():
    before = plt.get_fignums()
    plot_detection([0.1, 0.2], [], Figure().subplots())
    assert plt.get_fignums() == before
