"""Points in files: arrays, tables and AnnData, with the place of whatever is wrong in them."""

import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Float

from cameraready.common.files import atomic_write

__all__ = [
    "FORMATS",
    "PointFile",
    "check_output",
    "read_points",
    "readable",
    "write_atomically",
    "write_paths",
    "write_samples",
]

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".h5ad")
_WITH_PARTS = (".npz", ".h5ad")
_LISTED = 12  # names in a message
_LONGEST = 40  # characters of a cell in a message


@dataclass(frozen=True)
class PointFile:
    """Points that were read, and what their columns are called.

    Attributes
    ----------
    file : str
        The file as it was named.
    names : list of str or None
        Names of the columns, which arrays do not have.
    points : array of shape (n, D)
    weights : array of shape (n,) or None
        The column of weights, if one was asked for.
    rows : list of str or None
        Names of the cells of an .h5ad.
    basis : str or None
        The key of obsm that was read from an .h5ad.
    """

    file: str
    names: list[str] | None
    points: Float[np.ndarray, "n features"]
    weights: Float[np.ndarray, " n"] | None = None
    rows: list[str] | None = None
    basis: str | None = None

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns; x0, x1, … where they have none."""
        if self.names is not None:
            return self.names
        return [f"x{i}" for i in range(self.points.shape[1])]


def read_points(
    file: str, columns: Sequence[str] | None = None, weights: str | None = None
) -> PointFile:
    """Read points from a file, one a row.

    Parameters
    ----------
    file : str
        .npy, .npz, .csv (with a header), .parquet or .h5ad. FILE:NAME is an array of an .npz; of
        an .h5ad, X or a key of obsm, without it X.
    columns : sequence of str, optional
        Which columns to take, in this order; all by default. Arrays have no names, and are taken
        as they are.
    weights : str, optional
        Column with the weights of the rows (of obs in an .h5ad), which is no feature.

    Raises
    ------
    OSError
        If the file is not there or may not be read.
    ValueError, TypeError
        If its content is not what it should be; the message names the file and the column.
    """
    path, part = _parts(file)
    kind = path.suffix.lower()
    if kind in (".npy", ".npz"):
        if weights is not None:
            raise ValueError(f"{file} has no column {weights!r}: arrays have no named columns")
        with readable(path):
            array = _load_array(path, part)
        return PointFile(file, None, _numbers(file, array, None))
    if kind == ".h5ad":
        return _from_anndata(file, path, part or "X", columns, weights)
    with readable(path):
        table = _load_csv(path) if kind == ".csv" else _load_parquet(path)
    weight = None
    if weights is not None:
        _check_names(file, list(table.columns), [weights])
        weight = _column(file, weights, table[weights])
        table = table.drop(columns=weights)
    wanted = list(table.columns) if columns is None else list(columns)
    _check_names(file, list(table.columns), wanted)
    if not wanted:
        raise ValueError(f"{file} has no columns of points")
    if not len(table):
        raise ValueError(f"{file} has a header, but no rows")
    points = np.column_stack([_column(file, name, table[name]) for name in wanted])
    return PointFile(file, wanted, points, weight)


def check_output(
    path: Path | None, option: str, kinds: Sequence[str], *read: str | Path | None
) -> None:
    """Refuse, before any work, to write what cannot be written or over what is read.

    Parameters
    ----------
    path : Path or None
        The file to write.
    option : str
        What it is called on the command line.
    kinds : sequence of str
        Extensions that it may have.
    *read
        Files that are read.

    Raises
    ------
    ValueError
        If the extension is another, the folder is not there, or the file is one that is read.
    """
    if path is None:
        return
    if path.suffix.lower() not in kinds:
        *most, last = kinds
        ends = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{option} must end in {ends}, not {path.name!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: there is no folder {path.parent}")
    for other in read:
        if other is not None and path.absolute() == _parts(str(other))[0].absolute():
            raise ValueError(f"{option} would overwrite {other}: name another file")


def write_samples(
    path: Path, source: PointFile, samples: Float[np.ndarray, "n n_samples features"]
) -> None:
    """Write samples that were drawn for each row of a file, in the format of the extension.

    Tables have the columns row (of the input, from 0), sample, and the features; an .h5ad has the
    first two in obs, with the name of the input's cell, and the features in X, or in obsm too if
    they are a basis; an .npz has the arrays row, sample, X and features; an .npy is the array
    itself, (n, D) with one sample each.

    Parameters
    ----------
    path : Path
        The file to write, whole or not at all.
    source : PointFile
        Whose names the columns get.
    samples : array of shape (n, n_samples, D)

    Raises
    ------
    ValueError
        If a feature has the name of another column.
    """
    n, repeats, dim = samples.shape
    points = samples.reshape(n * repeats, dim)
    names = source.feature_names
    leading = {"row": np.repeat(np.arange(n), repeats), "sample": np.tile(np.arange(repeats), n)}
    kind = path.suffix.lower()
    if kind == ".npy":
        _write_array(path, samples[:, 0] if repeats == 1 else samples)
    elif kind == ".npz":
        _write_arrays(path, {**leading, "X": points, "features": np.array(names, dtype=str)})
    elif kind == ".h5ad":
        _write_anndata(path, source, leading, points)
    else:
        _write_table(path, leading, names, points)


def write_paths(
    path: Path,
    source: PointFile,
    times: Float[np.ndarray, " times"],
    paths: Float[np.ndarray, "n times features"],
) -> None:
    """Write a path for each row of a file, in the format of the extension.

    Tables have the columns row (of the input, from 0), time, and the features; an .npz has the
    arrays times, paths and features; an .npy is the array of the paths.

    Parameters
    ----------
    path : Path
        The file to write, whole or not at all.
    source : PointFile
        Whose names the columns get.
    times : array of shape (T,)
    paths : array of shape (n, T, D)

    Raises
    ------
    ValueError
        If a feature has the name of another column.
    """
    n, count, dim = paths.shape
    names = source.feature_names
    kind = path.suffix.lower()
    if kind == ".npy":
        _write_array(path, paths)
    elif kind == ".npz":
        _write_arrays(
            path, {"times": times, "paths": paths, "features": np.array(names, dtype=str)}
        )
    else:
        leading = {"row": np.repeat(np.arange(n), count), "time": np.tile(times, n)}
        _write_table(path, leading, names, paths.reshape(n * count, dim))


@contextmanager
def write_atomically(path: Path) -> Generator[Path]:
    """A name to write to, for what writes no open file; it takes the place of ``path`` at the end.

    Parameters
    ----------
    path : Path
        The file that is meant.
    """
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


@contextmanager
def readable(path: Path) -> Generator[None]:
    """Say which file it is that cannot be read.

    Parameters
    ----------
    path : Path
        The file that the block reads.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If the block does not understand it.
    """
    with path.open("rb"):
        pass  # says best what is wrong with a file that cannot be opened
    try:
        yield
    except _Wrong as error:
        raise ValueError(str(error)) from None
    except (ValueError, OSError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} cannot be read as {path.suffix.lower()} ({reason})") from error


def _write_array(path: Path, array: np.ndarray) -> None:
    with atomic_write(path, "wb") as file:
        np.save(file, array, allow_pickle=False)


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    with atomic_write(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _write_table(
    path: Path, leading: dict[str, np.ndarray], names: list[str], points: np.ndarray
) -> None:
    import pandas as pd

    for name in leading:
        if name in names:
            raise ValueError(
                f"{path} would have two columns {name!r}: rename the feature of that name"
            )
    table = pd.DataFrame(leading | dict(zip(names, points.T, strict=True)))
    if path.suffix.lower() == ".csv":
        with atomic_write(path) as file:
            table.to_csv(file, index=False, lineterminator="\n")
    else:
        with atomic_write(path, "wb") as file:
            table.to_parquet(file, index=False)


def _write_anndata(
    path: Path, source: PointFile, leading: dict[str, np.ndarray], points: np.ndarray
) -> None:
    import pandas as pd
    from anndata import AnnData

    from cameraready.lightsb.anndata_files import write_anndata

    obs = pd.DataFrame(leading, index=[str(i) for i in range(len(points))])
    if source.rows is not None:
        obs["source_cell"] = np.array(source.rows, dtype=object)[leading["row"]]
    made = AnnData(points, obs=obs, var=pd.DataFrame(index=source.feature_names))
    if source.basis is not None:
        made.obsm[source.basis] = points
    write_anndata(path, made)


def _parts(file: str) -> tuple[Path, str | None]:
    """The path, and the name behind its colon if there is one."""
    path, colon, part = file.rpartition(":")
    if colon and Path(path).suffix.lower() in _WITH_PARTS:
        return Path(path), part
    whole = Path(file)
    if whole.suffix.lower() not in FORMATS:
        *most, last = FORMATS
        raise ValueError(f"{file} must end in {', '.join(most)} or {last}")
    return whole, None


class _Wrong(Exception):  # noqa: N818
    """What is wrong in a file that can be read, in a whole sentence."""


def _load_array(path: Path, part: str | None) -> np.ndarray:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        names = loaded.files
        if part is None and "X" in names:
            part = "X"
        if part is None and len(names) != 1:
            raise _Wrong(f"{path} has the arrays {_listed(names)}: name one as {path}:NAME")
        if part is not None and part not in names:
            raise _Wrong(f"{path} has no array {part!r}; it has {_listed(names)}")
        return loaded[names[0] if part is None else part]


def _load_csv(path: Path) -> Any:
    import pandas as pd

    if path.stat().st_size == 0:
        raise _Wrong(f"{path} is empty")
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False)
    names = header.iloc[0].tolist()
    if all(_is_number(name) for name in names):
        raise _Wrong(f"{path} has no header: write the names of the columns into its first row")
    _check_unique(path, names)
    return pd.read_csv(path, low_memory=False)


def _load_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        table = pq.read_table(file)
    _check_unique(path, table.column_names)
    return table.to_pandas(ignore_metadata=True)


def _from_anndata(
    file: str, path: Path, part: str, columns: Sequence[str] | None, weights: str | None
) -> PointFile:
    import anndata
    from scipy.sparse import issparse

    with readable(path):
        # A basis is read without X, which may be much larger.
        adata = anndata.read_h5ad(path, backed=None if part == "X" else "r")
        try:
            if part == "X":
                found: Any = adata.X
                names = list(adata.var_names)
            elif part in adata.obsm:
                found = adata.obsm[part]
                width = found.shape[1]
                names = list(getattr(found, "columns", [f"{part}-{i}" for i in range(width)]))
            else:
                raise _Wrong(f"{path} has no basis {part!r} in obsm; it has {list(adata.obsm)}")
        finally:
            if adata.isbacked:
                adata.file.close()
        obs, obs_names = adata.obs, list(adata.obs_names)
    if found is None:
        raise ValueError(f"{path} has no X: name a basis, as {path}:X_pca")
    if issparse(found):
        raise TypeError(
            f"{part} of {path} is a sparse matrix: reduce it first (TruncatedSVD or PCA), or name "
            f"a basis, as {path}:X_pca"
        )
    weight = None
    if weights is not None:
        _check_names(f"obs of {path}", list(obs.columns), [weights])
        weight = _column(str(path), weights, obs[weights])
    points = _numbers(file, np.asarray(found), names)
    if columns is not None:
        _check_names(file, names, columns)
        points = points[:, [names.index(name) for name in columns]]
        names = list(columns)
    return PointFile(file, names, points, weight, obs_names, None if part == "X" else part)


def _numbers(file: str, array: np.ndarray, names: list[str] | None) -> np.ndarray:
    """A matrix of finite numbers."""
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{file} must hold numbers, not {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{file} must have rows and columns of points, but its shape is {array.shape}"
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(float)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        where = column if names is None else repr(names[column])
        raise ValueError(f"{file}: row {row}, column {where} is {array[row, column]}")
    return array


def _column(file: str, name: str, column: Any) -> Float[np.ndarray, " n"]:
    """A column of finite numbers."""
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        row = int(wrong[0])
        cell = column.iloc[row]
        shown = "empty" if pd.isna(cell) else repr(cell if cell is None else str(cell))
        if len(shown) > _LONGEST:
            shown = f"{shown[:_LONGEST]}…"
        raise ValueError(f"{file}: row {row}, column {name!r} is {shown}, not a finite number")
    return values


def _check_names(file: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            raise ValueError(f"{file} has no column {name!r}; it has {_listed(names)}")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"a column is asked for twice: {_listed(wanted)}")


def _check_unique(path: Path, names: Sequence[str]) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise _Wrong(f"{path}: two columns are called {name!r}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(str(name) for name in names[:_LISTED])
    left = len(names) - _LISTED
    return f"{shown} and {left} more" if left > 0 else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
