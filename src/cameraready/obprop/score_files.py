"""Scores written to a file as they come, by one process or by several."""

import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cameraready.common import atomic_write, check_writable_folder
from cameraready.obprop.scoring import as_list, chunk_size, stream_scores
from cameraready.obprop.sites import place_of
from cameraready.obprop.tokens import Token

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["write_scores"]


def write_scores(
    view: "TransformerView",
    features: Any,
    texts: Iterable[Any],
    path: str | os.PathLike[str],
    token: Token | Sequence[Token] = "mean",
    normalized: bool = True,
    batch_size: int = 16,
    stride: int | None = None,
    text_column: str = "text",
    resume: bool = False,
) -> bool:
    """Score texts into a CSV file, holding a few batches of them at a time.

    Under ``torchrun``, which sets RANK and WORLD_SIZE, each process is to be given all texts, takes
    its share of them and writes a part of its own; the last to finish merges the parts. The file
    is the same as that of one process.

    While it is written the file's name ends in ``.part``.

    Parameters
    ----------
    view, features, texts, token, normalized, batch_size, stride, text_column
        As for `cameraready.obprop.scoring.score_texts`, whose columns the file has, after the
        index.
    path
        The file.
    resume
        Go on where an interrupted run with the same settings stopped.

    Returns
    -------
    whole
        Whether the file is there: False where other processes have yet to finish.

    Raises
    ------
    ValueError
        If the folder cannot be written to, or what is to be resumed had other settings.
    """
    path = Path(path)
    check_writable_folder(path.parent)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    settings = _settings(view, features, token, normalized, batch_size, stride, world)
    part = _Part(_part_path(path, rank, world), settings)
    if not (resume and part.is_done()):
        chunk = chunk_size(batch_size)
        start = part.resume(chunk) if resume else part.start()
        streamed = stream_scores(
            view,
            features,
            texts,
            token,
            normalized,
            batch_size,
            stride,
            text_column,
            skip=start,
            shard=(rank, world),
        )
        for rows in streamed:
            # All strings are quoted: texts may hold line ends of any kind.
            text = rows.frame().to_csv(
                header=part.is_empty(), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
            )
            part.append(text)
        part.finish()
    return _merge(path, [_Part(_part_path(path, i, world), settings) for i in range(world)])


class _Part:
    """One process's rows, with the settings that they were made with beside them."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.done, self.settings = path, settings
        self.path = path.with_name(f"{path.stem}.unfinished.part")
        self.note = path.with_name(f"{path.stem}.json.part")

    def start(self) -> int:
        """Begin anew; returns the first line to score."""
        self.done.unlink(missing_ok=True)
        self.path.write_bytes(b"")
        with atomic_write(self.note) as file:
            file.write(json.dumps(self.settings))
        return 0

    def resume(self, chunk: int) -> int:
        """Drop the chunk of texts that was not finished; returns the first line to score."""
        if not (self.path.exists() and self.note.exists()):
            return self.start()
        if json.loads(self.note.read_text(encoding="utf-8")) != self.settings:
            raise ValueError(
                f"{self.path} was begun with another model, feature or setting; start anew "
                "without resuming"
            )
        # A chunk is written at once, but the machine may have stopped in between: the last one
        # is scored again.
        ends = dict(_record_ends(self.path))
        if not ends:
            return self.start()
        first = max(ends) // chunk * chunk
        keep = max((end for line, end in ends.items() if line < first), default=0)
        with self.path.open("r+b") as file:
            file.truncate(keep)
        return first

    def is_empty(self) -> bool:
        """Whether nothing has been written."""
        return self.path.stat().st_size == 0

    def append(self, text: str) -> None:
        """Write rows to disk."""
        with self.path.open("ab") as file:
            file.write(text.encode())

    def finish(self) -> None:
        """Take away the mark of the unfinished."""
        self.path.replace(self.done)

    def is_done(self) -> bool:
        """Whether it has been finished with these settings."""
        try:
            same = json.loads(self.note.read_text(encoding="utf-8")) == self.settings
        except (OSError, ValueError):
            return False
        return same and self.done.exists()


def _part_path(path: Path, rank: int, world: int) -> Path:
    return path.with_name(f"{path.name}.{rank}-of-{world}.part")


def _merge(path: Path, parts: list[_Part]) -> bool:
    """Put the parts together in the order of the texts, once all are finished."""
    if not all(part.is_done() for part in parts):
        return path.exists() and not any(part.note.exists() for part in parts)
    try:
        if len(parts) == 1:
            parts[0].done.replace(path)
        else:
            with atomic_write(path, "wb") as file:
                _interleave([part.done for part in parts], file)
    except FileNotFoundError:
        return True  # another process was faster and has put its parts away
    for part in parts:
        part.note.unlink(missing_ok=True)
        part.done.unlink(missing_ok=True)
    return True


def _interleave(paths: list[Path], file: Any) -> None:
    # Lines of the texts rise within each part, so that one record of each is held at a time.
    import heapq

    header = next((head for path in paths if (head := _header(path))), b"")
    file.write(header)
    for _, record in heapq.merge(*map(_records, paths), key=lambda pair: pair[0]):
        file.write(record)


def _header(path: Path) -> bytes:
    with path.open("rb") as source:
        return source.readline()


def _records(path: Path) -> Iterator[tuple[int, bytes]]:
    """The line's number and the bytes of each row; a text may have line breaks within quotes."""
    with path.open("rb") as source:
        source.readline()
        record = b""
        for text in source:
            record += text
            if record.count(b'"') % 2 == 0 and record.endswith(b"\n"):
                yield int(record.split(b",", 1)[0]), record
                record = b""


def _record_ends(path: Path) -> Iterator[tuple[int, int]]:
    """The line's number of each whole row, and where in the file it ends."""
    end = len(_header(path))
    for line, record in _records(path):
        end += len(record)
        yield line, end


def _settings(
    view: "TransformerView",
    features: Any,
    token: Token | Sequence[Token],
    normalized: bool,
    batch_size: int,
    stride: int | None,
    world: int,
) -> dict[str, Any]:
    digest = hashlib.sha256(view.fingerprint.encode())
    for feature in as_list(features):
        digest.update(repr(place_of(feature)).encode())
        digest.update(feature.vector.detach().float().cpu().contiguous().numpy().tobytes())
    return {
        "model and features": digest.hexdigest(),
        "token": token if isinstance(token, str | int) else list(token),
        "normalized": normalized,
        "batch_size": batch_size,
        "stride": stride,
        "processes": world,
    }
