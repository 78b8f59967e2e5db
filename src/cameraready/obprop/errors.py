"""What can be wrong with an observable, a path, a model or a pair of features."""

from collections.abc import Iterable

__all__ = [
    "PathError",
    "SiteMismatchError",
    "TokenizationError",
    "UnsupportedArchitectureError",
]


class TokenizationError(ValueError):
    """A string of an observable is not exactly one token."""


class PathError(ValueError):
    """A path is not in order, names what the model does not have, or lacks a prompt pair."""


class SiteMismatchError(ValueError):
    """Feature vectors are used together, or at a place, where they do not live."""


class UnsupportedArchitectureError(ValueError):
    """No adapter knows a model's architecture.

    Parameters
    ----------
    model_type
        The model's type, as its configuration names it.
    supported
        The types that have an adapter.
    """

    def __init__(self, model_type: str, supported: Iterable[str]) -> None:
        self.model_type = model_type
        self.supported = sorted(supported)
        super().__init__(model_type, self.supported)

    def __str__(self) -> str:
        return (
            f"model is of type {self.model_type!r}, which has no adapter; decoder-only models of "
            f"these types work: {', '.join(self.supported)}; register_adapter adds another"
        )
