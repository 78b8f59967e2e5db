"""Make src/cameraready/datasets/data/hsmm.npz from the unpacked Debian package it comes from.

    python -m cameraready.datasets.debian r-bioc-hsmmsinglecell
    python scripts/extract_hsmm.py <the folder that command names>

The committed file was made from version 1.18.0-1 with NumPy 2.4.6 and rdata 1.1.0; the same
versions give the same bytes.
"""

import argparse
from pathlib import Path

import numpy as np
import rdata

from cameraready.common import atomic_write

GENES = 1000
DATA = Path("usr/lib/R/site-library/HSMMSingleCell/data")
OUT = Path(__file__).parents[1] / "src/cameraready/datasets/data/hsmm.npz"


def extract(package: Path) -> dict[str, np.ndarray]:
    """The arrays of `cameraready.datasets.hsmm`, from the unpacked package.

    Parameters
    ----------
    package
        The folder into which the .deb was unpacked.
    """

    def table(name: str):
        return rdata.read_rda(package / DATA / f"{name}.rda")[name]

    matrix, cells = table("HSMM_expr_matrix"), table("HSMM_sample_sheet")
    if list(matrix.coords["dim_1"].values) != list(cells.index):
        raise ValueError("the expression matrix and the sample sheet do not list the same cells")
    expression = np.log1p(matrix.values.T)
    most_variable = np.argsort(-expression.var(axis=0), kind="stable")[:GENES]
    genes = matrix.coords["dim_0"].values[most_variable]
    symbols = table("HSMM_gene_annotation")["gene_short_name"].loc[genes]
    return {
        "expression": expression[:, most_variable].astype(np.float32),
        "hours": cells["Hours"].to_numpy().astype(np.int64),
        "cells": cells.index.to_numpy().astype(np.str_),
        "genes": genes.astype(np.str_),
        "symbols": symbols.to_numpy().astype(np.str_),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Extract the HSMM time course.")
    parser.add_argument("package", type=Path, help="the folder with the unpacked .deb")
    parser.add_argument("--out", type=Path, default=OUT, help="the file to write")
    arguments = parser.parse_args()
    with atomic_write(arguments.out, "wb") as file:
        np.savez_compressed(file, **extract(arguments.package))
    print(arguments.out)
