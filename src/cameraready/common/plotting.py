"""The style of all figures, light and dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = ["PALETTES", "plot_style"]

# Paul Tol's "bright" scheme, reordered; safe for the common colour deficiencies. The dark set is
# the same hues lifted to a contrast of at least 4.5 on the dark background.
PALETTES: dict[str, tuple[str, ...]] = {
    "light": ("#4477aa", "#c9512f", "#228833", "#aa3377", "#b08a12", "#2b9fc0", "#6b7078"),
    "dark": ("#7fb0e6", "#f08a68", "#6cc57c", "#e07fb4", "#e0c050", "#74d3ee", "#a9afb8"),
}
_INK = {"light": "#22262b", "dark": "#e4e7eb"}
_FAINT = {"light": "#d9dce1", "dark": "#3a4048"}
_PAPER = {"light": "#ffffff", "dark": "#1a1d21"}


@contextmanager
def plot_style(theme: Literal["light", "dark"] = "light") -> Iterator[None]:
    """Draw everything in the block in the house style.

    Parameters
    ----------
    theme
        ``"light"`` or ``"dark"``.

    Raises
    ------
    ValueError
        If the theme is neither.
    """
    import matplotlib as mpl

    from cameraready.common.checks import check_choice

    check_choice("theme", theme, tuple(PALETTES))
    ink, faint, paper = _INK[theme], _FAINT[theme], _PAPER[theme]
    settings = {
        "figure.facecolor": paper,
        "figure.constrained_layout.use": True,
        "savefig.facecolor": paper,
        "axes.facecolor": paper,
        "axes.edgecolor": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.titlesize": "medium",
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.prop_cycle": mpl.cycler(color=PALETTES[theme]),
        "grid.color": faint,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.6,
        "patch.edgecolor": paper,
        "text.color": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "font.size": 10,
        "legend.frameon": False,
        "image.cmap": "cividis",
        # Text is kept as outlines and names are fixed: the same data gives the same file.
        "svg.fonttype": "path",
        "svg.hashsalt": "cameraready",
    }
    with mpl.rc_context(settings):
        yield
