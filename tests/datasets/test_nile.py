import numpy as np
import pytest

from cameraready.datasets import nile


def test_shapes_and_known_values():
    data = nile()
    assert data["year"].tolist() == list(range(1871, 1971))
    volume = data["volume"]
    assert volume.dtype == np.float64
    assert volume[:5].tolist() == [1120, 1160, 963, 1210, 1160]
    assert volume[-1] == 740
    # Cobb (1978): the mean falls from about 1100 to about 850 after 1898.
    assert volume[:28].mean() == pytest.approx(1097.75)
    assert volume[28:].mean() == pytest.approx(849.97, abs=0.01)
