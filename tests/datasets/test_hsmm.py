import numpy as np
import pytest

from cameraready.datasets import hsmm


def test_shapes_and_known_values():
    data = hsmm()
    assert data["expression"].shape == (271, 1000)
    assert data["expression"].dtype == np.float32
    hours, counts = np.unique(data["hours"], return_counts=True)
    assert hours.tolist() == [0, 24, 48, 72]
    assert counts.tolist() == [69, 74, 79, 49]  # as in the package's description
    cells = zip(data["cells"], data["hours"], strict=True)
    assert all(cell.startswith(f"T{hour}_CT_") for cell, hour in cells)
    assert len(set(data["genes"])) == 1000
    assert all(gene.startswith("ENSG") for gene in data["genes"])


def test_genes_are_ordered_by_their_variance():
    expression = hsmm()["expression"].astype(float)
    assert (expression >= 0).all()
    variance = expression.var(axis=0)
    np.testing.assert_array_less(variance[1:], variance[:-1] * (1 + 1e-6))


@pytest.mark.parametrize("symbol", ["MYOG", "MYH3"])
def test_muscle_genes_rise_with_differentiation(symbol):
    data = hsmm()
    levels = data["expression"][:, data["symbols"].tolist().index(symbol)]
    assert levels[data["hours"] == 72].mean() > levels[data["hours"] == 0].mean() + 1
