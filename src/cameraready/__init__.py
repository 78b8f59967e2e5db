"""Machine-learning methods in the state that is fit to use.

Each system is a sub-package of its own, loaded when it is first named:

>>> import cameraready
>>> cameraready.claims.AtLeast(bound=20.0)
AtLeast(bound=20.0, factor=1.0)

``cameraready list`` on the command line, or :data:`cameraready.catalogue.SYSTEMS`, tells which
systems there are.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_FRAME = ("catalogue", "claims", "common", "datasets")


def __getattr__(name: str) -> Any:
    # Sub-packages load on first use, so that importing cameraready imports nothing heavy.
    if not name.startswith("_") and name in __dir__():
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from cameraready.catalogue import SYSTEMS

    return sorted(["__version__", *_FRAME, *(system.slug for system in SYSTEMS)])
