"""Handwritten digits of 8 by 8 pixels."""

import numpy as np

from cameraready.datasets.dataset import Dataset

__all__ = ["digits"]


def digits() -> Dataset:
    """The optical recognition of handwritten digits data, from scikit-learn.

    Returns
    -------
    Dataset
        ``images``, (1797, 8, 8), grey values 0 to 16, and ``labels``, (1797,), 0 to 9.

    Examples
    --------
    >>> digits()["images"].shape
    (1797, 8, 8)
    """
    from sklearn.datasets import load_digits

    loaded = load_digits()
    arrays = {"images": np.asarray(loaded.images), "labels": np.asarray(loaded.target)}
    return Dataset("digits", arrays, "Alpaydin, Kaynak, UCI 1998, through scikit-learn; CC BY 4.0")
