"""Time courses of single cells: Schrödinger bridges on AnnData.

Cells are destroyed when they are measured, so that each is seen at one time. Here a chain of
bridges through the snapshots gives what was not seen: the law at other times, where cells go and
come from, and how they move.

>>> import anndata, numpy as np, pandas as pd
>>> rng = np.random.default_rng(0)
>>> days = np.repeat([0, 2, 3], 100)
>>> points = rng.normal(size=(300, 2)) + 2 * days[:, None] * rng.choice([-1, 1], (300, 1))
>>> adata = anndata.AnnData(
...     obs=pd.DataFrame(
...         {"day": days, "side": np.where(points[:, 0] > 0, "right", "left")},
...         index=[f"cell{i}" for i in range(300)],
...     ),
...     obsm={"X_pca": points},
... )
>>> chain = fit_trajectories(adata, "day", n_components=4, max_iter=300, random_state=0)
>>> interpolate(adata, 1.0, seed=0).obsm["X_pca"].shape
(100, 2)
>>> sorted(fate(adata, "side", t_from=0))
['left', 'right']
"""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from jaxtyping import Float

from cameraready.common import check_positive
from cameraready.lightsb.anndata_files import plain_text
from cameraready.lightsb.chain import ChainedLightSB
from cameraready.lightsb.chain_arrays import chain_arrays, chain_from_arrays
from cameraready.lightsb.observed_plan import ObservedPlan
from cameraready.lightsb.points import check_points, check_weights
from cameraready.lightsb.training import TrainingProgress

__all__ = [
    "ancestors",
    "descendants",
    "fate",
    "fit_trajectories",
    "fitted_chain",
    "interpolate",
    "to_couplings",
]

KEY = "lightsb"
VELOCITY_KEY = "lightsb_velocity"
_VERSION = 1
# The noise of an interval of average length, when sigma2 is not given; LightSB's default eps.
_DEFAULT_EPS = 0.1


def fit_trajectories(
    adata: AnnData,
    time_key: str,
    basis: str = "X_pca",
    *,
    sigma2: float | None = None,
    weight_key: str | None = None,
    callback: Callable[[int, TrainingProgress], Any] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    **settings: Any,
) -> ChainedLightSB:
    """Fit a chain of bridges through the snapshots of a time course.

    Parameters
    ----------
    adata : AnnData
        With a numeric time of each cell in ``.obs[time_key]`` (a categorical column of numbers
        will do) and coordinates in ``.obsm[basis]``, in which distances mean something: principal
        components, some tens of them, not UMAP. Receives ``.uns["lightsb"]``, from which
        `fitted_chain` restores the chain after a way through .h5ad, and
        ``.obsm["lightsb_velocity"]``, (cells, D), the drift at each cell's own time, in the basis'
        units a unit of time. A view becomes a copy, as always in anndata.
    time_key : str
        Column of the times.
    basis : str
        Key of the coordinates.
    sigma2 : float, optional
        Variance of the diffusion a unit of time, in units in which the basis has a mean standard
        deviation of one. By default 0.1 for an interval of average length.
    weight_key : str, optional
        Column with how many cells each cell stands for, at its own time. The totals' ratios are
        kept, as the growth of the whole; that some cells divide more than others is not modelled.
    callback : callable, optional
        callback(interval, progress), as in `ChainedLightSB.fit`.
    checkpoint : path, optional
        A folder for the states of training; the fit goes on from what is there.
    **settings
        Settings of the bridges; see `LightSB`. `random_state` must be a whole number or None, and
        `plan` a name.

    Returns
    -------
    ChainedLightSB
        The fitted chain, for points in the basis' units.

    Raises
    ------
    KeyError
        If a key is not there; the message names those that are.
    TypeError
        If the times are not numbers, or the basis is sparse.
    ValueError
        If there is one time only, a time is missing, or a coordinate is not finite.
    KeyboardInterrupt
        If it was interrupted before all intervals were fitted; `adata` is then as before.
    """
    times = _times(adata, time_key)
    moments = np.unique(times)
    if len(moments) < 2:
        raise ValueError(
            f"adata.obs[{time_key!r}] has the single time {moments[0]:g}: trajectories need two "
            "at least"
        )
    points = _points(adata, basis)
    weights = _weights(adata, weight_key)
    for name in ("plan", "random_state"):
        if not isinstance(settings.get(name), str | int | None):
            raise ValueError(
                f"{name}={settings[name]!r} cannot be kept in adata.uns; give a name or a number"
            )
    if sigma2 is None:
        sigma2 = _DEFAULT_EPS / float(np.diff(moments).mean())
    chain = ChainedLightSB(moments.tolist(), check_positive("sigma2", sigma2), **settings)
    cells = [times == moment for moment in moments]
    chain.fit(
        [points[mask] for mask in cells],
        None if weights is None else [weights[mask] for mask in cells],
        callback=callback,
        checkpoint=checkpoint,
    )
    velocity = np.empty_like(points)
    for moment, mask in zip(moments.tolist(), cells, strict=True):
        velocity[mask] = chain.drift(points[mask], moment)
    kept = {"version": _VERSION, "time_key": time_key, "basis": basis, **chain_arrays(chain)}
    if weight_key is not None:
        kept["weight_key"] = weight_key
    adata.obsm[VELOCITY_KEY] = velocity
    adata.uns[KEY] = kept
    return chain


