"""The verbs of ``cameraready change-detection``."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import App, Parameter

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    Detection,
    cs,
    simulate_arl,
    simulate_delay,
)
from cameraready.change_detection import plan as make_plan
from cameraready.change_detection.base import SequentialDetector
from cameraready.change_detection.confidence_sequence import RangeError, describe
from cameraready.change_detection.planning import detectable_shift
from cameraready.change_detection.records import Place, Record, Source, column_name, number
from cameraready.common.checks import check_positive
from cameraready.common.files import atomic_write

__all__ = ["app"]

app = App(
    name="change-detection",
    help="Alarms with a guaranteed false-alarm rate, from confidence sequences.",
)

Sequence = Literal[
    "sr",
    "cusum",
    "bounded",
    "betting",
    "hoeffding",
    "gaussian",
    "subgaussian",
    "bernoulli",
    "poisson",
    "catoni",
    "quantile",
    "cdf",
]
Side = Literal["both", "up", "down"]
Policy = Literal["raise", "clip", "skip"]
ALARM = 3  # exit code of --fail-on-alarm


@Parameter(name="*")
@dataclass
class Watching:
    """What is watched.

    Parameters
    ----------
    cs
        sr and cusum (e-detectors), bounded and betting and hoeffding watch the mean of values in
        --range; gaussian and subgaussian one with noise of scale --sigma; bernoulli 0/1 values;
        poisson counts; catoni a mean under heavy tails with variance --sigma squared; quantile the
        quantile --p and cdf the whole distribution of independent values (--assume-iid).
    arl
        At most one false alarm per this many observations on average.
    range
        Two numbers that enclose every value.
    sigma
        Scale of the noise, in the values' unit.
    tune_at
        Sample size at which gaussian sequences are tightest.
    p
        Which quantile.
    assume_iid
        Your word that the values are independent.
    theta0
        The parameter before the change, if it is known.
    direction
        Which changes raise an alarm.
    on_range
        What to do with values outside the range.
    on_nan
        What to do with missing values.
    """

    cs: Sequence = "sr"
    arl: float = 10_000
    range: tuple[float, float] = (0.0, 1.0)
    sigma: float | None = None
    tune_at: float = 100.0
    p: float | None = None
    assume_iid: Annotated[bool, Parameter(negative="")] = False
    theta0: float | None = None
    direction: Side = "both"
    on_range: Policy = "raise"
    on_nan: Literal["raise", "skip"] = "raise"

    def detector(self) -> SequentialDetector:
        """The detector that these options ask for."""
        policies: dict[str, Any] = {
            "arl": self.arl,
            "theta0": self.theta0,
            "direction": self.direction,
            "on_range": self.on_range,
            "on_nan": self.on_nan,
        }
        if self.cs in ("sr", "cusum"):
            return CompositeEDetector(range=self.range, kind=self.cs, **policies)
        return ConfidenceSequenceDetector(self._sequence(), range=self.range, **policies)

    def _sequence(self) -> Any:
        if self.cs in ("gaussian", "subgaussian"):
            return cs.Gaussian(self._needed("sigma", self.sigma), tune_at=self.tune_at)
        if self.cs == "catoni":
            return cs.Catoni(self._needed("sigma", self.sigma) ** 2)
        if self.cs in ("quantile", "cdf") and not self.assume_iid:
            raise ValueError(
                f"--cs {self.cs} is valid for independent values only: "
                "add --assume-iid if yours are"
            )
        if self.cs == "quantile":
            return cs.Quantile(self._needed("p", self.p), assume_iid=True)
        if self.cs == "cdf":
            return cs.CDF(assume_iid=True)
        return self.cs

    def _needed(self, name: str, value: float | None) -> float:
        if value is None:
            raise ValueError(f"--cs {self.cs} needs --{name}")
        return value


@app.command
def watch(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    column: str | None = None,
    time: str | None = None,
    follow: Annotated[bool, Parameter(negative="")] = False,
    poll: float = 0.5,
    state: Path | None = None,
    fail_on_alarm: Annotated[bool, Parameter(negative="")] = False,
    watching: Watching | None = None,
) -> int:
    """Watch a column of a CSV or JSON-lines file and print one JSON line per alarm.

    Parameters
    ----------
    file
        The file, or - for standard input.
    column
        The column with the values; not needed if there is only one.
    time
        A column to copy into the alarms as their time.
    follow
        Go on waiting for new lines, as tail -f does.
    poll
        Seconds between two looks at a followed file.
    state
        A file to save the detector in and to resume from. Rows of the same file that were taken in
        before are not taken in again.
    fail_on_alarm
        Exit with code 3 if there was an alarm.
    """
    source = Source(file, follow, check_positive("poll", poll))
    detector = (watching or Watching()).detector()

    def value(record: Record) -> float:
        return number(source, record, column_name(source, record, column, "--column"))

    return _stream(source, detector, value, time, state, fail_on_alarm)


@app.command
def monitor(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    label: str,
    pred: str,
    time: str | None = None,
    follow: Annotated[bool, Parameter(negative="")] = False,
    poll: float = 0.5,
    state: Path | None = None,
    fail_on_alarm: Annotated[bool, Parameter(negative="")] = False,
    watching: Watching | None = None,
) -> int:
    """Watch a classifier's error rate in a file of labels and predictions.

    Parameters
    ----------
    file
        A CSV or JSON-lines file, or - for standard input.
    label
        The column with the true labels.
    pred
        The column with the predictions.
    time
        A column to copy into the alarms as their time.
    follow
        Go on waiting for new lines, as tail -f does.
    poll
        Seconds between two looks at a followed file.
    state
        A file to save the detector in and to resume from.
    fail_on_alarm
        Exit with code 3 if there was an alarm.
    """
    source = Source(file, follow, check_positive("poll", poll))

    def error(record: Record) -> float:
        pair = [
            record.fields[column_name(source, record, name, option)]
            for name, option in ((label, "--label"), (pred, "--pred"))
        ]
        if any(entry is None or entry == "" for entry in pair):
            return float("nan")
        return float(str(pair[0]).strip() != str(pair[1]).strip())

    detector = (watching or Watching()).detector()
    return _stream(source, detector, error, time, state, fail_on_alarm)


@app.command(name="two-sample")
def two_sample(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    x: str,
    y: str,
    test: Literal["mean", "ks"] = "mean",
    arl: float = 10_000,
    range: tuple[float, float] = (0.0, 1.0),
    assume_iid: Annotated[bool, Parameter(negative="")] = False,
    on_range: Policy = "raise",
    on_nan: Literal["raise", "skip"] = "raise",
    time: str | None = None,
    follow: Annotated[bool, Parameter(negative="")] = False,
    poll: float = 0.5,
    state: Path | None = None,
    fail_on_alarm: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Watch how two columns differ: the difference of their means, or their KS distance.

    Parameters
    ----------
    file
        A CSV or JSON-lines file, or - for standard input.
    x
        The first column.
    y
        The second column.
    test
        mean: E[x] - E[y], for values in --range. ks: the largest distance of the distribution
        functions, for independent rows (--assume-iid).
    arl
        At most one false alarm per this many rows on average.
    range
        Two numbers that enclose every value, for mean.
    assume_iid
        Your word that the rows are independent, for ks.
    on_range
        What to do with values outside the range.
    on_nan
        What to do with missing values.
    time
        A column to copy into the alarms as their time.
    follow
        Go on waiting for new lines, as tail -f does.
    poll
        Seconds between two looks at a followed file.
    state
        A file to save the detector in and to resume from.
    fail_on_alarm
        Exit with code 3 if there was an alarm.
    """
    if test == "ks" and not assume_iid:
        raise ValueError(
            "--test ks is valid for independent rows only: add --assume-iid if yours are"
        )
    sequence = cs.TwoSampleKS(assume_iid=True) if test == "ks" else cs.TwoSampleMean(range)
    detector = ConfidenceSequenceDetector(sequence, arl=arl, on_range=on_range, on_nan=on_nan)
    source = Source(file, follow, check_positive("poll", poll))

    def pair(record: Record) -> list[float]:
        return [
            number(source, record, column_name(source, record, name, option))
            for name, option in ((x, "--x"), (y, "--y"))
        ]

    return _stream(source, detector, pair, time, state, fail_on_alarm)


