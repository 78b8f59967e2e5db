"""Rows of a CSV or JSON-lines file, one at a time, also while it grows."""

import csv
import itertools
import json
import math
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Column", "Place", "Record", "Source", "column_name", "number"]


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

    JSON lines are told from CSV by the first character, ``{``. A CSV file begins with a header.

    Parameters
    ----------
    name : str
        A path, or ``-``.
    follow : bool
        Go on waiting for lines at the end of the file; one that has become shorter is read anew.
    poll : float
        Seconds between two looks at a followed file.
    whole_lines : bool
        Leave a last line without its end alone: it may still be being written. Otherwise it is
        read, unless the file is followed.

    Attributes
    ----------
    rows : int
        Rows read so far.
    left_over : bool
        Whether a last line was left alone.
    """

    def __init__(
        self, name: str, follow: bool = False, poll: float = 0.5, whole_lines: bool = False
    ) -> None:
        self.name = name
        self.follow = follow
        self.poll = poll
        self.whole_lines = whole_lines or follow
        self.rows = 0
        self.left_over = False
        self.columns: list[str] | None = None
        self._position = 0
        self._checksum = 0
        self._resuming = False
        self._anew = False
        self.waiting: Callable[[], object] = bool  # called when a followed file has no new line

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
            found, left, last = 0, place.position, b""
            while left and (part := file.read(min(left, 1 << 20))):
                found, left, last = zlib.crc32(part, found), left - len(part), part[-1:]
            # A last line that has grown since is not gone on with from its middle.
            grown = last != b"\n" and file.read(1) not in (b"", b"\n", b"\r")
        if left or found != place.checksum or grown:
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
        while True:
            yield from self._read()
            if not self._anew:
                return
            self._anew = False
            self.rows = self._position = self._checksum = 0
            print(f"{self.shown} has become shorter: reading it anew", file=sys.stderr)

    def _read(self) -> Iterator[Record]:
        lines = self._lines()
        first = next(lines, None)
        if first is None:
            if self._anew:
                return
            raise ValueError(f"{self.shown} is empty")
        if first.lstrip().startswith("["):
            raise ValueError(
                f"{self.shown} is a JSON array; what is needed is one JSON object a line"
            )
        if first.lstrip().startswith("{"):
            resuming, self._resuming = self._resuming, False
            yield from self._json(lines if resuming else itertools.chain([first], lines))
        else:
            self._resuming = False
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
                if line.endswith(b"\n") or (line == b"" and waiting and not self.whole_lines):
                    yield from self._taken(waiting)
                    waiting = b""
                elif line == b"":
                    if not self.follow:
                        self.left_over = bool(waiting.strip())
                        return
                    self.waiting()
                    time.sleep(self.poll)
                    if Path(self.name).stat().st_size < self._position + len(waiting):
                        self._anew = True
                        return

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
        bare = re.sub(r'"[^"]*"', "", first)
        separator = max(",;\t", key=bare.count)
        try:
            self.columns = [name.strip() for name in next(csv.reader([first], delimiter=separator))]
            if len(set(self.columns)) < len(self.columns):
                raise ValueError(f"{self.shown} has two columns of the same name in its header")
            for values in csv.reader(lines, delimiter=separator):
                self.rows += 1
                if len(values) != len(self.columns):
                    raise ValueError(
                        f"{self.shown}, row {self.rows} has {_fields(len(values))}, but the header "
                        f"names {len(self.columns)}"
                    )
                yield Record(self.rows, dict(zip(self.columns, values, strict=True)))
        except csv.Error as error:
            raise ValueError(
                f"{self.shown}, row {self.rows + 1}: not CSV that can be read ({error})"
            ) from None

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


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def column_name(source: Source, record: Record, wanted: str | None, option: str) -> str:
    """The column to read: the one asked for, or the only one.

    Raises
    ------
    ValueError
        If it is not there; the message lists the columns.
    """
    columns = list(record.fields)
    listed = ", ".join(columns)
    header = source.columns is not None and all(_is_number(name) for name in columns)
    hint = " (the first line must be a header)" if header else ""
    if wanted is None:
        if header:
            raise ValueError(f"{source.shown} has no header: its first line is {listed}{hint}")
        if len(columns) != 1:
            raise ValueError(
                f"{source.shown} has several columns: name one with {option}: {listed}"
            )
        return columns[0]
    if wanted not in record.fields:
        where = source.shown if record.row == 1 else f"{source.shown}, row {record.row}"
        raise ValueError(f"{where} has no column {wanted!r}; its columns are: {listed}{hint}")
    return wanted


class Column:
    """A column of a source: found in the first row that is read, the same in all others.

    Parameters
    ----------
    source : Source
    name : str or None
        None: the only one.
    option : str
        The option that names it, for messages.
    """

    def __init__(self, source: Source, name: str | None, option: str) -> None:
        self.source, self.name, self.option = source, name, option

    def field(self, record: Record) -> Any:
        """What the row holds there; None where it is missing.

        Raises
        ------
        ValueError
            If the row has no such column.
        """
        self.name = column_name(self.source, record, self.name, self.option)
        value = record.fields[self.name]
        return None if isinstance(value, str) and not value.strip() else value

    def number(self, record: Record) -> float:
        """What the row holds there, as a number; NaN where it is missing.

        Raises
        ------
        ValueError
            If it is something else, or the row has no such column.
        """
        self.field(record)
        assert self.name is not None, "field has found it"
        return number(self.source, record, self.name)


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
