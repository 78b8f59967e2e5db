"""Rows of a CSV or JSON-lines file, one at a time, also while it grows."""

import csv
import itertools
import json
import math
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Place", "Record", "Source", "column_name", "number"]


@dataclass(frozen=True)
class Record:
    """One row: its number (the first row of data is 1) and its fields."""

    row: int
    fields: dict[str, Any]


class Place(NamedTuple):
    """How far a source has been read: rows, bytes, and the CRC-32 of these bytes."""

    rows: int
    position: int
    checksum: int


class Source:
    """Reads a file or standard input (``-``) row by row.

    JSON lines are told from CSV by the first character, ``{``. A CSV file begins with a header. A
    last line without its end is read as it is, unless the file is followed: then it is waited for.

    Parameters
    ----------
    name : str
        A path, or ``-``.
    follow : bool
        Go on waiting for lines at the end of the file.
    poll : float
        Seconds between two looks at a followed file.

    Attributes
    ----------
    rows : int
        Rows read so far.
    """

    def __init__(self, name: str, follow: bool = False, poll: float = 0.5) -> None:
        self.name = name
        self.follow = follow
        self.poll = poll
        self.rows = 0
        self._position = 0
        self._checksum = 0
        self.columns: list[str] | None = None
        self._resuming = False

    @property
    def shown(self) -> str:
        """The source's name for messages."""
        return "standard input" if self.name == "-" else self.name

    @property
    def place(self) -> Place:
        """How far it has been read."""
        return Place(self.rows, self._position, self._checksum)

    def resume(self, place: Place) -> bool:
        """Go on behind what was read before, if the file still begins with it."""
        if self.name == "-" or place.rows == 0:
            return False
        with Path(self.name).open("rb") as file:
            found, left = 0, place.position
            while left and (part := file.read(min(left, 1 << 20))):
                found, left = zlib.crc32(part, found), left - len(part)
        if left or found != place.checksum:
            return False
        self.rows, self._position, self._checksum = place
        self._resuming = True
        return True

    def records(self) -> Iterator[Record]:
        """The rows.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is empty or a row cannot be understood.
        """
        lines = self._lines()
        first = next(lines, None)
        if first is None:
            raise ValueError(f"{self.shown} is empty")
        if first.lstrip().startswith("{"):
            yield from self._json(lines if self._resuming else itertools.chain([first], lines))
        else:
            yield from self._csv(first, lines)

    def _lines(self) -> Iterator[str]:
        """Whole lines that are not blank; when resuming, the first and those not read before."""
        if self.name == "-":
            for line in sys.stdin.buffer:
                yield from self._taken(line)
            return
        with Path(self.name).open("rb") as file:
            if self._resuming:
                first = file.readline()
                while first and not first.strip():
                    first = file.readline()
                yield self._text(first)
                file.seek(self._position)
            waiting = b""
            while True:
                line = file.readline()
                waiting += line
                if line.endswith(b"\n") or (line == b"" and waiting and not self.follow):
                    yield from self._taken(waiting)
                    waiting = b""
                elif line == b"":
                    if not self.follow:
                        return
                    self.waiting()
                    time.sleep(self.poll)

    def waiting(self) -> None:
        """Called whenever a followed file has no new line."""

    def _taken(self, line: bytes) -> Iterator[str]:
        self._position += len(line)
        self._checksum = zlib.crc32(line, self._checksum)
        if line.strip():
            yield self._text(line)

    def _text(self, line: bytes) -> str:
        try:
            return line.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"{self.shown}, row {self.rows + 1}: not UTF-8 text") from None

    def _csv(self, first: str, lines: Iterator[str]) -> Iterator[Record]:
        dialect = ";" if first.count(";") > first.count(",") else ","
        dialect = "\t" if first.count("\t") > first.count(dialect) else dialect
        header = next(csv.reader([first], delimiter=dialect))
        self.columns = [name.strip() for name in header]
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"{self.shown} has two columns of the same name in its header")
        for values in csv.reader(lines, delimiter=dialect):
            self.rows += 1
            if len(values) != len(self.columns):
                raise ValueError(
                    f"{self.shown}, row {self.rows}: {len(values)} fields, but the header "
                    f"names {len(self.columns)}"
                )
            yield Record(self.rows, dict(zip(self.columns, values, strict=True)))

    def _json(self, lines: Iterable[str]) -> Iterator[Record]:
        for line in lines:
            self.rows += 1
            try:
                fields = json.loads(line)
            except json.JSONDecodeError:
                raise ValueError(
                    f"{self.shown}, row {self.rows}: not a complete JSON object"
                ) from None
            if not isinstance(fields, dict):
                raise ValueError(f"{self.shown}, row {self.rows}: not a JSON object")
            yield Record(self.rows, fields)


def column_name(source: Source, record: Record, wanted: str | None, option: str) -> str:
    """The column to read: the one asked for, or the only one.

    Raises
    ------
    ValueError
        If it is not there; the message lists the columns.
    """
    columns = list(record.fields)
    if wanted is None and len(columns) == 1:
        return columns[0]
    if wanted is None or wanted not in record.fields:
        listed = ", ".join(columns)
        if wanted is None:
            raise ValueError(
                f"{source.shown} has several columns: name one with {option}: {listed}"
            )
        hint = ""
        if all(_is_number(name) for name in columns):
            hint = " (the first line must be a header)"
        raise ValueError(
            f"{source.shown} has no column {wanted!r}; its columns are: {listed}{hint}"
        )
    return wanted


def number(source: Source, record: Record, column: str) -> float:
    """A field as a number; NaN where it is missing.

    Raises
    ------
    ValueError
        If it is something else.
    """
    value = record.fields.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{source.shown}, row {record.row}: column {column!r} holds {value!r}, not a number"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
