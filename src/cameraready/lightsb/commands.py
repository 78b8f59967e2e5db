"""The verbs of ``cameraready lightsb``."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import App, Parameter

from cameraready.lightsb.command_output import (
    bar,
    drawing,
    note,
    notes,
    show,
    show_table,
    write_table,
)
from cameraready.lightsb.model_folders import (
    CHECKPOINT,
    check_model_folder,
    read_bridge,
    write_bridge,
)
from cameraready.lightsb.point_files import (
    FORMATS,
    PointFile,
    check_output,
    read_points,
    write_paths,
    write_samples,
)

if TYPE_CHECKING:
    from cameraready.lightsb import ChainedLightSB, LightSB

__all__ = ["app"]

app = App(
    name="lightsb",
    help="Schrödinger bridges that fit in seconds: map one sample to another, with paths between.",
)

Covariance = Literal["diag", "full", "spherical", "tied_full", "lowrank"]
Switch = Annotated[bool, Parameter(negative="")]
PICTURES = (".png", ".svg", ".pdf")
INTERRUPTED = 130  # exit code after Ctrl-C
DRAWN = 200  # paths at most in a picture


@Parameter(name="*")
@dataclass
class Reading:
    """What is read from the files.

    Parameters
    ----------
    columns
        The columns with the coordinates, with commas between; all without it. Arrays have no
        names.
    weights
        A column with the weights of the rows (of obs in an .h5ad), in both files.
    """

    columns: str | None = None
    weights: str | None = None

    def both(self, source: str, target: str) -> tuple[PointFile, PointFile]:
        """The points of two files, with the same columns in the same order."""
        chosen = None if self.columns is None else _words("--columns", self.columns)
        start = read_points(source, chosen, self.weights)
        end = read_points(target, start.names if chosen is None else chosen, self.weights)
        if start.points.shape[1] != end.points.shape[1]:
            raise ValueError(
                f"{source} and {target} must have the same features: there are "
                f"{start.points.shape[1]} and {end.points.shape[1]}"
            )
        return start, end


@Parameter(name="*")
@dataclass
class Model:
    """What the bridge is made of.

    Parameters
    ----------
    components
        Gaussians in the potential. More follow the target more closely.
    covariance
        Their covariances; lowrank for hundreds of features.
    rank
        Directions of lowrank that have scales of their own; 10 without it.
    scale
        global: eps is in units in which the data have standard deviation one; none: in the data's.
    device
        auto, cpu, cuda, …
    seed
        Seed of every random stream.
    """

    components: int = 10
    covariance: Covariance = "diag"
    rank: int | None = None
    scale: Literal["global", "none"] = "global"
    device: str = "auto"
    seed: int = 0

    def settings(self) -> dict[str, Any]:
        """As `LightSB` takes them."""
        return {
            "n_components": self.components,
            "covariance_type": self.covariance,
            "rank": self.rank,
            "scale": self.scale,
            "device": self.device,
            "random_state": _seed(self.seed),
        }


@Parameter(name="*")
@dataclass
class Training:
    """How it is trained.

    Parameters
    ----------
    objective
        matching is the paper's; energy has the same minimum and is cheaper.
    plan
        How batches are paired for matching: at random, by optimal transport within the batch, by
        Sinkhorn, or row by row where rows correspond. The minimum does not depend on it.
    polish
        Share of the steps, at the end, that use the energy after matching, for less noise; 0.25 is
        a good choice.
    max_iter
        Steps; fewer are made when the energy of held-out rows stops falling.
    batch_size
        Pairs in a step.
    lr
        First step size of Adam; 0.02 for matching and 0.01 for the energy without it.
    """

    objective: Literal["matching", "energy"] = "matching"
    plan: Literal["independent", "minibatch", "sinkhorn", "paired"] = "independent"
    polish: float = 0.0
    max_iter: int = 3000
    batch_size: int = 512
    lr: float | None = None

    def settings(self) -> dict[str, Any]:
        """As `LightSB` takes them."""
        return {
            "objective": self.objective,
            "plan": self.plan,
            "polish": self.polish,
            "max_iter": self.max_iter,
            "batch_size": self.batch_size,
            "lr": self.lr,
        }


@app.command
def fit(
    *,
    source: str,
    target: str,
    out: Path,
    eps: float = 0.1,
    resume: Switch = False,
    reading: Reading | None = None,
    model: Model | None = None,
    training: Training | None = None,
) -> int:
    """Fit a bridge from the rows of one file to the rows of another, and save it in a folder.

    Rows need not correspond. Ctrl-C ends training and still saves a bridge that can be used.

    For example: cameraready lightsb fit --source a.csv --target b.csv --eps 0.1 --out model

    Parameters
    ----------
    source
        Where the bridge starts: .npy, .npz, .csv (with a header), .parquet or .h5ad. FILE:NAME
        names an array of an .npz, or of an .h5ad a basis such as X_pca (X without it).
    target
        Where it ends: another such file.
    out
        The folder for the bridge, made if it is not there.
    eps
        Variance of the noise from start to end, in the units of --scale: how diverse the map is.
        See choose-eps.
    resume
        Go on from the last checkpoint in the folder, which is written each half minute and on
        Ctrl-C. Data and settings must be the same.
    """
    from cameraready.lightsb import LightSB

    check_model_folder(out)
    start, end = (reading or Reading()).both(source, target)
    settings = {**(model or Model()).settings(), **(training or Training()).settings()}
    bridge = LightSB(eps=eps, verbose=1, **settings)
    checkpoint, fresh = out / CHECKPOINT, not out.exists()
    failure = ""
    with notes():
        try:
            out.mkdir(exist_ok=True)
            _start_from(checkpoint, resume)
            bridge.fit(
                start.points,
                end.points,
                sample_weight0=start.weights,
                sample_weight1=None if settings["plan"] == "paired" else end.weights,
                checkpoint=checkpoint,
            )
        except RuntimeError as error:
            if not getattr(bridge, "n_iter_", 0):
                raise ValueError(str(error)) from None
            failure = str(error)
            note(failure)
        finally:
            if fresh and out.is_dir() and not any(out.iterdir()):
                out.rmdir()
    write_bridge(out, bridge, start.names)
    show(
        {
            "status": bridge.stopped_,
            "steps": bridge.n_iter_,
            "source_rows": len(start.points),
            "target_rows": len(end.points),
            "features": bridge.n_features_in_,
            "eps": bridge.eps,
            "eps_data_units": bridge.eps_data_units_,
            "validation_energy": bridge.energy_curve_[-1] if bridge.energy_curve_ else None,
            "components": bridge.n_components,
            "active_components": bridge.n_active_,
            "out": str(out),
        }
    )
    if failure:
        return 1
    return INTERRUPTED if bridge.stopped_ == "interrupted" else 0


@app.command
def transform(
    *,
    model: Path,
    input: str,
    out: Path,
    samples: int = 1,
    mean: Switch = False,
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Map the rows of a file: draw where each arrives.

    Tables get a column row, with the number of the input's row from 0, a column sample, and the
    features under the model's names for them. An .h5ad has row and sample in obs and the features
    in X; an .npz has arrays row, sample, X, features; an .npy is the array itself, rows x samples
    x features, or rows x features.

    Parameters
    ----------
    model
        A folder that fit made.
    input
        The file: .npy, .npz, .csv, .parquet or .h5ad; FILE:NAME as in fit. Of a table the columns
        that the model was fitted to are taken, others are left.
    out
        The file to write, in the format of its ending.
    samples
        How many draws for each row.
    mean
        Write the mean of all draws, exactly, in place of draws.
    seed
        Seed of the draws.
    device
        auto, cpu, cuda, …
    """
    check_output(out, "--out", FORMATS, input)
    if samples < 1:
        raise ValueError(f"--samples must be at least 1, not {samples}")
    if mean and samples != 1:
        raise ValueError("--mean has no samples: leave out --samples")
    _seed(seed)
    bridge, start = _loaded(model, input, device)
    with notes():
        if mean:
            drawn = bridge.predict(start.points)
        else:
            drawn = bridge.transform(start.points, samples, random_state=seed)
    write_samples(out, start, drawn.reshape(len(start.points), samples, -1))
    show({"rows": len(start.points), "samples": samples, "out": str(out)})


