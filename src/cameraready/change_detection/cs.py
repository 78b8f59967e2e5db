"""The confidence sequences under one short name."""

from cameraready.change_detection.bounded import Betting, EmpiricalBernstein, Hoeffding
from cameraready.change_detection.confidence_sequence import (
    ConfidenceSequence,
    CustomConfidenceSequence,
)
from cameraready.change_detection.counts import Bernoulli, Poisson
from cameraready.change_detection.distribution import CDF, Quantile
from cameraready.change_detection.gaussian import Gaussian, SubGaussian
from cameraready.change_detection.heavy_tails import Catoni
from cameraready.change_detection.regression import LinearRegression
from cameraready.change_detection.two_sample import TwoSampleKS, TwoSampleMean
from cameraready.change_detection.vector import VectorMean

__all__ = [
    "CDF",
    "Bernoulli",
    "Betting",
    "Catoni",
    "ConfidenceSequence",
    "CustomConfidenceSequence",
    "EmpiricalBernstein",
    "Gaussian",
    "Hoeffding",
    "LinearRegression",
    "Poisson",
    "Quantile",
    "SubGaussian",
    "TwoSampleKS",
    "TwoSampleMean",
    "VectorMean",
]
