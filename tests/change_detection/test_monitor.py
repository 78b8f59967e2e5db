"""Detectors on the errors of a model."""

import numpy as np
import pytest

from cameraready.change_detection import (
    ClassifierMonitor,
    CompositeEDetector,
    ConfidenceSequenceDetector,
    RangeError,
)
from cameraready.datasets import digits


def losses_seen(monitor, pairs):
    for pair in pairs:
        monitor.update(*pair)
    return list(monitor.detector._past)


@pytest.mark.parametrize(
    ("metric", "pairs", "losses"),
    [
        ("error", [(1, 1), ("a", "b"), ("a", "a"), (True, False)], [0, 1, 0, 1]),
        ("error", [(np.int64(3), 3), (np.str_("a"), "a"), (3, np.float64(4))], [0, 0, 1]),
        ("absolute_error", [(1.0, 0.25), (0, 1), ("0.5", 0.25)], [0.75, 1, 0.25]),
        ("squared_error", [(1.0, 0.5), (0, -1)], [0.25, 1]),
        (lambda y, p: 0.5 * (y != p), [(1, 2), (1, 1)], [0.5, 0]),
    ],
)
def test_the_detector_is_given_the_loss(metric, pairs, losses):
    monitor = ClassifierMonitor(CompositeEDetector(arl=1000), metric)
    assert losses_seen(monitor, pairs) == losses


def test_it_alarms_where_the_detector_does():
    rng = np.random.default_rng(0)
    wrong = rng.random(500) < np.repeat([0.05, 0.5], 250)
    detector = CompositeEDetector(arl=500)
    monitor = ClassifierMonitor(detector.clone())
    expected = detector.update_many(wrong)
    alarms = []
    for n, bad in enumerate(wrong, start=1):
        monitor.update("cat", "dog" if bad else "cat")
        if monitor.drift_detected:
            alarms.append(n)
    assert alarms == expected
    assert expected
    assert monitor.detector.alarms_ == expected


def test_a_regression_model_is_watched_in_its_own_range():
    detector = ConfidenceSequenceDetector("bounded", arl=100, range=(0.0, 10.0))
    monitor = ClassifierMonitor(detector, "absolute_error")
    for n in range(1, 400):
        monitor.update(5.0, 5.5 if n <= 200 else 12.0)
        if monitor.drift_detected:
            break
    assert n > 200
    assert detector.change_point_ == 200


def test_a_loss_out_of_range_is_refused_and_nothing_changes():
    monitor = ClassifierMonitor(CompositeEDetector(), "squared_error")
    monitor.update(1.0, 0.5)
    with pytest.raises(RangeError, match="outside the declared range"):
        monitor.update(3.0, 0.0)
    assert monitor.detector.n_ == 1


def test_what_is_not_a_detector_or_a_metric():
    with pytest.raises(TypeError, match="detector"):
        ClassifierMonitor("sr")
    with pytest.raises(ValueError, match="metric must be one of 'error'"):
        ClassifierMonitor(CompositeEDetector(), "accuracy")


def test_a_classifier_of_digits_whose_images_are_turned():
    data = digits()
    images, labels = data["images"].reshape(-1, 64), data["labels"]
    train, clean, turned = np.split(np.random.default_rng(0).permutation(1700), [1000, 1500])
    means = np.stack([images[train][labels[train] == c].mean(axis=0) for c in range(10)])

    def predict(x):
        return np.argmin(((x[:, None] - means) ** 2).sum(axis=2), axis=1)

    upside = images[turned].reshape(-1, 8, 8)[:, ::-1].reshape(-1, 64)
    predictions = np.concatenate([predict(images[clean]), predict(upside)])
    monitor = ClassifierMonitor(CompositeEDetector(arl=1000))
    for y, p in zip(labels[np.concatenate([clean, turned])], predictions, strict=True):
        monitor.update(y, p)
        if monitor.drift_detected:
            break
    assert 500 < monitor.detector.n_ < 530
    assert abs(monitor.detector.change_point_ - 500) <= 10
