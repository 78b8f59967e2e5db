"""Payoff matrices and data tables from text files, with the place of whatever is wrong in them."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["DataTable", "Payoff", "read_data", "read_payoff"]

_LONGEST = 40  # characters of a name in a message


class _Row(NamedTuple):
    """The cells of one row, and the line of the file on which it ends."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class Payoff:
    """A payoff matrix, and what its strategies are called.

    Without labels in the file the strategies are called 1, 2, 3, …
    """

    matrix: Float[np.ndarray, "rows columns"]
    rows: list[str]
    columns: list[str]
    labels: str  # what in the file was taken for names, in words


@dataclass(frozen=True)
class DataTable:
    """Numeric features and a target with two labels."""

    features: Float[np.ndarray, "examples features"]
    names: list[str]
    target: np.ndarray
    labels: tuple[str, str]  # the second one is the class that is predicted


def read_payoff(path: Path) -> Payoff:
    """Read a payoff matrix: cells between commas, semicolons or tabs.

    The first row is taken for names if none of its cells is a number, the first column if none of
    its cells below a row of names is. In the corner of both a number is a name, too. An empty
    corner says that both are names, even where they are numbers.

    Parameters
    ----------
    path
        The file, UTF-8.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is empty, its rows are not equally long, or a cell is no finite number; rows and
        columns are counted in the file, from 1.
    """
    table = _read(path)
    first = table[0].cells
    corner = len(table) > 1 and len(first) > 1 and first[0] == ""
    words = not any(map(_is_number, first[1:] or first))
    below = len(first) > 1 and not any(_is_number(row.cells[0]) for row in table[1:])
    header = corner or (words and (below or not _is_number(first[0])))
    body = table[1:] if header else table
    named = corner or (len(first) > 1 and not any(_is_number(row.cells[0]) for row in body))
    if not body or (named and len(first) == 1):
        raise ValueError(f"{path} has a header, but no payoffs")
    start = int(named)
    matrix = np.array(
        [[_number(path, row.line, j + 1, row.cells[j]) for j in range(start, len(first))]
         for row in body]
    )  # fmt: skip
    rows = [row.cells[0] for row in body] if named else _counted(len(body))
    columns = first[start:] if header else _counted(len(first) - start)
    for what, names in (("rows", rows), ("columns", columns)):
        _check_names(path, what, names)
    taken = [
        what for what, is_there in (("first row", header), ("first column", named)) if is_there
    ]
    return Payoff(matrix, rows, columns, " and ".join(taken))


def read_data(path: Path, target: str) -> DataTable:
    """Read a table with a header, numeric features, and a target column with two labels.

    Parameters
    ----------
    path
        The file, UTF-8, with commas, semicolons or tabs.
    target
        The column with the labels. The greater one is the class that is predicted: as numbers,
        where both are.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If there is no such column, a feature is no finite number, or there are not two labels.
    """
    header, *body = _read(path)
    names = header.cells
    _check_names(path, "columns", names)
    if target not in names:
        raise ValueError(f"{path} has no column {_short(target)!r}; it has {_listed(names)}")
    if not body:
        raise ValueError(f"{path} has a header, but no rows")
    if len(names) == 1:
        raise ValueError(f"{path} has no column beside the target {_short(target)!r}")
    where = names.index(target)
    others = [j for j in range(len(names)) if j != where]
    features = np.array(
        [[_number(path, row.line, j + 1, row.cells[j], names[j]) for j in others] for row in body]
    )
    for row in body:
        if not row.cells[where]:
            raise ValueError(f"{path}: row {row.line} has no value in column {_short(target)!r}")
    found = [_label(row.cells[where]) for row in body]
    labels = sorted(set(found), key=lambda text: (float(text) if _is_number(text) else 0.0, text))
    if len(labels) != 2:
        shown = _listed([repr(label) for label in labels])
        raise ValueError(
            f"{path}: column {_short(target)!r} must hold two labels, but it holds {len(labels)}: "
            f"{shown}"
        )
    chosen = np.array([text == labels[1] for text in found], dtype=int)
    return DataTable(features, [names[j] for j in others], chosen, (labels[0], labels[1]))


def _read(path: Path) -> list[_Row]:
    """All rows that are not blank, equally long."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((sign for sign in "\t;" if sign in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        table = [
            _Row(reader.line_num, [cell.strip() for cell in cells])
            for cells in reader
            if any(cell.strip() for cell in cells)
        ]
    except csv.Error as error:
        raise ValueError(f"{path}: row {reader.line_num} cannot be read: {error}") from None
    if not table:
        raise ValueError(f"{path} is empty")
    width = len(table[0].cells)
    for row in table:
        if len(row.cells) != width:
            raise ValueError(
                f"{path}: row {row.line} has {len(row.cells)} columns, but row {table[0].line} "
                f"has {width}"
            )
    return table


def _number(path: Path, row: int, column: int, cell: str, name: str | None = None) -> float:
    place = f"row {row}, column {column if name is None else repr(_short(name))}"
    if not cell:
        raise ValueError(f"{path}: {place} is empty")
    if not _is_number(cell):
        raise ValueError(f"{path}: {place} is {cell!r}, which is not a number")
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{path}: {place} is {cell!r}, which is not a finite number")
    return value


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python reads, and nobody means


def _label(cell: str) -> str:
    """A number as people write it: 1 for 1.000000000000000000e+00."""
    return f"{float(cell):.15g}" if _is_number(cell) else cell


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _listed(names: Sequence[str]) -> str:
    """At most ten names, none of them long."""
    return ", ".join([*map(_short, names[:10]), *(["…"] if len(names) > 10 else [])])


def _check_names(path: Path, what: str, names: Sequence[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{path}: two {what} are called {_short(name)!r}")
        seen.add(name)


def _counted(n: int) -> list[str]:
    return [str(i + 1) for i in range(n)]
