"""Means of vectors."""

import change_references as ref
import numpy as np
import pytest

from cameraready.change_detection import ConfidenceSequenceDetector, RangeError, cs


@pytest.mark.parametrize("nested", [True, False])
def test_every_coordinate_has_its_share_of_alpha(nested):
    x = np.random.default_rng(0).random((200, 3))
    keep = ref.nested if nested else lambda ends: ends
    got = cs.VectorMean(cs.EmpiricalBernstein(), 3, alpha=0.06).run(x, nested=nested)
    for j in range(3):
        expected = keep(ref.empirical_bernstein(x[:, j], 0.02, (0.0, 1.0)))
        assert np.allclose([end[:, j] for end in got], expected, atol=1e-9, rtol=0)
    got = cs.VectorMean(cs.Gaussian(2.0, 7.0), 3, alpha=0.06).run(x, nested=nested)
    expected = [keep(ref.gaussian(x[:, j], 0.02, 2.0, 7.0)) for j in range(3)]
    assert np.allclose(got, np.stack(expected, axis=-1), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    "coordinate",
    [
        cs.Bernoulli(),
        cs.Poisson(),
        cs.Hoeffding(lam=[0.5, 1.0]),
        cs.Hoeffding(),
        cs.Catoni(1.0, window=30),
    ],
)
def test_it_equals_separate_sequences_of_any_kind(coordinate):
    x = (np.random.default_rng(1).random((60, 2)) < 0.4) * 1.0
    lower, upper = cs.VectorMean(coordinate, 2, alpha=0.1).run(x)
    for j in range(2):
        expected = coordinate.with_alpha(0.05).run(x[:, j])
        assert np.array_equal((lower[:, j], upper[:, j]), expected)


def test_coverage():
    streams = np.random.default_rng(2).normal([1.0, -2.0, 0.0], 1.0, (2000, 100, 3))
    sequence = cs.VectorMean(cs.Gaussian(1.0, 10.0), 3, alpha=0.2)
    assert ref.misses(sequence, streams, np.array([1.0, -2.0, 0.0])) <= ref.most_misses(2000, 0.2)


def test_coverage_of_dependent_streams():
    rng = np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0], (2000, 100, 2))
    spread = np.where(np.roll(signs, 1, axis=1)[..., ::-1] > 0, 0.5, 0.05)
    sequence = cs.VectorMean(cs.EmpiricalBernstein(), 2, alpha=0.2)
    streams = 0.5 + signs * spread
    assert ref.misses(sequence, streams, np.array([0.5, 0.5])) <= ref.most_misses(2000, 0.2)


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_a_change_of_one_coordinate_is_seen(changed):
    x = np.random.default_rng(changed).normal(0, 1, (600, 3))
    x[300:, changed] += 1.5
    detector = ConfidenceSequenceDetector(cs.VectorMean(cs.Gaussian(1.0), 3), arl=1000)
    result = detector.detect(x)
    assert result.alarm
    assert 300 < result.index < 350
    assert abs(result.change_point - 300) <= 5
    gaps = detector.lower_ - detector.upper_
    assert gaps.argmax() == changed
    assert (gaps > 0).sum() == 1
    after = result.detection.after
    assert after[changed] == pytest.approx(1.5, abs=0.8)


def test_it_alarms_when_a_separate_detector_would():
    rng = np.random.default_rng(4)
    for seed in range(5):
        x = np.random.default_rng(seed).normal(0, 1, (300, 2))
        x[150:, seed % 2] += rng.uniform(0.5, 1.5)
        vector = ConfidenceSequenceDetector(cs.VectorMean(cs.Gaussian(1.0, 9.0), 2), arl=100)
        single = [
            ConfidenceSequenceDetector(cs.Gaussian(1.0, 9.0), arl=200).detect(x[:, j]).index
            for j in range(2)
        ]
        times = [index for index in single if index is not None]
        assert vector.detect(x).index == min(times, default=None)


def test_wrong_lengths_are_refused_with_the_shape_that_is_expected():
    detector = ConfidenceSequenceDetector(cs.VectorMean(cs.Gaussian(), 3))
    for wrong in (1.0, [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]):
        with pytest.raises(ValueError, match=r"\(observations, 3\)"):
            detector.update(wrong)
    assert detector.n_ == 0


def test_values_no_coordinate_allows_are_refused():
    detector = ConfidenceSequenceDetector(cs.VectorMean(cs.Bernoulli(), 2))
    with pytest.raises(RangeError, match="expects 0/1"):
        detector.update([1.0, 0.3])
    with pytest.raises(RangeError):
        detector.update([2.0, 0.0])
    with pytest.raises(RangeError, match="finite"):
        detector.update([np.nan, 0.0])


def test_a_vector_of_one_checks_as_its_coordinate_does():
    detector = ConfidenceSequenceDetector(cs.VectorMean(cs.Bernoulli(), 1))
    with pytest.raises(RangeError):
        detector.update(0.3)


@pytest.mark.parametrize(
    "coordinate",
    [
        cs.Betting(),
        cs.TwoSampleMean(),
        cs.CDF(assume_iid=True),
        cs.CDF(assume_iid=True, grid=[0.5]),
        cs.VectorMean(cs.Gaussian(), 1),
        "bounded",
        None,
    ],
    ids=repr,
)
def test_coordinates_that_are_not_for_single_numbers_are_refused(coordinate):
    with pytest.raises(ValueError, match="coordinate"):
        cs.VectorMean(coordinate, 2)


@pytest.mark.parametrize("dimension", [0, -1, 2.0, True])
def test_the_dimension_is_a_whole_number(dimension):
    with pytest.raises(ValueError, match="dimension"):
        cs.VectorMean(cs.Gaussian(), dimension)
