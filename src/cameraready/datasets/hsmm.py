"""A time course of single cells: differentiating human skeletal muscle myoblasts."""

from importlib.resources import files

import numpy as np

from cameraready.datasets.dataset import Dataset

__all__ = ["hsmm"]


def hsmm() -> Dataset:
    """Gene expression of human skeletal muscle myoblasts, 0 to 72 hours after a change of medium.

    Cells are destroyed when they are measured: no cell is seen at two times. This is an extract,
    ln(1 + FPKM) of the 1000 genes for which it varies most over all 271 cells, by falling
    variance; the whole package has 47 192 genes. `scripts/extract_hsmm.py` makes it.

    Returns
    -------
    Dataset
        ``expression``, (271, 1000), float32, ln(1 + FPKM); ``hours``, (271,), 0, 24, 48 or 72;
        ``cells``, (271,), the cells' names; ``genes``, (1000,), Ensembl's identifiers;
        ``symbols``, (1000,), the genes' short names, which are not all different.

    Examples
    --------
    >>> data = hsmm()
    >>> data["expression"].shape
    (271, 1000)
    >>> np.unique(data["hours"], return_counts=True)[1].tolist()
    [69, 74, 79, 49]
    """
    path = files("cameraready.datasets") / "data" / "hsmm.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
        arrays = {name: kept[name] for name in kept.files}
    return Dataset(
        "HSMM",
        arrays,
        "Trapnell et al., Nature Biotechnology 2014; Bioconductor package HSMMSingleCell 1.18.0, "
        "copyright 2014-2020 Cole Trapnell, Artistic-2.0; an extract, see "
        "datasets/data/hsmm.LICENSE.txt",
    )
