"""Pictures of heads, scores, couplings and gaps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from cameraready.obprop.coupling import MeasuredCoupling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_coupling",
    "plot_coupling_matrix",
    "plot_gaps",
    "plot_heads",
    "plot_label_curves",
    "plot_scores",
]


def plot_heads(
    values: Float[Any, "layers heads"],
    ax: "Axes",
    title: str = "",
    label: str = "",
    mark: int = 3,
) -> "Axes":
    """A heat map of one number for each head.

    Parameters
    ----------
    values
        From `head_norms` or `patch_scores`. Where some are negative the colours diverge from 0.
    ax
        Where to draw.
    title
        What the map shows.
    label
        What the colours mean.
    mark
        The names of so many heads, the largest in size, are written beside them.

    Returns
    -------
    Axes
    """
    table = np.asarray(values, dtype=float)
    size = float(np.abs(table).max()) or 1.0
    signed = bool((table < 0).any())
    image = ax.imshow(
        table,
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r" if signed else None,
        vmin=-size if signed else 0.0,
        vmax=size,
    )
    ax.grid(visible=False)
    ax.set_xlabel("head")
    ax.set_ylabel("layer")
    ax.set_xticks(range(0, table.shape[1], max(1, table.shape[1] // 10)))
    if title:
        ax.set_title(title)
    colours = ax.figure.colorbar(image, ax=ax)
    colours.ax.grid(visible=False)
    colours.set_label(label)
    for index in np.argsort(-np.abs(table), axis=None)[:mark]:
        layer, head = np.unravel_index(index, table.shape)
        pale = signed and abs(table[layer, head]) < size / 2
        dark = pale or (not signed and table[layer, head] > 0.6 * size)
        ax.text(
            float(head),
            float(layer),
            f"{layer}.{head}",
            ha="center",
            va="center",
            fontsize="x-small",
            color="black" if dark else "white",
        )
    return ax


def plot_scores(
    scores: Float[np.ndarray, " prompts"],
    values: Float[np.ndarray, " prompts"],
    ax: "Axes",
    groups: Sequence[str] | None = None,
    observable: str = "observable",
) -> "Axes":
    """Values of an observable against scores of a feature, with the least-squares line and r².

    Parameters
    ----------
    scores, values
        A number for each prompt.
    ax
        Where to draw.
    groups
        What each prompt is, told by colour and marker.
    observable
        What to call the values.

    Returns
    -------
    Axes
    """
    x, y = np.asarray(scores, dtype=float), np.asarray(values, dtype=float)
    names = list(dict.fromkeys(groups)) if groups is not None else [None]
    for i, name in enumerate(names):
        own = np.ones(len(x), bool) if groups is None else np.array([g == name for g in groups])
        ax.scatter(x[own], y[own], s=14, marker="os^Dvph"[i % 7], label=name)
    slope, intercept = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    r2 = float(np.corrcoef(x, y)[0, 1] ** 2)
    ax.plot(ends, slope * ends + intercept, color="0.5", linewidth=1.2, label=f"r² = {r2:.3f}")
    ax.set_xlabel("score of the feature")
    ax.set_ylabel(observable)
    ax.legend()
    return ax


def plot_label_curves(
    curves: Mapping[str, Mapping[int, float]],
    ours: float,
    ax: "Axes",
    quantity: str = "r²",
    name: str = "feature vector, no labels",
) -> "Axes":
    """How good fitted directions are against how many labels they have seen.

    The feature is a horizontal line; where a curve crosses it, between two numbers of labels on
    the logarithmic axis, is marked.

    Parameters
    ----------
    curves
        By name, the quality for each number of labels.
    ours
        The feature's quality.
    ax
        Where to draw.
    quantity
        What the quality is.
    name
        What to call the feature.

    Returns
    -------
    Axes
    """
    for label, curve in curves.items():
        labels = sorted(curve)
        (line,) = ax.plot(labels, [curve[n] for n in labels], "o-", markersize=4, label=label)
        crossing = crossing_of(curve, ours)
        if crossing is not None:
            ax.plot([crossing], [ours], "x", color=line.get_color(), markersize=9)
            ax.annotate(
                f"{crossing:.0f}",
                (crossing, ours),
                xytext=(0, -14),
                textcoords="offset points",
                ha="center",
                fontsize="small",
                color=line.get_color(),
            )
    ax.axhline(ours, color="0.4", linestyle="--", linewidth=1.4, label=name)
    ax.set_xscale("log", base=2)
    numbers = sorted({n for curve in curves.values() for n in curve})
    ax.set_xticks(numbers, [str(n) for n in numbers])
    ax.minorticks_off()
    ax.set_xlabel("labelled prompts")
    ax.set_ylabel(quantity)
    ax.legend()
    return ax


def crossing_of(curve: Mapping[int, float], level: float) -> float | None:
    """The number of labels at which a curve rises through a level for good; None if never.

    Parameters
    ----------
    curve
        The quality for each number of labels; straight in between on a logarithmic axis.
    level
        The level.

    Examples
    --------
    >>> crossing_of({2: 0.5, 8: 0.7}, 0.6)
    4.0
    """
    labels = sorted(curve)
    below = [i for i, n in enumerate(labels) if curve[n] < level]
    if not below or below[-1] == len(labels) - 1:
        return None
    before, after = labels[below[-1]], labels[below[-1] + 1]
    share = (level - curve[before]) / (curve[after] - curve[before])
    return float(2 ** ((1 - share) * np.log2(before) + share * np.log2(after)))


def plot_coupling(measured: Mapping[str, MeasuredCoupling], ax: "Axes") -> "Axes":
    """Measured slopes against the coupling coefficients that predict them.

    Parameters
    ----------
    measured
        By name of the pair of features, from `measured_coupling`.
    ax
        Where to draw.

    Returns
    -------
    Axes
    """
    predicted = np.array([each.predicted for each in measured.values()])
    slopes = np.array([each.slope for each in measured.values()])
    ends = np.array([min(predicted.min(), slopes.min()), max(predicted.max(), slopes.max())])
    room = 0.1 * (ends[1] - ends[0]) or 0.1
    ends = ends + np.array([-room, room])
    ax.plot(ends, ends, color="0.6", linewidth=1.0, label="slope = C")
    ax.scatter(predicted, slopes, s=26, zorder=3)
    for name, each in measured.items():
        ax.annotate(
            f"{name} (r² {each.r2:.2f})",
            (each.predicted, each.slope),
            xytext=(6, -4),
            textcoords="offset points",
            fontsize="small",
        )
    ax.set_xlabel("coupling coefficient C, predicted")
    ax.set_ylabel("slope, measured")
    ax.legend()
    return ax


def plot_coupling_matrix(
    matrix: Float[Any, "features features"], names: Sequence[str], ax: "Axes"
) -> "Axes":
    """A matrix of cosines or coupling coefficients, with its numbers.

    Parameters
    ----------
    matrix
        From `coupling_matrix`, or of cosines.
    names
        The features' names.
    ax
        Where to draw.

    Returns
    -------
    Axes
    """
    table = np.asarray(matrix, dtype=float)
    size = float(np.abs(table).max())
    ax.imshow(table, cmap="RdBu_r", vmin=-size, vmax=size)
    ax.grid(visible=False)
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(names)), names)
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            colour = "white" if abs(value) > 0.6 * size else "black"
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize="small")
    return ax


def plot_gaps(
    gaps: Mapping[str, Mapping[str, float]],
    ax: "Axes",
    quantity: str = "gap of the observable",
) -> "Axes":
    """Bars of gaps, side by side for each thing measured: before, after, with a control.

    Parameters
    ----------
    gaps
        By what was done (``"before"``, ``"feature removed"``), the gap of each thing measured.
    ax
        Where to draw.
    quantity
        What the bars are.

    Returns
    -------
    Axes
    """
    measured = list(next(iter(gaps.values())))
    width = 0.8 / len(gaps)
    for i, (name, own) in enumerate(gaps.items()):
        at = np.arange(len(measured)) + (i - (len(gaps) - 1) / 2) * width
        bars = ax.bar(at, [own[each] for each in measured], width=0.92 * width, label=name)
        ax.bar_label(bars, fmt="%.1f", fontsize="x-small", padding=1)
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xticks(range(len(measured)), measured)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(quantity)
    ax.legend()
    return ax
