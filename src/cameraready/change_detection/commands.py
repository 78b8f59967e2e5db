"""The verbs of ``cameraready change-detection``."""

import contextlib
import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Generator
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
from cameraready.change_detection.planning import LONGEST, detectable_shift
from cameraready.change_detection.records import Column, Place, Record, Source
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
Flag = Annotated[bool, Parameter(negative="")]
File = Annotated[str, Parameter(allow_leading_hyphen=True)]
Interval = Annotated[tuple[float, float], Parameter(negative="")]
ALARM = 3  # exit code of --fail-on-alarm


@Parameter(name="*")
@dataclass
class Watching:
    """What is watched.

    Parameters
    ----------
    cs
        For the mean of values in --range: sr (the fastest; uses its guarantee up), cusum, betting,
        bounded, hoeffding (these alarm far less often than promised, and later). With noise of
        scale --sigma: gaussian, subgaussian; catoni under heavy tails. For 0/1 values bernoulli,
        for counts poisson. For independent values (--assume-iid): quantile (--p), cdf.
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
    range: Interval = (0.0, 1.0)
    sigma: float | None = None
    tune_at: float = 100.0
    p: float | None = None
    assume_iid: Flag = False
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


@Parameter(name="*")
@dataclass
class Streaming:
    """How the rows come in.

    Parameters
    ----------
    time
        A column to copy into the alarms as their time.
    follow
        Go on waiting for new lines, as tail -f does.
    poll
        Seconds between two looks at a followed file.
    state
        A file to save the detector in and to resume from. Rows of the same file that were taken in
        before are not taken in again; a last line without its end is left for the next time.
    fail_on_alarm
        Exit with code 3 if there was an alarm.
    """

    time: str | None = None
    follow: Flag = False
    poll: float = 0.5
    state: Path | None = None
    fail_on_alarm: Flag = False

    def source(self, file: str) -> Source:
        """The rows of a file."""
        poll = check_positive("poll", self.poll)
        return Source(file, self.follow, poll, whole_lines=self.state is not None)


@app.command
def watch(
    file: File,
    /,
    *,
    column: str | None = None,
    streaming: Streaming | None = None,
    watching: Watching | None = None,
) -> int:
    """Watch a column of a CSV or JSON-lines file and print one JSON line per alarm.

    For example: cameraready change-detection watch latency.csv --column ms --range 0 1000

    Parameters
    ----------
    file
        The file, or - for standard input.
    column
        The column with the values; not needed if there is only one.
    """
    streaming = streaming or Streaming()
    source = streaming.source(file)
    columns = [Column(source, column, "--column")]
    return _stream(source, (watching or Watching()).detector(), columns, streaming)


@app.command
def monitor(
    file: File,
    /,
    *,
    label: str,
    pred: str,
    streaming: Streaming | None = None,
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
    """
    streaming = streaming or Streaming()
    source = streaming.source(file)
    columns = [Column(source, label, "--label"), Column(source, pred, "--pred")]
    return _stream(source, (watching or Watching()).detector(), columns, streaming, _error)


