"""Real data that ships inside packages: one function a data set."""

from cameraready.datasets.cite import cite_days
from cameraready.datasets.dataset import Dataset
from cameraready.datasets.digits import digits
from cameraready.datasets.guo import guo_embryo
from cameraready.datasets.hsmm import hsmm
from cameraready.datasets.nile import nile

__all__ = ["Dataset", "cite_days", "digits", "guo_embryo", "hsmm", "nile"]
