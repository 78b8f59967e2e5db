"""Pictures of runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from cameraready.minmax.comparison import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_traces"]


def plot_traces(
    traces: Mapping[str, Trace], ax: "Axes", quantity: Literal["residual", "gap"] = "residual"
) -> "Axes":
    """Residual or gap against evaluations of F, both axes logarithmic, with a 1/k guide line.

    Parameters
    ----------
    traces
        By name, from `cameraready.minmax.comparison.compare_methods`.
    ax
        Where to draw.
    quantity
        Which of the two.

    Returns
    -------
    Axes
    """
    top = 0.0
    for i, (name, trace) in enumerate(traces.items()):
        values = getattr(trace, quantity)
        shown = np.isfinite(values) & (values > 0)
        if not shown.any():
            continue
        style = ("-", "--", ":")[i // 7 % 3]  # the house style has seven colours
        ax.loglog(trace.evaluations[shown], values[shown], style, label=name, linewidth=1.4)
        top = max(top, float(values[shown][0]))
    if top > 0:
        ends = np.array([4.0, max(float(trace.evaluations[-1]) for trace in traces.values())])
        ax.loglog(ends, top * ends[0] / ends, color="0.6", linewidth=1.0, label="1/k")
    ax.set_xlabel("evaluations of F")
    ax.set_ylabel("residual" if quantity == "residual" else "duality gap")
    return ax
