import numpy as np

from cameraready.datasets import digits


def test_shapes_and_known_values():
    data = digits()
    assert data["images"].shape == (1797, 8, 8)
    assert data["labels"].shape == (1797,)
    assert data["images"].min() == 0
    assert data["images"].max() == 16
    assert data["labels"][:10].tolist() == list(range(10))
    # The counts that UCI's description gives for its test part.
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(data["labels"]).tolist() == counts
    assert data["images"][0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
