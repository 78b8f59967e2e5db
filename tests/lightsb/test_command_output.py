"""What the verbs say: warnings as notes, bars on terminals only, tables in either format."""

import io
import sys
import warnings

import pandas as pd
import pytest

from cameraready.lightsb.command_output import bar, notes, write_table


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self):
        return True


@notes()
def work(*categories):
    """Warn, as the library does within a verb."""
    for category in categories:
        warnings.warn(f"{category.__name__} was raised", category, stacklevel=1)
    if categories == (UserWarning,):
        raise ValueError("wrong")


def test_notes_are_said_once_and_other_warnings_stay_warnings(capsys):
    with pytest.warns(RuntimeWarning, match="was raised") as caught:
        work(UserWarning, RuntimeWarning, UserWarning)
    assert capsys.readouterr().err == "note: UserWarning was raised\n"
    assert [warning.filename for warning in caught] == [__file__]


def test_notes_are_said_when_the_work_fails(capsys):
    with pytest.raises(ValueError, match="wrong"):
        work(UserWarning)
    assert capsys.readouterr().err == "note: UserWarning was raised\n"


def test_a_bar_is_for_terminals(monkeypatch):
    shown = []
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with bar("fitting") as advance:
            advance(1, 2)
            advance(2, 2)
        shown.append(stream.getvalue())
    assert "fitting" in shown[0]
    assert "100%" in shown[0]
    assert shown[1] == ""


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_tables(tmp_path, name):
    rows = [{"eps": 0.1, "solver": "one"}, {"eps": 1.0, "solver": "two"}]
    write_table(tmp_path / name, rows)
    read = pd.read_csv if name == "t.csv" else pd.read_parquet
    assert read(tmp_path / name).to_dict("records") == rows