@app.command
def batch(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    column: str | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    restart: Literal["after_alarm", "at_change"] = "after_alarm",
    fail_on_alarm: Annotated[bool, Parameter(negative="")] = False,
    watching: Watching | None = None,
) -> int:
    """Find every change in a column of a file.

    Parameters
    ----------
    file
        A CSV or JSON-lines file, or - for standard input.
    column
        The column with the values; not needed if there is only one.
    out
        A CSV file for the changes, one a row.
    plot
        A picture of the series, the alarms and the changes (.png, .svg or .pdf).
    restart
        Where to go on after an alarm: behind it, or already behind the change that it found.
    fail_on_alarm
        Exit with code 3 if there was an alarm.
    """
    source = Source(file)
    detector = (watching or Watching()).detector()
    values = [
        number(source, record, column_name(source, record, column, "--column"))
        for record in source.records()
    ]
    if not values:
        raise ValueError(f"{source.shown} has a header but no rows")
    array = np.array(values)
    try:
        detector.detect_all(array, restart)
    except RangeError as error:
        raise _told(error, source, error.index) from None
    detections = detector.detections_
    kept = array[_kept(detector, array)]
    if out is not None:
        with atomic_write(out) as handle:
            handle.write(",".join(COLUMNS) + "\n")
            for detection in detections:
                handle.write(",".join(_cell(value) for value in _row(detection).values()) + "\n")
    if plot is not None:
        _plot(plot, kept, detections, detector, column)
    _table(detections, len(kept), detector)
    return ALARM if fail_on_alarm and detections else 0


