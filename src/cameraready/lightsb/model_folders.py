"""Folders of bridges as the command line keeps them: the bridge, and the names of its columns."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from cameraready.lightsb.bridge import LightSB

__all__ = ["CHECKPOINT", "check_model_folder", "read_bridge", "write_bridge"]

CHECKPOINT = "checkpoint.safetensors"
_NAMES = "columns.json"
# All that such a folder may hold.
_FILES = {CHECKPOINT, _NAMES, "model.json", "potential.safetensors"}


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that has no parent, or other things in it than a bridge.

    Raises
    ------
    ValueError
        If it is such a folder.
    """
    if not folder.absolute().parent.is_dir():
        raise ValueError(f"--out: there is no folder {folder.parent}")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"--out must be a folder, but {folder} is a file")
    if any(path.name not in _FILES for path in folder.iterdir()):
        raise ValueError(f"--out: {folder} holds other files: name a new folder")


def write_bridge(folder: Path, bridge: LightSB, names: list[str] | None) -> None:
    """Save a bridge; what was there is replaced when all has been written.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    bridge : LightSB
        Fitted.
    names : list of str or None
        Names of its features.
    """
    bridge.set_params(verbose=0)
    folder.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".new-") as temporary:
        bridge.save(temporary)
        text = json.dumps({"columns": names}, ensure_ascii=False, indent=2)
        (Path(temporary) / _NAMES).write_text(text, encoding="utf-8")
        for path in sorted(Path(temporary).iterdir()):
            path.replace(folder / path.name)


def read_bridge(folder: Path, device: str) -> tuple[LightSB, list[str] | None]:
    """A bridge, and the names of its features if there are any.

    Raises
    ------
    OSError, ValueError
        If it is not there, or cannot be read.
    """
    bridge = LightSB.load(folder, device)
    path = folder / _NAMES
    if not path.exists():  # saved by LightSB.save
        return bridge, None
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["columns"]
        if names is not None and len(names) != bridge.n_features_in_:
            raise ValueError(f"{len(names)} columns for {bridge.n_features_in_} features")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); delete it") from error
    return bridge, names
