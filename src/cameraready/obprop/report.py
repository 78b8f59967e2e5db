"""Pages that need nothing but themselves: of an audit, and of the scores of texts."""

import base64
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from cameraready.common import plot_style
from cameraready.obprop.audit import AFTER, BEFORE, CONTROL, AuditResult
from cameraready.obprop.plots import plot_coupling_matrix, plot_gaps, plot_heads

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ColouredToken", "Window", "audit_page", "coloured_tokens", "scores_page"]


@dataclass(frozen=True)
class ColouredToken:
    """A token and its colour: which side of the middle its score lies on, and how far, 0 to 1."""

    text: str
    score: float
    side: str
    strength: float


@dataclass(frozen=True)
class Window:
    """Some tokens in a row of one text, and their mean score."""

    line: int
    start: int
    score: float
    tokens: list[ColouredToken]


@dataclass(frozen=True)
class _Drawn:
    """A figure as data addresses, for a light page and a dark one."""

    light: str
    dark: str


def audit_page(result: AuditResult) -> str:
    """An audit as one self-contained page.

    Parameters
    ----------
    result
        What the audit has found.
    """
    figures: dict[str, Any] = {
        "gaps": _draw(lambda ax: plot_gaps(result.mean_gaps(), ax), (6.4, 3.6)),
        "heads": {
            name: _draw(lambda ax, own=norms: plot_heads(own, ax), (4.6, 5.0))
            for name, norms in result.head_norms.items()
        },
    }
    for name in ("cosines", "couplings"):
        matrix = getattr(result, name)
        if matrix is not None:
            figures[name] = _draw(
                lambda ax, own=matrix: plot_coupling_matrix(own, result.observables, ax), (4.6, 4.0)
            )
    table = result.gaps.pivot_table(
        index=["observable", "template"], columns="condition", values="gap", sort=False
    ).reset_index()
    return _page(
        "audit.html.jinja",
        result=result,
        conditions=(BEFORE, AFTER, CONTROL),
        gaps=table.to_dict("records"),
        shared=result.shared.to_dict("records"),
        paths={name: own.head(10).to_dict("records") for name, own in result.paths.items()},
        settings=result.settings,
        figures=figures,
    )


def scores_page(
    scores: "pd.DataFrame", name: str, window: int = 12, keep: int = 10, show: int = 50
) -> str:
    """The scores of all tokens of texts as one self-contained page.

    Parameters
    ----------
    scores
        From `cameraready.obprop.scoring.score_texts` with ``token="all"``, of one feature.
    name
        The feature's name.
    window
        Tokens of the windows among which the highest and the lowest are sought.
    keep
        How many of each are shown.
    show
        How many texts are shown whole.

    Raises
    ------
    ValueError
        If no token has a score, or there are scores of several features.
    """
    if "feature" in scores and scores["feature"].nunique() > 1:
        raise ValueError("scores must be of one feature; choose one by its column 'feature'")
    found = scores[scores["status"] == "ok"]
    if found.empty:
        raise ValueError("scores has no token with a score")
    median, scale = _middle(found["score"].to_numpy())
    windows = sorted(_windows(found, window, median, scale), key=lambda each: each.score)
    whole = [
        Window(line, 0, float(own["score"].mean()), _coloured(own, median, scale))
        for line, own in _texts(found)
    ]
    return _page(
        "scores.html.jinja",
        name=name,
        texts=len(whole),
        tokens=len(found),
        empty=int((scores["status"] == "empty").sum()),
        median=median,
        scale=scale,
        tables=[("highest", windows[: -keep - 1 : -1]), ("lowest", windows[:keep])],
        coloured_texts=whole[:show],
        shown=min(show, len(whole)),
    )


def coloured_tokens(scores: "pd.DataFrame") -> dict[int, list[ColouredToken]]:
    """The tokens of texts with their colours, by line.

    Parameters
    ----------
    scores
        From `cameraready.obprop.scoring.score_texts` with ``token="all"``, of one feature.
    """
    found = scores[scores["status"] == "ok"]
    median, scale = _middle(found["score"].to_numpy())
    return {line: _coloured(own, median, scale) for line, own in _texts(found)}


def _middle(scores: np.ndarray) -> tuple[float, float]:
    """The median, and the distance from it at which colours are full."""
    if not len(scores):
        return 0.0, 1.0
    median = float(np.median(scores))
    return median, float(np.quantile(np.abs(scores - median), 0.98)) or 1.0


def _texts(scores: "pd.DataFrame") -> Iterator[tuple[int, "pd.DataFrame"]]:
    for line, own in scores.groupby(level="line", sort=True):
        yield int(line), own  # ty: ignore[invalid-argument-type]


def _coloured(own: "pd.DataFrame", median: float, scale: float) -> list[ColouredToken]:
    coloured = []
    for token, score in zip(own["token"], own["score"], strict=True):
        strength = min(1.0, abs(score - median) / scale)
        side = "high" if score > median else "low"
        coloured.append(ColouredToken(token, float(score), side, round(strength, 2)))
    return coloured


def _windows(scores: "pd.DataFrame", length: int, median: float, scale: float) -> Iterator[Window]:
    """The windows that texts fall into, the last one of each perhaps shorter."""
    for line, own in _texts(scores):
        for start in range(0, len(own), length):
            part = own.iloc[start : start + length]
            if start and len(part) < length / 2:
                continue
            mean = float(part["score"].mean())
            first = int(part["position"].iloc[0])
            yield Window(line, first, mean, _coloured(part, median, scale))


def _draw(draw: Callable[[Any], Any], size: tuple[float, float]) -> _Drawn:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    addresses = []
    for theme in ("light", "dark"):
        with plot_style(theme):
            figure = Figure(figsize=size)
            FigureCanvasAgg(figure)
            draw(figure.subplots())
            buffer = BytesIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        content = base64.b64encode(buffer.getvalue()).decode()
        addresses.append(f"data:image/svg+xml;base64,{content}")
    return _Drawn(*addresses)


def _page(template: str, **content: Any) -> str:
    environment = Environment(
        loader=PackageLoader("cameraready", "obprop"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = number
    environment.filters["percent"] = percent
    return environment.get_template(template).render(**content)


def number(value: float) -> str:
    """A number with three significant digits, with a true minus sign.

    Examples
    --------
    >>> number(-0.12345), number(1234.6), number(float("nan"))
    ('−0.123', '1235', '–')
    """
    if not math.isfinite(value):
        return "–"
    digits = 3 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}".replace("-", "−")


def percent(value: float, digits: int = 0) -> str:
    r"""A share in percent.

    Examples
    --------
    >>> percent(0.614), percent(-0.0031, 2)
    ('61\xa0%', '−0.31\xa0%')
    """
    return f"{100 * value:.{digits}f}\u00a0%".replace("-", "−")
