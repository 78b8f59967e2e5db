"""Fitted bridges in folders: safetensors for numbers, JSON for settings."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cameraready.common import atomic_write
from cameraready.lightsb.potential import LightSBModule

__all__ = ["module_from", "module_tensors", "read_model", "write_model"]

FORMAT = "cameraready.lightsb/1"
_TENSORS, _SETTINGS = "potential.safetensors", "model.json"


def module_tensors(module: LightSBModule) -> dict[str, Tensor]:
    """The arguments of a module that are tensors, by name."""
    tensors = {
        "log_alpha": module.log_alpha,
        "means": module.means,
        "log_scales": module.log_scales,
    }
    if module.rotations is not None:
        tensors["rotations"] = module.rotations
        # What the orthogonal parameterisation is made of gives back the same bits; the product
        # does only up to rounding.
        for name, value in module.state_dict().items():
            if name.startswith("parametrizations."):
                tensors[name] = value
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def module_from(tensors: dict[str, Tensor], eps: float) -> LightSBModule:
    """The module that `module_tensors` was taken from."""
    module = LightSBModule(
        tensors["log_alpha"],
        tensors["means"],
        tensors["log_scales"],
        eps,
        tensors.get("rotations"),
    )
    state = {name: value for name, value in tensors.items() if name.startswith("parametrizations.")}
    module.load_state_dict({**module.state_dict(), **state})
    return module


def write_model(
    path: str | PathLike[str], kind: str, settings: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Write a model's folder.

    Raises
    ------
    TypeError
        If a setting cannot be held by JSON.
    """
    from safetensors.torch import save

    folder = Path(path)
    text = json.dumps({"format": FORMAT, "kind": kind, **settings}, indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / _TENSORS, "wb") as file:
        file.write(save({name: value.cpu().contiguous() for name, value in tensors.items()}))
    with atomic_write(folder / _SETTINGS) as file:
        file.write(text)


def read_model(path: str | PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model's folder: its settings and its tensors.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    ValueError
        If it is damaged, or holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    folder = Path(path)
    try:
        settings = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
        if settings.pop("format") != FORMAT or settings.pop("kind") != kind:
            raise ValueError(f"it is not a {kind}")
        tensors = load((folder / _TENSORS).read_bytes())
    except (SafetensorError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"{folder} holds no {kind} that can be read ({error})") from error
    return settings, {name: torch.as_tensor(value) for name, value in tensors.items()}
