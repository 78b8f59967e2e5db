"""One experiment in a process of its own: ``python -m cameraready.claims.worker SPEC``.

What happens in it is told as events, one line of JSON each, on standard output. Standard input is
a life-line: when the process that holds its other end is gone, this one ends too.
"""

import base64
import faulthandler
import importlib
import importlib.util
import json
import os
import re
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cameraready.claims.claim import Claim
from cameraready.claims.machine import describe_machine, library_versions
from cameraready.claims.run import Run, parts_folder

__all__ = ["Spec", "execute", "hash_sources", "without_folders"]

Event = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """Everything that names one run of one experiment.

    Parameters
    ----------
    slug
        The system's slug.
    experiment
        Import path, ``module:function``.
    budget
        ``"smoke"``, ``"quick"`` or ``"full"``.
    seed
        Seed of every random stream.
    workers
        How many processes it may use.
    source_hash
        Hash of the system's source files.
    again
        Compute everything again, also the parts that an interrupted run has kept.
    """

    slug: str
    experiment: str
    budget: str
    seed: int
    workers: int
    source_hash: str
    again: bool


def execute(spec: Spec, emit: Callable[[Event], None], *, on_ray: bool = False) -> Iterator[None]:
    """Run an experiment step by step, telling what happens through ``emit``.

    Parameters
    ----------
    spec
        The experiment.
    emit
        Called with each event; its last one is ``done`` or ``error``.
    on_ray
        Whether the run's map spreads over Ray.

    Yields
    ------
    None
        After each settled claim.
    """
    began = time.monotonic()
    emit(
        {
            "event": "started",
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "versions": library_versions(),
        }
    )
    keys: set[str] = set()
    parts = parts_folder(spec.slug, spec.budget, spec.seed)
    if spec.again:
        shutil.rmtree(parts, ignore_errors=True)
    try:
        module, _, name = spec.experiment.partition(":")
        experiment = getattr(importlib.import_module(module), name)
        with Run(
            spec.slug,
            spec.budget,
            spec.seed,
            workers=spec.workers,
            parts=parts,
            source_hash=spec.source_hash,
            emit=emit,
            on_ray=on_ray,
        ) as run:
            for claim in experiment(run):
                if not isinstance(claim, Claim):
                    raise TypeError(f"an experiment yields Claims, not {claim!r}")
                if claim.key in keys:
                    raise ValueError(f"two claims have the key {claim.key!r}; keys are unique")
                keys.add(claim.key)
                emit({"event": "claim", "claim": claim.to_json()})
                yield
    except (Exception, SystemExit) as error:
        emit(
            {
                "event": "error",
                "error": without_folders(f"{type(error).__name__}: {error}"),
                "details": without_folders(traceback.format_exc()),
                "seconds": time.monotonic() - began,
            }
        )
    else:
        shutil.rmtree(parts, ignore_errors=True)  # the claims are settled; nothing to resume
        emit({"event": "done", "seconds": time.monotonic() - began})


def hash_sources(experiment: str) -> str:
    """Hash of the source files that an experiment's result depends on.

    These are the files of the package that holds the experiment (of the module alone, if it is in
    no package), and those of the shared helpers and data sets. Nothing is imported.

    Parameters
    ----------
    experiment
        Import path, ``module:function``.
    """
    module = experiment.partition(":")[0]
    top, *rest = module.split(".")
    found = importlib.util.find_spec(top)
    if found is None:
        return ""  # importing it will say so
    if found.submodule_search_locations:
        folder = Path(found.submodule_search_locations[0], *rest[:-1])
        files = sorted(folder.rglob("*.py"))
    else:
        folder = Path(found.origin or "").parent
        files = [Path(found.origin or "")]
    shared = [Path(__file__).parents[1] / name for name in ("common", "datasets")]
    digest = sha256()
    for root, members in [
        (folder, files),
        *((root, sorted(root.rglob("*.py"))) for root in shared),
    ]:
        for member in members:
            digest.update(f"{member.relative_to(root).as_posix()}\0".encode())
            digest.update(member.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def without_folders(text: str) -> str:
    """``text`` with absolute paths cut to file names: a report is passed on, a folder is private.

    Examples
    --------
    >>> without_folders('File "/home/someone/project/claims.py", line 3')
    'File "claims.py", line 3'
    """
    return re.sub(r"(?<![\w./:])(?:[A-Za-z]:)?[/\\](?:[^/\\\s\"':]+[/\\])+", "", text)


def to_line(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps(event, default=lambda value: {"base64": base64.b64encode(value).decode()})


def from_line(line: str) -> Event:
    """The event that a line holds."""
    return json.loads(
        line,
        object_hook=lambda value: (
            base64.b64decode(value["base64"]) if value.keys() == {"base64"} else value
        ),
    )


def spec_to_argument(spec: Spec) -> str:
    """A spec as a command-line argument."""
    return json.dumps(asdict(spec))


def main() -> None:
    """Run the experiment that the first argument names."""
    faulthandler.enable()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # What the experiment prints goes to standard error; standard output carries events alone.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(event: Event) -> None:
        events.write(to_line(event) + "\n")
        events.flush()

    for _ in execute(Spec(**json.loads(sys.argv[1])), emit):
        pass


def _end_with_parent() -> None:
    # os.read and not sys.stdin: a buffered reader held here would block the interpreter's end.
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
