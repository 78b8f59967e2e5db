import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"numpy", "scipy", "matplotlib", "pandas", "numba", "torch", "ray", "jinja2", "river"}


def loaded_by(code):
    """Top-level modules that a fresh interpreter has loaded after ``code``."""
    code += "; import sys; print('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}, done.stdout


def test_importing_cameraready_loads_nothing_heavy():
    loaded, _ = loaded_by("import cameraready")
    assert not loaded & (HEAVY | {"cyclopts", "rich"})


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"]])
def test_the_quick_verbs_load_nothing_heavy(arguments):
    loaded, shown = loaded_by(f"from cameraready.app import run; run({arguments})")
    assert not loaded & HEAVY
    assert shown


def test_the_import_contracts_hold():
    command = shutil.which("lint-imports", path=Path(sys.executable).parent)
    assert command is not None
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
