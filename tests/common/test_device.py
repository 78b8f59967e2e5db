import importlib.util

import pytest

from cameraready.common import device, resolve_device


def test_without_torch_the_device_is_the_cpu(monkeypatch):
    monkeypatch.setattr(device, "find_spec", lambda name: None)
    assert resolve_device("auto") == resolve_device("cpu") == "cpu"
    with pytest.raises(ValueError, match="'cuda' needs torch"):
        resolve_device("cuda")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_with_torch_an_unknown_device_is_named():
    assert resolve_device("auto") in {"cpu", "cuda", "mps"}
    with pytest.raises(ValueError, match="'nonsense'"):
        resolve_device("nonsense")
