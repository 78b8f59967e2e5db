"""River's base class for drift detectors, for where river is not installed."""

import copy
import inspect
from typing import Self

__all__ = ["DriftDetector"]


class DriftDetector:
    """A detector that is updated with one value at a time."""

    def __init__(self) -> None:
        self._drift_detected = False

    def _reset(self) -> None:
        self._drift_detected = False

    @property
    def drift_detected(self) -> bool:
        """True after the update that raised an alarm, until the next one."""
        return self._drift_detected

    def clone(self) -> Self:
        """A fresh detector with the same parameters."""
        names = inspect.signature(type(self)).parameters
        return type(self)(**{name: copy.deepcopy(getattr(self, name)) for name in names})
