"""What the verbs show and write: notes, bars, tables, pictures."""

import json
import math
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cameraready.common.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bar", "drawing", "note", "notes", "show", "show_table", "write_table"]


@contextmanager
def notes() -> Generator[None]:
    """Show the library's warnings as plain sentences, at the end of the block."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            sentences = [str(x.message) for x in caught if issubclass(x.category, UserWarning)]
            for sentence in dict.fromkeys(sentences):
                note(f"note: {sentence}")
    for other in caught:
        if not issubclass(other.category, UserWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


@contextmanager
def bar(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar for work that is done in parts, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def drawing(path: Path) -> Generator["Figure"]:
    """A figure that is written to a file when it has been drawn."""
    from matplotlib.figure import Figure

    from cameraready.common.plotting import plot_style

    with plot_style("light"):
        figure = Figure(figsize=(7, 5), layout="constrained")
        yield figure
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format=path.suffix.lower().lstrip("."), dpi=150)


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows to a .csv or .parquet."""
    import pandas as pd

    table = pd.DataFrame(rows)
    if path.suffix.lower() == ".csv":
        with atomic_write(path) as file:
            table.to_csv(file, index=False, lineterminator="\n")
    else:
        with atomic_write(path, "wb") as file:
            table.to_parquet(file, index=False)


def show_table(columns: Sequence[tuple[str, str]], rows: list[dict[str, Any]]) -> None:
    """Show rows on standard error: for each column its heading and its key."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for heading, key in columns:
        table.add_column(heading, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        cells = [row[key] for _, key in columns]
        table.add_row(*(f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells))
    Console(stderr=True).print(table)


def show(value: Any) -> None:
    """Print the result, as JSON."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    """A value that JSON can hold; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def note(text: str) -> None:
    """Say something on standard error."""
    print(text, file=sys.stderr)