@app.command
def plan(
    *,
    shift: float,
    arl: float = 10_000,
    range: tuple[float, float] = (0.0, 1.0),
    sigma: float | None = None,
    standard_deviation: float | None = None,
    before: int | None = None,
    cs_name: Annotated[
        Literal["bounded", "betting", "hoeffding", "gaussian", "bernoulli"], Parameter(name="--cs")
    ] = "bounded",
) -> None:
    """Say how fast a shift will be found, and how much must come before it.

    Parameters
    ----------
    shift
        Distance between the parameter before and after, in the values' unit.
    arl
        At most one false alarm per this many observations on average.
    range
        Two numbers that enclose every value.
    sigma
        Scale of the noise, for gaussian.
    standard_deviation
        Of bounded values; without it the worst case.
    before
        Observations before the change; without it ten times the least.
    cs_name
        Which sequence.
    """
    if cs_name == "gaussian" and sigma is None:
        raise ValueError("--cs gaussian needs --sigma")
    named: dict[str, Callable[[], Any]] = {
        "bounded": lambda: cs.EmpiricalBernstein(range),
        "betting": lambda: cs.Betting(range),
        "hoeffding": lambda: cs.Hoeffding(range),
        "gaussian": lambda: cs.Gaussian(sigma or 1.0),
        "bernoulli": cs.Bernoulli,
    }
    sequence = named[cs_name]()
    found = make_plan(arl, shift, sequence, before=before, standard_deviation=standard_deviation)
    unseen = detectable_shift(
        sequence.with_alpha(1.0 / arl), found.before, standard_deviation=standard_deviation
    )
    least = "more than 100000" if found.minimum_before is None else str(found.minimum_before)
    print(f"observations needed before the change:      {least}")
    print(f"with {found.before} before it, mean delay at most:   {_round_up(found.delay_bound)}")
    print(f"shifts that may then pass unseen:           up to {unseen:.4g}")
    print(f"with the level before known, at most:       {_round_up(found.delay_bound_known)}")