def fitted_chain(adata: AnnData, device: str = "auto") -> ChainedLightSB:
    """The chain that `fit_trajectories` left in ``adata.uns["lightsb"]``.

    Parameters
    ----------
    adata : AnnData
        Its cells are the points at which the bridges start: take cells out, and
        `ChainedLightSB.interpolate` starts from those that are left.
    device : str
        Where to put it.

    Raises
    ------
    KeyError
        If `fit_trajectories` was not run.
    ValueError
        If what is kept was written by a later version, or is damaged.
    """
    kept = _kept(adata)
    chain = chain_from_arrays(kept, device)
    times, points, weights = _snapshots(adata, kept)
    for moment, bridge in zip(chain.times, chain.bridges_, strict=False):
        mask = times == moment
        if mask.any():
            bridge.source_ = torch.from_numpy(points[mask].astype(float)) / chain.scale_
            if weights is not None:
                bridge.source_weights_ = check_weights(
                    kept["weight_key"], weights[mask], int(mask.sum())
                )
    return chain


def interpolate(
    adata: AnnData,
    t: float,
    *,
    n_cells: int | None = None,
    genes: bool = False,
    seed: int | None = None,
) -> AnnData:
    """Draw cells at a time at which none was measured.

    Each starts as a cell of the last snapshot before `t` and follows the bridge; at the time of a
    snapshot (but the last) it is that cell.

    Parameters
    ----------
    adata : AnnData
        After `fit_trajectories`.
    t : float
        From the first time to the last.
    n_cells : int, optional
        How many to draw, by the cells' weights. By default each cell of the snapshot before is
        the start of one, or there are as many draws where cells have weights.
    genes : bool
        Whether to reconstruct expression in ``.X``, for the genes with loadings in
        ``adata.varm["PCs"]``: linearly, about the mean of ``adata.X``. The basis must be the
        principal components that these loadings gave.
    seed : int, optional
        For the draws.

    Returns
    -------
    AnnData
        Coordinates in ``.obsm[basis]``, the time in ``.obs[time_key]`` and the name of the cell
        from which each started in ``.obs["source_cell"]``.

    Raises
    ------
    KeyError
        If `fit_trajectories` was not run, or there are no loadings.
    ValueError
        If `t` is not between the first time and the last.
    """
    kept = _kept(adata)
    chain = chain_from_arrays(kept)
    times, points, weights = _snapshots(adata, kept)
    moments = np.array(chain.times)
    if not moments[0] <= t <= moments[-1]:
        raise ValueError(f"t must be from {moments[0]:g} to {moments[-1]:g}, not {t!r}")
    if n_cells is not None and n_cells < 1:
        raise ValueError(f"n_cells must be at least 1, not {n_cells!r}")
    start = moments[min(np.searchsorted(moments, t, side="right"), len(moments) - 1) - 1]
    rows = np.flatnonzero(times == start)
    if not len(rows):
        raise ValueError(
            f"adata has no cells left at time {start:g}, where the way to {t:g} starts"
        )
    generator = np.random.default_rng(seed)
    if n_cells is not None or weights is not None:
        share = None if weights is None else weights[rows] / weights[rows].sum()
        rows = generator.choice(rows, len(rows) if n_cells is None else n_cells, p=share)
    drawn = chain.sample_at(points[rows], float(t), start=start, random_state=generator)
    drawn = drawn.astype(points.dtype)
    cells = pd.DataFrame(
        {
            kept["time_key"]: float(t),
            "source_cell": pd.Categorical(
                _text(adata.obs_names[rows]), _text(adata.obs_names[np.unique(rows)])
            ),
        },
        index=_text(f"t{t:g}-{i}" for i in range(len(rows))),
    )
    expression, var = None, pd.DataFrame(index=_text([]))
    if genes:
        expression, var = _reconstruct(adata, points, drawn)
    return AnnData(expression, obs=cells, var=var, obsm={kept["basis"]: drawn})


