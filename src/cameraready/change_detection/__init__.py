"""Alarms with a guaranteed false-alarm rate, from confidence sequences.

Shekhar & Ramdas, "Reducing sequential change detection to sequential estimation", ICML 2024:
start a confidence sequence at every time; alarm when they contradict each other. If nothing
changes, an alarm comes after `arl` observations on average at the earliest, without knowing the
distribution, the level before the change, or whether observations are independent.

>>> import numpy as np
>>> from cameraready.change_detection import CompositeEDetector, ConfidenceSequenceDetector, cs
>>> rng = np.random.default_rng(7)
>>> latency = np.concatenate([rng.normal(20, 3, 500), rng.normal(23, 3, 200)])
>>> detector = ConfidenceSequenceDetector(cs.SubGaussian(sigma=3.0), arl=10_000)
>>> for n, x in enumerate(latency, start=1):
...     detector.update(x)
...     if detector.drift_detected:
...         print(f"alarm at {n}, change after {detector.change_point_}")
...         break
alarm at 560, change after 503
>>> errors = rng.random(1000) < np.repeat([0.05, 0.3], 500)
>>> CompositeEDetector(arl=10_000).detect(errors).alarm
True
"""

from cameraready.change_detection import cs
from cameraready.change_detection.base import Detection, DetectionResult
from cameraready.change_detection.change_set import confidence_set
from cameraready.change_detection.confidence_sequence import RangeError
from cameraready.change_detection.detector import ConfidenceSequenceDetector
from cameraready.change_detection.e_detectors import (
    BettingIncrement,
    CompositeEDetector,
    EDetector,
    GaussianIncrement,
)
from cameraready.change_detection.localisation import change_point
from cameraready.change_detection.lorden import (
    LordenDetector,
    NormalMixtureTest,
    SequentialTest,
)
from cameraready.change_detection.monitor import ClassifierMonitor
from cameraready.change_detection.multistream import MultiStream
from cameraready.change_detection.planning import Plan, detectable_shift, plan
from cameraready.change_detection.simulation import (
    DelayEstimate,
    RunLengths,
    simulate_arl,
    simulate_delay,
)

__all__ = [
    "BettingIncrement",
    "ClassifierMonitor",
    "CompositeEDetector",
    "ConfidenceSequenceDetector",
    "DelayEstimate",
    "Detection",
    "DetectionResult",
    "EDetector",
    "GaussianIncrement",
    "LordenDetector",
    "MultiStream",
    "NormalMixtureTest",
    "Plan",
    "RangeError",
    "RunLengths",
    "SequentialTest",
    "change_point",
    "confidence_set",
    "cs",
    "detectable_shift",
    "plan",
    "simulate_arl",
    "simulate_delay",
]
