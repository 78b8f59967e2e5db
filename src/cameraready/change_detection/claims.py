"""The claims of sequential change detection from confidence sequences, checked.

Shekhar & Ramdas, "Reducing sequential change detection to sequential estimation", ICML 2024.
Every section below is one group of claims: data, method, baseline, claim, from top to bottom.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    confidence_set,
    cs,
    simulate_arl,
)
from cameraready.change_detection.base import SequentialDetector
from cameraready.change_detection.compiled import compiled
from cameraready.change_detection.kernels import dkw_half_width
from cameraready.change_detection.planning import delay_bound, diameters
from cameraready.change_detection.plots import plot_detection, plot_run_lengths
from cameraready.change_detection.simulation import (
    DelayEstimate,
    RunLengths,
    summarise_delays,
)
from cameraready.claims import AtLeast, AtMost, Claim, Equal, Measurement, Run, Within
from cameraready.common.seeding import named_generator
from cameraready.datasets import digits, nile

__all__ = ["experiment"]

OBSERVATIONS = "observations"


def experiment(run: Run) -> Iterator[Claim]:
    """All claims, as they are settled."""
    run.setting(
        "detectors",
        "composite SR and CUSUM on 100 cells (400 for the digits); repeated sequences, growth 1.2",
    )
    yield from false_alarms(run)
    yield from delays(run)
    yield from rare_errors(run)
    yield from classifier(run)
    yield from nile_flow(run)
    yield from functionals(run)
    yield from pathwise(run)
    yield from engines(run)
    yield from places(run)


# What is watched, and with what.

MEANS = {"Gaussian": 0.5, "Bernoulli(.3)": 0.3, "Beta": 0.4, "dependent": 0.5}


def unchanged(name: str, generator: np.random.Generator, n: int) -> np.ndarray:
    """A stream in [0, 1] whose conditional mean never changes."""
    if name == "Gaussian":
        # Beyond five standard deviations it is clipped; by symmetry the mean stays.
        return np.clip(generator.normal(0.5, 0.1, n), 0.0, 1.0)
    if name == "Bernoulli(.3)":
        return (generator.random(n) < 0.3).astype(float)
    if name == "Beta":
        return generator.beta(4.0, 6.0, n)
    return dependent(generator.choice([-1.0, 1.0], n), generator.uniform(0.5, 1.0, n))


@compiled
def dependent(signs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Values around 1/2 whose spread depends on the last value, and whose mean does not."""
    x, spread = np.empty(len(signs)), 0.1
    for t in range(len(signs)):
        x[t] = 0.5 + spread * signs[t] * sizes[t]
        distance = abs(x[t] - 0.5)
        spread = 0.45 if 0.08 < distance <= 0.3 else 0.1
    return x


def beta_stream(generator: np.random.Generator, mean: float, n: int) -> np.ndarray:
    """Beta with concentration 10."""
    return generator.beta(10.0 * mean, 10.0 * (1.0 - mean), n)


DETECTORS: dict[str, Callable[[float], SequentialDetector]] = {
    "composite SR": lambda arl: CompositeEDetector(arl, history=0),
    "composite CUSUM": lambda arl: CompositeEDetector(arl, kind="cusum", history=0),
    "repeated betting": lambda arl: ConfidenceSequenceDetector("betting", arl, history=0),
    "repeated EB": lambda arl: ConfidenceSequenceDetector("bounded", arl, history=0),
    "repeated sub-Gaussian": lambda arl: ConfidenceSequenceDetector(
        cs.SubGaussian(sigma=0.5), arl, history=0
    ),
}


def peer(name: str, threshold: float | None = None) -> Any:
    """A detector of river, at its defaults or at another threshold."""
    from river import drift

    if name == "ADWIN":
        return drift.ADWIN()
    if name == "ADWIN at every value":  # by default it tests at every 32nd only
        return drift.ADWIN(clock=1) if threshold is None else drift.ADWIN(threshold, clock=1)
    if name == "PageHinkley":
        return drift.PageHinkley() if threshold is None else drift.PageHinkley(threshold=threshold)
    if name == "HDDM_A":
        return drift.binary.HDDMA()
    return drift.binary.DDM()


def peer_alarm(name: str, threshold: float | None, stream: np.ndarray) -> int | None:
    """The first alarm of a detector of river, counted from 1."""
    detector = peer(name, threshold)
    binary = name in ("DDM", "HDDM_A")
    for n, x in enumerate(stream.tolist(), start=1):
        detector.update(bool(x) if binary else x)
        if detector.drift_detected:
            return n
    return None


def first_alarm(name: str, arl: float | None, stream: np.ndarray) -> int | None:
    """The first alarm of one of our detectors, or of one of river's (arl: its threshold)."""
    if name in DETECTORS:
        assert arl is not None
        return DETECTORS[name](arl).detect(stream, trace=False).index
    return peer_alarm(name, arl, stream)


