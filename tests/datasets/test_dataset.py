import contextlib

import numpy as np
import pytest

from cameraready.datasets import Dataset, digits, hsmm, nile


def test_a_dataset_gives_its_arrays_by_name():
    data = Dataset("toy", {"x": np.arange(3)}, "made here")
    assert data["x"].tolist() == [0, 1, 2]
    assert "array" not in repr(data)
    with pytest.raises(KeyError):
        data["y"]


@pytest.mark.parametrize("load", [digits, hsmm, nile])
def test_every_data_set_names_its_origin_and_licence(load):
    data = load()
    assert data.name
    assert any(word in data.source for word in ("Artistic-2.0", "CC BY", "public domain"))


@pytest.mark.parametrize("load", [digits, nile])
def test_a_row_is_the_same_example_in_every_array(load):
    assert len({len(array) for array in load().arrays.values()}) == 1


@pytest.mark.parametrize("load", [digits, hsmm, nile])
def test_a_caller_who_writes_into_the_arrays_spoils_nothing(load):
    name = next(iter(load().arrays))
    with contextlib.suppress(ValueError):  # read-only
        load()[name][:] = -1
    assert not (load()[name] == -1).any()
