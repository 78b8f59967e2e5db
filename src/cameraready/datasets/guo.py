"""Single cells of mouse embryos, from the 2-cell to the 64-cell stage."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cameraready.common.cache import cache_folder
from cameraready.datasets.dataset import Dataset

__all__ = ["guo_embryo"]

_FILE = "guo_norm.rda"
# Where the file lies below the folder itself, R's library, and an unpacked Debian package.
_PLACES = ("", "destiny/data", "usr/lib/R/site-library/destiny/data")
_R_LIBRARY = Path("/usr/lib/R/site-library")


def guo_embryo(path: str | os.PathLike[str] | None = None) -> Dataset:
    """Expression of 48 genes in single cells of mouse embryos, from the R package destiny.

    The package is under the GPL-3, so the data do not come with cameraready: they are read from
    where the package lies. ``python -m cameraready.datasets.debian r-bioc-destiny`` puts it into
    the cache folder where Debian's or Ubuntu's apt is there.

    Parameters
    ----------
    path
        The file ``guo_norm.rda`` or a folder that holds it (R's library, or a package unpacked).
        When it is not given, the cache folder and R's own library are looked through.

    Returns
    -------
    Dataset
        ``cycles``, (428, 48), cycles of PCR until a gene is detected, less those of the
        housekeeping genes Actb and Gapdh: the fewer, the more it is expressed; ``stage``, (428,),
        how many cells the embryo has, 2 to 64; ``cells``, (428,), stage, embryo and cell as the
        package spells them; ``genes``, (48,).

    Raises
    ------
    FileNotFoundError
        If the file is in none of these places.
    ImportError
        If rdata, which reads R's files, is not installed.
    """
    expression_set = _read(_find(path))
    expression = expression_set.assayData["exprs"]
    cells = expression_set.phenoData.data
    arrays = {
        "cycles": np.array(expression.values.T, dtype=float),
        "stage": np.array(cells["num_cells"], dtype=np.int64),
        "cells": np.array(cells["Cell"], dtype=np.str_),
        "genes": np.array(expression.coords["dim_0"].values, dtype=np.str_),
    }
    return Dataset(
        "Guo embryo",
        arrays,
        "Guo et al., Developmental Cell 2010, through the Bioconductor package destiny; GPL-3",
    )


def _find(path: str | os.PathLike[str] | None) -> Path:
    roots = [cache_folder("debian", "r-bioc-destiny"), _R_LIBRARY] if path is None else [Path(path)]
    if path is not None and roots[0].is_file():
        return roots[0]
    for root in roots:
        for place in _PLACES:
            if (root / place / _FILE).is_file():
                return root / place / _FILE
    looked = " or ".join(str(root) for root in roots)
    raise FileNotFoundError(
        f"{_FILE} of the R package destiny is not in {looked}; fetch it with "
        "'python -m cameraready.datasets.debian r-bioc-destiny', or give the path to it"
    )


def _read(file: Path) -> Any:
    try:
        import rdata
    except ImportError:
        raise ImportError("guo_embryo reads R's format with rdata: pip install rdata") from None

    def as_attributes(obj: Any, attributes: Mapping[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(**attributes)

    # Classes of Bioconductor's Biobase, which rdata does not know.
    classes = ("Versions", "AnnotatedDataFrame", "MIAME", "ExpressionSet")
    constructors = {
        **rdata.conversion.DEFAULT_CLASS_MAP,
        **dict.fromkeys(classes, as_attributes),
    }
    return rdata.read_rda(file, constructor_dict=constructors)["guo_norm"]
