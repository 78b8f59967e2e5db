"""change_detection beside its peers: cost, and delay at equal run length.

The peers are river, ruptures and, where `changepoint-online` (GPL-3) is installed, FOCuS.

Prints Markdown tables. Costs are process CPU time; ours and the peer's take turns on the same
data, and the ratio is the median of the paired ratios. Takes about a minute on one core.
"""

import math
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numba
import numpy as np
import ruptures
from river import drift

from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    MultiStream,
    cs,
)

try:
    import changepoint_online
except ModuleNotFoundError:
    changepoint_online = None

ROUNDS = 5
Job = Callable[[], object]


def cpu(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def in_turn(ours: Job, peers: dict[str, Job]) -> tuple[float, dict[str, tuple[float, float]]]:
    """Our median time, and each peer's with the median of the paired ratios peer / ours."""
    jobs = {"": ours, **peers}
    for job in jobs.values():
        job()
    times = [{name: cpu(job) for name, job in jobs.items()} for _ in range(ROUNDS)]
    median = {name: statistics.median(t[name] for t in times) for name in jobs}
    ratio = {name: statistics.median(t[name] / t[""] for t in times) for name in peers}
    return median[""], {name: (median[name], ratio[name]) for name in peers}


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    for row in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(row) + " |")


def feed(detector, stream: list[float]) -> None:
    for x in stream:
        detector.update(x)


def feed_focus(stream: list[float]) -> None:
    detector = changepoint_online.Focus(changepoint_online.Gaussian())
    for x in stream:
        detector.update(x)
        detector.statistic()


OURS = {
    "composite SR": lambda arl: CompositeEDetector(arl),
    "composite CUSUM": lambda arl: CompositeEDetector(arl, kind="cusum"),
    "geometric sub-Gaussian": lambda arl: ConfidenceSequenceDetector(cs.SubGaussian(0.5), arl),
    "geometric empirical Bernstein": lambda arl: ConfidenceSequenceDetector("bounded", arl),
}


def streaming() -> None:
    stream = np.random.default_rng(0).beta(4, 6, 2000).tolist()
    peers: dict[str, Job] = {
        "ADWIN": lambda: feed(drift.ADWIN(), stream),
        "PageHinkley": lambda: feed(drift.PageHinkley(), stream),
        "DDM": lambda: feed(drift.binary.DDM(), [x < 0.4 for x in stream]),
        "KSWIN": lambda: feed(drift.KSWIN(seed=0), stream),
    }
    if changepoint_online is not None:
        peers["FOCuS (Python)"] = lambda: feed_focus(stream)
    rows = []
    for name, make in OURS.items():
        ours, others = in_turn(lambda make=make: feed(make(10_000), stream), peers)
        shown = [f"{ratio:.3g}" for _, ratio in others.values()]
        rows.append([name, f"{ours / len(stream) * 1e6:.2f} µs", *shown])
    rows.append(
        ["(the peer itself)", "", *(f"{t / len(stream) * 1e6:.2f} µs" for t, _ in others.values())]
    )
    table(
        f"Cost of one `update`, {len(stream)} Beta(4, 6) values; columns: the peer's time / ours",
        ["ours", "a value", *others],
        rows,
    )


def batch() -> None:
    generator = np.random.default_rng(0)
    values = generator.beta(4, 6, 300_000)
    rows = []
    targets = {"geometric sub-Gaussian": 400, "geometric empirical Bernstein": 150}
    for name, make in OURS.items():
        detector = make(1e12)
        detector.update_many(values[:100])
        taken = statistics.median(
            cpu(lambda d=detector: (d.reset(), d.update_many(values))) for _ in range(ROUNDS)
        )
        target = targets.get(name, 500)
        rows.append([name, f"{len(values) / taken / 1e3:,.0f} thousand", f"{target} thousand"])
    table(
        f"Batch, {len(values):,} values, one core",
        ["ours", "values a second", "wanted: at least"],
        rows,
    )


def numpy_exact(x: np.ndarray, sigma: float, rho: float, alpha: float) -> int | None:
    """The exact engine as one would write it with numpy: all starts in arrays, a loop over time."""
    n = len(x)
    sums = np.zeros(n)
    lower, upper = -math.inf, math.inf
    for t in range(n):
        sums[: t + 1] += x[t]
        m = np.arange(t + 1, 0, -1.0)
        half = sigma * np.sqrt((m + rho) * (np.log((m + rho) / rho) - 2 * math.log(alpha))) / m
        mean = sums[: t + 1] / m
        lower, upper = max(lower, (mean - half).max()), min(upper, (mean + half).min())
        if lower > upper:
            return t + 1
    return None


