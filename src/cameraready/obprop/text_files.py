"""Texts in a user's files: a line each, or a column of JSON lines or of a table."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

__all__ = ["TextFile"]

_TABLES = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = (".txt", ".jsonl", *_TABLES)
_LONGEST_FIELD = 2**31 - 1


class TextFile:
    """The texts of a file, read anew and one at a time whenever they are iterated over.

    Parameters
    ----------
    path
        ``.txt`` with a text in each line; ``.jsonl`` with an object in each line; ``.csv`` or
        ``.tsv`` with a header.
    column
        The key or the column that holds the text; not used for ``.txt``.

    Raises
    ------
    ValueError
        If the name ends otherwise, or, while texts are read, at a line that holds none.
    """

    def __init__(self, path: str | os.PathLike[str], column: str = "text") -> None:
        self.path, self.column = Path(path), column
        if self.path.suffix.lower() not in _SUFFIXES:
            raise ValueError(
                f"texts must be in a file that ends in {', '.join(_SUFFIXES)}, not {self.path.name}"
            )

    def __iter__(self) -> Iterator[str]:
        kind = self.path.suffix.lower()
        try:
            with self.path.open(encoding="utf-8-sig", newline="" if kind in _TABLES else None) as f:
                if kind == ".txt":
                    yield from (line.rstrip("\n") for line in f)
                elif kind == ".jsonl":
                    yield from self._objects(f)
                else:
                    yield from self._rows(f, _TABLES[kind])
        except UnicodeDecodeError:
            raise ValueError(f"{self.path} is not a text file in UTF-8") from None

    def __len__(self) -> int:
        """How many texts there are; the whole file is read and so checked."""
        return sum(1 for _ in self)

    def _objects(self, file: IO[str]) -> Iterator[str]:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value: Any = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{self.path}, line {number} is not JSON: {error}") from None
            if isinstance(value, dict):
                if self.column not in value:
                    raise self._missing(f"line {number}", list(value))
                value = value[self.column]
            if value is None:
                value = ""
            if not isinstance(value, str):
                raise ValueError(f"{self.path}, line {number}: {self.column!r} is not a text")
            yield value

    def _rows(self, file: IO[str], delimiter: str) -> Iterator[str]:
        csv.field_size_limit(_LONGEST_FIELD)
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = next(rows, None)
            if header is None:
                return
            if self.column not in header:
                raise self._missing("its header", header)
            at = header.index(self.column)
            for row in rows:
                if row:
                    if len(row) <= at:
                        raise ValueError(
                            f"{self.path}, line {rows.line_num} has {len(row)} columns, but the "
                            f"header has {len(header)}"
                        )
                    yield row[at]
        except csv.Error as error:
            raise ValueError(f"{self.path}, line {rows.line_num}: {error}") from None

    def _missing(self, where: str, known: list[str]) -> ValueError:
        return ValueError(
            f"{self.path}: {where} has no {self.column!r}, but {', '.join(map(repr, known))}; "
            "name the column of the texts with --text-column"
        )
