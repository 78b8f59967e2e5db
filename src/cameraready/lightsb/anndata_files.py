"""AnnData in .h5ad files: named errors when reading, whole or nothing when writing."""

from pathlib import Path

import anndata
import pandas as pd
from anndata import AnnData

from cameraready.lightsb.point_files import readable, write_atomically

__all__ = ["plain_text", "read_anndata", "write_anndata"]


def read_anndata(path: Path) -> AnnData:
    """Read a whole .h5ad.

    Raises
    ------
    OSError
        If the file is not there or may not be read.
    ValueError
        If it is no .h5ad.
    """
    if path.suffix.lower() != ".h5ad":
        raise ValueError(f"{path} must be an .h5ad file")
    with readable(path):
        return anndata.read_h5ad(path)


def write_anndata(path: Path, adata: AnnData) -> None:
    """Write an .h5ad, whole or not at all; text in obs and var becomes plain objects."""
    adata.obs, adata.var = plain_text(adata.obs), plain_text(adata.var)
    with write_atomically(path) as temporary:
        adata.write_h5ad(temporary)


def plain_text(table: object) -> pd.DataFrame:
    """A copy of obs or var that anndata 0.12 can write: text, pandas 3's type, as objects."""
    made = pd.DataFrame(table).copy()
    for name, column in made.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            made[name] = column.cat.rename_categories(_plain_index(column.cat.categories))
        elif isinstance(column.dtype, pd.StringDtype):
            made[name] = column.astype(object)
    return made.set_axis(_plain_index(made.index), axis=0)


def _plain_index(index: pd.Index) -> pd.Index:
    return index.astype(object) if isinstance(index.dtype, pd.StringDtype) else index
