"""Problems: 0 in F(z) + A(z), and min-max problems written as one."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.minmax.arrays import is_tensor
from cameraready.minmax.resolvents import as_resolvent

__all__ = ["VI", "Inclusion", "MinMax", "Variable", "join"]

# A resolvent with this small a step projects on the closure of A's domain.
_NO_STEP = 1e-12


def join(first: Any, second: Any) -> Any:
    """Two vectors, numpy or torch, as one."""
    if is_tensor(first):
        import torch

        return torch.cat((first, second))
    return np.concatenate((first, second))


def _vector(name: str, value: Any) -> Any:
    """An array or tensor as a vector of real numbers in floating point."""
    if is_tensor(value):
        vector = value.detach().reshape(-1)
        return vector if vector.is_floating_point() else vector.double()
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise ValueError
    except ValueError:
        raise TypeError(
            f"{name} must hold real numbers: an array, a tensor, or a dict of them"
        ) from None
    return array.reshape(-1) if array.dtype.kind == "f" else array.reshape(-1).astype(float)


class Variable:
    """A user's variable: how it lies in one vector, and the resolvent that keeps it in its set.

    Parameters
    ----------
    name : str
        The argument's name, for messages.
    start : array, tensor, or dict of them
        Shows the form: shapes, type, device. Its values are the starting point.
    resolvent : object with ``prox(z, step)``, or dict of them, or None
        J_{step A} on a value of that form: the last axis is the vector, axes before it are a
        batch. For a dict: one for the vector of all its entries, or a dict with one for each key.
        Anything that `as_resolvent` takes; None leaves everything as it is.
    """

    def __init__(self, name: str, start: Any, resolvent: Any = None) -> None:
        self.name = name
        self.keys: tuple[Any, ...] | None = None
        parts = [start]
        if isinstance(start, Mapping):
            self.keys, parts = tuple(start), list(start.values())
        if not parts:
            raise ValueError(f"{name} is empty: give a starting point")
        vectors = [_vector(name, part) for part in parts]
        self.shapes = [tuple(np.shape(part)) for part in parts]
        ends = np.cumsum([0, *(math.prod(shape) for shape in self.shapes)]).tolist()
        self.slices = [slice(*pair) for pair in pairwise(ends)]
        self.size = ends[-1]
        if self.size == 0:
            raise ValueError(f"{name} is empty: give a starting point")
        self.start = vectors[0]
        for vector in vectors[1:]:
            self.start = join(self.start, vector)
        if not math.isfinite(float(abs(self.start).max())):
            raise ValueError(f"{name} must be finite, but holds NaN or infinity")
        self._plain = self.keys is None and len(self.shapes[0]) == 1
        self._shaped = self.keys is None and len(self.shapes[0]) > 1
        self.resolvent = self._checked(resolvent)

    def pack(self, value: Any, what: str = "value") -> Any:
        """A value of the user's form as a vector.

        Raises
        ------
        ValueError
            If its shape or its keys differ from the starting point's.
        """
        if self.keys is None:
            if tuple(np.shape(value)) != self.shapes[0]:
                raise ValueError(
                    f"{what} has the shape {tuple(np.shape(value))}, but {self.name} has "
                    f"{self.shapes[0]}"
                )
            if is_tensor(self.start):
                return value.detach().reshape(-1)
            return np.asarray(value).reshape(-1)
        if not isinstance(value, Mapping) or set(value) != set(self.keys):
            raise ValueError(f"{what} must be a dict with the keys of {self.name}: {self.keys}")
        for key, shape in zip(self.keys, self.shapes, strict=True):
            if tuple(np.shape(value[key])) != shape:
                raise ValueError(
                    f"{what}[{key!r}] has the shape {tuple(np.shape(value[key]))}, but "
                    f"{self.name}[{key!r}] has {shape}"
                )
        if is_tensor(self.start):
            import torch

            return torch.cat([value[key].detach().reshape(-1) for key in self.keys])
        return np.concatenate([np.asarray(value[key]).reshape(-1) for key in self.keys])

    def unpack(self, vector: Any) -> Any:
        """The vector in the user's form; it shares memory with the vector."""
        if self._plain:
            return vector
        parts = [
            vector[part].reshape(shape)
            for part, shape in zip(self.slices, self.shapes, strict=True)
        ]
        return parts[0] if self.keys is None else dict(zip(self.keys, parts, strict=True))

    def prox(self, vector: Any, step: float) -> Any:
        """J_{step A} of a vector."""
        if self.resolvent is None:
            return vector
        if isinstance(self.resolvent, dict):
            parts = self.unpack(vector)
            for key, resolvent in self.resolvent.items():
                parts[key] = self._moved(resolvent, parts[key], step)
            return self.pack(parts, "what the resolvent returns")
        if self._shaped:
            return self._moved(self.resolvent, self.unpack(vector), step).reshape(-1)
        return self._moved(self.resolvent, vector, step)

    def _moved(self, resolvent: Any, value: Any, step: float) -> Any:
        moved = resolvent.prox(value, step)
        if moved.shape != value.shape:
            raise ValueError(
                f"the resolvent of {self.name} changes the shape from {tuple(value.shape)} to "
                f"{tuple(moved.shape)}; prox(z, step) must return what has the shape of z"
            )
        return moved

    def _checked(self, resolvent: Any) -> Any:
        if resolvent is None:
            return None
        if not isinstance(resolvent, Mapping):
            return as_resolvent(resolvent, f"the resolvent of {self.name}")
        if self.keys is None or not set(resolvent) <= set(self.keys):
            raise ValueError(f"a dict of resolvents needs a dict {self.name} with the same keys")
        return {
            key: as_resolvent(one, f"the resolvent of {self.name}[{key!r}]")
            for key, one in resolvent.items()
        }

    def project_start(self) -> bool:
        """Put the starting point into the domain of A; True if it was outside."""
        inside = self.prox(self.start, _NO_STEP)
        distance = float(abs(inside - self.start).max())
        if not distance > 1e-7 * (1.0 + float(abs(self.start).max())):
            return False
        self.start = inside
        return True


