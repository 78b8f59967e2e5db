"""Real data that ships inside packages: one function a data set."""

from cameraready.datasets.dataset import Dataset
from cameraready.datasets.digits import digits
from cameraready.datasets.nile import nile

__all__ = ["Dataset", "digits", "nile"]
