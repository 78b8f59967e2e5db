"""Principal components of single cells, one file a day, as papers on trajectories use them."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cameraready.datasets.dataset import Dataset

__all__ = ["cite_days"]


def cite_days(
    folder: str | os.PathLike[str], components: int = 50, days: Sequence[int] = (2, 3, 4, 7)
) -> Dataset:
    """The CITE-seq time course, from the files of the LightSB papers in a folder of yours.

    Cells of the Kaggle competition "Open Problems: Multimodal Single-Cell Integration", reduced by
    principal components, one file ``full_cite_pcas_<components>_day_<day>.npy`` a day. They are a
    download and do not come with cameraready.

    Parameters
    ----------
    folder
        Where the files are.
    components
        How many principal components they hold; the papers have 50, 100 and 1000.
    days
        The days to load.

    Returns
    -------
    Dataset
        ``day_2``, ``day_3``, …, each (cells, components).

    Raises
    ------
    FileNotFoundError
        If the folder lacks one of the files.
    ValueError
        If a file does not hold a table of numbers with so many columns.
    """
    arrays = {}
    for day in days:
        file = Path(folder) / f"full_cite_pcas_{components}_day_{day}.npy"
        if not file.is_file():
            raise FileNotFoundError(
                f"{file.name} is not in {folder}; put the files of the LightSB papers there"
            )
        try:
            table = np.load(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{file.name} is not a NumPy file of numbers ({error})") from None
        if table.ndim != 2 or table.shape[1] != components or table.dtype.kind not in "fiu":
            raise ValueError(
                f"{file.name} must hold a table of numbers with {components} columns, not "
                f"{table.dtype} of shape {table.shape}"
            )
        arrays[f"day_{day}"] = table
    return Dataset(
        "CITE-seq",
        arrays,
        "Lance et al. 2022, NeurIPS 2021 and Kaggle 2022 competitions on single cells; read from "
        "local files, whose licence is the competition's",
    )