@app.command(name="two-sample")
def two_sample(
    file: File,
    /,
    *,
    x: str,
    y: str,
    test: Literal["mean", "ks"] = "mean",
    arl: float = 10_000,
    range: Interval = (0.0, 1.0),
    assume_iid: Flag = False,
    on_range: Policy = "raise",
    on_nan: Literal["raise", "skip"] = "raise",
    streaming: Streaming | None = None,
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
    """
    if test == "ks" and not assume_iid:
        raise ValueError(
            "--test ks is valid for independent rows only: add --assume-iid if yours are"
        )
    sequence = cs.TwoSampleKS(assume_iid=True) if test == "ks" else cs.TwoSampleMean(range)
    detector = ConfidenceSequenceDetector(sequence, arl=arl, on_range=on_range, on_nan=on_nan)
    streaming = streaming or Streaming()
    source = streaming.source(file)
    columns = [Column(source, x, "--x"), Column(source, y, "--y")]
    return _stream(source, detector, columns, streaming)


@app.command
def batch(
    file: File,
    /,
    *,
    column: str | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    restart: Literal["after_alarm", "at_change"] = "after_alarm",
    fail_on_alarm: Flag = False,
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
        Where to go on after an alarm: behind it, or already behind the change that it found. Then
        --arl holds for the first alarm; later false ones come up to about twice as often.
    fail_on_alarm
        Exit with code 3 if there was an alarm.
    """
    source = Source(file)
    kind = _picture(plot)
    if out is not None and Path(file).exists() and out.exists() and out.samefile(file):
        raise ValueError(f"--out would overwrite {file}: name another file")
    detector = (watching or Watching()).detector()
    wanted = Column(source, column, "--column")
    array = np.array([wanted.number(record) for record in source.records()])
    if not len(array):
        raise ValueError(f"{source.shown} has a header but no rows")
    try:
        detector.detect_all(array, restart)
    except RangeError as error:
        raise _told(error, source, error.index, [wanted]) from None
    rows = np.flatnonzero(_kept(detector, array)) + 1
    if not len(rows):
        raise ValueError(f"{source.shown}: every row was left out")
    found = [_row(detection, rows) for detection in detector.detections_]
    if out is not None:
        with atomic_write(out) as handle:
            handle.write(",".join(COLUMNS) + "\n")
            for row in found:
                handle.write(",".join(_cell(value) for value in row.values()) + "\n")
    if plot is not None:
        _plot(plot, kind, array[rows - 1], detector, wanted.name)
    _table(found, len(rows), detector.n_skipped_)
    return ALARM if fail_on_alarm and found else 0


@app.command
def plan(
    *,
    shift: float,
    arl: float = 10_000,
    range: Interval = (0.0, 1.0),
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
    if cs_name != "gaussian" and sigma is not None:
        raise ValueError(f"--sigma does not go with --cs {cs_name}")
    if cs_name in ("gaussian", "bernoulli") and standard_deviation is not None:
        raise ValueError(f"--standard-deviation does not go with --cs {cs_name}")
    named: dict[str, Callable[[], Any]] = {
        "bounded": lambda: cs.EmpiricalBernstein(range),
        "betting": lambda: cs.Betting(range),
        "hoeffding": lambda: cs.Hoeffding(range),
        "gaussian": lambda: cs.Gaussian(math.nan if sigma is None else sigma),
        "bernoulli": cs.Bernoulli,
    }
    sequence = named[cs_name]()
    found = make_plan(arl, shift, sequence, before=before, standard_deviation=standard_deviation)
    unseen = detectable_shift(
        sequence.with_alpha(1.0 / arl), found.before, standard_deviation=standard_deviation
    )
    least = f"more than {LONGEST}" if found.minimum_before is None else str(found.minimum_before)
    most = "at most" if found.exact else "about"
    print(f"observations needed before the change:      {least}")
    print(f"with {found.before} before it, mean delay {most}:   {_round_up(found.delay_bound)}")
    print(f"shifts that may then pass unseen:           up to {unseen:.4g}")
    print(f"with the level before known, {most}:       {_round_up(found.delay_bound_known)}")


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
    for name, value in (("change", change), ("horizon", horizon), ("n_rep", n_rep)):
        check_positive(name, value)
    if seed < 0:
        raise ValueError(f"seed must not be negative, but it is {seed}")
    detector = options.detector()
    sigma = 1.0 if options.sigma is None else check_positive("sigma", options.sigma)
    draw = _sampler(distribution, sigma)
    for place in (mean, mean + shift):
        if distribution != "normal" and not 0.0 < place < 1.0:
            raise ValueError(
                f"--mean and --mean plus --shift must lie between 0 and 1 for {distribution}"
            )
    try:
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
    except RangeError as error:
        raise ValueError(f"a simulated {_in_options(error)}") from None
    error = still.standard_error
    print(f"without a change: mean run length at least {still.mean:.1f} ± {error:.1f}")
    print(f"                  (95 % lower bound {still.lower:.1f}; watched for {horizon})")
    print(f"                  {still.alarmed.mean():.1%} of {n_rep} streams alarmed")
    print(f"with a change:    {moved.false_alarms:.1%} alarmed before it")
    if not math.isnan(moved.mean):
        print(f"                  mean delay {moved.mean:.1f} ± {moved.standard_error:.1f}")
        print(f"                  {moved.missed:.1%} missed it (they count as {horizon})")


def _sampler(distribution: str, sigma: float) -> Callable[..., np.ndarray]:
    def draw(generator: np.random.Generator, mean: float, n: int) -> np.ndarray:
        if distribution == "normal":
            return generator.normal(mean, sigma, n)
        if distribution == "bernoulli":
            return (generator.random(n) < mean).astype(float)
        return generator.beta(10.0 * mean, 10.0 * (1.0 - mean), n)

    return draw


# What the streaming verbs share.


def _numbers(columns: list[Column], record: Record) -> Any:
    values = [column.number(record) for column in columns]
    return values[0] if len(values) == 1 else values


def _error(columns: list[Column], record: Record) -> float:
    """Whether label and prediction differ, as numbers where both are; NaN where one is missing."""
    pair = [column.field(record) for column in columns]
    if None in pair:
        return math.nan
    with contextlib.suppress(TypeError, ValueError):
        pair = [float(entry) for entry in pair]
    pair = [entry.strip() if isinstance(entry, str) else entry for entry in pair]
    return float(pair[0] != pair[1])


def _stream(
    source: Source,
    detector: SequentialDetector,
    columns: list[Column],
    streaming: Streaming,
    value: Callable[[list[Column], Record], Any] = _numbers,
) -> int:
    """Take rows in, print alarms, keep the state."""
    time, state = streaming.time, streaming.state
    reading = {column.option: column.name for column in columns}
    continued = _resume(source, detector, state, reading)
    stamp = None if time is None else Column(source, time, "--time")
    taken = source.place
    saved: Place | None = None

    def save() -> None:
        nonlocal saved
        if state is not None and saved != taken:
            with atomic_write(state) as file:
                kept = {"detector": detector.state_dict(), "reading": reading, **taken._asdict()}
                json.dump(kept, file)
            saved = taken

    save()  # a state that cannot be written is told before the work
    source.waiting = save
    alarms = rows = 0
    with _ended_by_signal():
        try:
            for record in source.records():
                observation = value(columns, record)
                when = None if stamp is None else stamp.field(record)
                rows += 1
                try:
                    detector.update(observation)
                except RangeError as error:
                    raise _told(error, source, record.row, columns) from None
                taken = source.place
                if detector.drift_detected:
                    alarms += 1
                    alarm = _alarm(detector.detections_[-1], record.row, when, source.follow)
                    print(json.dumps(alarm, allow_nan=False), flush=True)
        finally:
            save()
    if source.left_over:
        print("the last line has no end yet: it is left for the next time", file=sys.stderr)
    elif rows == 0 and not continued:
        raise ValueError(f"{source.shown} has a header but no rows")
    return ALARM if streaming.fail_on_alarm and alarms else 0


@contextlib.contextmanager
def _ended_by_signal() -> Generator[None]:
    """Let SIGTERM end the block as an exit, so that what it has to save is saved."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(error: RangeError, source: Source, row: int, columns: list[Column]) -> ValueError:
    """A refused value in the words of the command line."""
    values = error.value if isinstance(error.value, list) else [error.value]
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        named = " or ".join(repr(column.name) for column in columns)
        return ValueError(
            f"{source.shown}, row {row}: no value in column {named}; "
            "add --on-nan skip to leave such rows out"
        )
    return ValueError(f"{source.shown}, row {row}: {_in_options(error)}")


def _in_options(error: RangeError) -> str:
    """A message with the options' spelling in the place of the arguments'."""
    text = str(error).replace(f"observation {error.index} = ", "value ")
    for argument, option in (
        ("pass on_nan='skip'", "add --on-nan skip"),
        (
            "declare a wider range, or pass on_range='clip' or 'skip'",
            "set --range, or add --on-range clip or skip",
        ),
        ("0/1, but value", "0/1, but there is"),
        ("…, but value", "…, but there is"),
    ):
        text = text.replace(argument, option)
    return text


def _resume(
    source: Source, detector: SequentialDetector, state: Path | None, reading: dict[str, Any]
) -> bool:
    """Load a saved state; True if it was saved within this very file, which is gone on with."""
    if state is None or not state.exists():
        return False
    try:
        saved = json.loads(state.read_text(encoding="utf-8"))
        place = Place(*(int(saved[name]) for name in Place._fields))
        detector_state, read = saved["detector"], dict(saved["reading"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{state} is not a state file of this command") from None
    if read != reading:
        was = ", ".join(f"{option} {name}" for option, name in read.items())
        raise ValueError(
            f"{state}: the state is of another configuration; it watches another column ({was})"
        )
    try:
        detector.load_state_dict(detector_state)
    except ValueError as error:
        raise ValueError(f"{state}: {error}") from None
    continued = source.resume(place)
    if continued:
        print(f"resuming behind row {source.rows}", file=sys.stderr)
    elif place.rows:
        where = "" if source.name == "-" else " with another file"
        print(f"resuming{where}: all rows are taken for new ones", file=sys.stderr)
    return continued


def _alarm(detection: Detection, row: int, when: Any, following: bool) -> dict[str, Any]:
    if when is None and following:
        when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "index": detection.index,
        "row": row,
        "time": None if isinstance(when, float) and not math.isfinite(when) else when,
        "estimate_before": describe(detection.before),
        "estimate_after": describe(detection.after),
        "direction": detection.direction,
        "change_point": detection.change_point,
        "change_interval": describe(detection.change_interval),
    }


# What batch shows.

COLUMNS = (
    "index",
    "row",
    "change_point",
    "change_interval_first",
    "change_interval_last",
    "estimate_before",
    "estimate_after",
    "direction",
)


def _row(detection: Detection, rows: np.ndarray) -> dict[str, Any]:
    """One change; `rows` are the numbers of the rows that were not left out."""
    first, last = detection.change_interval or (None, None)
    values = (
        detection.index,
        int(rows[detection.index - 1]),
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


def _table(found: list[dict[str, Any]], count: int, skipped: int) -> None:
    from rich.console import Console
    from rich.table import Table

    left_out = f", {skipped} left out" if skipped else ""
    print(f"{count} observations{left_out}, alarms: {len(found)}")
    if not found:
        return
    headings = {"index": "alarm at", "row": "row", "change_point": "change after"}
    if not skipped:
        del headings["row"]
    table = Table()
    for heading in (*headings.values(), "between", "before", "after"):
        table.add_column(heading, justify="right")
    for row in found:
        first, last = row["change_interval_first"], row["change_interval_last"]
        table.add_row(
            *(_cell(row[name]) for name in headings),
            "" if first is None else f"{first}-{last}",
            *(
                "" if row[name] is None else f"{row[name]:.4g}"
                for name in ("estimate_before", "estimate_after")
            ),
        )
    Console().print(table)


def _kept(detector: SequentialDetector, array: np.ndarray) -> np.ndarray:
    """Which values the detector has not left out."""
    fault = detector.sequence.check(array[:, None])
    skipped = (fault == 1) & (detector.on_nan == "skip")
    return ~(skipped | ((fault >= 2) & (detector.on_range == "skip")))


def _picture(plot: Path | None) -> str:
    """The kind of picture that a file's name asks for."""
    kind = "" if plot is None else plot.suffix.lstrip(".").lower()
    if plot is not None and kind not in ("png", "svg", "pdf"):
        raise ValueError(f"--plot must end in .png, .svg or .pdf, not {plot.name!r}")
    return kind


def _plot(
    path: Path, kind: str, values: np.ndarray, detector: SequentialDetector, column: str | None
) -> None:
    from matplotlib.figure import Figure

    from cameraready.change_detection.plots import plot_detection
    from cameraready.common.plotting import plot_style

    trace = detector.clone().detect(values).trace
    one = trace if np.ndim(trace[0]) == 1 else None
    with plot_style("light"):
        figure = Figure(figsize=(9, 4))
        ax = plot_detection(values, detector.detections_, figure.subplots(), trace=one)
        ax.set_xlabel("observation")
        ax.set_ylabel(column or "value")
        with atomic_write(path, "wb") as handle:
            figure.savefig(handle, format=kind, dpi=150)


def _round_up(value: float) -> str:
    return "none (the shift is too small)" if not np.isfinite(value) else f"{np.ceil(value):.0f}"
