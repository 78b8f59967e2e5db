"""The ``cameraready`` command.

Each system's verbs are mounted by import path and loaded when they are used.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from cameraready import __version__
from cameraready.catalogue import SYSTEMS, System, find_system

if TYPE_CHECKING:
    from cameraready.claims.results import Results

__all__ = ["app", "main"]

app = App(
    name="cameraready",
    help="Machine-learning methods fit for use on your own data, each checking its paper's claims "
    "on your machine.",
    version=__version__,
    help_flags=["--help", "-h"],
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)

for _system in SYSTEMS:
    app.command(_system.commands, name=_system.command, help=_system.line, group="Systems")


@app.command(name="list")
def list_systems() -> None:
    """Show the systems, which of them can be used here, and how to install the others."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Systems", title_justify="left", show_lines=True)
    for heading in ("system", "what it is for", "paper", "here"):
        table.add_column(heading, overflow="fold")
    hints = []
    for system in SYSTEMS:
        if hint := system.how_to_install():
            state = "not installed"
        elif hint := system.how_to_install(claims=True):
            state = "ready, its claims are not"
        else:
            state = "ready"
        table.add_row(system.command, f"{system.name}: {system.line}", system.paper, state)
        hints.append(hint)
    Console().print(table)
    # Outside the table, where a command stays on one line and can be copied.
    for hint in filter(None, hints):
        print(hint)


@app.command
def claims(
    systems: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    budget: Literal["smoke", "quick", "full"] = "quick",
    out: Path = Path("cameraready-claims"),
    jobs: int = 1,
    ray: str | None = None,
    again: Annotated[bool, Parameter(negative="")] = False,
    seed: int = 0,
) -> int:
    """Check the papers' claims on this machine and write results.json and report.html.

    A finished experiment is not run again, and an interrupted one goes on where it was.

    Parameters
    ----------
    systems
        The systems whose claims to check; all that are installed when none is named.
    budget
        How much to compute: a trial of the machinery, about a minute a system, or the paper's
        protocol as far as the hardware allows.
    out
        Folder for the results.
    jobs
        How many experiments run side by side; they share the cores.
    ray
        Address of a Ray cluster to run on; "local" starts one on this machine.
    again
        Run finished experiments again.
    seed
        Seed of every random stream.
    """
    from cameraready.claims.runner import Options, run_experiments

    chosen = _choose(systems or [])
    asked = {system.slug for system in chosen}
    results = run_experiments(
        chosen,
        out,
        Options(budget=budget, seed=seed, jobs=jobs, ray=ray, again=again),
        catalogue=SYSTEMS,
    )
    _show_summary(results)
    print(f"results: {out / 'results.json'}")
    print(f"report:  {out / 'report.html'}")
    failed = any(result.status != "finished" for result in results.systems if result.slug in asked)
    return 1 if failed else 0


@app.command
def report(folder: Path, /) -> None:
    """Make report.html again from a folder's results.json.

    Parameters
    ----------
    folder
        The folder that ``cameraready claims`` wrote.
    """
    from cameraready.claims.report import write_report
    from cameraready.claims.results import Results

    print(f"report: {write_report(Results.read(folder / 'results.json'), folder)}")


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    tokens
        The arguments; None takes those of the process.
    """
    sys.exit(run(sys.argv[1:] if tokens is None else tokens))


def run(tokens: Sequence[str]) -> int:
    """Run the command line and hand back its exit code.

    Bad input gives one sentence on standard error and 2; ``CAMERAREADY_DEBUG=1`` shows where it
    comes from instead.

    Parameters
    ----------
    tokens
        The arguments.
    """
    try:
        code = app(_resolve(list(tokens)), exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except CycloptsError as error:
        # One sentence here too; where it leads is shown by --help.
        return _fail(f"{_sentence(error)} (see --help)", 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader has closed the pipe; what Python flushes at its end must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ImportError as error:
        if _debugging():
            raise
        return _fail(_missing_module(error), 2)
    except (ValueError, TypeError, OSError) as error:
        if _debugging():
            raise
        return _fail(_sentence(error), 2)


def _resolve(tokens: list[str]) -> list[str]:
    """The tokens with the system's name as it is mounted, after a check that it can be used."""
    if not tokens or tokens[0].startswith("-"):
        return tokens
    name = tokens[0].replace("_", "-")
    if name in {"list", "claims", "report"}:
        return tokens
    try:
        system = find_system(name, SYSTEMS)
    except ValueError as error:
        raise ValueError(f"{error}; the other verbs are list, claims and report") from None
    missing = system.how_to_install()
    if missing:
        raise ValueError(missing)
    return [name, *tokens[1:]]


def _choose(names: Sequence[str]) -> list[System]:
    """The named systems, or all that are installed; a sentence for each that is not."""
    if names:
        chosen = list(dict.fromkeys(find_system(name, SYSTEMS) for name in names))
        for system in chosen:
            missing = system.how_to_install(claims=True)
            if missing:
                raise ValueError(missing)
        return chosen
    chosen = []
    for system in SYSTEMS:
        missing = system.how_to_install(claims=True)
        if missing:
            print(f"left out: {missing}", file=sys.stderr)
        else:
            chosen.append(system)
    if not chosen:
        raise ValueError("no system is installed: pip install 'cameraready[all]'")
    return chosen


def _show_summary(results: "Results") -> None:
    from rich.console import Console
    from rich.table import Table

    from cameraready.claims.claim import Verdict
    from cameraready.claims.report import duration

    table = Table(title="Claims", title_justify="left")
    table.add_column("system", overflow="fold")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right")
    table.add_column("time", justify="right")
    table.add_column("status")
    for result in results.systems:
        counts = [str(result.count(verdict)) for verdict in Verdict]
        name = result.slug.replace("_", "-")
        table.add_row(name, *counts, duration(result.seconds), result.status)
    Console().print(table)


def _missing_module(error: ImportError) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    if isinstance(cause, ModuleNotFoundError) and not (cause.name or "").startswith("cameraready"):
        return f"this needs {cause.name}, not installed here: pip install 'cameraready[all]'"
    return _sentence(cause)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror.lower()
        return f"{error.filename}: {reason}" if error.filename else reason
    return " ".join(str(error).split()) or type(error).__name__


def _fail(message: str, code: int) -> int:
    print(f"cameraready: {message}", file=sys.stderr)
    return code


def _debugging() -> bool:
    return os.environ.get("CAMERAREADY_DEBUG") == "1"