def exact() -> None:
    rows = []
    for n in (500, 2000, 8000):
        x = np.random.default_rng(n).normal(size=n)
        detector = ConfidenceSequenceDetector(cs.Gaussian(1.0, rho=10.0), 1e6, engine="exact")
        assert detector.detect(x, trace=False).index == numpy_exact(x, 1.0, 10.0, 1e-6)
        ours, peers = in_turn(
            lambda d=detector, x=x: d.detect(x, trace=False),
            {"numpy": lambda x=x: numpy_exact(x, 1.0, 10.0, 1e-6)},
        )
        taken, ratio = peers["numpy"]
        rows.append([f"{n:,}", f"{ours * 1e3:.1f} ms", f"{taken * 1e3:.1f} ms", f"{ratio:.1f}"])
    table(
        "Exact engine (all starts) beside the same in numpy",
        ["values", "ours", "numpy", "numpy / ours"],
        rows,
    )


def offline() -> None:
    generator = np.random.default_rng(1)
    changes = [300, 700, 1100, 1600]
    levels = [0.3, 0.5, 0.35, 0.6, 0.45]
    parts = np.split(np.arange(2000), changes)
    x = np.concatenate(
        [
            generator.beta(10 * p, 10 * (1 - p), len(part))
            for p, part in zip(levels, parts, strict=True)
        ]
    )
    detector = CompositeEDetector(arl=10_000)
    penalty = 3 * math.log(len(x)) * x[:300].var()

    def ours():
        return detector.detect_all(x, restart="at_change")

    def pelt():
        return ruptures.Pelt(model="l2", min_size=5, jump=1).fit(x).predict(penalty)[:-1]

    def window():
        return ruptures.Window(width=100, model="l2").fit(x).predict(pen=penalty)[:-1]

    taken, peers = in_turn(ours, {"ruptures Pelt (l2)": pelt, "ruptures Window (l2)": window})
    rows = [
        ["composite SR, `detect_all`", f"{taken * 1e3:.2f} ms", "1", str([int(k) for k in ours()])]
    ]
    for (name, (peer, ratio)), job in zip(peers.items(), (pelt, window), strict=True):
        rows.append([name, f"{peer * 1e3:.1f} ms", f"{ratio:.0f}", str([int(k) for k in job()])])
    table(
        f"Offline, 2000 Beta values, changes after {changes} (ruptures: penalty 3 σ² log n)",
        ["method", "time", "time / ours", "changes found"],
        rows,
    )


def streams() -> None:
    x = np.random.default_rng(2).beta(4, 6, (200, 10_000))
    many = MultiStream(CompositeEDetector(10_000), 10_000)
    many.update_many(x[:2])
    adwins = [drift.ADWIN() for _ in range(100)]

    def peer() -> None:
        for i, adwin in enumerate(adwins):
            feed(adwin, x[:, i].tolist())

    ours, peers = in_turn(lambda: many.update_many(x), {"ADWIN": peer})
    each, _ = peers["ADWIN"]
    ours, each = ours / x.size, each / (100 * len(x))
    table(
        "10,000 streams side by side, 200 values each (CPU time, over all cores)",
        ["ours: `MultiStream`, composite SR", "ADWIN, a loop over streams", "ADWIN / ours"],
        [[f"{ours * 1e6:.3f} µs a value", f"{each * 1e6:.3f} µs a value", f"{each / ours:.1f}"]],
    )


# Delay at equal run length.


def focus_alarm(threshold: float, stream: np.ndarray) -> int | None:
    detector = changepoint_online.Focus(changepoint_online.Gaussian())
    for n, x in enumerate(stream / 0.148, start=1):  # the standard deviation before the change
        detector.update(x)
        if detector.statistic() >= threshold:
            return n
    return None


def river_alarm(make: Callable[[float], object]) -> Callable[[float, np.ndarray], int | None]:
    def alarm(setting: float, stream: np.ndarray) -> int | None:
        detector = make(setting)
        for n, x in enumerate(stream.tolist(), start=1):
            detector.update(x)
            if detector.drift_detected:
                return n
        return None

    return alarm


