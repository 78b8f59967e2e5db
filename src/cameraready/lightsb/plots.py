"""Pictures of bridges."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_bridge", "plot_cells", "plot_plan_errors", "plot_projections", "plot_translations"]


def plot_bridge(
    source: Float[Any, "n features"],
    target: Float[Any, "m features"],
    paths: Float[Any, "k times features"],
    ax: "Axes",
    times: Float[Any, " times"] | None = None,
) -> "Axes":
    """Source, target and paths from one to the other, coloured by time.

    Parameters
    ----------
    source, target : array-like of shape (n, D), (m, D)
        Points. With D > 2, all is seen along the first two principal axes of both together.
    paths : array-like of shape (k, times, D)
        Such as `LightSB.sample_paths` gives.
    ax : Axes
        Where to draw.
    times : array-like of shape (times,), optional
        Times of the paths' points; by default from 0 to 1 at equal distances.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the points have one feature only, or the times are not one a point.
    """
    from matplotlib.collections import LineCollection

    source, target, paths = (np.asarray(points, dtype=float) for points in (source, target, paths))
    if source.ndim != 2 or source.shape[1] < 2:
        raise ValueError(f"source must have two features at least: its shape is {source.shape}")
    count = paths.shape[1]
    moments = np.linspace(0, 1, count) if times is None else np.asarray(times, dtype=float)
    if moments.shape != (count,):
        raise ValueError(f"times must be one for each of the {count} points of a path")
    names = ["x", "y"]
    if source.shape[1] > 2:
        both = np.concatenate([source, target])
        centre = both.mean(axis=0)
        axes = np.linalg.svd(both - centre, full_matrices=False)[2][:2].T
        source, target, paths = ((points - centre) @ axes for points in (source, target, paths))
        names = ["first principal axis", "second principal axis"]
    for points, colour, label in ((source, "C0", "source"), (target, "C1", "target")):
        ax.scatter(*points.T, s=8, color=colour, alpha=0.3, linewidths=0, label=label)
    pieces = np.stack([paths[:, :-1], paths[:, 1:]], axis=2).reshape(-1, 2, 2)
    lines = LineCollection(list(pieces), linewidths=1.2)
    lines.set_array(np.tile((moments[:-1] + moments[1:]) / 2, len(paths)))
    ax.add_collection(lines)
    ax.autoscale_view()
    ax.figure.colorbar(lines, ax=ax, label="time")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    ax.legend()
    return ax


def plot_projections(
    correlations: Float[Any, " projections"],
    single: Mapping[str, float],
    exact: float,
    ax: "Axes",
) -> "Axes":
    """Correlation of a bridge's ends after each Markovian projection, and after a single fit.

    Parameters
    ----------
    correlations : array-like of shape (projections,)
        After projections 1, 2, ..., as `imf_correlations` gives them.
    single : mapping of str to float
        What one optimal projection gave, by the plan it started from.
    exact : float
        The Schrödinger bridge's own.
    ax : Axes
        Where to draw.

    Returns
    -------
    Axes
    """
    values = np.asarray(correlations, dtype=float)
    ax.axhline(exact, color="0.5", linewidth=1.0, label="Schrödinger bridge")
    steps = np.arange(1, len(values) + 1)
    ax.plot(steps, values, "o-", color="C0", label="iterative Markovian fitting")
    # Side by side, since they lie on each other.
    offsets = np.linspace(-0.15, 0.15, len(single)) if len(single) > 1 else np.zeros(1)
    for i, (offset, (plan, value)) in enumerate(zip(offsets, single.items(), strict=True)):
        marker = "sD^vP*X"[i % 7]
        ax.plot(1 + offset, value, marker, color=f"C{1 + i % 6}", label=f"one fit, {plan} plan")
    ax.set_xticks(steps)
    ax.set_xlabel("projections")
    ax.set_ylabel("correlation of the ends")
    ax.legend()
    return ax


def plot_plan_errors(errors: Mapping[str, Mapping[str, float]], ax: "Axes") -> "Axes":
    """Bars of how far plans are from the true one, on a logarithmic axis.

    Parameters
    ----------
    errors : mapping of str to (mapping of str to float)
        `conditional_bw2_uvp` in percent, by solver (a group of bars) and by input plan or problem
        (a colour). A solver need not have all of them.
    ax : Axes
        Where to draw.

    Returns
    -------
    Axes
    """
    plans = list(dict.fromkeys(plan for row in errors.values() for plan in row))
    width = 0.8 / max(len(plans), 1)
    for j, plan in enumerate(plans):
        places, heights = [], []
        for i, row in enumerate(errors.values()):
            own = [name for name in plans if name in row]  # a solver's bars stand around its name
            if plan in row:
                places.append(i + (own.index(plan) - (len(own) - 1) / 2) * width)
                heights.append(row[plan])
        bars = ax.bar(places, heights, width, color=f"C{j % 7}", label=plan)
        ax.bar_label(bars, fmt="{:.2g}", fontsize="small", padding=1)
    ax.set_yscale("log")
    ax.margins(y=0.12)
    ax.set_xticks(range(len(errors)), list(errors))
    ax.grid(visible=False, axis="x")
    ax.set_ylabel("cBW2-UVP, %")
    if len(plans) > 1:
        ax.legend()
    return ax


def plot_cells(
    observed: Float[Any, "n features"],
    interpolated: Float[Any, "m features"],
    ax: "Axes",
    others: Mapping[str, Float[Any, "k features"]] | None = None,
) -> "Axes":
    """Cells that were measured over cells that were predicted, in the first two components.

    Parameters
    ----------
    observed, interpolated : array-like of shape (n, D), (m, D)
        Principal components of the cells.
    ax : Axes
        Where to draw.
    others : mapping of str to array-like, optional
        Further cells, such as those before and after, drawn faintly under their names.

    Returns
    -------
    Axes
    """
    for name, marker, points in zip(
        others or {}, "^vsDP" * len(others or {}), (others or {}).values(), strict=False
    ):
        first, second = np.asarray(points)[:, :2].T
        ax.scatter(first, second, s=14, marker=marker, color="0.6", alpha=0.5, label=name)
    first, second = np.asarray(interpolated)[:, :2].T
    ax.scatter(first, second, s=16, color="C1", alpha=0.7, linewidths=0, label="interpolated")
    first, second = np.asarray(observed)[:, :2].T
    ax.scatter(first, second, s=22, facecolors="none", edgecolors="C0", label="observed")
    ax.set_xlabel("PC1")
    ax.set_ylabel("PC2")
    ax.legend()
    return ax


def plot_translations(
    sources: Float[Any, "n height width"],
    translated: Float[Any, "n samples height width"],
    ax: "Axes",
) -> "Axes":
    """A grid of images: each row a source, then what it was translated to.

    Parameters
    ----------
    sources : array-like of shape (n, height, width)
        Grey values; all images share one scale.
    translated : array-like of shape (n, samples, height, width)
        Draws for each source.
    ax : Axes
        Where to draw.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If shapes do not fit.
    """
    left, right = np.asarray(sources, dtype=float), np.asarray(translated, dtype=float)
    if left.ndim != 3 or right.ndim != 4 or left[:, None].shape != right[:, :1].shape:
        raise ValueError(
            "sources must have the shape (n, height, width) and translated (n, samples, height, "
            f"width), not {left.shape} and {right.shape}"
        )
    height, width = left.shape[1:]
    # A pixel of nothing between images, and a wider gap after the source.
    images = np.concatenate([left[:, None], right], axis=1)
    padded = np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    mosaic = padded.transpose(0, 2, 1, 3).reshape(len(left) * (height + 1), -1)
    mosaic = np.insert(mosaic, [width + 1], np.nan, axis=1)[:-1, :-1]
    ax.imshow(mosaic, cmap="gray_r", interpolation="nearest")
    ax.set_xticks([(width - 1) / 2, width + 2 + ((width + 1) * right.shape[1] - 2) / 2])
    ax.set_xticklabels(["source", "translated"])
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax
