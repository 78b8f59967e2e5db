"""Runs experiments side by side, here or on Ray, and keeps what they settle.

Each experiment has a process of its own: one that raises, crashes or is killed takes no other down,
and what it had settled is kept beside its error.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cameraready import __version__
from cameraready.catalogue import System
from cameraready.claims.claim import Claim
from cameraready.claims.machine import cores, describe_machine, library_versions
from cameraready.claims.progress import Progress
from cameraready.claims.report import write_report
from cameraready.claims.results import (
    FigureFiles,
    Results,
    SystemResult,
    read_json,
    write_json,
)
from cameraready.claims.run import BUDGETS, file_name
from cameraready.claims.worker import (
    Event,
    Spec,
    from_line,
    hash_sources,
    spec_to_argument,
    without_folders,
)
from cameraready.common.checks import check_choice, check_writable_folder
from cameraready.common.files import atomic_write

__all__ = ["Options", "run_experiments"]


@dataclass(frozen=True)
class Options:
    """How experiments are run.

    Parameters
    ----------
    budget
        ``"smoke"``, ``"quick"`` or ``"full"``.
    seed
        Seed of every random stream.
    jobs
        How many experiments run side by side; they share the cores.
    ray
        Address of a Ray cluster, ``"local"`` for one on this machine, None for plain processes.
    again
        Run finished experiments again.

    Raises
    ------
    ValueError
        If one of them makes no sense here.
    """

    budget: str = "quick"
    seed: int = 0
    jobs: int = 1
    ray: str | None = None
    again: bool = False

    def __post_init__(self) -> None:
        check_choice("budget", self.budget, BUDGETS)
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, but it is {self.seed}")
        if self.ray is None and not 1 <= self.jobs <= cores():
            raise ValueError(
                f"jobs must be from 1 to {cores()}, the number of cores here, not {self.jobs}"
            )

    @property
    def workers(self) -> int:
        """How many processes one experiment may use."""
        return max(1, cores() // self.jobs)


def run_experiments(
    systems: Sequence[System],
    out: Path,
    options: Options,
    *,
    catalogue: Sequence[System],
) -> Results:
    """Run the experiments of ``systems`` and write results.json and report.html into ``out``.

    Parameters
    ----------
    systems
        The systems to run.
    out
        Folder for the results.
    options
        How to run them.
    catalogue
        All systems, in the report's order: results that ``out`` holds of the others at the same
        budget and seed are shown too.

    Returns
    -------
    results
        What results.json holds now.

    Raises
    ------
    ValueError
        If ``out`` cannot be written to or holds a results.json that is not ours; nothing is run
        or overwritten then.
    """
    check_writable_folder(out)
    if (out / "results.json").exists():
        try:
            Results.read(out / "results.json")
        except ValueError as error:
            raise ValueError(
                f"{error}; remove it and run again: finished experiments are kept beside it"
            ) from error
    store = _Store(out, options, [*catalogue, *(row for row in systems if row not in catalogue)])
    if options.ray is not None:
        from cameraready.claims.on_ray import connect, disconnect

        connect(options.ray)
        leave = disconnect
    else:
        leave = _nothing
    with contextlib.ExitStack() as stack:
        stack.callback(leave)
        # Written however the runs end: what was settled before an interrupt is shown.
        stack.callback(store.write)
        progress = stack.enter_context(Progress())
        pool = ThreadPoolExecutor(options.jobs if options.ray is None else max(1, len(systems)))
        experiments = [_Experiment(system, store, options, progress) for system in systems]
        try:
            for future in [pool.submit(experiment.run) for experiment in experiments]:
                future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for experiment in experiments:
                experiment.stop()
            pool.shutdown()
    return store.results()


class _Store:
    """The results folder: a file and a folder of figures for each system, budget and seed."""

    def __init__(self, out: Path, options: Options, catalogue: Sequence[System]) -> None:
        self.out = out
        self.options = options
        self.catalogue = catalogue
        self.machine = describe_machine()
        self.versions = library_versions()
        self._lock = threading.Lock()
        (out / "systems").mkdir(exist_ok=True)

    def stem(self, slug: str) -> str:
        return f"{slug}-{self.options.budget}-{self.options.seed}"

    def path(self, slug: str) -> Path:
        return self.out / "systems" / f"{self.stem(slug)}.json"

    def load(self, slug: str) -> SystemResult | None:
        """The kept result; None if there is none, ValueError if it is damaged."""
        path = self.path(slug)
        return SystemResult.from_json(read_json(path)) if path.exists() else None

    def keep(self, result: SystemResult) -> None:
        write_json(self.path(result.slug), result.to_json())

    def clear_figures(self, slug: str) -> None:
        shutil.rmtree(self.out / "figures" / self.stem(slug), ignore_errors=True)

    def keep_figure(self, slug: str, event: Event) -> FigureFiles:
        folder = self.out / "figures" / self.stem(slug)
        folder.mkdir(parents=True, exist_ok=True)
        names = {}
        for kind, content in event["files"].items():
            path = folder / f"{file_name(event['name'])}-{kind}"
            with atomic_write(path, "wb") as file:
                file.write(content)
            names[kind] = path.relative_to(self.out).as_posix()
        return FigureFiles(
            event["name"],
            event["caption"],
            light=names["light.svg"],
            dark=names["dark.svg"],
            png=names["light.png"],
        )

    def results(self) -> Results:
        found = []
        for system in self.catalogue:
            with contextlib.suppress(ValueError):  # a damaged file is made again when it is run
                result = self.load(system.slug)
                if result is not None:
                    found.append(result)
        options = self.options
        return Results(
            __version__, options.budget, options.seed, self.machine, self.versions, found
        )

    def write(self) -> None:
        with self._lock:
            results = self.results()
            results.write(self.out / "results.json")
            write_report(results, self.out)


class _Experiment:
    """One system's experiment, followed in a thread of its own."""

    def __init__(self, system: System, store: _Store, options: Options, progress: Progress) -> None:
        self.system = system
        self.store = store
        self.options = options
        self.progress = progress
        self.process: subprocess.Popen[str] | None = None
        self.stream: Any = None
        self.stopped = False
        self.lock = threading.Lock()

    def run(self) -> None:
        system, options = self.system, self.options
        source_hash = hash_sources(system.experiment)
        if not options.again and self._is_finished(source_hash):
            self.progress.say(
                f"{system.command}: finished before with the same version, seed and budget; "
                "kept (--again runs it again)"
            )
            return
        result = SystemResult(
            system.slug,
            system.name,
            system.line,
            system.paper,
            options.budget,
            options.seed,
            source_hash=source_hash,
        )
        spec = Spec(
            system.slug,
            system.experiment,
            options.budget,
            options.seed,
            options.workers,
            source_hash,
            options.again,
        )
        self.store.clear_figures(system.slug)
        self.progress.begin(system.command)
        began = time.monotonic()
        try:
            for event in self._events_on_ray(spec) if options.ray else self._events_here(spec):
                self._take(event, result)
        except Exception as error:
            # Whatever goes wrong in following one experiment stays with that experiment.
            if not self.stopped:
                result.status = "failed"
                result.error = without_folders(f"{type(error).__name__}: {error}")
        result.seconds = result.seconds or time.monotonic() - began
        if result.status == "running":
            result.status = "interrupted" if self.stopped else "failed"
        self.store.keep(result)
        self.progress.end(system.command, result)
        self.store.write()

    def stop(self) -> None:
        """End the process, if it runs, and keep another from starting."""
        with self.lock:
            self.stopped = True
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
            if self.stream is not None:
                from cameraready.claims import on_ray

                on_ray.cancel(self.stream)

    def _is_finished(self, source_hash: str) -> bool:
        try:
            kept = self.store.load(self.system.slug)
        except ValueError:
            self.progress.say(
                f"{self.system.command}: its kept result is damaged, so it is run again"
            )
            return False
        return (
            kept is not None
            and kept.status == "finished"
            and (kept.version, kept.source_hash) == (__version__, source_hash)
            and all((self.store.out / figure.light).exists() for figure in kept.figures)
        )

    def _take(self, event: Event, result: SystemResult) -> None:
        name = self.system.command
        match event["event"]:
            case "started":
                result.started = event["started"]
                result.machine, result.versions = event["machine"], event["versions"]
            case "progress":
                self.progress.advance(name, event["description"], event["done"], event["total"])
                return
            case "setting":
                result.settings[event["name"]] = event["value"]
            case "figure":
                result.figures.append(self.store.keep_figure(self.system.slug, event))
            case "claim":
                claim = Claim.from_json(event["claim"])
                result.claims.append(claim)
                self.progress.claim(name, claim)
            case "error":
                result.status, result.seconds = "failed", event["seconds"]
                result.error, result.details = event["error"], event["details"]
            case "done":
                result.status, result.seconds = "finished", event["seconds"]
        self.store.keep(result)

    def _events_here(self, spec: Spec) -> Iterator[Event]:
        with tempfile.TemporaryFile() as errors:
            with self.lock:
                if self.stopped:
                    return
                # -P keeps the current folder off the path: a file there must not shadow a library.
                command = [sys.executable, "-P", "-m", "cameraready.claims.worker"]
                self.process = subprocess.Popen(
                    [*command, spec_to_argument(spec)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    encoding="utf-8",
                    start_new_session=True,
                )
            last = ""
            with self.process as process:
                assert process.stdout is not None
                for line in process.stdout:
                    # A line cut off by a crash is no event.
                    if line.endswith("\n"):
                        event = from_line(line)
                        last = event["event"]
                        yield event
            if last not in ("done", "error") and not self.stopped:
                errors.seek(0)
                lines = errors.read().decode("utf-8", errors="replace").splitlines()[-20:]
                yield _crash(self.process.returncode, lines)

    def _events_on_ray(self, spec: Spec) -> Iterator[Event]:
        from cameraready.claims import on_ray

        with self.lock:
            if self.stopped:
                return
            self.stream = on_ray.start(spec)
        yield from on_ray.events_of(self.stream)


def _crash(returncode: int, lines: list[str]) -> Event:
    if returncode < 0:
        error = f"its process was ended by signal {-returncode}"
        with contextlib.suppress(ValueError):
            error += f" ({signal.Signals(-returncode).name})"
        if returncode == -9:
            error += ", as happens when memory runs out"
    else:
        error = f"its process ended by itself with exit code {returncode}"
    details = without_folders("\n".join(lines))
    return {"event": "error", "error": error, "details": details, "seconds": 0.0}


def _nothing() -> None:
    pass
