import subprocess
import sys

import pytest

import cameraready.minmax


def test_everything_exported_is_there():
    for name in cameraready.minmax.__all__:
        assert getattr(cameraready.minmax, name) is not None
    assert set(cameraready.minmax.__all__) <= set(dir(cameraready.minmax))
    from cameraready.minmax.batched import solve_batched
    from cameraready.minmax.optimizers import FEG

    assert cameraready.minmax.FEG is FEG
    assert cameraready.minmax.solve_batched is solve_batched


def test_what_is_not_exported_is_told():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cameraready.minmax.nothing


def test_users_of_numpy_do_not_wait_for_torch():
    code = "import sys, cameraready.minmax; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
