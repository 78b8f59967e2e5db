"""The few things that every system needs and no library gives."""

from cameraready.common.cache import cache_folder, load_or_compute
from cameraready.common.checks import (
    check_choice,
    check_greater,
    check_interval,
    check_positive,
    check_writable_folder,
)
from cameraready.common.device import resolve_device
from cameraready.common.files import atomic_write
from cameraready.common.plotting import plot_style
from cameraready.common.pretrained import convert_gguf, smollm2_folder
from cameraready.common.seeding import named_generator

__all__ = [
    "atomic_write",
    "cache_folder",
    "check_choice",
    "check_greater",
    "check_interval",
    "check_positive",
    "check_writable_folder",
    "convert_gguf",
    "load_or_compute",
    "named_generator",
    "plot_style",
    "resolve_device",
    "smollm2_folder",
]
