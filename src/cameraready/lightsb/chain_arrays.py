"""A fitted chain as arrays, numbers and text, as an .h5ad file can hold them."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from cameraready.lightsb.chain import ChainedLightSB
from cameraready.lightsb.persistence import read_model, write_model

__all__ = ["chain_arrays", "chain_from_arrays"]

# The points at which bridges start are cells, which the file holds anyway.
_SOURCE = ("source", "source_weights")


def chain_arrays(chain: ChainedLightSB) -> dict[str, Any]:
    """What the files of a saved chain hold, less the points at which its bridges start.

    Parameters
    ----------
    chain : ChainedLightSB
        Fitted.

    Returns
    -------
    dict
        ``times``, ``sigma2``, ``scale`` and ``mass_ratios`` for the reader; ``settings``, JSON,
        and ``bridges``, a dict of the intervals with the ``settings``, JSON, and ``parameters``,
        arrays, of each.
    """
    bridges = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        chain.save(folder)
        settings, _ = read_model(folder, "ChainedLightSB")
        for i in range(len(chain.bridges_)):
            one, tensors = read_model(folder / f"interval-{i}", "LightSB")
            arrays = {key: x.numpy() for key, x in tensors.items() if key not in _SOURCE}
            bridges[str(i)] = {"settings": json.dumps(one), "parameters": arrays}
    return {
        "times": np.array(chain.times),
        "sigma2": chain.sigma2,
        "scale": chain.scale_,
        "mass_ratios": np.array(chain.mass_ratios_),
        "settings": json.dumps(settings),
        "bridges": bridges,
    }


def chain_from_arrays(kept: Mapping[str, Any], device: str = "auto") -> ChainedLightSB:
    """The chain of which `chain_arrays` was taken, without the points at which bridges start.

    Parameters
    ----------
    kept : mapping
        From `chain_arrays`, also when it has been through a file.
    device : str
        Where to put the bridges.

    Raises
    ------
    ValueError
        If something is missing or damaged.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            write_model(folder, "ChainedLightSB", json.loads(kept["settings"]), {})
            for i, one in kept["bridges"].items():
                tensors = {
                    key: torch.from_numpy(np.array(x)) for key, x in one["parameters"].items()
                }
                write_model(
                    folder / f"interval-{i}", "LightSB", json.loads(one["settings"]), tensors
                )
            return ChainedLightSB.load(folder, device)
        except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"the kept chain cannot be read ({error}): fit it again") from error
