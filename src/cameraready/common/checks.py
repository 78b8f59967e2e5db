"""Checks of what a user passes in: one sentence that names the argument and what to do.

Each function returns the checked value, so that a check and an assignment are one line.
"""

import math
import os
from collections.abc import Collection
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = [
    "check_choice",
    "check_greater",
    "check_interval",
    "check_positive",
    "check_writable_folder",
]


def check_greater(name: str, value: Any, bound: float) -> float:
    """``value`` as a finite number greater than ``bound``.

    Parameters
    ----------
    name
        The argument's name, for the message.
    value
        What was passed.
    bound
        The number that it must exceed.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is not finite or not greater than ``bound``.

    Examples
    --------
    >>> check_greater("arl", 1, 1)
    Traceback (most recent call last):
    ...
    ValueError: arl must be a finite number greater than 1, not 1
    """
    number = _number(name, value)
    if not (math.isfinite(number) and number > bound):
        raise ValueError(f"{name} must be a finite number greater than {bound:g}, not {value!r}")
    return number


def check_positive(name: str, value: Any) -> float:
    """``value`` as a finite number greater than zero.

    Parameters
    ----------
    name
        The argument's name, for the message.
    value
        What was passed.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is not finite or not positive.
    """
    return check_greater(name, value, 0)


def check_choice(name: str, value: T, choices: Collection[T]) -> T:
    """``value`` if it is one of ``choices``.

    Parameters
    ----------
    name
        The argument's name, for the message.
    value
        What was passed.
    choices
        What may be passed.

    Raises
    ------
    ValueError
        If it is none of them; the message names them.

    Examples
    --------
    >>> check_choice("kind", "srr", ("sr", "cusum"))
    Traceback (most recent call last):
    ...
    ValueError: kind must be one of 'sr', 'cusum', not 'srr'
    """
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}, not {value!r}")
    return value


def check_interval(name: str, interval: Any) -> tuple[float, float]:
    """``interval`` as a pair (low, high) of finite numbers with low below high.

    Parameters
    ----------
    name
        The argument's name, for the message.
    interval
        What was passed.

    Raises
    ------
    TypeError
        If it is not a pair of numbers.
    ValueError
        If its ends are not finite or not in order.
    """
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (low, high), not {interval!r}") from None
    low, high = _number(f"{name}[0]", low), _number(f"{name}[1]", high)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{name} must be two finite numbers with the lower one first, not ({low:g}, {high:g})"
        )
    return low, high


def check_writable_folder(path: str | os.PathLike[str]) -> Path:
    """The folder ``path``, made if it is not there, if files can be written in it.

    Parameters
    ----------
    path
        The folder.

    Raises
    ------
    ValueError
        If it cannot be made or not be written to.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-test-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"cannot write to the folder {folder} ({_reason(error)}); name another one"
        ) from error
    return folder


def _number(name: str, value: Any) -> float:
    # numpy's scalars are registered as Real; bool is too, and is never meant as a number here.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
