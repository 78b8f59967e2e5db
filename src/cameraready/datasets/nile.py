"""Annual flow of the Nile at Aswan."""

from cameraready.datasets.dataset import Dataset

__all__ = ["nile"]


def nile() -> Dataset:
    """Annual flow of the Nile at Aswan, 1871 to 1970, from statsmodels.

    Returns
    -------
    Dataset
        ``year``, (100,), and ``volume``, (100,), in 10^8 cubic metres.

    Examples
    --------
    >>> nile()["volume"].shape
    (100,)
    """
    from statsmodels.datasets import nile as source

    table = source.load_pandas().data
    arrays = {name: table[name].to_numpy(dtype=float, copy=True) for name in ("year", "volume")}
    return Dataset("Nile", arrays, "Cobb, Biometrika 1978, through statsmodels; public domain")