def fate(
    adata: AnnData,
    groups: str,
    t_from: float | None = None,
    t_to: float | None = None,
) -> pd.DataFrame:
    """The probability of each cell to arrive in each group at a later time.

    The cells at `t_to` stand for the law there: each earlier cell goes to them with the
    probabilities of `ObservedPlan`, from snapshot to snapshot, without random draws.

    Parameters
    ----------
    adata : AnnData
        After `fit_trajectories`. Receives ``.obs["lightsb_fate_<group>"]`` for each group, NaN
        for cells at other times.
    groups : str
        Column of ``.obs`` with the cells' groups, which counts at `t_to` only. Cells without a
        group (NaN) are in none, so that probabilities may add up to less than one.
    t_from : float, optional
        Snapshot of the cells; by default all up to `t_to`, where a cell has its own group.
    t_to : float, optional
        Snapshot at which groups are told, the last by default.

    Returns
    -------
    DataFrame
        Cells from `t_from` times groups.

    Raises
    ------
    KeyError
        If `fit_trajectories` was not run, or there is no such column.
    ValueError
        If times are no snapshots or not in order, or no cell at `t_to` has a group.
    """
    kept = _kept(adata)
    chain = chain_from_arrays(kept)
    last = _index(chain, "t_to", chain.times[-1] if t_to is None else t_to)
    first = 0 if t_from is None else _index(chain, "t_from", t_from)
    if first > last:
        raise ValueError(f"t_from={t_from:g} must not be after t_to={chain.times[last]:g}")
    labels = pd.Series(_column(adata, groups))
    snapshots = _snapshots(adata, kept)
    final = _at(chain, last, snapshots[0])
    names = labels[final].dropna().unique().tolist()
    if not names:
        raise ValueError(f"no cell at time {chain.times[last]:g} has a group in {groups!r}")
    names = sorted(names, key=str)
    values = np.stack([(labels[final] == name).to_numpy(float) for name in names], axis=1)
    probability = np.full((adata.n_obs, len(names)), np.nan)
    wanted = t_from is None
    if wanted or first == last:
        probability[final] = values
    for i in reversed(range(first, last)):
        values = _plan(chain, i, *snapshots).expect(values)
        if wanted or i == first:
            probability[_at(chain, i, snapshots[0])] = values
    for j, name in enumerate(names):
        adata.obs[f"{KEY}_fate_{name}"] = probability[:, j]
    table = pd.DataFrame(probability, index=adata.obs_names, columns=names)
    return table[~np.isnan(probability).any(axis=1)]


def descendants(adata: AnnData, cells: Any, t: float) -> pd.Series:
    """Where a population goes: shares of the cells at a later snapshot, which add up to one.

    Parameters
    ----------
    adata : AnnData
        After `fit_trajectories`.
    cells : array of bool, (cells,)
        Which cells are the population, all of one snapshot, such as
        ``(adata.obs["day"] == 2) & (adata.obs["type"] == "progenitor")``.
    t : float
        A snapshot, not before theirs.

    Returns
    -------
    Series
        By the names of the cells at `t`.

    Raises
    ------
    ValueError
        If the population is empty or of several snapshots, or `t` is no snapshot or before it.
    """
    kept = _kept(adata)
    chain = chain_from_arrays(kept)
    snapshots = _snapshots(adata, kept)
    first, mass = _population(chain, cells, snapshots)
    last = _index(chain, "t", t)
    if last < first:
        raise ValueError(f"t={t:g} is before the population's time {chain.times[first]:g}")
    for i in range(first, last):
        mass = _plan(chain, i, *snapshots).push(mass)
    return pd.Series(mass, index=adata.obs_names[_at(chain, last, snapshots[0])])


