"""Which device to compute on."""

from importlib.util import find_spec

__all__ = ["resolve_device"]


def resolve_device(device: str = "auto") -> str:
    """The name of the device to compute on.

    Parameters
    ----------
    device
        ``"auto"`` takes a GPU when torch is installed and sees one, otherwise the CPU. Any other
        name is handed back after a check that torch knows it; ``"cpu"`` never needs torch.

    Raises
    ------
    ValueError
        If the device is not there.

    Examples
    --------
    >>> resolve_device("cpu")
    'cpu'
    """
    if device == "cpu":
        return device
    if find_spec("torch") is None:
        if device == "auto":
            return "cpu"
        raise ValueError(f"device {device!r} needs torch, which is not installed; use 'cpu'")
    import torch

    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} is not there ({reason}); use 'auto'") from error
    return device