@app.command
def paths(
    *,
    model: Path,
    input: str,
    steps: int = 50,
    out: Path | None = None,
    plot: Path | None = None,
    method: Literal["bridge", "sde"] = "bridge",
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Draw a whole path from each row of a file, at equally spaced times from 0 to 1.

    Parameters
    ----------
    model
        A folder that fit made.
    input
        The file, as for transform.
    steps
        Steps from 0 to 1; there is one more time.
    out
        .npz has arrays times, paths (rows x times x features) and features; .npy only paths; .csv
        and .parquet have columns row, time and the features.
    plot
        A picture of up to 200 paths (.png, .svg or .pdf): the two features, or the first two
        principal axes of the paths.
    method
        bridge is exact at all times; sde follows the drift, step by step.
    seed
        Seed of the paths.
    device
        auto, cpu, cuda, …
    """
    from cameraready.lightsb.plots import plot_bridge

    if out is None and plot is None:
        raise ValueError("give --out, --plot or both")
    check_output(out, "--out", (".npy", ".npz", ".csv", ".parquet"), input)
    check_output(plot, "--plot", PICTURES, input)
    if steps < 1:
        raise ValueError(f"--steps must be at least 1, not {steps}")
    _seed(seed)
    bridge, start = _loaded(model, input, device)
    if plot is not None and start.points.shape[1] < 2:
        raise ValueError(f"--plot needs two features at least, but {input} has one")
    times = np.linspace(0.0, 1.0, steps + 1)
    with notes():
        drawn = bridge.sample_paths(
            start.points, times, n_steps=steps, method=method, random_state=seed
        )
    if out is not None:
        write_paths(out, start, times, drawn)
    if plot is not None:
        with drawing(plot) as figure:
            ax = plot_bridge(start.points, drawn[:, -1], drawn[:DRAWN], figure.subplots(), times)
            if start.points.shape[1] == 2:
                ax.set_xlabel(start.feature_names[0])
                ax.set_ylabel(start.feature_names[1])
    show(
        {
            "rows": len(start.points),
            "times": len(times),
            "out": None if out is None else str(out),
            "plot": None if plot is None else str(plot),
        }
    )


@app.command
def trajectories(
    h5ad: Path,
    /,
    *,
    out: Path,
    time_key: str,
    basis: str = "X_pca",
    sigma2: float | None = None,
    fate_by: str | None = None,
    weights: str | None = None,
    resume: Switch = False,
    model: Model | None = None,
    training: Training | None = None,
) -> int:
    """Fit bridges through the snapshots of a time course of cells, and write what they say.

    The file that is written has all that was in the first, the bridges in uns["lightsb"] (for
    interpolate), the velocity of each cell in obsm["lightsb_velocity"] and, with --fate-by, the
    probabilities of where each cell will be at the last time in obs["lightsb_fate_…"]. Ctrl-C
    before all intervals are fitted writes no file; --resume goes on from there.

    For example: cameraready lightsb trajectories cells.h5ad --time-key day --fate-by type
    --out with_fates.h5ad

    Parameters
    ----------
    h5ad
        The cells.
    out
        The .h5ad to write.
    time_key
        Column of obs with the times, as numbers.
    basis
        Key of obsm with coordinates in which distances mean something: principal components, not
        UMAP.
    sigma2
        Variance of the noise in a unit of time, in units in which the basis has standard deviation
        one; without it 0.1 for an interval of average length.
    fate_by
        Column of obs with groups, such as cell types, that count at the last time.
    weights
        Column of obs with how many cells each stands for.
    resume
        Go on from the last checkpoints, in a folder beside --out (its name and .checkpoint) that
        is removed when all is done. Data and settings must be the same.
    """
    from cameraready.lightsb import ann
    from cameraready.lightsb.anndata_files import read_anndata, write_anndata

    check_output(out, "--out", (".h5ad",), h5ad)
    settings = {**(model or Model()).settings(), **(training or Training()).settings()}
    adata = read_anndata(h5ad)
    if fate_by is not None and fate_by not in adata.obs:
        raise ValueError(f"{h5ad}: obs has no column {fate_by!r}; it has {list(adata.obs.columns)}")
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    try:
        with notes(), _naming(h5ad):
            _start_chain_from(checkpoint, resume)
            chain = ann.fit_trajectories(
                adata,
                time_key,
                basis,
                sigma2=sigma2,
                weight_key=weights,
                checkpoint=checkpoint,
                verbose=1,
                **settings,
            )
            table = None if fate_by is None else ann.fate(adata, fate_by)
    except KeyboardInterrupt:
        note(f"interrupted: {out} is not written; --resume goes on from here")
        return INTERRUPTED
    finally:
        if checkpoint.is_dir() and not any(checkpoint.iterdir()):
            checkpoint.rmdir()
    write_anndata(out, adata)
    code = _code(chain)
    if code == 0:
        _remove_states(checkpoint)
    shown: dict[str, Any] = {
        "status": [bridge.stopped_ for bridge in chain.bridges_],
        "times": chain.times,
        "sigma2": chain.sigma2,
        "mass_ratios": chain.mass_ratios_,
    }
    if table is not None:
        cells = np.asarray(adata.obs[time_key], dtype=float) == chain.times[0]
        shown["mean_fate_of_the_first_cells"] = table[cells].mean().to_dict()
    show(shown | {"out": str(out)})
    return code


@app.command
def interpolate(
    *,
    h5ad: Path,
    at: float,
    out: Path | None = None,
    time_key: str | None = None,
    basis: str = "X_pca",
    compare_with: str | None = None,
    cells: int | None = None,
    genes: Switch = False,
    sigma2: float | None = None,
    model: Model | None = None,
    training: Training | None = None,
) -> int:
    """Draw cells at a time at which none was measured.

    A file that trajectories wrote has its bridges with it; otherwise --time-key says how to fit
    them. With --compare-with, the snapshot at that time is left out of the fit and compared with
    what was drawn, beside copies of the snapshots before and after it: a bridge is of use where it
    is nearer than both.

    Parameters
    ----------
    h5ad
        The cells.
    at
        The time, between the first and the last.
    out
        The .h5ad to write: coordinates in obsm, in obs the time and the cell that each came from.
    time_key
        Column of obs with the times, as numbers.
    basis
        Key of obsm with the coordinates.
    compare_with
        A snapshot, by its time: 4, or with the column's name before it, as day4.
    cells
        How many to draw; as many as the snapshot before has, without it.
    genes
        Write expression too, reconstructed from varm["PCs"].
    sigma2
        Variance of the noise in a unit of time, as for trajectories.
    """
    from cameraready.lightsb import ann
    from cameraready.lightsb.anndata_files import read_anndata, write_anndata
    from cameraready.lightsb.held_out_snapshot import leave_out, snapshot_distances

    if out is None and compare_with is None:
        raise ValueError("give --out, --compare-with or both")
    if not math.isfinite(at):
        raise ValueError(f"--at must be a finite number, not {at}")
    if compare_with is not None and time_key is None:
        raise ValueError("--compare-with fits the bridges anew: give --time-key, and --basis")
    if compare_with is not None and _time(compare_with, str(time_key)) != at:
        raise ValueError(f"--compare-with must name the snapshot at --at {at:g}: {compare_with!r}")
    check_output(out, "--out", (".h5ad",), h5ad)
    model = model or Model()
    adata = read_anndata(h5ad)
    held, code = None, 0
    with notes(), _naming(h5ad):
        if time_key is None:
            if ann.KEY not in adata.uns:
                raise ValueError("there are no bridges in it yet: give --time-key to fit them")
        else:
            if compare_with is not None:
                adata, held = leave_out(adata, time_key, at)
            settings = {**model.settings(), **(training or Training()).settings()}
            chain = ann.fit_trajectories(
                adata, time_key, basis, sigma2=sigma2, verbose=1, **settings
            )
            code = _code(chain)
        drawn = ann.interpolate(adata, at, n_cells=cells, genes=genes, seed=_seed(model.seed))
        shown: dict[str, Any] = {"at": at, "cells": drawn.n_obs}
        if held is not None:
            found = snapshot_distances(adata, held, drawn, str(time_key), basis, model.seed)
            rows = [row._asdict() for row in found]
            shown |= {"compared_with": held.n_obs, "distances": rows}
            show_table([("", "name"), ("energy distance", "energy_distance"), ("W2", "w2")], rows)
    if out is not None:
        write_anndata(out, drawn)
    show(shown | {"out": None if out is None else str(out)})
    return code


@app.command(name="choose-eps")
def choose_eps(
    *,
    source: str,
    target: str,
    grid: str = "0.01,0.03,0.1,0.3,1,3,10",
    paired: Switch = False,
    folds: int = 3,
    max_iter: int = 1000,
    out: Path | None = None,
    plot: Path | None = None,
    reading: Reading | None = None,
    model: Model | None = None,
) -> None:
    """Compare values of eps by the likelihood of rows that were held out.

    If the rows of the two files correspond (--paired), the data determine eps. If not, every eps
    has a bridge with the right ends, and the data can only say which eps are too small for so few
    components; above them eps is yours to choose: it is how diverse the map is. The output says
    what the data tell, and what they do not.

    The table has, in nats a row, on rows that were held out: the log-likelihood of pairs or of
    targets; how far it is behind the best, and the standard error of that; the energy, which
    cannot be compared between values of eps; the entropy of the plan, given a row of the source.

    Parameters
    ----------
    source
        Where the bridge starts: a file as for fit.
    target
        Where it ends.
    grid
        The values, with commas between.
    paired
        Row i of one file belongs to row i of the other.
    folds
        Each row is held out once, in one of so many folds.
    max_iter
        Steps of each fit; they are on the energy, with step size 0.1.
    out
        A .csv or .parquet for the table.
    plot
        A picture of the criterion (.png, .svg or .pdf).
    """
    from cameraready.lightsb import LightSB, epsilon

    check_output(out, "--out", (".csv", ".parquet"), source, target)
    check_output(plot, "--plot", PICTURES, source, target)
    values = _numbers("--grid", grid)
    reading, model = reading or Reading(), model or Model()
    if reading.weights is not None:
        raise ValueError("--weights does not go with choose-eps, which takes all rows as equal")
    start, end = reading.both(source, target)
    bridge = LightSB(**model.settings(), objective="energy", lr=0.1, max_iter=max_iter)
    try:
        with notes(), bar("fitting") as advance:
            choice = epsilon.choose_eps(
                start.points,
                end.points,
                values,
                paired=paired,
                bridge=bridge,
                folds=folds,
                seed=model.seed,
                callback=advance,
            )
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    rows = [row._asdict() for row in choice.table]
    if out is not None:
        write_table(out, rows)
    if plot is not None:
        with drawing(plot) as figure:
            epsilon.plot_epsilon_choice(choice, figure.subplots())
    show_table(
        [
            ("eps", "eps"),
            ("in data units", "eps_data_units"),
            ("log-lik.", "log_likelihood"),
            ("behind", "behind"),
            ("± s.e.", "standard_error"),
            ("energy", "energy"),
            ("entropy", "entropy"),
        ],
        rows,
    )
    note(choice.note)
    show(
        {
            "eps": choice.eps,
            "eps_data_units": choice.eps_data_units,
            "criterion": choice.criterion,
            "plausible": list(choice.plausible),
            "identified": choice.identified,
            "note": choice.note,
            "table": rows,
        }
    )


@app.command
def benchmark(
    *,
    dim: str = "2,16",
    eps: str = "0.1,1",
    solvers: str | None = None,
    components: int = 20,
    max_iter: int = 3000,
    rows: int = 10_000,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Compare solvers on problems whose plan is known: mixtures of Gaussians.

    The table has the unexplained variance of the plan (cBW2-UVP, in percent: 0 is perfect) and the
    CPU time of the fit. Neural solvers' plans are known by samples only; the row "truth" is the
    true plan, known by as many, and so the least that they can reach.

    Parameters
    ----------
    dim
        Dimensions, with commas between.
    eps
        Values of eps, with commas between.
    solvers
        Which ones, with commas between: lightsb-m (optimal matching), lightsb-m-minibatch,
        lightsb (the energy), sinkhorn, bridge-matching, dsbm, sf2m. All that are installed
        without it.
    components
        Of the potentials of the first three; the true one has 5.
    max_iter
        Gradient steps of each.
    rows
        Rows of source and target.
    seed
        Seed of the problems and the solvers.
    out
        A .csv or .parquet for the table.
    """
    from cameraready.lightsb.comparison import SOLVERS, compare_solvers, installed_solvers

    check_output(out, "--out", (".csv", ".parquet"))
    dims = [_whole("--dim", value) for value in _words("--dim", dim)]
    epsilons = _numbers("--eps", eps)
    names = installed_solvers() if solvers is None else _words("--solvers", solvers)
    for name in names:
        if name not in SOLVERS:
            raise ValueError(f"--solvers must be some of {', '.join(SOLVERS)}, not {name!r}")
    found: list[dict[str, Any]] = []
    total = len(dims) * len(epsilons) * (len(names) + 1)
    with notes(), bar("fitting") as advance:
        for result in compare_solvers(
            dims,
            epsilons,
            names,
            n_components=components,
            max_iter=max_iter,
            n_rows=rows,
            seed=_seed(seed),
        ):
            found.append(asdict(result))
            advance(len(found), total)
    if out is not None:
        write_table(out, found)
    show_table(
        [
            ("dim", "dim"),
            ("eps", "eps"),
            ("solver", "solver"),
            ("cBW2-UVP, %", "cbw2_uvp"),
            ("CPU s", "cpu_seconds"),
        ],
        found,
    )
    show(found)


# What the verbs share.


def _loaded(model: Path, input: str, device: str) -> tuple["LightSB", PointFile]:
    """A bridge, and the columns of a file that it was fitted to."""
    bridge, names = read_bridge(model, device)
    start = read_points(input, names)
    if start.points.shape[1] != bridge.n_features_in_:
        raise ValueError(
            f"{input} has {start.points.shape[1]} features, but {model} was fitted to "
            f"{bridge.n_features_in_}"
        )
    if start.names is None and names is not None:
        start = PointFile(input, names, start.points)
    return bridge, start


def _start_from(checkpoint: Path, resume: bool) -> None:
    if not resume:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists():
        note(f"going on from {checkpoint}")
    else:
        note(f"there is no {checkpoint}: starting at the beginning")


def _start_chain_from(checkpoint: Path, resume: bool) -> None:
    if not resume:
        _remove_states(checkpoint)
    elif checkpoint.is_dir():
        note(f"going on from {checkpoint}")
    else:
        note(f"there is no {checkpoint}: starting at the beginning")


def _remove_states(checkpoint: Path) -> None:
    """Remove a folder of states of training, but nothing else that may be in it."""
    if not checkpoint.is_dir():
        return
    for path in checkpoint.glob("interval-*.safetensors"):
        path.unlink()
    if not any(checkpoint.iterdir()):
        checkpoint.rmdir()


def _code(chain: "ChainedLightSB") -> int:
    """The exit code after a chain was fitted."""
    return INTERRUPTED if any(x.stopped_ == "interrupted" for x in chain.bridges_) else 0


def _time(text: str, time_key: str) -> float:
    """The time in 4, or in day4."""
    try:
        return float(text.removeprefix(time_key))
    except ValueError:
        raise ValueError(f"--compare-with must be a time, not {text!r}") from None


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Name the file in what is wrong with it."""
    try:
        yield
    except (KeyError, ValueError, TypeError) as error:
        text = str(error.args[0]) if error.args else type(error).__name__
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError(f"{option} must be names or numbers with commas between, not {text!r}")
    return words


def _numbers(option: str, text: str) -> list[float]:
    values = []
    for word in _words(option, text):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{option} must be numbers greater than 0, not {word!r}")
        values.append(value)
    return values


def _whole(option: str, word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise ValueError(f"{option} must be whole numbers from 1, not {word!r}")
    return int(word)


def _seed(seed: int) -> int:
    if seed < 0:
        raise ValueError(f"--seed must not be negative, but it is {seed}")
    return seed
