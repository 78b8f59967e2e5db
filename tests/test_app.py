import json
import os
import subprocess
import sys

import pytest

import cameraready
from cameraready import app as app_module
from cameraready import catalogue
from cameraready.app import app, run


@pytest.fixture
def verb(monkeypatch):
    """Put a verb into the app for one test."""

    def add(function):
        app.command(function, name="list", show=False)

    kept = app["list"]
    del app["list"]
    yield add
    if "list" in app:
        del app["list"]
    app.command(kept, name="list")


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == cameraready.__version__


def test_help_names_verbs_and_systems(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in ("list", "claims", "report", "change-detection"):
        assert name in shown


@pytest.mark.parametrize("name", ["change-detection", "change_detection"])
def test_a_system_shows_its_verbs(name, capsys):
    assert run([name, "--help"]) == 0
    assert "watch" in capsys.readouterr().out


def test_list_shows_every_system(capsys):
    assert run(["list"]) == 0
    assert "change-detection" in capsys.readouterr().out


def test_list_shows_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    assert run(["list"]) == 0
    assert "pip install 'cameraready[change-detection]'" in capsys.readouterr().out


@pytest.mark.parametrize("tokens", [["nonsense"], ["claims", "nonsense"]])
def test_an_unknown_system_names_the_known_ones(tokens, capsys):
    assert run(tokens) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "no system 'nonsense'" in printed.err
    assert "change-detection" in printed.err


@pytest.mark.parametrize("tokens", [["change-detection", "watch"], ["claims", "change_detection"]])
def test_a_missing_extra_is_one_sentence(tokens, capsys, monkeypatch):
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    assert run(tokens) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert "pip install 'cameraready[change-detection" in printed


def test_claims_without_any_system_installed(capsys, monkeypatch):
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    assert run(["claims"]) == 2
    assert "no system is installed" in capsys.readouterr().err


def test_an_unwritable_folder_stops_before_any_work(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run(["claims", "--out", str(tmp_path / "file" / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "cannot write to the folder" in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ('{"schema_version": 1, "systems": [', "half-written"),
        ('{"schema_version": 7}', "schema version 7"),
        ('{"hello": 1}', "no schema version"),
        ("[1]", "no results"),
        ('{"schema_version": 1, "systems": [{}]}', "not a whole results file"),
    ],
)
def test_a_report_from_a_bad_results_file(tmp_path, content, message, capsys):
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    (tmp_path / "report.html").write_text("the old page")
    assert run(["report", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.splitlines()) == 1
    assert (tmp_path / "report.html").read_text() == "the old page"


def test_claims_and_report_from_end_to_end(tmp_path, toys, capsys, monkeypatch):
    from rows import toy_rows

    rows = tuple(toy_rows("good", "raises"))
    monkeypatch.setattr(app_module, "SYSTEMS", rows)
    out = tmp_path / "out"
    assert run(["claims", "good", "--budget", "smoke", "--out", str(out)]) == 0
    assert f"report:  {out / 'report.html'}" in capsys.readouterr().out
    assert run(["claims", "--budget", "smoke", "--out", str(out)]) == 1
    systems = json.loads((out / "results.json").read_text())["systems"]
    assert [system["status"] for system in systems] == ["finished", "failed"]
    (out / "report.html").unlink()
    assert run(["report", str(out)]) == 0
    assert (out / "report.html").is_file()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("arl must be\ngreater than 1"), 2, "arl must be greater than 1"),
        (TypeError("no"), 2, "no"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "x.csv: no such file"),
        (ModuleNotFoundError("No module", name="river"), 2, "pip install 'cameraready[all]'"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_sentence(error, code, message, verb, capsys):
    def fail():
        raise error

    verb(fail)
    assert run(["list"]) == code
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert message in printed


def test_debugging_shows_where_an_error_comes_from(verb, monkeypatch):
    def fail():
        raise ValueError("deep")

    verb(fail)
    monkeypatch.setenv("CAMERAREADY_DEBUG", "1")
    with pytest.raises(ValueError, match="deep"):
        run(["list"])


def test_a_verb_sets_the_exit_code(verb):
    verb(lambda: 3)
    assert run(["list"]) == 3


def test_a_wrong_option_is_exit_code_2(capsys):
    assert run(["claims", "--budget", "huge"]) == 2
    assert "quick" in capsys.readouterr().err


def test_a_closed_pipe_is_quiet():
    reading, writing = os.pipe()
    os.close(reading)
    code = "from cameraready.app import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == b""
