"""Data that Debian ships inside R packages: fetched and unpacked without installing anything.

python -m cameraready.datasets.debian r-bioc-destiny
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cameraready.common.cache import cache_folder

__all__ = ["fetch_debian_package"]


def fetch_debian_package(package: str) -> Path:
    """Download a Debian package with apt and unpack it into the cache folder.

    Neither root nor R is needed, and nothing is installed. A package that is there already is not
    fetched again.

    Parameters
    ----------
    package
        Its name, for example "r-bioc-destiny".

    Returns
    -------
    Path
        The folder in which the package is unpacked.

    Raises
    ------
    RuntimeError
        If apt is missing or does not find the package.
    """
    folder = cache_folder("debian", package)
    if folder.exists():
        return folder
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise RuntimeError(
            f"{package} is fetched with Debian's or Ubuntu's {' and '.join(missing)}, which this "
            f"machine has not; unpack the .deb elsewhere and copy the tree to {folder}"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Unpacked beside its place and renamed, so that half a package is never taken for a whole one.
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        work = Path(temporary)
        _download(package, work)
        unpacked = work / "unpacked"
        _call("dpkg-deb", "-x", str(next(work.glob("*.deb"))), str(unpacked), cwd=work)
        unpacked.rename(folder)
    return folder


def _download(package: str, work: Path) -> None:
    download = ("apt-get", "download", package)
    # Where the machine's own lists are empty (as in a fresh container) or old, lists of our own do,
    # and need no root. As root, apt would hand over to a user who cannot write here.
    own = [work / "lists" / "partial", work / "archives" / "partial"]
    options = (
        "-oAPT::Sandbox::User=root",
        f"-oDir::State::Lists={own[0].parent}",
        f"-oDir::Cache={work}",
    )
    try:
        _call(*download, "-oAPT::Sandbox::User=root", cwd=work)
    except RuntimeError:
        for folder in own:
            folder.mkdir(parents=True)
        _call("apt-get", "update", *options, cwd=work)
        _call(*download, *options, cwd=work)


def _call(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{' '.join(command[:2])} failed: {lines[-1]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the packages that are named on the command line; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cameraready.datasets.debian",
        description="Fetch Debian packages and unpack them into the cache folder.",
    )
    parser.add_argument("packages", nargs="+", metavar="package")
    for package in parser.parse_args(arguments).packages:
        try:
            print(fetch_debian_package(package))
        except (OSError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
