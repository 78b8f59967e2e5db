import subprocess
from pathlib import Path

import pytest

from cameraready.common import cache_folder
from cameraready.datasets import debian
from cameraready.datasets.debian import fetch_debian_package, main


@pytest.fixture
def tools(monkeypatch):
    """Stands in for apt-get and dpkg-deb; a set of the calls that shall fail."""
    calls, fail = [], set()

    def run(command, *, cwd, **_):
        calls.append(command[:2])
        if command[:2] in fail:
            fail.remove(command[:2])
            return subprocess.CompletedProcess(command, 100, "", "W: old\nE: Unable to locate\n")
        if command[1] == "download":
            (Path(cwd) / f"{command[2]}_1_all.deb").touch()
        if command[0] == "dpkg-deb":
            Path(command[-1], "usr").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(debian.subprocess, "run", run)
    monkeypatch.setattr(debian.shutil, "which", lambda tool: f"/usr/bin/{tool}")
    return calls, fail


DOWNLOAD, UPDATE, UNPACK = ("apt-get", "download"), ("apt-get", "update"), ("dpkg-deb", "-x")


def test_a_package_is_fetched_once(tools):
    folder = fetch_debian_package("r-toy")
    assert folder == cache_folder("debian", "r-toy")
    assert [entry.name for entry in folder.iterdir()] == ["usr"]
    assert fetch_debian_package("r-toy") == folder
    assert tools[0] == [DOWNLOAD, UNPACK]
    assert list(folder.parent.iterdir()) == [folder]


def test_lists_of_its_own_where_the_machine_has_none(tools):
    calls, fail = tools
    fail.add(DOWNLOAD)
    fetch_debian_package("r-toy")
    assert calls == [DOWNLOAD, UPDATE, DOWNLOAD, UNPACK]


def test_nothing_is_left_of_a_fetch_that_fails(tools, capsys):
    tools[1].update({DOWNLOAD, UPDATE})
    assert main(["r-toy"]) == 1
    assert capsys.readouterr().err == "apt-get update failed: E: Unable to locate\n"
    assert list(cache_folder("debian").iterdir()) == []


def test_without_apt(monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda tool: None)
    with pytest.raises(RuntimeError, match="apt-get and dpkg-deb, which this machine has not"):
        fetch_debian_package("r-toy")


def test_the_command_prints_the_folder(tools, capsys):
    assert main(["r-toy"]) == 0
    assert Path(capsys.readouterr().out.strip()) == cache_folder("debian", "r-toy")
