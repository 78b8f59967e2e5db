"""The lists that an audit reads: names with their groups, and templates."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["read_names", "read_templates"]


def read_names(path: str | os.PathLike[str]) -> dict[str, str]:
    """Names and their groups from a CSV file with the columns ``name`` and ``group``.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ValueError
        If a column is missing, a row has no name or no group, or a name is in both groups.
    """
    path = Path(path)
    names: dict[str, str] = {}
    rows = csv.DictReader(_lines(path), skipinitialspace=True)
    if not {"name", "group"} <= set(rows.fieldnames or ()):
        raise ValueError(f"{path} must have a header with the columns name and group")
    for row in rows:
        name, group = (row["name"] or "").strip(), (row["group"] or "").strip()
        if not name or not group:
            raise ValueError(f"{path}, line {rows.line_num} must hold a name and a group")
        if names.setdefault(name, group) != group:
            raise ValueError(f"{path}: {name!r} is in the groups {names[name]!r} and {group!r}")
    return names


def read_templates(
    path: str | os.PathLike[str], observables: Sequence[str]
) -> dict[str, list[str]]:
    """Templates by observable, from a text file with one in each line.

    Parameters
    ----------
    path
        The file. A line may begin with an observable's name and a tab: its template is for that
        one only; the others are for all.
    observables
        The observables' names.

    Raises
    ------
    ValueError
        If a template has no NAME in it, or there is no such observable.
    """
    path = Path(path)
    templates: dict[str, list[str]] = {name: [] for name in observables}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        name, tab, template = line.partition("\t")
        if tab and name not in templates:
            raise ValueError(
                f"{path}, line {number}: {name!r} is none of the observables {', '.join(templates)}"
            )
        template = template if tab else line
        if "NAME" not in template:
            raise ValueError(f"{path}, line {number}: {template!r} must have the word NAME in it")
        for own in [name] if tab else templates:
            templates[own].append(template)
    return templates


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8") from None
