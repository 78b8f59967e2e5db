"""The few operations that numpy and torch spell differently, chosen by the type of the array.

torch accepts numpy's names ``axis`` and ``keepdims``, so most of a formula is written once, with
`namespace` for the module. torch is never imported here: who hands in a tensor has imported it.
"""

import sys
from typing import Any

import numpy as np

__all__ = ["clip", "is_tensor", "like", "namespace", "positive_part", "sort_descending", "to_numpy"]


def is_tensor(z: Any) -> bool:
    """Whether ``z`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(z, torch.Tensor)


def namespace(z: Any) -> Any:
    """The module ``z`` belongs to: torch for a tensor, numpy for anything else."""
    return sys.modules["torch"] if is_tensor(z) else np


def like(values: Any, reference: Any) -> Any:
    """``values`` as an array or tensor, in the type and on the device of ``reference``."""
    if is_tensor(reference):
        return sys.modules["torch"].as_tensor(
            values, dtype=reference.dtype, device=reference.device
        )
    return np.asarray(values, dtype=reference.dtype)


def to_numpy(z: Any) -> np.ndarray:
    """``z`` as a numpy array, wherever it is."""
    return z.detach().cpu().numpy() if is_tensor(z) else np.asarray(z)


def clip(z: Any, low: Any, high: Any) -> Any:
    """``z`` between ``low`` and ``high``, entry by entry; both numbers or both arrays."""
    if is_tensor(z):
        return z.clamp(low, high)
    return np.minimum(np.maximum(z, low), high)


def positive_part(z: Any) -> Any:
    """max(z, 0), entry by entry."""
    return z.relu() if is_tensor(z) else np.maximum(z, 0.0)


def sort_descending(z: Any) -> Any:
    """``z`` sorted along its last axis, the greatest first; a tensor must need no gradient."""
    if not is_tensor(z):
        return np.sort(z, axis=-1)[..., ::-1]
    if z.device.type == "cpu":
        import torch

        try:
            rows = z.numpy()
        except RuntimeError:  # inside torch.func's transforms a tensor has no numbers of its own
            pass
        else:  # numpy sorts with vector instructions, ten times as fast
            return torch.from_numpy(np.sort(rows, axis=-1)).flip(-1)
    return z.sort(dim=-1, descending=True).values
