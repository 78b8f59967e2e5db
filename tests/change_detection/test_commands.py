"""The verbs on real files, in this process and in one of their own."""

import csv
import io
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cameraready.app import run
from cameraready.change_detection import (
    CompositeEDetector,
    ConfidenceSequenceDetector,
    cs,
    records,
)

RNG = np.random.default_rng(12)
UNIT = np.concatenate([RNG.beta(2, 8, 150), RNG.beta(8, 2, 100), RNG.beta(2, 8, 110)]).round(4)
NORMAL = (3.0 * RNG.normal(size=360) + np.repeat([20.0, 28.0, 20.0], [150, 100, 110])).round(3)
COINS = (RNG.random(360) < np.repeat([0.1, 0.9, 0.1], [150, 100, 110])).astype(int)
COUNTS = RNG.poisson(np.repeat([2.0, 9.0, 2.0], [150, 100, 110]))

# name: (options, values, the same detector from the library)
CHOICES = {
    "sr": ([], UNIT, lambda: CompositeEDetector(200)),
    "cusum": ([], UNIT, lambda: CompositeEDetector(200, kind="cusum")),
    "bounded": ([], UNIT, lambda: ConfidenceSequenceDetector("bounded", 200)),
    "betting": ([], UNIT, lambda: ConfidenceSequenceDetector("betting", 200)),
    "hoeffding": ([], COINS, lambda: ConfidenceSequenceDetector("hoeffding", 200)),
    "gaussian": (
        ["--sigma", "3", "--tune-at", "50"],
        NORMAL,
        lambda: ConfidenceSequenceDetector(cs.Gaussian(3.0, tune_at=50), 200),
    ),
    "subgaussian": (
        ["--sigma", "3"],
        NORMAL,
        lambda: ConfidenceSequenceDetector(cs.SubGaussian(3.0), 200),
    ),
    "bernoulli": ([], COINS, lambda: ConfidenceSequenceDetector("bernoulli", 200)),
    "poisson": ([], COUNTS, lambda: ConfidenceSequenceDetector("poisson", 200)),
    "catoni": (
        ["--sigma", "3"],
        NORMAL,
        lambda: ConfidenceSequenceDetector(cs.Catoni(9.0), 200),
    ),
    "quantile": (
        ["--p", "0.5", "--assume-iid"],
        NORMAL,
        lambda: ConfidenceSequenceDetector(cs.Quantile(0.5, assume_iid=True), 200),
    ),
    "cdf": (
        ["--assume-iid"],
        NORMAL,
        lambda: ConfidenceSequenceDetector(cs.CDF(assume_iid=True), 200),
    ),
}
SR = ["--arl", "200"]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the folder in which commands then run."""
    monkeypatch.chdir(tmp_path)

    def write(name, content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
        return name

    return write


@pytest.fixture
def call(capsys):
    """Run a verb: exit code, standard output, standard error."""

    def call(*tokens):
        capsys.readouterr()
        code = run(["change-detection", *map(str, tokens)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def refused(call):
    """Run a verb on bad input; its sentence."""

    def refused(*tokens):
        code, _, err = call(*tokens)
        assert code == 2
        assert err.startswith("cameraready: ")
        assert len(err.splitlines()) == 1
        assert err.endswith("\n")
        assert "Traceback" not in err
        return err.removeprefix("cameraready: ").strip()

    return refused


@pytest.fixture
def stdin(monkeypatch):
    def stdin(content):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))

    return stdin


def column(values, name="value"):
    return f"{name}\n" + "".join(f"{value}\n" for value in values)


def lines(out):
    return [json.loads(line) for line in out.splitlines()]


def indices(out):
    return [alarm["index"] for alarm in lines(out)]


def ends(value):
    return None if value is None else list(value)


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def detections(detector, values):
    for value in values:
        detector.update(float(value))
        if detector.drift_detected:
            yield detector.detections_[-1]


# watch.


@pytest.mark.parametrize("name", CHOICES)
def test_watch_prints_what_the_library_finds(name, write, call):
    options, values, make = CHOICES[name]
    code, out, err = call(
        "watch", write("f.csv", column(values)), "--cs", name, "--arl", 200, *options
    )
    assert (code, err) == (0, "")
    expected = [
        {
            "index": found.index,
            "row": found.index,
            "time": None,
            "estimate_before": plain(found.before),
            "estimate_after": plain(found.after),
            "direction": found.direction,
            "change_point": found.change_point,
            "change_interval": ends(found.change_interval),
        }
        for found in detections(make(), values)
    ]
    assert lines(out) == expected
    assert 150 < expected[0]["index"] < 250
    assert abs(expected[0]["change_point"] - 150) <= 10


def csv_rows(separator, end="\n"):
    rows = ["day,ms", *(f"d{n},{value}" for n, value in enumerate(UNIT, start=1))]
    return end.join(row.replace(",", separator) for row in rows) + end


@pytest.mark.parametrize(
    "content",
    [
        csv_rows(","),
        csv_rows(";"),
        csv_rows("\t"),
        csv_rows(",", "\r\n"),
        "\ufeff" + csv_rows(";", "\r\n"),
        csv_rows(",").rstrip("\n"),
        csv_rows(",").replace("day,ms", '"day","ms"'),
        csv_rows(",").replace("\n", "\n\n"),
        "".join(json.dumps({"day": f"d{n}", "ms": x}) + "\n" for n, x in enumerate(UNIT, 1)),
        "\n".join(json.dumps({"ms": str(x), "day": f"d{n}"}) for n, x in enumerate(UNIT, 1)),
    ],
    ids=["comma", "semicolon", "tab", "crlf", "bom", "no-end", "quoted", "blank", "json", "text"],
)
def test_watch_reads_files_of_every_kind(content, write, call):
    expected = CompositeEDetector(200).update_many(UNIT)
    code, out, err = call("watch", write("f", content), "--column", "ms", "--time", "day", *SR)
    assert (code, err) == (0, "")
    assert [(a["index"], a["row"], a["time"]) for a in lines(out)] == [
        (n, n, f"d{n}") for n in expected
    ]


def test_watch_reads_standard_input(stdin, call):
    expected = CompositeEDetector(200).update_many(UNIT)
    stdin(column(UNIT))
    code, out, err = call("watch", "-", *SR)
    assert (code, err, indices(out)) == (0, "", expected)


def test_a_header_in_quotes_may_hold_commas(write, call):
    content = '"latency, ms",b\n' + "".join(f"{x},1\n" for x in UNIT)
    code, out, _ = call("watch", write("f", content), "--column", "latency, ms", *SR)
    assert code == 0
    assert indices(out) == CompositeEDetector(200).update_many(UNIT)


def test_a_time_in_json_keeps_its_type(write, call):
    content = "".join(json.dumps({"t": n, "x": x}) + "\n" for n, x in enumerate(UNIT, 1))
    _, out, _ = call("watch", write("f", content), "--column", "x", "--time", "t", *SR)
    assert [a["time"] for a in lines(out)] == indices(out)


def test_alarms_are_json_whatever_the_time_is(write, call):
    content = "".join(f'{{"t": NaN, "x": {x}}}\n' for x in UNIT)
    _, out, _ = call("watch", write("f", content), "--column", "x", "--time", "t", *SR)

    def constant(name):
        raise AssertionError(f"{name} is not JSON")

    for line in out.splitlines():
        json.loads(line, parse_constant=constant)


def test_alarms_decide_the_exit_code_only_if_asked(write, call):
    loud, still = write("loud", column(UNIT)), write("still", column(UNIT[:140]))
    for verb in ("watch", "batch"):
        assert call(verb, loud, *SR)[0] == 0
        assert call(verb, loud, *SR, "--fail-on-alarm")[0] == 3
        assert call(verb, still, "--arl", 1e6, "--fail-on-alarm")[0] == 0


def test_options_reach_the_detector(write, call):
    path = write("f", column(10 * UNIT - 5))
    for options, detector in (
        (["--direction", "up"], CompositeEDetector(50, range=(-5, 5), direction="up")),
        (["--direction", "down"], CompositeEDetector(50, range=(-5, 5), direction="down")),
        (["--theta0", "-3"], CompositeEDetector(50, range=(-5, 5), theta0=-3.0)),
        (
            ["--cs", "bounded", "--theta0", "-3"],
            ConfidenceSequenceDetector("bounded", 50, range=(-5, 5), theta0=-3.0),
        ),
    ):
        code, out, _ = call("watch", path, "--arl", 50, "--range", -5, 5, *options)
        assert code == 0
        assert indices(out) == detector.update_many(10 * UNIT - 5)
        assert out


def test_missing_values_may_be_skipped_and_rows_stay_rows(write, call):
    values = UNIT[:200].tolist()
    kept = CompositeEDetector(200).update_many(values)
    for n in (10, 60, 100):
        values.insert(n, "")
    content = "x,y\n" + "".join(f"{x},1\n" for x in values)
    code, out, _ = call("watch", write("f", content), "--column", "x", "--on-nan", "skip", *SR)
    assert code == 0
    assert [(a["index"], a["row"]) for a in lines(out)] == [(n, n + 3) for n in kept]


@pytest.mark.parametrize("policy", ["clip", "skip"])
def test_values_out_of_range_may_be_clipped_or_skipped(policy, write, call):
    values = UNIT.copy()
    values[[20, 40, 200]] = [1.5, -3.0, 7.0]
    detector = CompositeEDetector(200, on_range=policy)
    expected = detector.update_many(values)
    code, out, err = call("watch", write("f", column(values)), "--on-range", policy, *SR)
    assert (code, err, indices(out)) == (0, "", expected)


def test_with_a_known_level_the_change_is_where_the_values_changed(write, call):
    path = write("f", column([0.1] * 100 + [0.9] * 60))
    for options in (["--cs", "bounded"], ["--cs", "gaussian", "--sigma", "0.5"], []):
        _, out, _ = call("watch", path, "--theta0", 0.1, "--arl", 1000, *options)
        first = lines(out)[0]
        assert first["index"] > 100
        assert first["change_point"] == 100
        assert first["estimate_before"] == pytest.approx(0.1)


# monitor and two-sample.


def test_monitor_watches_the_errors(write, call):
    wrong = COINS.astype(bool)
    expected = CompositeEDetector(200).update_many(wrong)
    content = "y,yhat,t\n" + "".join(
        f"cat,{'dog' if bad else ' cat '},{n}\n" for n, bad in enumerate(wrong, start=1)
    )
    path = write("f", content)
    code, out, _ = call("monitor", path, "--label", "y", "--pred", "yhat", "--time", "t", *SR)
    assert code == 0
    assert [(a["index"], a["time"]) for a in lines(out)] == [(n, str(n)) for n in expected]
    assert expected
    options = ["--label", "y", "--pred", "yhat", "--cs", "bernoulli", "--fail-on-alarm", *SR]
    code, out, _ = call("monitor", path, *options)
    assert code == 3
    assert indices(out) == ConfidenceSequenceDetector("bernoulli", 200).update_many(wrong)


@pytest.mark.parametrize(("label", "pred"), [("3", "3.0"), ("1", "1.00"), ("0", "-0.0")])
def test_monitor_takes_equal_numbers_for_equal_labels(label, pred, write, call):
    """A table with a gap in a column of whole numbers is written with 3.0 for 3."""
    path = write("f", "y,yhat\n" + f"{label},{pred}\n" * 100 + f"{label},9\n" * 100)
    code, out, _ = call("monitor", path, "--label", "y", "--pred", "yhat", *SR)
    assert code == 0
    assert lines(out)[0]["index"] > 100


def test_monitor_reads_json(write, call):
    content = "".join(json.dumps({"y": 1, "p": int(n >= 100)}) + "\n" for n in range(200))
    code, out, _ = call("monitor", write("f", content), "--label", "y", "--pred", "p", *SR)
    assert code == 0
    assert lines(out)[0]["change_point"] == 100
    assert lines(out)[0]["direction"] == "down"


def test_monitor_leaves_rows_without_label_or_prediction_out(write, call, refused):
    path = write("f", "y,p\na,a\n,a\na,\na,a\n")
    assert call("monitor", path, "--label", "y", "--pred", "p", "--on-nan", "skip")[0] == 0
    assert "row 2" in refused("monitor", path, "--label", "y", "--pred", "p")


def pairs(x, y):
    return "x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True))


def test_two_sample_watches_the_difference_of_means(write, call):
    x, y = UNIT, np.random.default_rng(1).beta(2, 8, 360).round(4)
    detector = ConfidenceSequenceDetector(cs.TwoSampleMean((0.0, 1.0)), 200)
    expected = detector.update_many(np.stack([x, y], axis=1))
    path = write("f", pairs(x, y))
    code, out, _ = call("two-sample", path, "--x", "x", "--y", "y", *SR)
    assert (code, indices(out)) == (0, expected)
    assert lines(out)[0]["direction"] == "up"
    assert lines(out)[0]["estimate_after"] == pytest.approx(0.6, abs=0.15)
    code, out, _ = call("two-sample", path, "--x", "y", "--y", "x", *SR, "--fail-on-alarm")
    assert (code, lines(out)[0]["direction"]) == (3, "down")


def test_two_sample_watches_the_distance_of_distributions(write, call):
    rng = np.random.default_rng(2)
    x = rng.normal(size=600).round(4)
    y = np.concatenate([rng.normal(size=300), 8.0 + rng.normal(size=300)]).round(4)
    detector = ConfidenceSequenceDetector(cs.TwoSampleKS(assume_iid=True), 200)
    expected = detector.update_many(np.stack([x, y], axis=1))
    options = ["--x", "x", "--y", "y", "--test", "ks", "--assume-iid", *SR]
    code, out, _ = call("two-sample", write("f", pairs(x, y)), *options)
    assert (code, indices(out)) == (0, expected)
    assert expected[0] > 300


# batch.


def test_batch_writes_the_changes(write, call):
    detector = CompositeEDetector(200)
    detector.detect_all(UNIT)
    path = write("f", column(UNIT))
    code, out, err = call("batch", path, *SR, "--out", "out.csv", "--plot", "out.png")
    assert (code, err) == (0, "")
    with Path("out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == [
        "index",
        "row",
        "change_point",
        "change_interval_first",
        "change_interval_last",
        "estimate_before",
        "estimate_after",
        "direction",
    ]
    for row, found in zip(table, detector.detections_, strict=True):
        assert (int(row["index"]), int(row["change_point"])) == (found.index, found.change_point)
        assert row["row"] == row["index"]
        assert float(row["estimate_before"]) == pytest.approx(found.before)
        assert float(row["estimate_after"]) == pytest.approx(found.after)
        assert row["direction"] == found.direction
        assert row["change_interval_first"] == ""
    assert f"360 observations, alarms: {len(table)}" in out
    for row in table:
        assert row["index"] in out
    assert Path("out.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(p.name for p in Path().iterdir()) == ["f", "out.csv", "out.png"]


def test_batch_writes_the_intervals_that_witnesses_give(write, call):
    call("batch", write("f", column([0.1] * 300 + [0.9] * 100)), "--cs", "bounded", "--out", "o")
    (row,) = csv.DictReader(io.StringIO(Path("o").read_text()))
    assert row["change_point"] == "300"
    assert (row["change_interval_first"], row["change_interval_last"]) == ("300", "300")


def test_batch_without_a_change(write, call):
    path = write("f", column([0.5] * 50))
    code, out, _ = call("batch", path, "--out", "o.csv", "--plot", "p.svg")
    assert (code, out) == (0, "50 observations, alarms: 0\n")
    assert len(Path("o.csv").read_text().splitlines()) == 1
    assert "<svg" in Path("p.svg").read_text()


@pytest.mark.parametrize(("name", "start"), [("p.PNG", b"\x89PNG"), ("p.pdf", b"%PDF")])
@pytest.mark.parametrize("choice", ["sr", "bounded", "cdf", "quantile"])
def test_batch_draws_every_kind(name, start, choice, write, call):
    options, values, _ = CHOICES[choice]
    path = write("f", column(values))
    assert call("batch", path, "--cs", choice, *SR, *options, "--plot", name)[0] == 0
    assert Path(name).read_bytes().startswith(start)


@pytest.mark.parametrize("restart", ["after_alarm", "at_change"])
def test_batch_goes_on_where_it_is_told(restart, write, call):
    detector = ConfidenceSequenceDetector("bounded", 200)
    places = detector.detect_all(UNIT, restart)
    path = write("f", column(UNIT))
    options = ["--cs", "bounded", "--restart", restart, *SR]
    assert call("batch", path, *options, "--out", "o")[0] == 0
    table = list(csv.DictReader(io.StringIO(Path("o").read_text())))
    assert [int(row["change_point"]) for row in table] == places
    assert [int(row["index"]) for row in table] == detector.alarms_


def test_batch_agrees_with_watch(write, call):
    for name, (options, values, _) in CHOICES.items():
        path = write("f", column(values))
        _, out, _ = call("watch", path, "--cs", name, *SR, *options)
        call("batch", path, "--cs", name, *SR, *options, "--out", "o")
        table = csv.DictReader(io.StringIO(Path("o").read_text()))
        assert [int(row["index"]) for row in table] == indices(out)


def test_batch_says_how_many_rows_it_left_out(write, call):
    path = write("f", "x,y\n0.5,1\n,1\n3,1\n0.5,1\n")
    options = ["--column", "x", "--on-nan", "skip", "--on-range", "skip", "--plot", "p.png"]
    code, out, _ = call("batch", path, *options)
    assert (code, out) == (0, "2 observations, 2 left out, alarms: 0\n")


def test_batch_reads_standard_input(stdin, call):
    stdin(column(UNIT))
    code, out, _ = call("batch", "-", *SR)
    assert code == 0
    assert "360 observations" in out


# plan and simulate.


def test_plan_prints_the_librarys_numbers(call):
    from cameraready.change_detection import detectable_shift, plan

    code, out, err = call(
        "plan", "--shift", 0.4, "--arl", 500, "--cs", "gaussian", "--sigma", 0.5, "--before", 2000
    )
    assert (code, err) == (0, "")
    sequence = cs.Gaussian(0.5)
    found = plan(500, 0.4, sequence, before=2000)
    unseen = detectable_shift(sequence.with_alpha(1 / 500), 2000)
    numbers = re.findall(r"[\d.]+$|(?<=with )\d+", out, flags=re.MULTILINE)
    assert numbers == [
        str(found.minimum_before),
        "2000",
        f"{np.ceil(found.delay_bound):.0f}",
        f"{unseen:.4g}",
        f"{np.ceil(found.delay_bound_known):.0f}",
    ]


@pytest.mark.parametrize("choice", ["bounded", "betting", "hoeffding", "bernoulli"])
def test_plan_for_every_sequence(choice, call):
    code, out, _ = call("plan", "--shift", 0.5, "--arl", 100, "--cs", choice)
    assert code == 0
    assert len(out.splitlines()) == 4


def test_plan_for_a_shift_that_is_too_small(call):
    code, out, _ = call("plan", "--shift", 1e-4)
    assert code == 0
    assert "more than 100000" in out
    assert out.count("too small") == 2
    assert "inf" not in out


@pytest.mark.parametrize("distribution", ["normal", "bernoulli", "beta"])
def test_simulate(distribution, call):
    options = ["--distribution", distribution, "--n-rep", 20, "--horizon", 300, "--change", 200]
    if distribution == "normal":
        options += ["--cs", "gaussian", "--sigma", 0.5, "--shift", 1]
    code, out, err = call("simulate", *options, "--arl", 1000)
    assert (code, err) == (0, "")
    assert call("simulate", *options, "--arl", 1000)[1] == out
    assert call("simulate", *options, "--arl", 1000, "--seed", 1)[1] != out
    assert "of 20 streams alarmed" in out
    delay = float(re.search(r"mean delay ([\d.]+)", out)[1])
    assert 0 < delay < 300


def test_simulate_says_so_if_every_stream_alarmed_before_the_change(call):
    code, out, _ = call("simulate", "--n-rep", 3, "--arl", 20, "--change", 400)
    assert code == 0
    assert "100.0% alarmed before it" in out
    assert "nan" not in out


# --state.


@pytest.mark.parametrize("name", CHOICES)
def test_interrupted_and_resumed_is_uninterrupted(name, write, call):
    options, values, _ = CHOICES[name]
    command = ["watch", "f.csv", "--cs", name, *SR, *options]
    write("f.csv", column(values))
    whole = call(*command)[1]
    assert whole
    alarm = indices(whole)[0]
    for cuts in ([1, 90, 170, 251], [alarm - 1, alarm, alarm + 1]):
        Path("state").unlink(missing_ok=True)
        parts = []
        for i, cut in enumerate([*cuts, len(values)]):
            write("f.csv", column(values[:cut]))
            code, out, err = call(*command, "--state", "state")
            assert code == 0
            assert err == (f"resuming behind row {cuts[i - 1]}\n" if i else "")
            parts.append(out)
        assert "".join(parts) == whole


def test_rows_that_were_taken_in_are_not_taken_in_again(write, call):
    path = write("f", column(UNIT))
    command = ["watch", path, *SR, "--state", "state", "--fail-on-alarm"]
    assert call(*command)[0] == 3
    before = Path("state").read_text()
    assert call(*command) == (0, "", "resuming behind row 360\n")
    assert Path("state").read_text() == before


def test_another_file_is_taken_in_whole(write, call):
    first, second = write("a", column(UNIT[:180])), write("b", column(UNIT[180:]))
    expected = CompositeEDetector(200).update_many(UNIT)
    _, out, _ = call("watch", first, *SR, "--state", "state")
    found = indices(out)
    code, out, err = call("watch", second, *SR, "--state", "state")
    assert code == 0
    assert "another file" in err
    assert found + indices(out) == expected
    assert [a["row"] for a in lines(out)] == [n - 180 for n in indices(out)]


def test_standard_input_is_taken_in_whole(stdin, call, tmp_path):
    expected = CompositeEDetector(200).update_many(UNIT)
    found = []
    for part in (UNIT[:170], UNIT[170:]):
        stdin(column(part))
        code, out, _ = call("watch", "-", *SR, "--state", tmp_path / "state")
        assert code == 0
        found += indices(out)
    assert found == expected


def test_a_bad_row_keeps_what_came_before(write, call, refused):
    values = [*map(str, UNIT)]
    expected = CompositeEDetector(200).update_many(UNIT)
    for bad, words in (("oops", "not a number"), ("3", "outside"), ("1,2", "fields")):
        Path("state").unlink(missing_ok=True)
        write("f", column([*values[:200], bad, *values[201:]]))
        command = ["watch", "f", *SR, "--state", "state"]
        code, out, err = call(*command)
        assert code == 2
        assert words in err
        assert "row 201" in err
        assert len(err.splitlines()) == 1
        found = indices(out)
        write("f", column(values))
        code, out, err = call(*command)
        assert (code, err) == (0, "resuming behind row 200\n")
        assert found + indices(out) == expected


def test_monitor_and_two_sample_resume_too(write, call):
    x, y = UNIT, 1 - UNIT
    for command, content in (
        (["two-sample", "f", "--x", "x", "--y", "y"], pairs(x, y)),
        (["monitor", "f", "--label", "x", "--pred", "y"], pairs(COINS, 0 * COINS)),
    ):
        Path("state").unlink(missing_ok=True)
        write("f", content)
        _, whole, _ = call(*command, *SR)
        assert whole
        write("f", "".join(content.splitlines(keepends=True)[:180]))
        found = call(*command, *SR, "--state", "state")[1]
        write("f", content)
        assert found + call(*command, *SR, "--state", "state")[1] == whole


def test_a_state_of_another_configuration_names_what_differs(write, call, refused):
    path = write("f", column(UNIT))
    call("watch", path, *SR, "--state", "state")
    before = Path("state").read_bytes()
    shown = refused("watch", path, "--arl", 300, "--direction", "up", "--state", "state")
    for words in ("state", "arl (saved 200", "here 300", "direction (saved 'both', here 'up')"):
        assert words in shown
    assert "range" not in shown
    assert "cs" in refused("watch", path, "--cs", "bounded", *SR, "--state", "state")
    assert Path("state").read_bytes() == before


def test_a_state_of_another_column_is_another_configuration(write, call, refused):
    path = write("f", pairs(UNIT, UNIT[::-1]))
    call("watch", path, "--column", "x", *SR, "--state", "state")
    assert "column" in refused("watch", path, "--column", "y", *SR, "--state", "state")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"3",
        b"null",
        b"{}",
        b"\xff\xfe",
        b'{"detector": 3, "rows": 1, "position": 1, "checksum": 1}',
        b'{"detector": {"format": 2}, "rows": 1, "position": 1, "checksum": 1}',
    ],
)
def test_what_is_no_state_file(content, write, refused):
    path, state = write("f", column(UNIT)), write("state", content)
    assert "state" in refused("watch", path, "--state", state)
    assert Path("state").read_bytes() == content


@pytest.mark.parametrize("damage", ["cut", "place", "text", "array", "missing"])
def test_a_damaged_state_file(damage, write, call, refused):
    path = write("f", column(UNIT[:100]))
    call("watch", path, *SR, "--state", "state")
    text = Path("state").read_text()
    saved = json.loads(text)
    if damage == "cut":
        text = text[: len(text) // 2]
    elif damage == "place":
        text = json.dumps(saved | {"rows": "many"})
    elif damage == "missing":
        del saved["detector"]["engine"]["wealth"]
        text = json.dumps(saved)
    else:
        array = saved["detector"]["engine"]["wealth"]
        array["data"] = "?" if damage == "text" else array["data"][:-8]
        text = json.dumps(saved)
    Path("state").write_text(text)
    shown = refused("watch", path, *SR, "--state", "state")
    assert "state" in shown
    assert any(words in shown for words in ("damaged", "not a state file"))
    assert Path("state").read_text() == text


# --follow.


@pytest.fixture
def growing(monkeypatch):
    """Instead of sleeping, a followed file grows; then Ctrl-C is pressed."""

    def growing(path, parts):
        parts = list(parts)

        def sleep(seconds):
            assert seconds > 0
            if not parts:
                raise KeyboardInterrupt
            with Path(path).open("ab") as file:
                file.write(parts.pop(0).encode())

        monkeypatch.setattr(records, "time", SimpleNamespace(sleep=sleep))

    return growing


def test_follow_sees_whole_lines_until_it_is_interrupted(write, call, growing):
    text = column(UNIT)
    cuts = [*range(0, len(text) - 2, 97), len(text)]  # hardly ever at the end of a line
    path = write("f", "")
    growing(path, [text[a:b] for a, b in itertools.pairwise(cuts)])
    code, out, err = call("watch", path, "--follow", *SR, "--state", "state")
    assert (code, err) == (130, "cameraready: interrupted\n")
    expected = CompositeEDetector(200).update_many(UNIT)
    assert indices(out) == expected
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00", a["time"]) for a in lines(out))
    saved = json.loads(Path("state").read_text())
    assert (saved["rows"], saved["position"]) == (360, len(text))
    assert saved["detector"]["alarms"] == expected


def test_a_last_line_that_is_not_whole_waits(write, call, growing):
    # Read half, 0.9 would be 0 and then out of order; and 1e-1 would be no number.
    path = write("f", "value\n0.5\n0.")
    growing(path, ["", "9", "\n1e-", "1\n", "0.7"])
    assert call("watch", path, "--follow", "--state", "state")[0] == 130
    saved = json.loads(Path("state").read_text())
    assert saved["rows"] == 3
    detector = CompositeEDetector(10_000)
    detector.load_state_dict(saved["detector"])
    assert detector._held()[:, 0].tolist() == [0.5, 0.9, 0.1]


def test_what_was_followed_is_resumed(write, call, growing):
    text = column(UNIT)
    path = write("f", text[:500])
    growing(path, [text[500:900]])
    found = indices(call("watch", path, "--follow", *SR, "--state", "state")[1])
    growing(path, [text[900:]])
    code, out, err = call("watch", path, "--follow", *SR, "--state", "state")
    assert code == 130
    assert "resuming behind row" in err
    assert found + indices(out) == CompositeEDetector(200).update_many(UNIT)


def test_a_bad_row_ends_following_too(write, call, growing):
    path = write("f", "value\n0.5\n")
    growing(path, ["oops\n"])
    code, _, err = call("watch", path, "--follow")
    assert code == 2
    assert "row 2" in err


def test_monitor_follows(write, call, growing):
    path = write("f", "y,p\n" + "a,a\n" * 100)
    growing(path, ["a,b\n" * 50])
    code, out, _ = call("monitor", path, "--label", "y", "--pred", "p", "--follow", *SR)
    assert code == 130
    assert lines(out)[0]["change_point"] == 100


def wait_for(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


COMMAND = Path(sys.executable).with_name("cameraready")


def test_following_in_a_process_of_its_own_until_ctrl_c(tmp_path):
    path, state = tmp_path / "log.csv", tmp_path / "state"
    text = column(UNIT)
    half = text.index("\n", 800) + 3  # within a line
    path.write_text(text[:half])
    process = subprocess.Popen(
        [
            *(COMMAND, "change-detection", "watch", path, "--follow", "--poll", "0.02"),
            *(*SR, "--state", state),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(state.exists, process)
        with path.open("a") as file:
            file.write(text[half:])
        wait_for(lambda: json.loads(state.read_text())["rows"] == 360, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err == "cameraready: interrupted\n"
    assert indices(out) == CompositeEDetector(200).update_many(UNIT)
    assert json.loads(state.read_text())["position"] == len(text)


def test_a_followed_file_that_is_rotated_and_a_process_that_is_told_to_end(tmp_path):
    path, state = tmp_path / "log.csv", tmp_path / "state"
    path.write_text(column(UNIT[:200]))
    process = subprocess.Popen(
        [
            *(COMMAND, "change-detection", "watch", path, "--follow", "--poll", "0.02"),
            *(*SR, "--state", state),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: state.exists() and json.loads(state.read_text())["rows"] == 200, process)
        path.write_text(column(UNIT[200:]))
        wait_for(lambda: json.loads(state.read_text())["rows"] == 160, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert "has become shorter: reading it anew" in err
    assert indices(out) == CompositeEDetector(200).update_many(UNIT)
    assert json.loads(state.read_text())["detector"]["n"] == 360


def test_a_pipe_of_processes(tmp_path):
    result = subprocess.run(
        [COMMAND, "change-detection", "watch", "-", *SR, "--fail-on-alarm"],
        input=column(UNIT),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 3
    assert result.stderr == ""
    assert indices(result.stdout) == CompositeEDetector(200).update_many(UNIT)


def test_bad_input_in_a_process_of_its_own(tmp_path):
    result = subprocess.run(
        [COMMAND, "change-detection", "watch", tmp_path / "none.csv"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"cameraready: {tmp_path / 'none.csv'}: no such file or directory\n"


# Bad input.

FILES = {
    "empty": ("", "f is empty"),
    "blank": ("\n\n", "f is empty"),
    "header": ("value\n", "f has a header but no rows"),
    "text": ("value\n0.1\nfoo\n", "f, row 2: column 'value' holds 'foo', not a number"),
    "comma": ("value;b\n0,5;1\n", "f has several columns: name one with --column: value, b"),
    "missing": ("value\n0.1\nnan\n", "f, row 2: no value in column 'value'; add --on-nan skip"),
    "infinite": ("value\n0.1\ninf\n", "f, row 2: value inf is not finite; add --on-nan skip"),
    "range": ("value\n0.1\n1.5\n", "f, row 2: value 1.5 lies outside the declared range [0, 1]"),
    "ragged": ("a,b\n1,2\n3\n", "f, row 2 has 1 field, but the header names 2"),
    "long": ("value\n0.1\n0.2,0.3\n", "f, row 2 has 2 fields, but the header names 1"),
    "twice": ("a,a\n1,2\n", "f has two columns of the same name"),
    "latin": (b"value\n0.1\n\xe9\n", "f, row 2: not UTF-8 text"),
    "utf-16": ("value\n0.1\n".encode("utf-16"), "not UTF-8 text"),
    "json": ('{"value": 0.1}\n{"value": \n', "f, row 2: not a complete JSON object"),
    "list": ('{"value": 0.1}\n[0.1]\n', "f, row 2: not a JSON object"),
    "null": ('{"value": 0.1}\n{"value": null}\n', "f, row 2: no value in column 'value'"),
    "nested": ('{"value": [1]}\n', "f, row 1: column 'value' holds [1], not a number"),
    "json-columns": ('{"a": 1, "b": 2}\n', "name one with --column: a, b"),
}


@pytest.mark.parametrize("verb", ["watch", "batch"])
@pytest.mark.parametrize("name", FILES)
def test_bad_files(verb, name, write, refused):
    content, words = FILES[name]
    options = ["--column", "a"] if name == "ragged" else []
    if name == "ragged":
        options += ["--cs", "poisson"]
    assert words in refused(verb, write("f", content), *options)


@pytest.mark.parametrize("verb", ["watch", "batch"])
def test_files_that_cannot_be_read(verb, write, refused, tmp_path):
    assert refused(verb, tmp_path / "none") == f"{tmp_path / 'none'}: no such file or directory"
    assert refused(verb, tmp_path) == f"{tmp_path}: is a directory"
    write("file", "")
    assert "file/below: not a directory" in refused(verb, "file/below")


@pytest.mark.parametrize("verb", ["watch", "batch"])
def test_a_column_that_is_not_there(verb, write, refused):
    path = write("f", "a,b\n0.1,0.2\n")
    assert refused(verb, path, "--column", "c") == "f has no column 'c'; its columns are: a, b"
    path = write("f", '{"a": 1, "b": 2}\n')
    assert refused(verb, path, "--column", "c") == "f has no column 'c'; its columns are: a, b"


def test_other_columns_that_are_not_there(write, refused):
    path = write("f", "a,b\n0.1,0.2\n")
    for tokens in (
        ["watch", path, "--column", "a", "--time", "c"],
        ["monitor", path, "--label", "c", "--pred", "b"],
        ["monitor", path, "--label", "a", "--pred", "c"],
        ["two-sample", path, "--x", "c", "--y", "b"],
        ["two-sample", path, "--x", "a", "--y", "c"],
    ):
        assert refused(*tokens) == "f has no column 'c'; its columns are: a, b"


@pytest.mark.parametrize("verb", ["watch", "batch"])
def test_a_file_without_a_header_is_told(verb, write, refused):
    path = write("f", "0.1,0.2\n0.3,0.4\n")
    assert "header" in refused(verb, path, "--column", "a")
    # Its first value would be lost in silence.
    assert "header" in refused(verb, write("f", "0.1\n0.2\n0.3\n"))


@pytest.mark.parametrize("verb", ["watch", "batch"])
def test_a_json_file_keeps_to_the_column_of_its_first_row(verb, write, refused):
    path = write("f", '{"a": 0.1}\n{"b": 0.2}\n')
    assert "row 2" in refused(verb, path)


@pytest.mark.parametrize("verb", ["watch", "batch"])
@pytest.mark.parametrize("content", ['[{"a": 0.1}, {"a": 0.2}]', "[1, 2]\n[3, 4]\n"])
def test_a_json_array_is_called_what_it_is(verb, content, write, refused):
    assert "JSON" in refused(verb, write("f", content))


@pytest.mark.parametrize("verb", ["watch", "batch"])
@pytest.mark.parametrize("content", ['a\n"' + "x" * 200_000 + '"\n', "a\r0.1\r0.2\r"])
def test_what_the_csv_module_refuses(verb, content, write, refused):
    assert refused(verb, write("f", content)).startswith("f")


OPTIONS = {
    "--arl 1": "arl must be a finite number greater than 1",
    "--arl -5": "arl must be a finite number greater than 1",
    "--arl nan": "arl must be a finite number greater than 1",
    "--range 1 0": "range must be two finite numbers with the lower one first",
    "--range 0 inf": "range must be two finite numbers",
    "--cs gaussian": "--cs gaussian needs --sigma",
    "--cs subgaussian": "--cs subgaussian needs --sigma",
    "--cs catoni": "--cs catoni needs --sigma",
    "--cs gaussian --sigma -1": "sigma must be a finite number greater than 0",
    "--cs gaussian --sigma 0": "sigma must be a finite number greater than 0",
    "--cs gaussian --sigma 1 --tune-at 0": "must be a finite number greater than 0",
    "--cs quantile --p 0.5": "add --assume-iid if yours are",
    "--cs cdf": "add --assume-iid if yours are",
    "--cs quantile --assume-iid": "--cs quantile needs --p",
    "--cs quantile --assume-iid --p 1.5": "p must be strictly between 0 and 1",
    "--cs cdf --assume-iid --direction up": "direction must be 'both'",
    "--cs bernoulli": "f, row 1: Bernoulli expects 0/1",
    "--cs poisson": "f, row 1: Poisson expects counts",
}


@pytest.mark.parametrize("verb", ["watch", "batch"])
@pytest.mark.parametrize("options", OPTIONS)
def test_bad_options(verb, options, write, refused):
    path = write("f", column(UNIT))
    assert OPTIONS[options] in refused(verb, path, *options.split())


def test_a_known_level_outside_the_range_is_refused(write, refused):
    """Every observation would contradict it, and alarm."""
    path = write("f", column(UNIT))
    for options in ([], ["--cs", "bounded"], ["--cs", "bernoulli"]):
        assert "theta0" in refused("watch", path, "--theta0", 7, *options)


def test_poll_must_be_positive(write, refused):
    assert "poll must be" in refused("watch", write("f", column(UNIT)), "--follow", "--poll", 0)


def test_two_sample_options(write, refused):
    path = write("f", "x,y\n0.1,0.2\n3,0.1\n,0.3\n")
    both = ["two-sample", path, "--x", "x", "--y", "y"]
    assert "add --assume-iid" in refused(*both, "--test", "ks")
    assert "row 2" in refused(*both)
    assert "range" in refused(*both, "--range", 1, 0)
    shown = refused(*both, "--on-range", "skip")
    assert "row 3" in shown
    assert "--on-nan skip" in shown


def test_plan_and_simulate_options(refused):
    for tokens, words in (
        ("plan --shift 0", "shift must be"),
        ("plan --shift 0.1 --arl 1", "arl must be"),
        ("plan --shift 0.1 --cs gaussian", "needs --sigma"),
        ("plan --shift 0.1 --cs gaussian --sigma -1", "sigma must be"),
        ("plan --shift 0.1 --before 0", "before must be"),
        ("plan --shift 0.1 --range 1 0", "range must be"),
        ("plan --shift 0.1 --standard-deviation 3", "must fit the range"),
        ("simulate --mean 0.9 --shift 0.2", "must lie between 0 and 1"),
        ("simulate --n-rep 0", "n_rep must be"),
        ("simulate --horizon -1", "horizon must be"),
        ("simulate --arl 0", "arl must be"),
    ):
        assert words in refused(*tokens.split())


def test_a_scale_of_zero_is_not_silently_one(refused):
    shown = refused("plan", "--shift", 0.1, "--cs", "gaussian", "--sigma", 0)
    assert "sigma must be" in shown
    normal = ["simulate", "--distribution", "normal", "--on-range", "clip"]
    assert "sigma" in refused(*normal, "--sigma", 0)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--change -5", "change"),
        ("--seed -1", "seed"),
        ("--distribution normal --sigma -1 --on-range clip", "sigma"),
        ("--distribution normal", "--range"),
    ],
)
def test_simulate_speaks_of_its_own_options(options, word, refused):
    assert word in refused("simulate", "--n-rep", 3, *options.split())


def test_results_that_cannot_be_written_name_the_file_that_was_asked_for(write, refused):
    path = write("f", column(UNIT))
    write("file", "")
    for tokens in (
        ["batch", path, "--out", "file/x.csv"],
        ["batch", path, "--plot", "file/x.png"],
        ["watch", path, "--state", "file/x.json"],
        ["batch", path, "--out", "none/x.csv"],
        ["watch", path, "--state", "none/x.json"],
    ):
        assert re.search(r"(file|none)/x\.\w+\b(?!-)", refused(*tokens))
    assert sorted(p.name for p in Path().iterdir()) == ["f", "file"]


def test_a_state_that_cannot_be_saved_is_told_before_the_work(write, call):
    path = write("f", column(UNIT))
    write("file", "")
    code, out, _ = call("watch", path, *SR, "--state", "file/x.json")
    assert (code, out) == (2, "")


@pytest.mark.parametrize("name", ["p.txt", "p", "p.jpeg"])
def test_a_picture_of_a_kind_that_is_not_known(name, write, refused):
    path = write("f", column(UNIT))
    shown = refused("batch", path, "--plot", name, "--out", "o.csv")
    assert "--plot must end in .png, .svg or .pdf" in shown
    assert name in shown
    assert not Path(name).exists()


def test_nothing_left_to_draw(write, refused):
    path = write("f", "x,y\n,1\n,2\n")
    options = ["--column", "x", "--on-nan", "skip", "--plot", "p.png"]
    assert "f" in refused("batch", path, *options).split()[0]


@pytest.mark.parametrize(
    "tokens",
    [
        ["nonsense"],
        ["watch"],
        ["watch", "f", "g"],
        ["watch", "f", "--nonsense"],
        ["watch", "f", "--arl", "many"],
        ["watch", "f", "--cs", "mean"],
        ["watch", "f", "--range", "1"],
        ["batch", "f", "--restart", "never"],
        ["monitor", "f", "--label", "y"],
        ["two-sample", "f", "--x", "x"],
        ["plan"],
    ],
    ids=" ".join,
)
def test_a_command_line_that_is_not_understood(tokens, write, call):
    write("f", column(UNIT))
    write("g", column(UNIT))
    code, out, err = call(*tokens)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    word = tokens[-1] if tokens[-1] in ("nonsense", "--nonsense", "g", "mean", "many") else ""
    assert word in err
    assert len(err.splitlines()) == 1


# Help.


@pytest.mark.parametrize("verb", ["watch", "monitor", "two-sample", "batch", "plan", "simulate"])
def test_every_verb_explains_itself(verb, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = call(verb, "--help")
    assert code == 0
    assert "--arl" in out
    assert "--empty-range" not in out  # there is no range without its two numbers


def test_batch_names_the_rows_where_some_are_left_out(write, call):
    gaps = [None if i % 2 else x for i, x in enumerate(np.repeat(UNIT, 2).tolist())]
    path = write("f", "x,y\n" + "".join(f"{'' if x is None else x},1\n" for x in gaps))
    code, out, _ = call("batch", path, "--column", "x", "--on-nan", "skip", *SR, "--out", "o.csv")
    assert code == 0
    with Path("o.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert table
    assert all(int(row["row"]) == 2 * int(row["index"]) - 1 for row in table)
    assert "360 observations, 360 left out" in out


def test_batch_does_not_write_over_what_it_reads(write, refused):
    path = write("f", column(UNIT))
    before = Path("f").read_bytes()
    assert "--out" in refused("batch", path, "--out", "f")
    assert Path("f").read_bytes() == before
