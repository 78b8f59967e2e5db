"""Pictures of a detection."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from cameraready.change_detection.base import Detection
from cameraready.change_detection.simulation import RunLengths

__all__ = ["plot_detection", "plot_run_lengths"]


def plot_detection(
    values: Any,
    detections: list[Detection],
    ax: Axes,
    *,
    trace: tuple[np.ndarray, np.ndarray] | None = None,
    x: Any = None,
) -> Axes:
    """The series, the shrinking intersection, the alarms and the intervals of the changes.

    Parameters
    ----------
    values : array_like, (n,)
    detections : list of Detection
    ax : Axes
    trace : tuple of ndarray, optional
        Lower and upper ends of the intersection after each of the first observations.
    x : array_like, (n,), optional
        Positions of the observations; by default 1, 2, …

    Returns
    -------
    Axes
    """
    values = np.asarray(values, dtype=float)
    positions = np.arange(1, len(values) + 1) if x is None else np.asarray(x)
    ax.plot(positions, values, color="C6", linewidth=0.8, marker=".", markersize=3, label="data")
    if trace is not None:
        lower, upper = (np.asarray(end, dtype=float) for end in trace)
        spread = np.ptp(values) or 1.0
        floor, ceiling = values.min() - 0.2 * spread, values.max() + 0.2 * spread
        shown = positions[: len(lower)]
        ax.fill_between(
            shown,
            np.clip(lower, floor, ceiling),
            np.clip(upper, floor, ceiling),
            where=(lower <= upper).tolist(),
            step="mid",
            alpha=0.25,
            color="C0",
            linewidth=0,
            label="intersection of all sequences",
        )
        ax.set_ylim(floor, ceiling)
    for detection in detections:
        ax.axvline(
            positions[detection.index - 1],
            color="C3",
            linestyle="--",
            linewidth=1.2,
            label=_once(ax, "alarm"),
        )
        if detection.change_point is not None and detection.change_point < len(positions):
            between = positions[detection.change_point - 1 : detection.change_point + 1]
            ax.axvline(
                between[0] + (between[1] - between[0]) / 2,
                color="C2",
                linewidth=1.2,
                label=_once(ax, "change point"),
            )
        if detection.change_interval is not None:
            first, last = detection.change_interval
            ax.axvspan(
                positions[first - 1],
                positions[min(last, len(positions) - 1)],
                color="C2",
                alpha=0.15,
                linewidth=0,
                label=_once(ax, "change interval"),
            )
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_run_lengths(found: dict[str, RunLengths], bound: float, ax: Axes) -> Axes:
    """Share of unchanged streams without an alarm, over time, for several detectors.

    Parameters
    ----------
    found : dict of RunLengths
        By name.
    bound : float
        The guaranteed mean run length.
    ax : Axes

    Returns
    -------
    Axes
    """
    for name, lengths in found.items():
        times, left = lengths.survival()
        times, left = np.append(times, lengths.horizon), np.append(left, left[-1])
        ax.step(times, left, where="post", label=name)
    ax.axvline(bound, color="C6", linestyle=":", label=f"guaranteed mean: {bound:g}")
    ax.set_xlabel("observations without a change")
    ax.set_ylabel("share of streams without an alarm")
    ax.set_ylim(0, 1.02)
    ax.legend(loc="best", fontsize="small")
    return ax


def _once(ax: Axes, label: str) -> str | None:
    """The label, unless something on the axes bears it already."""
    return None if label in ax.get_legend_handles_labels()[1] else label