@app.command
def simulate(
    *,
    distribution: Literal["normal", "bernoulli", "beta"] = "beta",
    mean: float = 0.4,
    shift: float = 0.2,
    change: int = 400,
    horizon: int = 2000,
    n_rep: int = 200,
    seed: int = 0,
    watching: Watching | None = None,
) -> None:
    """Measure a detector's run length without a change and its delay after one.

    Parameters
    ----------
    distribution
        Of the values: normal with standard deviation --sigma (1 without it), 0/1, or beta with
        concentration 10.
    mean
        Before the change.
    shift
        How much the mean moves.
    change
        Observations before the change.
    horizon
        Observations after it, and of the streams without one.
    n_rep
        How many streams.
    seed
        Seed of the streams.
    """
    options = watching or Watching()
    detector = options.detector()
    draw = _sampler(distribution, options.sigma or 1.0)
    for place in (mean, mean + shift):
        if distribution != "normal" and not 0.0 < place < 1.0:
            raise ValueError(
                f"the mean must stay between 0 and 1 for {distribution}, not {place:g}"
            )
    still = simulate_arl(
        detector, lambda rng, n: draw(rng, mean, n), n_rep=n_rep, horizon=horizon, seed=seed
    )
    moved = simulate_delay(
        detector,
        lambda rng, n, m: np.concatenate([draw(rng, mean, n), draw(rng, mean + shift, m)]),
        change=change,
        n_rep=n_rep,
        horizon=horizon,
        seed=seed + 1,
    )
    print(
        f"without a change: mean run length at least {still.mean:.1f} ± {still.standard_error:.1f}"
    )
    print(f"                  (95 % lower bound {still.lower:.1f}; watched for {horizon})")
    print(f"                  {still.alarmed.mean():.1%} of {n_rep} streams alarmed")
    print(f"with a change:    mean delay {moved.mean:.1f} ± {moved.standard_error:.1f}")
    print(
        f"                  {moved.missed:.1%} missed, {moved.false_alarms:.1%} alarmed before it"
    )


def _sampler(distribution: str, sigma: float) -> Callable[..., np.ndarray]:
    def draw(generator: np.random.Generator, mean: float, n: int) -> np.ndarray:
        if distribution == "normal":
            return generator.normal(mean, sigma, n)
        if distribution == "bernoulli":
            return (generator.random(n) < mean).astype(float)
        return generator.beta(10.0 * mean, 10.0 * (1.0 - mean), n)

    return draw


# What the streaming verbs share.


def _stream(
    source: Source,
    detector: SequentialDetector,
    value: Callable[[Record], Any],
    time: str | None,
    state: Path | None,
    fail_on_alarm: bool,
) -> int:
    """Take rows in, print alarms, keep the state."""
    continued = _resume(source, detector, state)

    taken = source.place

    def save() -> None:
        if state is not None:
            _save(state, detector, taken)

    source.waiting = save  # type: ignore[method-assign]
    alarms = rows = 0
    try:
        for record in source.records():
            observation = value(record)
            if time is not None:
                column_name(source, record, time, "--time")
            rows += 1
            try:
                detector.update(observation)
            except RangeError as error:
                raise _told(error, source, record.row) from None
            taken = source.place
            if detector.drift_detected:
                alarms += 1
                alarm = _alarm(detector.detections_[-1], record, time, source)
                print(json.dumps(alarm), flush=True)
    finally:
        save()
    if rows == 0 and not continued:
        raise ValueError(f"{source.shown} has a header but no rows")
    return ALARM if fail_on_alarm and alarms else 0


def _told(error: RangeError, source: Source, row: int) -> ValueError:
    """A refused value in the words of the command line."""
    if isinstance(error.value, float) and np.isnan(error.value):
        return ValueError(
            f"{source.shown}, row {row}: no number there; add --on-nan skip to leave such rows out"
        )
    reason = str(error).replace(f"observation {error.index} = ", "value ")
    for name in ("on_nan", "on_range"):
        reason = reason.replace(f"{name}='", f"--{name.replace('_', '-')} '")
    reason = reason.replace("pass --", "add --").replace("declare a wider range", "set --range")
    return ValueError(f"{source.shown}, row {row}: {reason.replace(chr(39), '')}")


