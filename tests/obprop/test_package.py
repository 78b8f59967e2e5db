import subprocess
import sys

import pytest

import cameraready.obprop


def test_everything_exported_is_there():
    for name in cameraready.obprop.__all__:
        assert getattr(cameraready.obprop, name).__name__ == name
    assert set(cameraready.obprop.__all__) <= set(dir(cameraready.obprop))


def test_what_is_not_exported_is_told():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cameraready.obprop.nothing


@pytest.mark.parametrize("module", ["cameraready.obprop", "cameraready.obprop.commands"])
def test_help_does_not_wait_for_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
