"""Files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """Open a file that takes the place of ``path`` only when the block ends without an error.

    The text goes to a temporary name in the same folder, is flushed to disk and renamed. A reader
    sees the old file or the new one, never half of one.

    Parameters
    ----------
    path
        The file to write; its folder must be there.
    mode
        ``"w"`` for text (UTF-8, line ends as written) or ``"wb"`` for bytes.

    Yields
    ------
    file
        The open temporary file.
    """
    path = Path(path)
    text = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        # mkstemp makes the file private; give it the mode that open() would have.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        with open(descriptor, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
