"""Experiments and their parts as Ray tasks."""

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from cameraready.claims.worker import Event, Spec, execute

__all__ = ["cancel", "connect", "disconnect", "events_of", "ray_map", "start"]


def connect(address: str) -> None:
    """Connect to a Ray cluster.

    Parameters
    ----------
    address
        The cluster's address; ``"local"`` starts one on this machine.

    Raises
    ------
    ValueError
        If Ray is not installed or the cluster cannot be reached.
    """
    # Ray reads this when it is imported; nothing is reported to anyone.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError(
            "--ray needs Ray, not installed here: pip install 'cameraready[ray]'"
        ) from None
    try:
        ray.init(
            address=address,
            include_dashboard=False if address == "local" else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"there is no Ray cluster at {address!r}: {reason}") from error


def disconnect() -> None:
    """Leave the cluster; end it if it was started here."""
    import ray

    ray.shutdown()


def start(spec: Spec) -> Any:
    """Start an experiment as a Ray task and hand back its stream.

    Parameters
    ----------
    spec
        The experiment.
    """
    import ray

    return ray.remote(num_returns="streaming", max_retries=0)(_events).remote(spec)


def events_of(stream: Any) -> Iterator[Event]:
    """The events of a started experiment as they arrive.

    Parameters
    ----------
    stream
        What :func:`start` handed back.
    """
    import ray

    for reference in stream:
        yield from ray.get(reference)


def cancel(stream: Any) -> None:
    """End a started experiment.

    Parameters
    ----------
    stream
        What :func:`start` handed back.
    """
    import ray

    ray.cancel(stream)


def ray_map(
    function: Callable[[Any], Any], items: list[Any], progress: Callable[[int], None]
) -> list[Any]:
    """``[function(item) for item in items]`` as one Ray task an item.

    Parameters
    ----------
    function
        A function at a module's top level.
    items
        What it is called with.
    progress
        Called with the number of finished items.
    """
    import ray

    task = ray.remote(function)
    references = [task.remote(item) for item in items]
    waiting = references
    while waiting:
        finished, waiting = ray.wait(waiting)
        # A task's own error is raised here, at once, and not after all others are done.
        ray.get(finished)
        progress(len(references) - len(waiting))
    return ray.get(references)


def _events(spec: Spec) -> Iterator[list[Event]]:
    # Events leave in batches, one a claim: a task cannot yield from within the experiment's work.
    pending: list[Event] = []
    for _ in execute(spec, pending.append, on_ray=True):
        yield pending.copy()
        pending.clear()
    yield pending
