"""How the loops of this folder are compiled: kept on disk, without the interpreter's lock."""

from numba import njit

__all__ = ["compiled", "inlined"]

# Division by zero gives infinity, as in numpy, instead of a branch to an exception.
compiled = njit(cache=True, nogil=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
