"""Results kept on disk, so that long work resumes."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cameraready.common.files import atomic_write

__all__ = ["cache_folder", "load_or_compute"]


def cache_folder(*parts: str) -> Path:
    """The folder in which a part of cameraready keeps what it can make again.

    It lies in the user's cache folder; the environment variable ``CAMERAREADY_CACHE`` moves it.

    Parameters
    ----------
    *parts
        Names of the folders below it.
    """
    root = os.environ.get("CAMERAREADY_CACHE")
    if root is None:
        from platformdirs import user_cache_path

        root = user_cache_path("cameraready", appauthor=False)
    return Path(root, *parts)


def load_or_compute(path: Path, key: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """What ``compute`` returns, read from ``path`` if it was kept there under the same ``key``.

    A file that is damaged or was kept under another key is computed again.

    Parameters
    ----------
    path
        The file (JSON).
    key
        Everything that the result depends on.
    compute
        Called without arguments; returns something that JSON can hold. NumPy scalars and arrays
        are kept as numbers and lists.

    Returns
    -------
    value
        As JSON gives it back (tuples are lists), whether it was computed now or before.

    Raises
    ------
    TypeError
        If the result cannot be held by JSON.
    """
    wanted = json.loads(json.dumps(key))
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == wanted:
            return kept["value"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    text = json.dumps({"key": wanted, "value": compute()}, default=_plain)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text)
    return json.loads(text)["value"]


def _plain(value: Any) -> Any:
    # NumPy's scalars and arrays both have tolist().
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"a kept result must be made of numbers, text, lists and dicts, not {type(value).__name__}"
    )
