"""Certificates: worst cases by semidefinite programming, and checks of a run after the fact."""

import math
import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from cameraready.common.checks import check_choice, check_positive
from cameraready.common.files import atomic_write
from cameraready.minmax.anchored import EAG, FEG, AnchoredState, feg_bound, potential
from cameraready.minmax.arrays import like, to_numpy
from cameraready.minmax.inclusion import Inclusion
from cameraready.minmax.result import Iteration

__all__ = ["Certificate", "RunHistory", "Verification", "certify", "verify_run"]

# Relative, of a worst case. These programs have no interior point, and Clarabel's own 1e-8 is often
# out of reach.
_ACCURACY = 1e-5


class Certificate(NamedTuple):
    """The worst |F(z_N) + c_N|² over all problems, for unit distance to a solution.

    `normalised` is N² times `worst_case`. `status` is the semidefinite solver's, always "optimal".
    """

    worst_case: float
    normalised: float
    step: float
    status: str


def certify(
    method: str = "feg",
    N: int = 5,  # noqa: N803
    L: float = 1.0,  # noqa: N803
    rho: float = 0.0,
    step: float | None = None,
    *,
    monotone_A: bool = False,  # noqa: N803
) -> Certificate:
    """The worst case of N steps, by performance estimation.

    Over all F and A, all dimensions and all starting points with |z_0 - z*| <= 1. For "feg" and
    "eag", A is not assumed to be monotone: F is L-Lipschitz between all points, and F + A is
    rho-comonotone between all iterates and a solution. For "eag2", F and A are each monotone.

    The semidefinite program is solved to a relative accuracy of 1e-5.

    For "eag2" and with `monotone_A` the value is an upper bound on the worst case, not always the
    worst case itself: that F is monotone and Lipschitz, or that F + A is comonotone and A
    monotone, is asked for between each two points, and not every such set of points belongs to an
    F and an A.

    Parameters
    ----------
    method : str
        "feg", "eag" or "eag2".
    N : int
        Number of steps; 10 take some seconds.
    L : float
        Lipschitz constant.
    rho : float
        Comonotonicity, > -1/(2L).
    step : float, optional
        The method's default by default; any other one is certified as it is.
    monotone_A : bool
        Also assume that A is monotone, as for constraints by a convex set. "eag2" always does.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If an argument is wrong.
    ImportError
        If PEPit is not installed.
    RuntimeError
        If the semidefinite solver does not end with the status "optimal".

    References
    ----------
    Goujaud et al., PEPit: computer-assisted worst-case analyses of first-order optimization
    methods in Python, Mathematical Programming Computation 2024.
    """
    check_choice("method", method, ("feg", "eag", "eag2"))
    if isinstance(N, bool) or not isinstance(N, int | np.integer) or N < 1:
        raise ValueError(f"N must be a whole number of at least 1, not {N!r}")
    check_positive("L", L)
    if method == "eag2":
        if rho != 0:
            raise ValueError("method 'eag2' is for monotone problems: rho must be 0")
        step = 1.0 / (math.sqrt(3.0) * L) if step is None else check_positive("step", step)
    else:
        default = (FEG if method == "feg" else EAG).default(rho * L) / L
        step = default if step is None else check_positive("step", step)
        if not step + 2.0 * rho > 0:
            raise ValueError(
                f"need step + 2·rho > 0, but step is {step:g} and rho is {rho:g}: this method "
                "reaches rho > -1/(2L) only, with step <= 1/L"
            )
    try:
        from PEPit import PEP, Point
    except ImportError as error:
        raise ImportError(
            "certify needs PEPit, not installed here: pip install 'cameraready[certify]'"
        ) from error
    program = PEP()
    start, solution = program.set_initial_point(), Point()
    program.set_initial_condition((start - solution) ** 2 <= 1)
    if method == "eag2":
        last = _write_eag2(program, Point, start, solution, int(N), L, step)
    else:
        last = _write_anchored(
            program, Point, start, solution, method, int(N), L, rho, step, monotone_A
        )
    program.set_performance_metric(last**2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status is looked at
        value = program.solve(
            wrapper="cvxpy",
            solver="CLARABEL",
            verbose=0,
            tol_gap_abs=1e-8,
            tol_gap_rel=_ACCURACY,
            tol_feas=_ACCURACY,
            static_regularization_constant=1e-7,
        )
    wrapper: Any = program.wrapper
    status = str(wrapper.prob.status)
    if status != "optimal" or value is None:
        raise RuntimeError(
            f"no certificate: the semidefinite solver ended with the status {status!r}; try a "
            "smaller N or another step"
        )
    value = float(value)
    return Certificate(value, N * N * value, step, status)


def _write_anchored(
    program: Any,
    point: Any,
    start: Any,
    solution: Any,
    method: str,
    steps: int,
    lipschitz: float,
    rho: float,
    step: float,
    monotone: bool,
) -> Any:
    """Composite-FEG or EAG (form C) as a performance estimation problem; its last residual."""
    z, v, at_start = start, None, point()
    graph = [(solution, 0.0 * start)]
    at_solution = point()
    evaluations: list[tuple[Any, Any]] = [(solution, at_solution)]
    corrections: list[tuple[Any, Any]] = [(solution, -at_solution)]
    _lipschitz(program, evaluations, start, at_start, lipschitz)
    for k in range(steps):
        beta, correction, value = 1.0 / (k + 1), point(), point()
        if v is None:
            half_value, pulled, behind = at_start, start, 0.0 * start
        else:
            pulled, half_value = z + beta * (start - z), point()
            behind = (2 * rho * (1 - beta)) * v
            look = step + 2 * rho if method == "feg" else step
            ahead = (1 - beta) * look * v if method == "feg" else look * v + behind
            _lipschitz(program, evaluations, pulled - ahead, half_value, lipschitz)
        z = pulled - step * half_value - behind - step * correction
        v = value + correction
        _lipschitz(program, evaluations, z, value, lipschitz)
        for other, other_v in graph:
            program.add_constraint((v - other_v) * (z - other) >= rho * (v - other_v) ** 2)
        graph.append((z, v))
        for other, other_c in corrections if monotone else ():
            program.add_constraint((correction - other_c) * (z - other) >= 0)
        corrections.append((z, correction))
    return v


def _lipschitz(
    program: Any, evaluations: list[tuple[Any, Any]], z: Any, value: Any, bound: float
) -> None:
    """F(z) = value, with F Lipschitz between z and all points before it."""
    for other, other_value in evaluations:
        program.add_constraint((value - other_value) ** 2 <= bound**2 * (z - other) ** 2)
    evaluations.append((z, value))


def _write_eag2(
    program: Any,
    point: Any,
    start: Any,
    solution: Any,
    steps: int,
    lipschitz: float,
    step: float,
) -> Any:
    """Composite-EAG (form P) as a performance estimation problem; its last residual."""
    at_solution = point()
    evaluations: list[tuple[Any, Any]] = [(solution, at_solution)]
    corrections: list[tuple[Any, Any]] = [(solution, -at_solution)]

    def monotone(pairs: list[tuple[Any, Any]], z: Any, u: Any) -> None:
        for other, other_u in pairs:
            program.add_constraint((u - other_u) * (z - other) >= 0)

    def evaluate(z: Any) -> Any:
        value = point()
        monotone(evaluations, z, value)
        _lipschitz(program, evaluations, z, value, lipschitz)
        return value

    def correct(z: Any, correction: Any) -> None:
        monotone(corrections, z, correction)
        corrections.append((z, correction))

    z, value, correction = start, evaluate(start), 0.0 * start
    for k in range(steps):
        pulled = z + (1.0 / (k + 2)) * (start - z)
        half_correction, correction = point(), point()
        half = pulled - step * value - step * half_correction
        correct(half, half_correction)
        z = pulled - step * evaluate(half) - step * correction
        correct(z, correction)
        value = evaluate(z)
    return value + correction


class RunHistory:
    """Keeps the iterates of a run, so that `verify_run` can check it.

    Use it as the callback of `solve`.

    Examples
    --------
    >>> from cameraready.minmax import VI, solve, verify_run
    >>> problem = VI(lambda z: np.array([z[1], -z[0]]), np.ones(2))
    >>> history = RunHistory()
    >>> _ = solve(problem, step=0.5, tol=0, max_iter=20, callback=history)
    >>> verify_run(history, problem, solution=np.zeros(2)).ok
    True
    """

    def __init__(self) -> None:
        self.z: list[np.ndarray] = []
        self.correction: list[np.ndarray] = []
        self.anchor: list[np.ndarray] = []
        self.k: list[int] = []
        self.residual: list[float] = []
        self.step: list[float] = []
        self.rho: list[float] = []

    def __call__(self, iteration: Iteration) -> None:
        """Keep one iteration."""
        state = iteration.state
        if not isinstance(state, AnchoredState):
            raise TypeError("RunHistory is for the anchored methods 'feg', 'eag' and 'eag2'")
        for name in ("z", "correction", "anchor"):
            part = getattr(state, name)
            getattr(self, name).append(to_numpy(part))
        self.k.append(state.k)
        for name in ("residual", "step", "rho"):
            getattr(self, name).append(getattr(iteration, name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to an .npz file, whole or not at all."""
        with atomic_write(path, "wb") as file:
            arrays: dict[str, Any] = {name: np.array(part) for name, part in vars(self).items()}
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "RunHistory":
        """Read a run from an .npz file.

        Raises
        ------
        ValueError
            If the file holds no run.
        """
        history = cls()
        try:
            with np.load(path, allow_pickle=False) as file:
                for name in vars(history):
                    part = file[name]
                    setattr(history, name, list(part) if part.ndim > 1 else part.tolist())
        except (KeyError, ValueError, EOFError) as error:
            raise ValueError(f"{os.fspath(path)} holds no run of a solver") from error
        return history


class Verification(NamedTuple):
    """What `verify_run` has found; iterations are counted from 1, None means everywhere right.

    `bound` is None as well where no solution was given.
    """

    ok: bool
    membership: int | None  # where c_k does not lie in A(z_k)
    residual: int | None  # where the recorded residual is not |F(z_k) + c_k|
    potential: int | None  # where V_k rises
    bound: int | None  # where the residual exceeds the a-priori bound


def verify_run(
    history: RunHistory,
    problem: Inclusion,
    *,
    method: str = "feg",
    solution: Any = None,
    tolerance: float = 1e-7,
) -> Verification:
    """Recompute from a saved run what the theory promises.

    c_k in A(z_k), as z_k = J_{step A}(z_k + step c_k); the residual; for "feg" that the potential
    never rises between two resets and starts at or below 0, and, if a solution is given, the
    bound 2 |anchor - z*|/((step + 2 rho) k).

    Parameters
    ----------
    history : RunHistory
    problem : Inclusion
        The same problem.
    method : str
        "feg", "eag" or "eag2".
    solution : vector, optional
        A solution, as the solvers see it (x and y in one vector).
    tolerance : float
        Relative, for all comparisons.

    Returns
    -------
    Verification
    """
    check_choice("method", method, ("feg", "eag", "eag2"))
    if not history.z:
        raise ValueError("history is empty: pass it to solve as callback first")
    if len(history.z[0]) != len(problem.z0):
        raise ValueError(
            f"history holds points of {len(history.z[0])} numbers, but the problem has "
            f"{len(problem.z0)}"
        )
    wrong: dict[str, int | None] = dict.fromkeys(Verification._fields[1:])

    def note(what: str, number: int) -> None:
        wrong[what] = number if wrong[what] is None else wrong[what]

    last = 0.0
    for i, k in enumerate(history.k):
        z, c, anchor = history.z[i], history.correction[i], history.anchor[i]
        step, rho, number = history.step[i], history.rho[i], i + 1
        value = to_numpy(problem.operator(like(z, problem.z0)))
        size = float(np.linalg.norm(value + c))
        again = to_numpy(problem.resolvent(like(z + step * c, problem.z0), step))
        scale = 1.0 + float(np.linalg.norm(z))
        if not float(np.linalg.norm(again - z)) <= tolerance * scale:
            note("membership", number)
        if not abs(size - history.residual[i]) <= tolerance * (1.0 + size):
            note("residual", number)
        if method != "feg":
            continue
        reach = float(np.linalg.norm(z - anchor))
        v = potential(AnchoredState(z, value, c, value + c, anchor, k), step, rho)
        before = 0.0 if k == 1 else last
        if not v - before <= tolerance * (k * k * step * size * size + k * size * reach + 1e-12):
            note("potential", number)
        last = v
        if solution is not None:
            distance = float(np.linalg.norm(anchor - np.asarray(solution)))
            if not size <= feg_bound(distance, k, step, rho) * (1.0 + tolerance) + 1e-12:
                note("bound", number)
    return Verification(all(place is None for place in wrong.values()), **wrong)
