import tomllib
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

import cameraready
from cameraready import catalogue
from cameraready.catalogue import SYSTEMS, find_system

ROOT = Path(__file__).parents[1]


def test_every_row_is_a_system_that_is_there():
    extras = metadata("cameraready").get_all("Provides-Extra")
    for system in SYSTEMS:
        assert find_spec(f"cameraready.{system.slug}") is not None
        assert system.extra in extras
        folder = Path(cameraready.__file__).parent / system.slug
        for path in (system.commands, system.experiment):
            name = path.partition(":")[0].rpartition(".")[2]
            assert (folder / f"{name}.py").is_file()


def test_every_system_is_in_the_import_contracts():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    slugs = {f"cameraready.{system.slug}" for system in SYSTEMS}
    assert set(contracts[0]["modules"]) == slugs
    assert set(contracts[1]["source_modules"]) == slugs
    assert set(contracts[2]["forbidden_modules"]) == slugs


@pytest.mark.parametrize("name", ["change-detection", "change_detection"])
def test_both_spellings_are_found(name):
    assert find_system(name).slug == "change_detection"


def test_an_unknown_system_names_the_known_ones():
    with pytest.raises(ValueError, match=r"no system 'nope'; the systems are: change-detection"):
        find_system("nope")


def test_what_is_missing_comes_with_the_pip_command(monkeypatch):
    system = find_system("change-detection")
    monkeypatch.setattr(
        catalogue, "find_spec", lambda name: name not in {"numba", "pandas"} or None
    )
    assert system.how_to_install() == (
        "change-detection needs numba and pandas, not installed here: "
        "pip install 'cameraready[change-detection]'"
    )
    monkeypatch.setattr(catalogue, "find_spec", lambda name: name != "river" or None)
    assert system.how_to_install() == ""
    assert system.how_to_install(claims=True) == (
        "the claims of change-detection need river, not installed here: "
        "pip install 'cameraready[claims]'"
    )
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    assert "cameraready[change-detection,claims]" in system.how_to_install(claims=True)


def test_what_is_installed_without_dependencies_is_named_to_pip_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = catalogue.find_system("lightsb")
    monkeypatch.setattr(catalogue, "find_spec", lambda name: name != "torchcfm" or None)
    assert system.how_to_install(claims=True) == (
        "the claims of lightsb need torchcfm, not installed here: "
        "pip install --no-deps torchcfm torchdyn"
    )
    pinned = (Path(__file__).parents[1] / "without-dependencies.txt").read_text(encoding="utf-8")
    for row in catalogue.SYSTEMS:
        assert set(row.alone) <= set(row.claims_modules)
        for package in " ".join(row.alone.values()).split():
            assert f"\n{package}==" in pinned


def test_rows_can_be_kept_in_a_set() -> None:
    assert len(set(SYSTEMS)) == len(SYSTEMS)
