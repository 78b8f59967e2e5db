"""Warnings that point at the user's own line."""

import sys
import warnings
from types import FrameType

__all__ = ["warn_caller"]

# scikit-learn calls back: its wrappers, pipelines and searches stand between.
_BETWEEN = ("cameraready.lightsb.", "sklearn.")


def warn_caller(message: str) -> None:
    """Warn at the nearest line that is neither in this system nor in scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _is_between(frame: FrameType) -> bool:
    # What `exec` runs may have no name.
    return frame.f_globals.get("__name__", "").startswith(_BETWEEN)
