"""Prompt pairs in a user's file."""

import csv
import os
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PairRow", "read_pairs"]


@dataclass(frozen=True)
class PairRow:
    """One row of a file of pairs.

    Parameters
    ----------
    positive, negative
        The prompts.
    anchors
        Positions of the tokens that correspond between the pairs; None where none are given.
    """

    positive: str
    negative: str
    anchors: tuple[int, ...] | None = None


def read_pairs(path: str | os.PathLike[str]) -> list[PairRow]:
    """Read prompt pairs: the positive prompt, a tab, the negative prompt.

    Behind another tab there may be the positions, with commas between them, of the tokens that
    correspond to those of the other pairs, as `search_paths` needs for pairs of unequal length. A
    first line ``positive``, tab, ``negative`` is taken as a header.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ValueError
        If a line does not hold two prompts, or some have positions and others have not.
    """
    path = Path(path)
    rows: list[PairRow] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8") from None
    for number, cells in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        if not any(cells) or (number == 1 and cells[:2] == ["positive", "negative"]):
            continue
        if len(cells) not in (2, 3):
            raise ValueError(
                f"{path}, line {number} must hold a positive prompt, a tab and a negative prompt; "
                f"it has {len(cells) - 1} tabs"
            )
        rows.append(PairRow(cells[0], cells[1], _anchors(path, number, cells[2:])))
    if not rows:
        raise ValueError(f"{path} holds no prompt pairs")
    if len({row.anchors is None for row in rows}) > 1:
        raise ValueError(f"{path} must give positions of tokens in all of its lines or in none")
    return rows


def _anchors(path: Path, number: int, cells: list[str]) -> tuple[int, ...] | None:
    text = "".join(cells).strip()
    if not text:
        return None
    if not re.fullmatch(r"-?\d+(\s*,\s*-?\d+)*", text):
        raise ValueError(
            f"{path}, line {number}: {text!r} must be positions of tokens, such as 2,8"
        )
    return tuple(int(position) for position in text.split(","))
