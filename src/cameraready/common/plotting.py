"""The style of all figures, light and dark."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

__all__ = ["PALETTES", "plot_style"]

# Chosen so that all pairs stay apart (CIELAB distance above 14) to full colour vision and to the
# three common deficiencies, with a contrast of at least 3 against the paper; a test checks both.
PALETTES: dict[str, tuple[str, ...]] = {
    "light": ("#2b62b3", "#cf5b2e", "#0f8a63", "#8e2f86", "#b98b00", "#3a9cd2", "#33373d"),
    "dark": ("#4a8ae8", "#f57a45", "#2fae7c", "#e88fe8", "#f5d95a", "#9be9f7", "#8b9098"),
}
_INK = {"light": "#22262b", "dark": "#e4e7eb"}
_FAINT = {"light": "#d9dce1", "dark": "#3a4048"}
_PAPER = {"light": "#ffffff", "dark": "#1a1d21"}


@contextmanager
def plot_style(theme: Literal["light", "dark"] = "light") -> Generator[None]:
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
    from cycler import cycler

    from cameraready.common.checks import check_choice

    check_choice("theme", theme, tuple(PALETTES))
    ink, faint, paper = _INK[theme], _FAINT[theme], _PAPER[theme]
    settings: Any = {
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
        "axes.prop_cycle": cycler(color=PALETTES[theme]),
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