# 1. One false alarm per 1/alpha observations on average, at most.


def run_length_task(task: tuple[str, str, float, int, int, int]) -> dict[str, Any]:
    """Run lengths of one detector on one unchanged stream."""
    detector, stream, arl, n_rep, horizon, seed = task
    found = simulate_arl(
        DETECTORS[detector](arl),
        lambda generator, n: unchanged(stream, generator, n),
        n_rep,
        horizon,
        named_generator(seed, "run length", detector, stream, str(arl)),
    )
    return {
        "mean": found.mean,
        "standard_error": found.standard_error,
        "lower": found.lower,
        "lengths": found.run_lengths.tolist(),
        "alarmed": found.alarmed.tolist(),
    }


def false_alarms(run: Run) -> Iterator[Claim]:
    """ARL >= 1/alpha, whatever the distribution and also under dependence."""
    n_rep = run.scale(smoke=1000, quick=1000, full=4000)
    horizon = run.scale(smoke=300, quick=2000, full=100_000)
    arls = (20.0, 100.0)
    names = ("composite SR", "composite CUSUM", "repeated EB", "repeated sub-Gaussian")
    run.setting("run lengths", f"{n_rep} streams of {horizon} observations a detector and stream")
    tasks = [
        (detector, stream, arl, n_rep, horizon, run.seed)
        for detector in names
        for stream in MEANS
        for arl in arls
    ]
    found = run.cached(
        "run lengths", lambda: run.map(run_length_task, tasks, "run lengths without a change")
    )
    by_task = dict(zip(((t[0], t[1], t[2]) for t in tasks), found, strict=True))
    for detector in names:
        for stream in MEANS:
            parts = [by_task[detector, stream, arl] for arl in arls]
            kept = min(part["lower"] / arl for part, arl in zip(parts, arls, strict=True))
            note = "; ".join(
                f"1/alpha = {arl:g}: mean run length {part['mean']:.1f} ± "
                f"{part['standard_error']:.1f}, lower bound {part['lower']:.1f}"
                for part, arl in zip(parts, arls, strict=True)
            )
            yield Claim(
                f"arl-{detector}-{stream}",
                f"{detector}, unchanged {stream} stream: the mean run length is at least 1/alpha",
                Measurement(kept, "times 1/alpha", repeats=n_rep),
                AtLeast(1.0),
                note=f"Smaller of two 95 % lower bounds, over 1/alpha. {note}. Means are cut off "
                f"at {horizon}, hence lower bounds themselves.",
            )
    shown = {
        detector: RunLengths(
            part["mean"],
            part["standard_error"],
            part["lower"],
            np.array(part["lengths"]),
            np.array(part["alarmed"]),
            horizon,
        )
        for detector in names
        for part in [by_task[detector, "Bernoulli(.3)", 20.0]]
    }
    run.figure(
        "run-lengths",
        lambda figure: plot_run_lengths(shown, 20.0, figure.subplots()),
        "Share of unchanged Bernoulli(.3) streams that have not alarmed, over time, at "
        "1/alpha = 20. SR uses its guarantee up; the others alarm far less often than promised.",
    )


# 2. Small delay with an unknown level before the change.


def delay_task(task: tuple[str, float | None, float, float, int, int, int]) -> list[int | None]:
    """First alarms of one detector on streams that change once."""
    name, arl, before, after, n_rep, horizon, seed = task
    alarms = []
    for i in range(n_rep):
        # The same streams for every detector.
        generator = named_generator(seed, "delay", str(before), str(after), i)
        stream = np.concatenate(
            [beta_stream(generator, before, 400), beta_stream(generator, after, horizon)]
        )
        alarms.append(first_alarm(name, arl, stream))
    return alarms


def mean_run_length(
    name: str, arl: float | None, mean: float, n: int, cut: int, seed: int
) -> float:
    """Mean of the run length, cut off, on unchanged Beta streams."""
    lengths = []
    for i in range(n):
        stream = beta_stream(named_generator(seed, "calibration", i), mean, cut)
        lengths.append(first_alarm(name, arl, stream) or cut)
    return float(np.mean(lengths))


def calibration_task(task: tuple[str, float, float, int, int, int]) -> dict[str, float]:
    """River's threshold at which the empirical mean run length equals the given one."""
    name, mean, target, n, cut, seed = task
    adwin = name.startswith("ADWIN")
    # Both thresholds act on a logarithmic scale; the run length grows with `strict`.
    to_threshold = (lambda s: 10.0**-s) if adwin else (lambda s: 10.0**s)
    low, high = (0.001, 8.0) if adwin else (-1.0, 3.0)
    for _ in range(9):
        middle = 0.5 * (low + high)
        if mean_run_length(name, to_threshold(middle), mean, n, cut, seed) < target:
            low = middle
        else:
            high = middle
    threshold = to_threshold(high)
    return {"threshold": threshold, "length": mean_run_length(name, threshold, mean, n, cut, seed)}


