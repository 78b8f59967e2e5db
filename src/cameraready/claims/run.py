"""What an experiment is given."""

import hashlib
import io
import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cameraready import __version__
from cameraready.common.cache import cache_folder, load_or_compute
from cameraready.common.checks import check_choice
from cameraready.common.device import resolve_device
from cameraready.common.plotting import plot_style
from cameraready.common.seeding import named_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BUDGETS", "Run"]

BUDGETS = ("smoke", "quick", "full")

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Run:
    """What an experiment is given: seed, budget, device, workers, cache, figures.

    An experiment is ``def experiment(run: Run) -> Iterator[Claim]``. In a test,
    ``Run("change_detection", "smoke", parts=tmp_path)`` is all it needs.

    Parameters
    ----------
    slug
        The system's slug.
    budget
        ``"smoke"``, ``"quick"`` or ``"full"``.
    seed
        The seed of every random stream.
    device
        As in :func:`cameraready.common.resolve_device`.
    workers
        How many processes :meth:`map` may use.
    parts
        Folder for what :meth:`cached` keeps; None takes one in the user's cache folder.
    source_hash
        Hash of the system's source files; kept parts of another hash are computed again.
    emit
        Called with one dict an event: progress, figures and settings. None drops them.
    on_ray
        Whether :meth:`map` spreads its items as Ray tasks.

    Attributes
    ----------
    slug, budget, seed, device, workers
        As above, the device resolved.
    """

    def __init__(
        self,
        slug: str,
        budget: str = "quick",
        seed: int = 0,
        device: str = "auto",
        workers: int = 1,
        *,
        parts: Path | None = None,
        source_hash: str = "",
        emit: Callable[[dict[str, Any]], None] | None = None,
        on_ray: bool = False,
    ) -> None:
        check_choice("budget", budget, BUDGETS)
        if seed < 0:
            raise ValueError(f"seed must not be negative, but it is {seed}")
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.slug = slug
        self.budget = budget
        self.seed = seed
        self.device = resolve_device(device)
        self.workers = workers
        self._parts = parts_folder(slug, budget, seed) if parts is None else parts
        self._source_hash = source_hash
        self._emit = emit if emit is not None else lambda event: None
        self._on_ray = on_ray
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def scale(self, *, smoke: Value, quick: Value, full: Value) -> Value:
        """The value for this run's budget.

        Parameters
        ----------
        smoke, quick, full
            The value at each budget.

        Examples
        --------
        >>> Run("change_detection", "smoke").scale(smoke=2, quick=200, full=10_000)
        2
        """
        return {"smoke": smoke, "quick": quick, "full": full}[self.budget]

    def generator(self, *names: str | int) -> np.random.Generator:
        """A random generator for one named part, the same in every process.

        Parameters
        ----------
        *names
            What the part is called.
        """
        return named_generator(self.seed, *names)

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], description: str
    ) -> list[Result]:
        """``[function(item) for item in items]``, in parallel and with progress.

        Parameters
        ----------
        function
            A function at a module's top level (other processes import it by name).
        items
            What it is called with; each is sent to another process, so randomness travels as a
            generator or seed within it.
        description
            What is being done, for the progress line.

        Returns
        -------
        results
            In the order of the items.

        Raises
        ------
        RuntimeError
            If a worker process dies.
        """
        items = list(items)
        if self._on_ray:
            from cameraready.claims.on_ray import ray_map

            return ray_map(function, items, self._progress(description, len(items)))
        progress = self._progress(description, len(items))
        if self.workers == 1 or len(items) < 2:
            results = []
            for item in items:
                results.append(function(item))
                progress(len(results))
            return results
        try:
            return self._map_in_pool(function, items, progress)
        except BrokenProcessPool as error:
            self._pool = None
            raise RuntimeError(
                f"a worker process died during {description!r}; it was killed (out of memory?) "
                "or crashed"
            ) from error

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """What ``compute`` returns, kept on disk so that an interrupted experiment resumes.

        Parameters
        ----------
        name
            The part's name, unique within the experiment.
        compute
            Called without arguments; returns something that JSON can hold.

        Returns
        -------
        value
            As JSON gives it back: tuples and arrays are lists, whether computed now or before.
        """
        key = {
            "slug": self.slug,
            "budget": self.budget,
            "seed": self.seed,
            "device": self.device,
            "name": name,
            "version": __version__,
            "source": self._source_hash,
        }
        return load_or_compute(self._parts / f"{file_name(name)}.json", key, compute)

    def figure(
        self,
        name: str,
        draw: "Callable[[Figure], object]",
        caption: str,
        size: tuple[float, float] = (5.8, 3.6),
    ) -> None:
        """Draw a figure, once for a light page and once for a dark one.

        Parameters
        ----------
        name
            The figure's name, unique within the experiment.
        draw
            Called with an empty figure, twice; draws on it.
        caption
            What the figure shows, in plain words; also read to those who do not see it.
        size
            Width and height in inches.
        """
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        files: dict[str, bytes] = {}
        for theme in ("light", "dark"):
            with plot_style(theme):
                figure = Figure(figsize=size)
                FigureCanvasAgg(figure)
                draw(figure)
                files[f"{theme}.svg"] = _saved(figure, "svg")
                if theme == "light":
                    files["light.png"] = _saved(figure, "png")
        self._emit({"event": "figure", "name": name, "caption": caption, "files": files})

    def setting(self, name: str, value: object) -> None:
        """Note a setting that the report shows.

        Parameters
        ----------
        name
            The setting in words.
        value
            Its value; shown as text.
        """
        self._emit({"event": "setting", "name": name, "value": str(value)})

    def _progress(self, description: str, total: int) -> Callable[[int], None]:
        def tell(done: int) -> None:
            self._emit(
                {"event": "progress", "description": description, "done": done, "total": total}
            )

        tell(0)
        return tell

    def _map_in_pool(
        self, function: Callable[[Any], Any], items: list[Any], progress: Callable[[int], None]
    ) -> list[Any]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_end_with_parent,
            )
        with _single_threaded_children():
            futures = [self._pool.submit(function, item) for item in items]
        done = 0
        try:
            for future in as_completed(futures):
                future.result()
                done += 1
                progress(done)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]


def parts_folder(slug: str, budget: str, seed: int) -> Path:
    """Where the parts of one experiment are kept until it is finished."""
    return cache_folder("claims", slug, f"{budget}-{seed}")


def file_name(name: str) -> str:
    """``name`` as a file name: readable, and different for different names."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80]
    if plain == name:
        return plain
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _saved(figure: "Figure", kind: str) -> bytes:
    buffer = io.BytesIO()
    # Without a date, the same data gives the same file.
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


@contextmanager
def _single_threaded_children() -> Generator[None]:
    # The children share the cores already; a BLAS that takes all cores in each only slows them.
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: "1" for name in names})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_with_parent() -> None:
    # A pool's process waits for work for ever when its parent is killed; this ends it.
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
