"""The machine and the versions that a result comes from, without anything that names its owner."""

import contextlib
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

__all__ = ["cores", "describe_machine", "library_versions"]


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine() -> dict[str, str | int]:
    """CPU, cores, operating system and Python of this machine."""
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def library_versions() -> dict[str, str]:
    """The installed version of every library that a result can depend on."""
    # What the extras for work on cameraready itself bring has no part in a result.
    tools = re.compile(r"extra == .(?:test|lint|docs|bench)\b")
    lines = [line for line in requires("cameraready") or [] if not tools.search(line)]
    versions = {}
    for name in sorted({re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines}):
        if name != "cameraready":
            with contextlib.suppress(PackageNotFoundError):
                versions[name] = version(name)
    return versions


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()