def ancestors(adata: AnnData, cells: Any, t: float) -> pd.Series:
    """Where a population comes from: shares of the cells at an earlier snapshot.

    Parameters
    ----------
    adata, cells
        As for `descendants`.
    t : float
        A snapshot, not after theirs.

    Returns
    -------
    Series
        By the names of the cells at `t`; it adds up to one.

    Raises
    ------
    ValueError
        If the population is empty or of several snapshots, or `t` is no snapshot or after it.
    """
    kept = _kept(adata)
    chain = chain_from_arrays(kept)
    snapshots = _snapshots(adata, kept)
    last, mass = _population(chain, cells, snapshots)
    first = _index(chain, "t", t)
    if first > last:
        raise ValueError(f"t={t:g} is after the population's time {chain.times[last]:g}")
    for i in reversed(range(first, last)):
        mass = _plan(chain, i, *snapshots).pull(mass)
    return pd.Series(mass, index=adata.obs_names[_at(chain, first, snapshots[0])])


def to_couplings(adata: AnnData) -> dict[tuple[Any, Any], AnnData]:
    """Couplings between the cells of successive snapshots, as CellRank takes them.

    ``cellrank.kernels.RealTimeKernel(adata, time_key, couplings=to_couplings(adata))``; CellRank
    wants the column of times to be categorical.

    Parameters
    ----------
    adata : AnnData
        After `fit_trajectories`.

    Returns
    -------
    dict
        By pairs of times, as they stand in ``.obs[time_key]``: AnnData of shape (n_i, n_{i+1})
        whose rows are the cells at the first time and whose variables those at the second. The
        entries add up to one, the rows to the cells' shares.
    """
    kept = _kept(adata)
    chain = chain_from_arrays(kept)
    times, _, weights = snapshots = _snapshots(adata, kept)
    table = _table(adata.obs)
    column = table[kept["time_key"]]
    couplings = {}
    for i, _ in enumerate(chain.bridges_):
        masks = _at(chain, i, times), _at(chain, i + 1, times)
        share = np.ones(int(masks[0].sum())) if weights is None else weights[masks[0]]
        matrix = _plan(chain, i, *snapshots).transitions() * (share / share.sum())[:, None]
        source, target = (column[mask].iloc[0] for mask in masks)
        obs, var = (plain_text(table[mask]) for mask in masks)
        couplings[source, target] = AnnData(matrix.astype(np.float32), obs=obs, var=var)
    return couplings


def _table(table: Any) -> pd.DataFrame:
    # AnnData's type also allows for tables that are read lazily.
    if not isinstance(table, pd.DataFrame):
        raise TypeError("adata must not be lazy: call adata.to_memory() before")
    return table


def _text(values: Iterable[str]) -> pd.Index:
    # Plain objects: anndata 0.12.6 cannot write what pandas 3 makes of text.
    return pd.Index(list(values), dtype=object)


def _column(adata: AnnData, key: str) -> np.ndarray:
    if key not in adata.obs:
        raise KeyError(f"adata.obs has no column {key!r}; it has {list(adata.obs.columns)}")
    return adata.obs[key].to_numpy()


def _times(adata: AnnData, time_key: str) -> Float[np.ndarray, " cells"]:
    column = _column(adata, time_key)
    if column.dtype.kind not in "fiu":
        raise TypeError(
            f"adata.obs[{time_key!r}] must hold numbers, not {adata.obs[time_key].dtype}: turn it "
            f"into numbers, or a categorical column of numbers"
        )
    times = column.astype(float)
    if not np.isfinite(times).all():
        cell = adata.obs_names[np.flatnonzero(~np.isfinite(times))[0]]
        raise ValueError(
            f"adata.obs[{time_key!r}] has no time for the cell {cell!r}: leave such cells out"
        )
    return times


def _points(adata: AnnData, basis: str) -> Float[np.ndarray, "cells features"]:
    if basis not in adata.obsm:
        raise KeyError(f"adata.obsm has no basis {basis!r}; it has {list(adata.obsm)}")
    return check_points(f"adata.obsm[{basis!r}]", adata.obsm[basis]).numpy()