class Inclusion(ABC):
    """Find z with 0 in F(z) + A(z): what every solver here works on.

    Solvers see vectors; a subclass says what they mean. Evaluations are counted in `n_grad` and
    `n_prox`.

    Parameters
    ----------
    z0 : vector
        The starting point, numpy or torch; everything is computed in its type and on its device.
    radius : float, optional
        A bound on the distance from z0 to a solution, if one is known: gives the a-priori bound.
    diameter : float, optional
        A bound on the distance from any feasible point to a solution: gives that bound also after
        a reset of the anchor.
    """

    polyhedral = False  # restarts make the solvers linear; solve's restart="auto" asks for this
    symmetric = False  # F is a gradient up to signs, so that power iteration needs no transpose

    def __init__(
        self, z0: Any, *, radius: float | None = None, diameter: float | None = None
    ) -> None:
        self.z0, self.radius, self.diameter = z0, radius, diameter
        self.n_grad = self.n_prox = 0
        self.note = ""

    @abstractmethod
    def _evaluate(self, z: Any) -> Any:
        """F(z)."""

    @abstractmethod
    def _resolve(self, z: Any, step: float) -> Any:
        """J_{step A}(z)."""

    def operator(self, z: Any) -> Any:
        """F(z), counted."""
        self.n_grad += 1
        return self._evaluate(z)

    def resolvent(self, z: Any, step: float) -> Any:
        """J_{step A}(z) = (I + step A)^{-1}(z), counted."""
        self.n_prox += 1
        return self._resolve(z, step)

    def value(self, z: Any) -> Any:
        """The vector in the user's form."""
        return z

    def players(self, z: Any) -> tuple[Any, Any]:
        """(x, y) in the user's form, or (None, None) where there are no players."""
        return None, None

    def gap(self, z: Any) -> float | None:
        """The duality gap at z, where it can be computed."""
        return None

    def diagnose(self) -> tuple[str, str] | None:
        """Why no solution may have been found: a status and a sentence, if that can be told."""
        return None


class VI(Inclusion):
    """0 in F(z) + A(z): a variational inequality where A is the normal cone of a set.

    Parameters
    ----------
    F : callable
        F(z), of the form of z: a numpy array, a torch tensor, or a dict of tensors.
    z0 : array, tensor, or dict of them
        Starting point. If it is outside A's domain, it is projected, and the result's message
        says so.
    A : object with ``prox(z, step)``, optional
        A's resolvent; for a dict z0 also a dict of resolvents. Without it: unconstrained.
    radius, diameter : float, optional
        Bounds on the distance to a solution from z0, and from any feasible point.

    Raises
    ------
    TypeError, ValueError
        If z0 or the resolvent are not of this kind, or the resolvent changes the shape.

    Examples
    --------
    >>> problem = VI(lambda z: np.array([z[1], -z[0]]), np.array([1.0, 0.25]))
    >>> problem.operator(problem.z0).tolist(), problem.n_grad
    ([0.25, -1.0], 1)
    """

    def __init__(
        self,
        F: Callable[[Any], Any],  # noqa: N803
        z0: Any,
        A: Any = None,  # noqa: N803
        *,
        radius: float | None = None,
        diameter: float | None = None,
    ) -> None:
        if not callable(F):
            raise TypeError(f"F must be a function of z, not {F!r}")
        self.F = F
        self.variable = Variable("z0", z0, A)
        moved = self.variable.project_start()
        super().__init__(self.variable.start, radius=radius, diameter=diameter)
        if moved:
            self.note = "z0 was infeasible and has been projected"

    @override
    def _evaluate(self, z: Any) -> Any:
        return self.variable.pack(self.F(self.variable.unpack(z)), "what F returns")

    @override
    def _resolve(self, z: Any, step: float) -> Any:
        return self.variable.prox(z, step)

    @override
    def value(self, z: Any) -> Any:
        return self.variable.unpack(z)


