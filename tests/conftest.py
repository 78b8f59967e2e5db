"""What all tests share."""

import os
from pathlib import Path

import pytest

# Set before any worker or tool starts: tests keep their caches apart from the user's.
os.environ["MPLBACKEND"] = "agg"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAMERAREADY_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let worker processes import the toy experiments, and give these a folder."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "claims"))
    folder = tmp_path / "toys"
    folder.mkdir()
    monkeypatch.setenv("TOY_FOLDER", str(folder))
    return folder
