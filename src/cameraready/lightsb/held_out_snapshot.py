"""A snapshot that is left out of a time course, to see how well it is predicted."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cameraready.lightsb.metrics import energy_distance

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["SnapshotDistance", "leave_out", "snapshot_distances"]

_ROWS = 2000  # of each side at most in the exact Wasserstein distance


class SnapshotDistance(NamedTuple):
    """How far cells are from those of the snapshot that was left out.

    The energy distance is unbiased; W2 is that of the cells themselves, which is above zero
    between two draws of one law, too.
    """

    name: str
    energy_distance: float
    w2: float


def leave_out(adata: "AnnData", time_key: str, time: float) -> tuple["AnnData", "AnnData"]:
    """The cells of all other snapshots, and those of one between two others.

    Parameters
    ----------
    adata : AnnData
    time_key : str
        Column of the times.
    time : float
        The snapshot.

    Raises
    ------
    KeyError
        If there is no such column.
    ValueError
        If there is no such snapshot, or none before or after it.
    """
    if time_key not in adata.obs:
        raise KeyError(f"adata.obs has no column {time_key!r}; it has {list(adata.obs.columns)}")
    times = _times(adata, time_key)
    known = ", ".join(f"{moment:g}" for moment in np.unique(times))
    if time not in times:
        raise ValueError(f"no snapshot has the time {time:g}; there are {known}")
    if not times.min() < time < times.max():
        raise ValueError(f"the snapshot at {time:g} is not between two others; there are {known}")
    return _rows(adata, times != time), _rows(adata, times == time)


def snapshot_distances(
    others: "AnnData",
    held_out: "AnnData",
    predicted: "AnnData",
    time_key: str,
    basis: str,
    seed: int | None = None,
) -> list[SnapshotDistance]:
    """Distances to a snapshot, of a prediction and of copies of the snapshots before and after.

    Parameters
    ----------
    others, held_out : AnnData
        See `leave_out`.
    predicted : AnnData
        Cells that were drawn at its time.
    time_key, basis : str
        Keys of the times and of the coordinates.
    seed : int, optional
        Chooses 2000 cells for W2 where there are more.
    """
    import ot

    times, time = _times(others, time_key), _times(held_out, time_key)[0]
    before, after = times[times < time].max(), times[times > time].min()
    rng = np.random.default_rng(seed)

    def some(points: np.ndarray) -> np.ndarray:
        if len(points) <= _ROWS:
            return points
        return points[rng.choice(len(points), _ROWS, replace=False)]

    truth = _points(held_out, basis)
    rows = []
    for name, points in (
        ("bridge", _points(predicted, basis)),
        (f"copy of {before:g}", _points(others, basis)[times == before]),
        (f"copy of {after:g}", _points(others, basis)[times == after]),
    ):
        squared = float(ot.emd2([], [], ot.dist(some(truth), some(points)), numItermax=10**7))
        w2 = math.sqrt(max(0.0, squared))
        rows.append(SnapshotDistance(name, energy_distance(points, truth), w2))
    return rows


def _rows(adata: "AnnData", mask: np.ndarray) -> "AnnData":
    import anndata

    # anndata 0.12 would set an option that pandas 3 no longer has.
    with anndata.settings.override(remove_unused_categories=False):
        return adata[mask].copy()


def _times(adata: Any, time_key: str) -> np.ndarray:
    return adata.obs[time_key].astype(float).to_numpy()


def _points(adata: Any, basis: str) -> np.ndarray:
    return np.asarray(adata.obsm[basis], dtype=float)
