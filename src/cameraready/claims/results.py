"""What a run of the claims leaves behind: one file a system, and results.json for all."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cameraready import __version__
from cameraready.claims.claim import Claim, Verdict
from cameraready.common.files import atomic_write

__all__ = ["SCHEMA_VERSION", "FigureFiles", "Results", "SystemResult", "read_json", "write_json"]

SCHEMA_VERSION = 1

STATUSES = ("running", "finished", "failed", "interrupted")


@dataclass(frozen=True)
class FigureFiles:
    """A figure's caption and its files, named relative to the results folder.

    Parameters
    ----------
    name, caption
        What it is and what it shows.
    light, dark
        SVG files for a light and a dark page.
    png
        The light one as PNG.
    """

    name: str
    caption: str
    light: str
    dark: str
    png: str


@dataclass
class SystemResult:
    """The state of one system's experiment.

    Parameters
    ----------
    slug, name, line, paper
        From the catalogue.
    budget, seed
        As it was run.
    version, source_hash
        Of cameraready and of the system's files.
    status
        ``"running"``, ``"finished"``, ``"failed"`` or ``"interrupted"``.
    claims, figures, settings
        What was settled so far.
    started, seconds
        When it began (UTC) and how long it took.
    machine, versions
        Where it ran.
    error, details
        Why it failed, in one line and at length.
    """

    slug: str
    name: str
    line: str
    paper: str
    budget: str
    seed: int
    version: str = __version__
    source_hash: str = ""
    status: str = "running"
    claims: list[Claim] = field(default_factory=list)
    figures: list[FigureFiles] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    machine: dict[str, str | int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    error: str = ""
    details: str = ""

    def count(self, verdict: Verdict) -> int:
        """How many claims have this verdict."""
        return sum(claim.verdict is verdict for claim in self.claims)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        claims = [claim.to_json() for claim in self.claims]
        figures = [vars(figure) for figure in self.figures]
        return {**vars(self), "claims": claims, "figures": figures}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "SystemResult":
        """The result that ``data`` holds.

        Raises
        ------
        ValueError
            If it holds none.
        """
        try:
            parts = dict(data)
            parts["claims"] = [Claim.from_json(claim) for claim in data["claims"]]
            parts["figures"] = [FigureFiles(**figure) for figure in data["figures"]]
            result = cls(**parts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a system's result: {error!r}") from error
        if result.status not in STATUSES:
            raise ValueError(f"there is no status {result.status!r}")
        return result


@dataclass
class Results:
    """All that ``results.json`` holds.

    Parameters
    ----------
    version
        Of cameraready.
    budget, seed
        Shared by all systems in it.
    machine, versions
        Where the runner ran.
    systems
        One result a system, in the catalogue's order.
    """

    version: str
    budget: str
    seed: int
    machine: dict[str, str | int]
    versions: dict[str, str]
    systems: list[SystemResult]

    def write(self, path: Path) -> None:
        """Write the results to ``path``, whole or not at all."""
        systems = [system.to_json() for system in self.systems]
        write_json(path, {"schema_version": SCHEMA_VERSION, **vars(self), "systems": systems})

    @classmethod
    def read(cls, path: Path) -> "Results":
        """The results in the file ``path``.

        Raises
        ------
        ValueError
            If the file is not there, damaged or of another schema.
        """
        data = read_json(path)
        found = data.pop("schema_version", None)
        if found != SCHEMA_VERSION:
            what = "no schema version" if found is None else f"schema version {found}"
            raise ValueError(
                f"{path} has {what}, but this cameraready reads version {SCHEMA_VERSION}; "
                "it is left as it is"
            )
        try:
            data["systems"] = [SystemResult.from_json(system) for system in data["systems"]]
            return cls(**data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a whole results file ({error}); it is left as it is"
            ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises
    ------
    ValueError
        If the file cannot be read or holds no JSON object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise ValueError(f"cannot read {path}: {reason}") from error
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged or half-written ({error}); it is left as it is"
        ) from error
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds no results; it is left as it is")
    return data


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON object to a file, whole or not at all."""
    with atomic_write(path) as file:
        json.dump(data, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")
