"""What a person sees while experiments run."""

import threading

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from cameraready.claims.claim import Claim, Verdict
from cameraready.claims.results import SystemResult

__all__ = ["Progress", "tally"]


class Progress:
    """A bar for each running experiment on a terminal, and a plain line for what is settled.

    Where the output is no terminal there are no bars.

    Parameters
    ----------
    console
        Where to print; None takes standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console(highlight=False, soft_wrap=True) if console is None else console
        self._bars = Bars(
            TextColumn("{task.fields[system]}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def say(self, line: str) -> None:
        """Print one plain line."""
        with self._lock:
            self._console.print(line, markup=False, soft_wrap=True)

    def begin(self, system: str) -> None:
        """An experiment begins."""
        self._tasks[system] = self._bars.add_task("starting", system=system, count="", total=None)
        self.say(f"{system}: running")

    def advance(self, system: str, description: str, done: int, total: int) -> None:
        """A part of an experiment has come this far."""
        # A part that is done leaves a moving bar: what follows it is not counted.
        whole = done == total
        self._bars.update(
            self._tasks[system],
            description="" if whole else description,
            count="" if whole else f"{done}/{total}",
            completed=0 if whole else done,
            total=None if whole else total,
        )

    def claim(self, system: str, claim: Claim) -> None:
        """A claim is settled."""
        self.say(f"{system}: {claim.verdict.value}: {claim.statement}")

    def end(self, system: str, result: SystemResult) -> None:
        """An experiment has ended."""
        self._bars.remove_task(self._tasks[system])
        line = f"{system}: {result.status} after {result.seconds:.0f} s, {tally(result)}"
        self.say(f"{line}: {result.error}" if result.error else line)


def tally(result: SystemResult) -> str:
    """How many claims have which verdict, in words."""
    counts = [(result.count(verdict), verdict.value) for verdict in Verdict]
    words = ", ".join(f"{verdict} {count}" for count, verdict in counts if count)
    return words or "no claim settled"