SHIFTS = ((0.4, 0.6), (0.3, 0.5), (0.4, 0.45))
OURS = ("composite SR", "composite CUSUM", "repeated betting", "repeated EB")
DEFAULTS = ("ADWIN", "ADWIN at every value", "PageHinkley")
CALIBRATED = ("ADWIN at every value", "PageHinkley")


def delays(run: Run) -> Iterator[Claim]:
    """Beta streams, 400 observations before the change, 1/alpha = 1000."""
    n_rep = run.scale(smoke=8, quick=60, full=200)
    horizon, arl = 1500, 1000.0
    calibration = run.scale(smoke=(6, 1500), quick=(60, 5000), full=(400, 5000))
    befores = (0.4, 0.3)
    lengths = run.cached(
        "SR run length",
        lambda: [mean_run_length("composite SR", arl, b, *calibration, run.seed) for b in befores],
    )
    tasks = [
        (name, before, length, *calibration, run.seed)
        for name in CALIBRATED
        for before, length in zip(befores, lengths, strict=True)
    ]
    matched = run.cached(
        "calibration", lambda: run.map(calibration_task, tasks, "river at the same run length")
    )
    thresholds = {}
    for (name, before, length, *_), found in zip(tasks, matched, strict=True):
        thresholds[name, before] = found["threshold"]
        run.setting(
            f"{name}, calibrated at mean {before}",
            f"threshold {found['threshold']:.3g}, mean run length {found['length']:.0f} "
            f"where composite SR has {length:.0f} (cut off at {calibration[1]}; the most eager "
            "setting where it cannot be brought down to that)",
        )
    run.setting("left out", "river's KSWIN, which costs a thousand times as much (make bench)")
    grid = [(0.4, round(0.4 + shift, 2)) for shift in (0.05, 0.1, 0.15, 0.2, 0.3)]
    pairs = list(dict.fromkeys([*SHIFTS, *grid]))

    def level(label: str, before: float) -> tuple[str, float | None]:
        if label in OURS:
            return label, arl
        name, kind = label.rsplit(" (", 1)
        return name, thresholds[name, before] if kind == "calibrated)" else None

    labels = [
        *OURS,
        *(f"{name} (default)" for name in DEFAULTS),
        *(f"{name} (calibrated)" for name in CALIBRATED),
    ]
    keys = [(label, pair) for label in labels for pair in pairs]
    jobs = [(*level(label, pair[0]), *pair, n_rep, horizon, run.seed) for label, pair in keys]
    alarms = run.cached("delays", lambda: run.map(delay_task, jobs, "delays after a change"))
    estimates = {
        key: summarise_delays(part, 400, horizon) for key, part in zip(keys, alarms, strict=True)
    }
    for pair, limit in zip(SHIFTS, (30.0, 25.0, None), strict=True):
        sr = estimates["composite SR", pair]
        if limit is not None:
            yield Claim(
                f"delay-sr-{pair[0]}-{pair[1]}",
                f"Composite SR finds a change of the mean from {pair[0]} to {pair[1]} within "
                f"{limit:g} observations on average, not knowing the level before",
                measured(sr),
                AtMost(limit),
                note=described(sr),
            )
        for kind, names in (("default", DEFAULTS), ("calibrated", CALIBRATED)):
            rivals = {f"{name} ({kind})": estimates[f"{name} ({kind})", pair] for name in names}
            best = min(rivals, key=lambda label: rivals[label].mean)
            ours, theirs = in_common(sr, rivals[best])
            against = (
                "at its default settings"
                if kind == "default"
                else "calibrated to the same mean run length"
            )
            yield Claim(
                f"delay-sr-{kind}-{pair[0]}-{pair[1]}",
                f"From {pair[0]} to {pair[1]} composite SR is at least as fast as the best of "
                f"river's detectors {against}",
                measured(ours),
                AtMost(),
                baseline=measured(theirs),
                baseline_name=best,
                paired_standard_error=paired(ours, theirs),
                note=f"Ours: {described(sr)}. "
                + ". ".join(f"{x}: {r.mean:.0f}, {described(r)}" for x, r in rivals.items())
                + ". Compared on the streams on which neither alarmed before the change.",
            )
    for slower, faster in (("repeated betting", "composite SR"), ("repeated EB", "composite SR")):
        a, b = estimates[faster, SHIFTS[0]], estimates[slower, SHIFTS[0]]
        yield Claim(
            f"delay-order-{slower}",
            f"The e-detector is at least as fast as the {slower} sequence (.4 to .6)",
            measured(a),
            AtMost(),
            baseline=measured(b),
            baseline_name=slower,
            paired_standard_error=paired(a, b),
        )
    eb = estimates["repeated EB", SHIFTS[0]]
    yield Claim(
        "delay-eb",
        "The repeated empirical Bernstein sequence has the delay of the prototype, 105 within "
        "10 % (.4 to .6)",
        measured(eb),
        Within(94.5, 115.5),
        note=described(eb),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for label in (*OURS, *(f"{name} (calibrated)" for name in CALIBRATED)):
            shifts = [round(b - a, 2) for a, b in grid]
            means = [estimates[label, (a, round(b, 2))].mean for a, b in grid]
            errors = [2 * estimates[label, (a, round(b, 2))].standard_error for a, b in grid]
            style = "--" if "calibrated" in label else "-"
            ax.errorbar(shifts, means, errors, label=label, linestyle=style, marker="o", ms=3)
        ax.set_xlabel("shift of the mean, from .4")
        ax.set_ylabel("mean delay (observations)")
        ax.set_yscale("log")
        ax.legend(fontsize="small")

    run.figure(
        "delays",
        draw,
        f"Mean delay against the shift, ± two standard errors over {n_rep} streams; a missed "
        f"change counts as {horizon}.",
    )


def measured(estimate: DelayEstimate) -> Measurement:
    """A mean delay."""
    repeats = int((~np.isnan(estimate.delays)).sum())
    error = None if math.isnan(estimate.standard_error) else estimate.standard_error
    return Measurement(estimate.mean, OBSERVATIONS, error, repeats or None)


def described(estimate: DelayEstimate) -> str:
    """What the mean leaves out."""
    return f"{estimate.missed:.0%} missed, {estimate.false_alarms:.0%} alarmed before the change"


def in_common(a: DelayEstimate, b: DelayEstimate) -> tuple[DelayEstimate, DelayEstimate]:
    """Both on the streams on which neither alarmed before the change."""
    fine = ~(np.isnan(a.delays) | np.isnan(b.delays))
    alike = []
    for estimate in (a, b):
        kept = estimate.delays[fine]
        error = float(kept.std(ddof=1) / math.sqrt(len(kept))) if len(kept) > 1 else math.nan
        mean = float(kept.mean()) if len(kept) else math.nan
        alike.append(replace(estimate, mean=mean, standard_error=error, delays=kept))
    return alike[0], alike[1]


def paired(a: DelayEstimate, b: DelayEstimate, factor: float = 1.0) -> float | None:
    """Standard error of a - factor b, over streams on which neither alarmed early."""
    difference = a.delays - factor * b.delays
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return None
    return float(difference.std(ddof=1) / math.sqrt(len(difference)))


# 3. Threshold detectors fail the false-alarm test.


def rare_errors(run: Run) -> Iterator[Claim]:
    """An error rate of 3 % that never changes, 3000 observations."""
    n_rep = run.scale(smoke=20, quick=200, full=1000)
    n = 3000

    kinds: dict[str, tuple[str, float | None]] = {
        "DDM": ("DDM", None),
        "HDDM_A": ("HDDM_A", None),
        "SR, 1/alpha = 10000": ("composite SR", 10_000.0),
        "SR, 1/alpha = 1000": ("composite SR", 1000.0),
        "CUSUM, 1/alpha = 1000": ("composite CUSUM", 1000.0),
        "EB, 1/alpha = 1000": ("repeated EB", 1000.0),
    }

    def compute() -> dict[str, list[bool]]:
        streams = run.generator("rare errors").random((n_rep, n)) < 0.03
        return {
            label: [first_alarm(*kind, stream.astype(float)) is not None for stream in streams]
            for label, kind in kinds.items()
        }

    def power() -> dict[str, float]:
        # Silence alone is easy: what the same detectors need for a rise to 10 %.
        draws = run.generator("rise").random((max(10, n_rep // 10), 2000))
        streams = draws < np.where(np.arange(2000) < 1000, 0.03, 0.1)
        return {
            label: summarise_delays(
                [first_alarm(*kind, stream.astype(float)) for stream in streams], 1000, 1000
            ).mean
            for label, kind in kinds.items()
        }

    alarmed = run.cached("rare errors", compute)
    noticed = run.cached("rise", power)
    baseline = share(alarmed["DDM"])
    hoeffding = share(alarmed["HDDM_A"])
    for label in ("SR, 1/alpha = 10000", "CUSUM, 1/alpha = 1000", "EB, 1/alpha = 1000"):
        yield Claim(
            f"rare-{label}",
            f"{label}: unchanged error rate .03 over {n} observations alarms in at most a quarter "
            "as many streams as DDM",
            share(alarmed[label]),
            AtMost(factor=0.25),
            baseline=baseline,
            baseline_name="river's DDM (default)",
            note=f"Silence alone is easy: for a rise from .03 to .1 it needs {noticed[label]:.0f} "
            f"observations on average, DDM {noticed['DDM']:.0f}, HDDM_A {noticed['HDDM_A']:.0f}. "
            f"HDDM_A, river's detector with a bound, has false alarms in {hoeffding.value:.1%}.",
        )
    used = share(alarmed["SR, 1/alpha = 1000"])
    yield Claim(
        "rare-sr-used-up",
        "SR uses its guarantee up: at 1/alpha = 1000 it does raise a false alarm in a third or "
        "more of unchanged streams three times as long",
        used,
        AtLeast(1 / 3),
        note="Expected: its mean run length is near 1/alpha. Choose 1/alpha accordingly, or CUSUM.",
    )


def share(flags: Iterable[bool]) -> Measurement:
    """A share of streams, with its standard error."""
    values = list(flags)
    n = len(values)
    p = float(np.mean(values))
    return Measurement(p, "of streams", math.sqrt(p * (1 - p) / n), n)


# 4. A classifier watched on real data.

CORRUPTIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "noise": lambda x, g: np.clip(x + g.normal(0.0, 0.36, x.shape), 0.0, 1.0),
    "dimming": lambda x, g: 0.3 * x,
    "shift by a pixel": lambda x, g: np.roll(x, 1, axis=2),
}


def classifier_task(seed: int) -> dict[str, Any]:
    """One stream a corruption: 600 held-out images clean, then corrupted; first alarms."""
    from sklearn.linear_model import LogisticRegression

    data = digits()
    images, labels = data["images"] / 16.0, data["labels"]
    generator = named_generator(seed, "digits")
    order = generator.permutation(len(labels))
    train, before = order[:1197], order[1197:]
    after = generator.permutation(before)
    model = LogisticRegression(max_iter=2000).fit(images[train].reshape(-1, 64), labels[train])

    def errors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (model.predict(x.reshape(-1, 64)) != y).astype(float)

    # An error rate is near 0, where the usual 100 cells are coarse.
    detector = CompositeEDetector(arl=1000, cells=400, history=0)
    clean = errors(images[before], labels[before])
    found: dict[str, Any] = {}
    for name, corrupt in CORRUPTIONS.items():
        bad = errors(corrupt(images[after], generator), labels[after])
        stream = np.concatenate([clean, bad])
        others = ("ADWIN", "ADWIN at every value", "HDDM_A", "DDM")
        found[name] = {
            "rates": [float(clean.mean()), float(bad.mean())],
            "SR": detector.detect(stream, trace=False).index,
            "EB": first_alarm("repeated EB", 1000.0, stream),
            **{other: first_alarm(other, None, stream) for other in others},
        }
    return found


def classifier(run: Run) -> Iterator[Claim]:
    """Errors of a logistic regression on handwritten digits whose images get worse."""
    n_rep = run.scale(smoke=2, quick=200, full=1000)
    tasks = [run.seed * 1000 + i for i in range(n_rep)]
    found = run.cached("digits", lambda: run.map(classifier_task, tasks, "digits monitor"))
    for name in CORRUPTIONS:
        sets = {
            kind: summarise_delays([part[name][kind] for part in found], 600, 600)
            for kind in ("SR", "EB", "ADWIN", "ADWIN at every value", "HDDM_A", "DDM")
        }
        before, after = np.mean([part[name]["rates"] for part in found], axis=0)
        others = "; ".join(
            f"{kind} {sets[kind].mean:.0f} ({described(sets[kind])})" for kind in ("EB", "DDM")
        )
        bounded = {kind: sets[kind] for kind in ("ADWIN at every value", "HDDM_A")}
        best = min(bounded, key=lambda kind: bounded[kind].mean)
        yield Claim(
            f"digits-{name}",
            f"Digits, {name}: composite SR needs at most a quarter of ADWIN's observations to "
            f"notice that the error rate went from {before:.3f} to {after:.2f}",
            measured(sets["SR"]),
            AtMost(factor=0.25),
            baseline=measured(sets["ADWIN"]),
            baseline_name="river's ADWIN (default)",
            paired_standard_error=paired(sets["SR"], sets["ADWIN"], 0.25),
            note=f"SR (400 cells): {described(sets['SR'])}. Also: {others}. The same 600 images "
            "are seen clean and then corrupted, in another order.",
        )
        ours, theirs = in_common(sets["SR"], sets[best])
        yield Claim(
            f"digits-best-{name}",
            f"Digits, {name}: composite SR is at least as fast as the faster of ADWIN testing at "
            "every value and HDDM_A",
            measured(ours),
            AtMost(),
            baseline=measured(theirs),
            baseline_name=f"river's {best}",
            paired_standard_error=paired(ours, theirs),
            note="; ".join(f"{k} {r.mean:.0f} ({described(r)})" for k, r in bounded.items()) + ".",
        )
    # The clean part is the same for all three corruptions.
    false = {
        kind: [part["noise"][kind] is not None and part["noise"][kind] <= 600 for part in found]
        for kind in ("SR", "DDM", "ADWIN")
    }
    yield Claim(
        "digits-false-alarms",
        "Digits: composite SR at 1/alpha = 1000 raises a false alarm in at most one in ten streams "
        "of 600 clean images",
        share(false["SR"]),
        AtMost(0.1),
        baseline=share(false["DDM"]),
        baseline_name="river's DDM (default)",
        note=f"ADWIN: {np.mean(false['ADWIN']):.0%}.",
    )


# 5. A series with an accepted answer.


def nile_flow(run: Run) -> Iterator[Claim]:
    """The flow of the Nile fell after 1898, when the Aswan dam was begun."""
    data = nile()
    years, volume = data["year"], data["volume"]
    settings = [(s, r) for s in (120.0, 130.0, 140.0) for r in (5.0, 10.0, 20.0)]

    def detect(sigma: float, rho: float) -> Any:
        detector = ConfidenceSequenceDetector(cs.Gaussian(sigma, rho=rho), arl=100)
        return detector.detect(volume)

    results = [detect(*setting) for setting in settings]
    alarms = [years[r.index - 1] if r.index is not None else math.inf for r in results]
    exact = [r.change_interval == (28, 28) for r in results]
    yield Claim(
        "nile-alarm",
        "Nile, 1/alpha = 100: for every sigma from 120 to 140 and rho from 5 to 20 the alarm comes "
        "between 1905 and 1915",
        Measurement(
            float(np.mean([1905 <= year <= 1915 for year in alarms])),
            "of the settings",
            repeats=len(settings),
        ),
        Equal(1.0),
        note="Alarms: "
        + ", ".join(
            f"{a:g} (sigma {s:g}, rho {r:g})" for a, (s, r) in zip(alarms, settings, strict=True)
        ),
    )
    yield Claim(
        "nile-interval",
        "Nile: the two contradicting segments place the change exactly between 1898 and 1899",
        Measurement(float(np.mean(exact)), "of the settings", repeats=len(settings)),
        Equal(1.0),
    )

    def draw(figure: Any) -> None:
        result = detect(130.0, 10.0)
        ax = plot_detection(
            volume, [result.detection], figure.subplots(), trace=result.trace, x=years
        )
        ax.set_xlabel("year")
        ax.set_ylabel("flow (10⁸ m³)")

    run.figure(
        "nile",
        draw,
        "Annual flow of the Nile, with the intersection of all confidence sequences (sigma 130, "
        "rho 10, 1/alpha = 100) until it is empty.",
    )


# 6. Any functional.

TWO_POINT = 0.3413  # distance of N(0, 1) and fair signs at .9999: Phi(.9999) - 1/2


def functional_stream(name: str, generator: np.random.Generator, before: int, n: int) -> Any:
    """A stream in which one functional changes after `before` observations."""
    if name == "distribution":
        return np.concatenate([generator.normal(size=before), generator.choice([-1.0, 1.0], n)])
    if name == "quantile":
        return np.concatenate([generator.normal(size=before), 4.0 * generator.normal(size=n)])
    if name == "regression":
        x = generator.choice([-1.0, 1.0], before + n)
        slope = np.where(np.arange(before + n) < before, 0.5, 1.0)
        return np.stack([x, slope * x + generator.normal(0.0, 0.5, before + n)], axis=1)
    if name == "two-sample":
        x = generator.beta(4.0, 6.0, before + n)
        y = np.concatenate([beta_stream(generator, 0.4, before), beta_stream(generator, 0.8, n)])
        return np.stack([x, y], axis=1)
    return generator.normal(size=before + n) + (np.arange(before + n) >= before)


# The difference of two values in [0, 1] is sub-Gaussian with scale 1 (Hoeffding's lemma).
DIFFERENCE = cs.SubGaussian(sigma=1.0, tune_at=500)


# Just below 1 is where the distributions of N(0, 1) and of fair signs differ most.
GRID = sorted([*np.linspace(-4.0, 8.0, 63).tolist(), 0.9999])


def functional_detector(name: str, arl: float) -> ConfidenceSequenceDetector:
    """The detector for it."""
    sequences = {
        "distribution": lambda: cs.CDF(assume_iid=True, grid=GRID),
        "quantile": lambda: cs.Quantile(0.9, assume_iid=True, grid=GRID),
        "regression": lambda: cs.LinearRegression(sigma=0.5, bound=2.0, contrasts=[[1.0]]),
        "two-sample": lambda: cs.TwoSampleMean(method=DIFFERENCE),
        "mean": lambda: cs.Gaussian(sigma=1.0),
    }
    return ConfidenceSequenceDetector(sequences[name](), arl, history=0)


def least_below(lengths: np.ndarray, bound: float) -> int | None:
    """The least n whose length is below the bound."""
    below = np.flatnonzero(lengths < bound)
    return int(below[0]) + 1 if len(below) else None


def theorem(name: str, arl: float, before: int) -> float:
    """The delay theorem's bound, from lengths that do not depend on the data."""
    alpha = 1.0 / arl
    n = np.arange(1, 20_001)
    band = np.array([2.0 * dkw_half_width(float(m), math.log(arl)) for m in n])
    if name == "distribution":
        u = least_below(band, TWO_POINT - band[before - 1])
    elif name == "quantile":
        # A grid point x with F0(x) - band(before) >= p > F1(x) + band(n) separates the two.
        from scipy.stats import norm

        x = min(point for point in GRID if point >= norm.ppf(0.9 + band[before - 1]))
        u = least_below(band, 0.9 - norm.cdf(x / 4.0))
    elif name == "regression":
        # x is ±1, so that V = 1 + n.
        radius = 0.5 * np.sqrt(2.0 * math.log(arl) + np.log1p(n)) + 2.0
        lengths = 2.0 * radius / np.sqrt(1.0 + n)
        u = least_below(lengths, 0.5 - lengths[before - 1])
    elif name == "two-sample":
        lengths = diameters(DIFFERENCE.with_alpha(alpha), 20_000)
        u = least_below(lengths, 0.4 - lengths[before - 1])
    else:
        lengths = diameters(cs.Gaussian(1.0, alpha=alpha), 20_000)
        u = least_below(lengths, 1.0 - lengths[before - 1])
    return delay_bound(u, arl, growth=1.2)


WORDS = {
    "mean": ("the mean of Gaussian values", 2000),
    "distribution": (
        "the whole distribution (normal to fair signs, equal mean and variance)",
        2000,
    ),
    "quantile": ("the .9 quantile (the scale becomes fourfold)", 6000),
    "regression": ("a regression's slope", 2000),
    "two-sample": ("the difference of two streams' means", 2000),
}


def functional_task(task: tuple[str, int, float, int, int]) -> list[int | None]:
    """First alarms on streams in which one functional changes."""
    name, before, arl, n_rep, seed = task
    detector = functional_detector(name, arl)
    generator = named_generator(seed, "functional", name)
    return [
        detector.detect(functional_stream(name, generator, before, 4000), trace=False).index
        for _ in range(n_rep)
    ]


def functionals(run: Run) -> Iterator[Claim]:
    """The delay theorem's bound, for five functionals."""
    n_rep = run.scale(smoke=4, quick=100, full=500)
    arl = 1000.0
    tasks = [(name, before, arl, n_rep, run.seed) for name, (_, before) in WORDS.items()]
    alarms = run.cached("functionals", lambda: run.map(functional_task, tasks, "any functional"))
    for task, part in zip(tasks, alarms, strict=True):
        name, before = task[0], task[1]
        words = WORDS[name][0]
        estimate = summarise_delays(part, before, 4000)
        bound = theorem(name, arl, before)
        yield Claim(
            f"functional-{name}",
            f"A change of {words} is found, with a mean delay within the theorem's bound "
            f"of {bound:.0f}",
            measured(estimate),
            AtMost(bound),
            note=f"{before} observations before the change; {described(estimate)}. The bound is "
            f"(1.2 u + 2)/(1 - alpha) for the geometric engine, and loose: "
            f"{bound / estimate.mean:.0f} times what is measured.",
        )

    def silent() -> list[bool]:
        generator = run.generator("equal means")
        detector = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl, history=0)
        return [
            detector.detect(
                functional_stream("distribution", generator, 2000, 4000), trace=False
            ).alarm
            for _ in range(n_rep)
        ]

    heard = share(run.cached("equal means", silent))
    seen = share([a is not None for a in alarms[1]])
    yield Claim(
        "functional-mean-silent",
        "Where only the distribution changes and the mean does not, the detector for the mean "
        "alarms in at most a tenth as many streams as the one for the distribution",
        heard,
        AtMost(factor=0.1),
        baseline=seen,
        baseline_name="distribution function",
    )


# 7. Repeated sequences, CUSUM, SR: an order on every path.


def pathwise_task(task: tuple[int, int, int]) -> list[int]:
    """On the same bets: alarm times of the exact repeated sequence, CUSUM and SR."""
    i, n, seed = task
    generator = named_generator(seed, "pathwise", i)
    mean = generator.uniform(0.2, 0.8)
    shifted = float(np.clip(mean + generator.uniform(-0.4, 0.4), 0.05, 0.95))
    half = n // 2
    stream = np.concatenate(
        [beta_stream(generator, mean, half), beta_stream(generator, shifted, n - half)]
    )
    detectors = (
        ConfidenceSequenceDetector("betting", 50, engine="exact", history=0),
        CompositeEDetector(50, kind="cusum", history=0),
        CompositeEDetector(50, kind="sr", history=0),
    )
    return [detector.detect(stream, trace=False).index or n + 1 for detector in detectors]


def pathwise(run: Run) -> Iterator[Claim]:
    """A sum over starts is at least its maximum, so that SR alarms first on every stream."""
    n_rep = run.scale(smoke=10, quick=200, full=2000)
    tasks = [(i, 400, run.seed) for i in range(n_rep)]
    times = run.cached("pathwise", lambda: run.map(pathwise_task, tasks, "order on every path"))
    wrong = sum(not sr <= cusum <= repeated for repeated, cusum, sr in times)
    yield Claim(
        "pathwise",
        "With the same bets SR alarms no later than CUSUM, and CUSUM no later than the repeated "
        "sequence, on every stream",
        Measurement(wrong, "streams against it", repeats=n_rep),
        Equal(0.0),
        note="All starts are kept (exact engine); a stream without an alarm counts as its length.",
    )


# 8. Few starts are enough.


def engines(run: Run) -> Iterator[Claim]:
    """The geometric engine beside the exact one."""
    n_rep = run.scale(smoke=5, quick=100, full=500)
    length = run.scale(smoke=20_000, quick=1_000_000, full=10_000_000)

    def compute() -> dict[str, list[int | None]]:
        found: dict[str, list[int | None]] = {}
        for engine in ("geometric", "exact"):
            generator = run.generator("engines")
            detector = ConfidenceSequenceDetector(
                cs.Gaussian(1.0), arl=1000, engine=engine, history=0
            )
            found[engine] = [
                detector.detect(functional_stream("mean", generator, 1000, 1000), trace=False).index
                for _ in range(n_rep)
            ]
        return found

    alarms = run.cached("engines", compute)
    geometric, exact = (summarise_delays(alarms[e], 1000, 1000) for e in ("geometric", "exact"))
    yield Claim(
        "engine-delay",
        "Keeping O(log n) starts costs at most a tenth of the delay with all of them",
        measured(geometric),
        AtMost(factor=1.1),
        baseline=measured(exact),
        baseline_name="all starts",
        paired_standard_error=paired(geometric, exact, 1.1),
    )

    def active() -> int:
        detector = ConfidenceSequenceDetector(cs.Gaussian(1.0), arl=1e12, history=0)
        stream = run.generator("active").normal(size=length)
        detector.update_many(stream)
        return detector.n_active_

    count = run.cached("active", active)
    yield Claim(
        "engine-active",
        f"Fewer than 100 sequences are active after {length:,} observations",
        Measurement(count, "sequences"),
        AtMost(99),
    )


# 9. Where the change was.


def place_task(task: tuple[int, float, int]) -> list[list[int]]:
    """Of the confidence set at the alarm, and later: whether it holds the change, and its size."""
    i, level, seed = task
    generator = named_generator(seed, "place", i)
    change = int(generator.integers(40, 160))
    stream = np.concatenate([generator.normal(size=change), generator.normal(1.5, 1.0, 200)])
    sequence = cs.Gaussian(sigma=1.0, tune_at=50)
    alarm = ConfidenceSequenceDetector(sequence, arl=1000, history=0).detect(stream).index
    if alarm is None or alarm <= change:
        return []
    ends = (alarm, min(alarm + 30, len(stream)))
    sets = [confidence_set(stream[:n], level, sequence) for n in ends]
    return [[int(change in places), len(places)] for places in sets]


def places(run: Run) -> Iterator[Claim]:
    """The confidence set for the change point."""
    n_rep = run.scale(smoke=6, quick=500, full=2000)
    level = 0.9
    tasks = [(i, level, run.seed) for i in range(n_rep)]
    found = run.cached("places", lambda: run.map(place_task, tasks, "change-point sets"))
    for which, words in enumerate(("at the alarm", "30 observations later")):
        parts = [part[which] for part in found if part]
        yield Claim(
            f"place-{which}",
            f"The {level:.0%} confidence set for the change point, taken {words}, holds it at "
            "least that often",
            share(bool(part[0]) for part in parts),
            AtLeast(level),
            note="Over the streams whose alarm came after the change. "
            f"Median size {np.median([part[1] for part in parts]):.0f} places; the change is "
            "after 40 to 160 observations.",
        )
