"""How the verbs of ``cameraready obprop`` show what they have found: tables, files and pictures."""

import csv
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float

from cameraready.common import atomic_write

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.coupling import MeasuredCoupling

__all__ = [
    "csv_rows",
    "draw_coupling",
    "draw_heads",
    "show_extremes",
    "show_facts",
    "show_table",
    "write_csv",
]

ENDS = 5  # rows at either end of a ranking
LONGEST = 48  # characters of a text in a ranking


def write_csv(path: Path | None, frame: "pd.DataFrame") -> None:
    """Write a table, whole or not at all, where there is a path."""
    if path is not None:
        with atomic_write(path) as file:
            file.write(frame.to_csv(index=False, lineterminator="\n"))


def csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of scores, one at a time."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row | {"score": float(row["score"] or "nan")}


def show_table(rows: Iterable[Mapping[str, Any]], title: str = "") -> None:
    """Print rows with equal keys as a table on standard output.

    Parameters
    ----------
    rows
        Numbers are set flush right with four digits.
    title
        What stands above it.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=box.SIMPLE, show_edge=False)
    for name in rows[0] if rows else ():
        numeric = all(isinstance(row[name], int | float) for row in rows)
        table.add_column(str(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_said(value)) for value in row.values()))
    if title:
        print(f"{title}\n")
    Console().print(table)


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print a name and a value in each line."""
    widest = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{widest}}  {_said(value)}")


def show_extremes(rows: Callable[[], Iterable[Mapping[str, Any]]]) -> dict[str, int]:
    """Print the highest and the lowest scores, of each feature where there are several.

    Parameters
    ----------
    rows
        Gives the rows of a table of scores, anew at each call: a long file need not be held.

    Returns
    -------
    counts
        How many rows have each status.
    """
    counts: dict[str, int] = {}
    features: dict[str | None, int] = {}
    for row in rows():
        counts[row["status"]] = counts.get(row["status"], 0) + 1
        if row["status"] == "ok":
            features[row.get("feature")] = features.get(row.get("feature"), 0) + 1
    for name, count in features.items():
        few = min(ENDS, (count + 1) // 2)

        def of(name: str | None = name) -> Iterator[tuple[float, int, Mapping[str, Any]]]:
            for i, row in enumerate(rows()):
                if row["status"] == "ok" and row.get("feature") == name:
                    yield row["score"], -i, row

        chosen = heapq.nlargest(few, of())
        chosen += heapq.nsmallest(min(few, count - few), of())[::-1]
        about = "" if name is None else f"{name}: "
        show_table(
            (_ranked(row) for *_, row in chosen), f"{about}the highest and the lowest scores"
        )
    return counts


def draw_heads(path: Path, maps: Mapping[str, Float[Any, "layers heads"]], title: str) -> None:
    """Draw maps of layers and heads side by side."""
    from cameraready.obprop.plots import plot_heads

    def draw(axes: Sequence[Any]) -> None:
        for ax, (label, values) in zip(axes, maps.items(), strict=True):
            plot_heads(values, ax, title, label)

    _draw(path, len(maps), (5.0, 5.5), draw)


def draw_coupling(
    path: Path,
    matrix: Float[Any, "features features"],
    names: Sequence[str],
    measured: Mapping[str, "MeasuredCoupling"],
) -> None:
    """Draw slopes against coefficients where slopes were measured, else the coefficients."""
    from cameraready.obprop.plots import plot_coupling, plot_coupling_matrix

    def draw(axes: Sequence[Any]) -> None:
        if measured:
            plot_coupling(measured, axes[0])
        else:
            plot_coupling_matrix(matrix, names, axes[0])

    _draw(path, 1, (6.0, 5.0), draw)


def _draw(
    path: Path, count: int, size: tuple[float, float], draw: Callable[[Sequence[Any]], None]
) -> None:
    from matplotlib.figure import Figure

    from cameraready.common import plot_style

    with plot_style("light"):
        figure = Figure(figsize=(count * size[0], size[1]))
        draw(figure.subplots(1, count, squeeze=False)[0])
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format=path.suffix.lstrip(".").lower(), dpi=150)


def _ranked(row: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"line": int(row["line"]), "score": row["score"]}
    if row["token"] and isinstance(row["token"], str):
        shown["token"] = repr(row["token"])
    text = " ".join(row["text"].split())
    return shown | {"text": text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"}


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