def ours_alarm(name: str) -> Callable[[float, np.ndarray], int | None]:
    return lambda arl, stream: OURS[name](arl).detect(stream, trace=False).index


def beta(generator: np.random.Generator, mean: float, n: int) -> np.ndarray:
    return generator.beta(10 * mean, 10 * (1 - mean), n)


def matched() -> None:
    cut, change, horizon, delay_runs = 2000, 400, 1000, 60
    target = 1000.0  # mean of the run length, cut off at `cut`
    # name: first alarm, setting as a function of strictness, least and greatest strictness, runs
    methods = {
        "composite SR": (ours_alarm("composite SR"), lambda s: 10**s, 1.0, 5.0, 40),
        "composite CUSUM": (ours_alarm("composite CUSUM"), lambda s: 1.0 + 10**s, -2.0, 5.0, 40),
        "geometric sub-Gaussian": (
            ours_alarm("geometric sub-Gaussian"),
            lambda s: 1.0 + 10**s,
            -2.0,
            5.0,
            40,
        ),
        "geometric empirical Bernstein": (
            ours_alarm("geometric empirical Bernstein"),
            lambda s: 1.0 + 10**s,
            -2.0,
            5.0,
            40,
        ),
        "ADWIN": (river_alarm(lambda d: drift.ADWIN(delta=d)), lambda s: 10**-s, 0.001, 8.0, 40),
        "ADWIN at every value": (
            river_alarm(lambda d: drift.ADWIN(delta=d, clock=1)),
            lambda s: 10**-s,
            0.001,
            8.0,
            40,
        ),
        "PageHinkley": (
            river_alarm(lambda d: drift.PageHinkley(threshold=d)),
            lambda s: 10**s,
            -1.0,
            3.0,
            40,
        ),
        "KSWIN": (river_alarm(lambda a: drift.KSWIN(a, seed=0)), lambda s: 10**-s, 1.0, 8.0, 6),
    }
    if changepoint_online is not None:
        methods["FOCuS (knows σ)"] = (focus_alarm, lambda s: s, 2.0, 30.0, 20)
    rows = []
    for name, (alarm, to_setting, low, high, runs) in methods.items():
        still = [beta(np.random.default_rng([0, i]), 0.4, cut) for i in range(runs)]

        def mean_length(setting: float, still=still, alarm=alarm) -> float:
            return float(np.mean([alarm(setting, x) or cut for x in still]))

        for _ in range(7 if name != "KSWIN" else 5):
            middle = 0.5 * (low + high)
            if mean_length(to_setting(middle)) < target:
                low = middle
            else:
                high = middle
        setting = to_setting(high)
        cells = [name, f"{setting:.3g}", f"{mean_length(setting):.0f}"]
        early = []
        for after in (0.6, 0.5, 0.45):
            delays = []
            for i in range(delay_runs if runs > 6 else runs):
                generator = np.random.default_rng([1, i])
                x = np.concatenate([beta(generator, 0.4, change), beta(generator, after, horizon)])
                found = alarm(setting, x)
                early.append(found is not None and found <= change)
                if not early[-1]:
                    delays.append((found or change + horizon) - change)
            error = np.std(delays, ddof=1) / math.sqrt(len(delays)) if len(delays) > 1 else math.nan
            cells.append(f"{np.mean(delays):.0f} ± {error:.0f}")
        rows.append([*cells, f"{np.mean(early):.0%}", f"{runs}, {len(early) // 3}"])
    table(
        f"Mean delay at equal mean run length (about {target:.0f}, cut off at {cut}, on Beta with "
        f"mean .4); change after {change}, a miss counts {horizon}. Settings: 1/alpha for ours, "
        "river's and FOCuS's own for theirs, found by bisection",
        ["detector", "setting", "run length", "to .6", "to .5", "to .45", "alarms before", "runs"],
        rows,
    )


def main() -> None:
    names = ("river", "ruptures", "numpy", "numba")
    listed = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"{platform.machine()}, Python {platform.python_version()}, {listed}")
    if changepoint_online is None:
        print("changepoint-online is not installed: the FOCuS detector is left out")
    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers
        for part in (streaming, batch, exact, offline, streams, matched):
            part()


if __name__ == "__main__":
    main()
