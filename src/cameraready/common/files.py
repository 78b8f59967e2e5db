"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w"
) -> Generator[IO[Any]]:
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
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    encoding, newline = ("utf-8", "") if mode == "w" else (None, None)
    try:
        with temporary.open(mode.replace("w", "x"), encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # the name that was asked for
        raise
