import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rows import toy_rows

from cameraready.claims import Verdict
from cameraready.claims.machine import cores
from cameraready.claims.results import Results
from cameraready.claims.runner import Options, run_experiments

SMOKE = Options(budget="smoke")


def run(out, *names, options=SMOKE):
    rows = toy_rows(*names)
    results = run_experiments(rows, out, options, catalogue=rows)
    return {result.slug: result for result in results.systems}


def test_one_experiment_takes_no_other_down(tmp_path, toys, capfd):
    jobs = Options(budget="smoke", jobs=min(2, cores()))
    out = tmp_path / "out"
    found = run(out, "raises", "exits", "pool_dies", "not_a_claim", "good", options=jobs)
    assert {slug: result.status for slug, result in found.items()} == {
        "raises": "failed",
        "exits": "failed",
        "pool_dies": "failed",
        "not_a_claim": "failed",
        "good": "finished",
    }
    # What was settled before the end is kept beside the error.
    assert [len(found[slug].claims) for slug in ("raises", "exits")] == [1, 1]
    assert found["raises"].error == "RuntimeError: the second part broke"
    assert 'File "toys.py"' in found["raises"].details
    assert found["exits"].error == "its process ended by itself with exit code 7"
    assert "yields Claims" in found["not_a_claim"].error
    good = found["good"]
    assert [claim.verdict for claim in good.claims] == [
        Verdict.HOLDS,
        Verdict.WITHIN_NOISE,
        Verdict.DOES_NOT_HOLD,
        Verdict.HOLDS,
        Verdict.NOT_TESTABLE,
    ]
    assert good.settings == {"rounds": "3"}
    assert all((out / name).is_file() for name in (good.figures[0].light, good.figures[0].png))
    printed = capfd.readouterr().out
    assert "good: holds: squares add up" in printed
    assert "exits: failed" in printed
    assert "\x1b" not in printed
    page = (out / "report.html").read_text()
    assert "the second part broke" in page
    assert "exit code 7" in page


def test_results_tell_versions_and_machine_but_no_names(tmp_path, toys):
    run(tmp_path / "out", "good", "raises")
    text = (tmp_path / "out" / "results.json").read_text()
    data = json.loads(text)
    assert data["schema_version"] == 1
    assert (data["budget"], data["seed"]) == ("smoke", 0)
    assert set(data["machine"]) == {"cpu", "cores", "system", "python"}
    assert "numpy" in data["versions"]
    assert "pytest" not in data["versions"]
    assert data["systems"][0]["seconds"] > 0
    assert data["systems"][0]["claims"][0]["verdict"] == "holds"
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert socket.gethostname() not in text
    # A user called "root" or "a" would be found in any text.
    assert len(getpass.getuser()) < 6 or getpass.getuser() not in text


def test_a_killed_experiment_goes_on_where_it_was(tmp_path, toys):
    out = tmp_path / "out"
    first = run(out, "killed_once")["killed_once"]
    assert first.status == "failed"
    assert "signal 9 (SIGKILL)" in first.error
    assert len(first.claims) == 1
    second = run(out, "killed_once")["killed_once"]
    assert second.status == "finished"
    assert len(second.claims) == 2
    assert (toys / "computed").read_text() == "x"


def test_a_finished_experiment_is_not_run_again_unless_asked(tmp_path, toys, capfd):
    out = tmp_path / "out"
    (toys / "killed").touch()
    started = run(out, "killed_once")["killed_once"].started
    assert run(out, "killed_once")["killed_once"].started == started
    assert "finished before" in capfd.readouterr().out
    assert (toys / "computed").read_text() == "x"
    run(out, "killed_once", options=Options(budget="smoke", again=True))
    assert (toys / "computed").read_text() == "xx"
    # Another budget or seed is another result, and the first is kept.
    run(out, "killed_once", options=Options(budget="smoke", seed=1))
    assert (toys / "computed").read_text() == "xxx"
    assert len(list((out / "systems").iterdir())) == 2


def test_results_of_other_systems_stay(tmp_path, toys):
    rows = toy_rows("good", "raises")
    run_experiments(rows[:1], tmp_path, SMOKE, catalogue=rows)
    results = run_experiments(rows[1:], tmp_path, SMOKE, catalogue=rows)
    assert [result.slug for result in results.systems] == ["good", "raises"]


def test_a_damaged_system_file_is_run_again(tmp_path, toys, capfd):
    run(tmp_path, "good")
    (path,) = (tmp_path / "systems").iterdir()
    path.write_text(path.read_text()[:100])
    assert run(tmp_path, "good")["good"].status == "finished"
    assert "damaged, so it is run again" in capfd.readouterr().out


@pytest.mark.parametrize("content", ['{"schema_version": 1, "syst', "[]", '{"schema_version": 99}'])
def test_a_results_file_that_is_not_ours_stops_everything(tmp_path, toys, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match="left as it is"):
        run(tmp_path, "good")
    assert [entry.name for entry in tmp_path.iterdir() if entry != toys] == ["results.json"]
    assert (tmp_path / "results.json").read_text() == content


def test_results_come_back_as_they_were_written(tmp_path, toys):
    run(tmp_path, "good")
    path = tmp_path / "results.json"
    Results.read(path).write(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_text() == path.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "huge"}, "budget"),
        ({"seed": -1}, "seed"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": 10**6}, "number of cores here"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)


def alive(process_id):
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_ending_the_runner_ends_its_workers(tmp_path, toys, sent):
    code = (
        "from pathlib import Path; from rows import toy_rows;"
        "from cameraready.claims.runner import *;"
        f"rows = toy_rows('hangs'); run_experiments(rows, Path({str(tmp_path / 'out')!r}),"
        " Options(budget='smoke'), catalogue=rows)"
    )
    runner = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    mark = toys / "hanging"
    wait_for(lambda: mark.exists() and mark.read_text())
    workers = mark.read_text().split()
    os.kill(runner.pid, sent)
    assert runner.wait(20) != 0
    wait_for(lambda: not any(map(alive, workers)))
    if sent == signal.SIGINT:
        (result,) = Results.read(tmp_path / "out" / "results.json").systems
        assert result.status == "interrupted"
        assert len(result.claims) == 1
        assert "goes on where it was" in (tmp_path / "out" / "report.html").read_text()
