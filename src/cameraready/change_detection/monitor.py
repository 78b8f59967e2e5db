"""A detector on a model's errors."""

from collections.abc import Callable
from typing import Any

from cameraready.change_detection.base import SequentialDetector
from cameraready.common.checks import check_choice

__all__ = ["ClassifierMonitor"]

METRICS: dict[str, Callable[[Any, Any], float]] = {
    "error": lambda y_true, y_pred: float(y_true != y_pred),
    "absolute_error": lambda y_true, y_pred: abs(float(y_true) - float(y_pred)),
    "squared_error": lambda y_true, y_pred: (float(y_true) - float(y_pred)) ** 2,
}


class ClassifierMonitor:
    """Watches the mean of a loss of (label, prediction) pairs.

    Parameters
    ----------
    detector : SequentialDetector
        For the loss; `CompositeEDetector` on [0, 1] suits the error rate.
    metric : {"error", "absolute_error", "squared_error"} or callable
        The loss of one pair; the detector's range must hold it.

    Examples
    --------
    >>> from cameraready.change_detection import CompositeEDetector
    >>> monitor = ClassifierMonitor(CompositeEDetector(arl=1000))
    >>> for n in range(1, 400):
    ...     monitor.update("cat", "cat" if n <= 300 else "dog")
    ...     if monitor.drift_detected:
    ...         print(n)
    ...         break
    303
    """

    def __init__(
        self,
        detector: SequentialDetector,
        metric: str | Callable[[Any, Any], float] = "error",
    ) -> None:
        if not isinstance(detector, SequentialDetector):
            raise TypeError(f"detector must be one of this module's detectors, not {detector!r}")
        self.detector = detector
        self.metric = metric
        self._loss = (
            metric if callable(metric) else METRICS[check_choice("metric", metric, METRICS)]
        )

    def update(self, y_true: Any, y_pred: Any) -> None:
        """Take one pair in.

        Raises
        ------
        RangeError
            If the loss lies outside the detector's range.
        """
        self.detector.update(self._loss(y_true, y_pred))

    @property
    def drift_detected(self) -> bool:
        """True after the update that raised an alarm, until the next one."""
        return self.detector.drift_detected