def _weights(adata: AnnData, weight_key: str | None) -> Float[np.ndarray, " cells"] | None:
    if weight_key is None:
        return None
    weights = _column(adata, weight_key)
    check_weights(f"adata.obs[{weight_key!r}]", weights, adata.n_obs)
    return weights.astype(float)


def _kept(adata: AnnData) -> Mapping[str, Any]:
    if KEY not in adata.uns:
        raise KeyError(f"adata.uns has no {KEY!r}: run fit_trajectories before")
    kept = adata.uns[KEY]
    version = kept.get("version")
    if version != _VERSION:
        raise ValueError(
            f"adata.uns[{KEY!r}] is of version {version}, which this version of cameraready does "
            "not know: run fit_trajectories again"
        )
    return kept


def _snapshots(
    adata: AnnData, kept: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Times, coordinates and weights of the cells."""
    weights = _weights(adata, kept.get("weight_key"))
    return _times(adata, kept["time_key"]), _points(adata, kept["basis"]), weights


def _at(chain: ChainedLightSB, index: int, times: np.ndarray) -> np.ndarray:
    mask = times == chain.times[index]
    if not mask.any():
        raise ValueError(f"adata has no cells left at time {chain.times[index]:g}")
    return mask


def _index(chain: ChainedLightSB, name: str, time: float) -> int:
    if time not in chain.times:
        known = ", ".join(f"{moment:g}" for moment in chain.times)
        raise ValueError(f"{name} must be the time of a snapshot, one of {known}, not {time!r}")
    return chain.times.index(time)


def _plan(
    chain: ChainedLightSB,
    index: int,
    times: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray | None,
) -> ObservedPlan:
    """The plan between the cells of a snapshot and of the next."""
    masks = [_at(chain, i, times) for i in (index, index + 1)]
    sides = [points[mask].astype(float) / chain.scale_ for mask in masks]
    shares = [None if weights is None else weights[mask] for mask in masks]
    return ObservedPlan(chain.bridges_[index], sides[0], sides[1], shares[0], shares[1])


def _population(
    chain: ChainedLightSB,
    cells: Any,
    snapshots: tuple[np.ndarray, np.ndarray, np.ndarray | None],
) -> tuple[int, np.ndarray]:
    """The snapshot of a population, and its share of the cells there."""
    times, _, weights = snapshots
    mask = np.asarray(cells)
    if mask.dtype != bool or mask.shape != times.shape:
        raise ValueError(
            f"cells must be True or False for each of the {len(times)} cells, not an array of "
            f"{mask.dtype} of shape {mask.shape}"
        )
    moments = np.unique(times[mask])
    if len(moments) != 1:
        raise ValueError(
            f"cells must be of one snapshot, but are at the times {moments.tolist()}"
            if len(moments)
            else "cells is a population without any cell"
        )
    index = _index(chain, "the population's time", float(moments[0]))
    mass = mask.astype(float) if weights is None else mask * weights
    if not mass.any():
        raise ValueError("cells is a population whose weights are all zero")
    mass = mass[_at(chain, index, times)]
    return index, mass / mass.sum()


def _reconstruct(
    adata: AnnData, points: np.ndarray, drawn: np.ndarray
) -> tuple[np.ndarray, pd.DataFrame]:
    """Expression of the genes that have loadings, about the mean over adata's cells."""
    if "PCs" not in adata.varm:
        raise KeyError(f"adata.varm has no loadings 'PCs'; it has {list(adata.varm)}")
    loadings = np.asarray(adata.varm["PCs"], dtype=float)
    if loadings.shape[1] < points.shape[1]:
        raise ValueError(
            f"adata.varm['PCs'] has {loadings.shape[1]} components, the basis {points.shape[1]}"
        )
    loadings = loadings[:, : points.shape[1]]
    used = (loadings != 0).any(axis=1)
    total = np.zeros(adata.n_vars)
    for chunk, _, _ in adata.chunked_X():
        total += np.asarray(chunk.sum(axis=0)).ravel()
    mean = (total / adata.n_obs)[used]
    # The scores' own mean is not zero where cells were taken out after the principal components.
    expression = (drawn - points.mean(axis=0)) @ loadings[used].T + mean
    return expression.astype(drawn.dtype), plain_text(_table(adata.var)[used])
