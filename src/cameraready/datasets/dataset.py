"""What every function here returns."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Dataset"]


@dataclass(frozen=True)
class Dataset:
    """Arrays by name, and where they come from.

    Attributes
    ----------
    name : str
    arrays : dict of ndarray
        What each holds is in the function's docstring.
    source : str
        Origin and licence.
    """

    name: str
    arrays: dict[str, np.ndarray] = field(repr=False)
    source: str

    def __getitem__(self, name: str) -> np.ndarray:
        """One of the arrays."""
        return self.arrays[name]