def _resume(source: Source, detector: SequentialDetector, state: Path | None) -> bool:
    """Load a saved state; True if it was saved within this very file, which is gone on with."""
    if state is None or not state.exists():
        return False
    try:
        saved = json.loads(state.read_text(encoding="utf-8"))
        detector.load_state_dict(saved["detector"])
        place = Place(*(int(saved[name]) for name in Place._fields))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        raise ValueError(f"{state} is not a state file of this command") from None
    except ValueError as error:
        raise ValueError(f"{state}: {error}") from None
    continued = source.resume(place)
    where = f"behind row {source.rows}" if continued else "with all rows of another file"
    print(f"resuming {where}", file=sys.stderr)
    return continued


def _save(state: Path, detector: SequentialDetector, place: Place) -> None:
    with atomic_write(state) as file:
        json.dump({"detector": detector.state_dict(), **place._asdict()}, file)


def _alarm(
    detection: Detection, record: Record, time: str | None, source: Source
) -> dict[str, Any]:
    stamp = record.fields[time] if time is not None else None
    if stamp is None and source.follow:
        stamp = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "index": detection.index,
        "row": record.row,
        "time": stamp,
        "estimate_before": describe(detection.before),
        "estimate_after": describe(detection.after),
        "direction": detection.direction,
        "change_point": detection.change_point,
        "change_interval": describe(detection.change_interval),
    }


# What batch shows.

COLUMNS = (
    "index",
    "change_point",
    "change_interval_first",
    "change_interval_last",
    "estimate_before",
    "estimate_after",
    "direction",
)


def _row(detection: Detection) -> dict[str, Any]:
    first, last = detection.change_interval or (None, None)
    values = (
        detection.index,
        detection.change_point,
        first,
        last,
        detection.before if isinstance(detection.before, float) else None,
        detection.after if isinstance(detection.after, float) else None,
        detection.direction,
    )
    return dict(zip(COLUMNS, values, strict=True))


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _table(detections: list[Detection], count: int, detector: SequentialDetector) -> None:
    from rich.console import Console
    from rich.table import Table

    skipped = f", {detector.n_skipped_} left out" if detector.n_skipped_ else ""
    print(f"{count} observations{skipped}, alarms: {len(detections)}")
    if not detections:
        return
    table = Table()
    for heading in ("alarm at", "change after", "between", "before", "after"):
        table.add_column(heading, justify="right")
    for detection in detections:
        row = _row(detection)
        between = f"{row['change_interval_first']}-{row['change_interval_last']}"
        table.add_row(
            str(detection.index),
            _cell(detection.change_point),
            between if detection.change_interval else "",
            *(
                f"{row[name]:.4g}" if row[name] is not None else ""
                for name in ("estimate_before", "estimate_after")
            ),
        )
    Console().print(table)


def _kept(detector: SequentialDetector, array: np.ndarray) -> np.ndarray:
    """Which values the detector has not left out."""
    fault = detector.sequence.check(array[:, None])
    skipped = (fault == 1) & (detector.on_nan == "skip")
    return ~(skipped | ((fault >= 2) & (detector.on_range == "skip")))


def _plot(
    path: Path,
    values: np.ndarray,
    detections: list[Detection],
    detector: SequentialDetector,
    column: str | None,
) -> None:
    from matplotlib.figure import Figure

    from cameraready.change_detection.plots import plot_detection
    from cameraready.common.plotting import plot_style

    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"--plot must end in .png, .svg or .pdf, not {path.name!r}")
    trace = detector.clone().detect(values).trace
    one = trace if np.ndim(trace[0]) == 1 else None
    with plot_style("light"):
        figure = Figure(figsize=(9, 4))
        ax = plot_detection(values, detections, figure.subplots(), trace=one)
        ax.set_xlabel("observation")
        ax.set_ylabel(column or "value")
        with atomic_write(path, "wb") as handle:
            figure.savefig(handle, format=kind, dpi=150)


def _round_up(value: float) -> str:
    return "none (the shift is too small)" if not np.isfinite(value) else f"{np.ceil(value):.0f}"