class TwoPlayer(Inclusion):
    """What min-max problems share: z = (x, y), and a resolvent for each player.

    Parameters
    ----------
    x, y : Variable
        The minimising and the maximising player's variable.
    radius, diameter : float, optional
        As in `Inclusion`.
    """

    symmetric = True

    def __init__(
        self,
        x: Variable,
        y: Variable,
        *,
        radius: float | None = None,
        diameter: float | None = None,
    ) -> None:
        self.x, self.y, self.split = x, y, x.size
        moved = [variable.name for variable in (x, y) if variable.project_start()]
        if is_tensor(x.start) != is_tensor(y.start):
            raise TypeError(
                "x0 and y0 must both be numpy arrays or both be torch tensors, so that z = (x, y) "
                "is one vector"
            )
        super().__init__(join(x.start, y.start), radius=radius, diameter=diameter)
        if moved:
            verb = "was" if len(moved) == 1 else "were"
            has = "has" if len(moved) == 1 else "have"
            self.note = f"{' and '.join(moved)} {verb} infeasible and {has} been projected"

    @override
    def _resolve(self, z: Any, step: float) -> Any:
        n = self.split
        return join(self.x.prox(z[:n], step), self.y.prox(z[n:], step))

    @override
    def players(self, z: Any) -> tuple[Any, Any]:
        return self.x.unpack(z[: self.split]), self.y.unpack(z[self.split :])


class MinMax(TwoPlayer):
    """min over x in X, max over y in Y of f(x, y).

    As an inclusion: z = (x, y), F(z) = (grad_x f, -grad_y f), A the normal cone of X x Y, or the
    subdifferentials of regularisers g(x) and h(y) when X and Y are their proximal maps.

    Parameters
    ----------
    f : callable
        f(x, y), a scalar. Without `jac` it is differentiated by torch: it gets tensors (in double
        precision when x0 and y0 are numpy arrays of that type) and returns one.
    x0, y0 : array, tensor, or dict of them
        Starting point.
    X, Y : object with ``prox(z, step)``, optional
        Resolvents of the two players; without one a player is unconstrained.
    jac : callable, optional
        (grad_x f, grad_y f) at (x, y), in the form of x0 and y0; both with the sign of f.
    radius, diameter : float, optional
        Bounds on the distance to a solution from z0, and from any feasible point.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of this kind, or a resolvent changes the shape.

    Examples
    --------
    >>> problem = MinMax(None, np.ones(1), np.ones(1), jac=lambda x, y: (y, x))
    >>> problem.operator(problem.z0).tolist()
    [1.0, -1.0]
    """

    def __init__(
        self,
        f: Callable[[Any, Any], Any] | None,
        x0: Any,
        y0: Any,
        X: Any = None,  # noqa: N803
        Y: Any = None,  # noqa: N803
        *,
        jac: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        radius: float | None = None,
        diameter: float | None = None,
    ) -> None:
        if jac is None and not callable(f):
            raise TypeError(f"f must be a function of x and y, not {f!r}; or give jac")
        self.f, self.jac = f, jac
        x, y = Variable("x0", x0, X), Variable("y0", y0, Y)
        super().__init__(x, y, radius=radius, diameter=diameter)

    @override
    def _evaluate(self, z: Any) -> Any:
        x, y = self.players(z)
        grad_x, grad_y = self.jac(x, y) if self.jac is not None else self._differentiate(x, y)
        grad_x = self.x.pack(grad_x, "the gradient in x")
        return join(grad_x, -self.y.pack(grad_y, "the gradient in y"))

    def _differentiate(self, x: Any, y: Any) -> tuple[Any, Any]:
        import torch

        assert self.f is not None
        leaves: list[Any] = []

        def leaf(part: Any) -> Any:
            tensor = part.detach() if is_tensor(part) else torch.tensor(part)
            leaves.append(tensor.clone().requires_grad_(True))
            return leaves[-1]

        def tree(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: leaf(part) for key, part in value.items()}
            return leaf(value)

        with torch.enable_grad():
            f = self.f(tree(x), tree(y))
            if not (is_tensor(f) and f.numel() == 1):
                raise ValueError("f must return one number as a torch tensor; otherwise give jac")
            grads = torch.autograd.grad(f.reshape(()), leaves, allow_unused=True)
        filled = iter(
            torch.zeros_like(at) if grad is None else grad
            for at, grad in zip(leaves, grads, strict=True)
        )

        def back(value: Any) -> Any:
            parts = {key: next(filled) for key in value} if isinstance(value, dict) else None
            if parts is None:
                grad = next(filled)
                return grad if is_tensor(value) else grad.numpy()
            return {
                key: part if is_tensor(value[key]) else part.numpy() for key, part in parts.items()
            }

        return back(x), back(y)
