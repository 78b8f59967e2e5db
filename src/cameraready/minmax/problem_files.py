"""Problems that a user's own Python file makes."""

import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from cameraready.minmax.inclusion import Inclusion

__all__ = ["errors_in", "load_problem"]


def load_problem(name: str) -> tuple[Inclusion, Path]:
    """What ``factory()`` of ``PROBLEM.py:factory`` returns, and the file.

    The file is run as Python code, like any script of the user's.

    Parameters
    ----------
    name
        The file, a colon, and the function's name.

    Raises
    ------
    OSError
        If the file cannot be read.
    TypeError, ValueError
        If it does not run, has no such function, or the function returns no problem.
    """
    file, colon, factory = name.rpartition(":")
    if not colon or not factory.isidentifier():
        raise ValueError(f"name the problem as FILE.py:function, not {name!r}")
    path = Path(file)
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8") from None
    module = ModuleType("minmax_problem")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses, for one, look their module up
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # its neighbours can be imported, as for a script
    with errors_in(path):
        exec(compile(source, str(path), "exec"), module.__dict__)
        make = getattr(module, factory, None)
        if not callable(make):
            raise ValueError(f"{path} has no function {factory!r}")
        problem = make()
    if not isinstance(problem, Inclusion):
        raise TypeError(
            f"{path}: {factory}() must return a VI, MinMax, Bilinear, MatrixGame, LPSaddle or DRO, "
            f"not {type(problem).__name__}"
        )
    return problem, path


@contextmanager
def errors_in(path: Path) -> Generator[None]:
    """Tell an error that was raised in a user's file as one sentence with its line.

    Raises
    ------
    ValueError
        In the place of any error that came out of the file.
    """
    try:
        yield
    except SyntaxError as error:
        if error.filename != str(path):
            raise
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        if not lines:
            raise
        raise ValueError(f"{path}, line {lines[-1]}: {type(error).__name__}: {error}") from error
