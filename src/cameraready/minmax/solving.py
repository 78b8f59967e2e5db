"""The driver: step sizes, resets, stopping, and the result."""

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from cameraready.common.checks import check_choice, check_positive
from cameraready.minmax import baselines
from cameraready.minmax.anchored import (
    EAG,
    EAG2,
    FEG,
    RESTART_AFTER,
    RESTART_FACTOR,
    AnchoredState,
    feg_bound,
    potential,
    reset,
)
from cameraready.minmax.arrays import like
from cameraready.minmax.bilinear import Bilinear
from cameraready.minmax.estimates import estimate_lipschitz, local_lipschitz
from cameraready.minmax.inclusion import Inclusion
from cameraready.minmax.method import MOST_HALVINGS, SHORTER, Method, Trial
from cameraready.minmax.result import (
    ConvergenceWarning,
    Growth,
    Iteration,
    Result,
    SolverState,
)

__all__ = ["METHODS", "solve"]

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        FEG,
        EAG,
        EAG2,
        baselines.EG,
        baselines.EG_PLUS,
        baselines.OGDA,
        baselines.GDA,
        baselines.ALTERNATING_GDA,
        baselines.ARG,
        baselines.HALPERN,
        baselines.PDHG,
    )
}

# rho="auto" tries these, times 1/L, one after the other.
_RHO_LADDER = (0.0, -0.05, -0.1, -0.2, -0.3, -0.4, -0.45)
# The step is doubled where, in half of at least so many steps, it used so little of what F allows.
_GROW_AFTER, _FLAT = 32, 0.5
_ROUNDING = 64.0 * float(np.finfo(float).eps)


def solve(
    problem: Inclusion,
    method: str = "feg",
    *,
    step: float | str | None = None,
    rho: float | str | None = None,
    lipschitz: float | str | None = None,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    restart: str = "auto",
    callback: Callable[[Iteration], Any] | None = None,
    seed: int | None = None,
    allow_large_step: bool = False,
    check_potential: bool = False,
    resume: SolverState | None = None,
) -> Result:
    """Solve 0 in F(z) + A(z), with the last iterate's residual certified.

    Parameters
    ----------
    problem : Inclusion
        `VI`, `MinMax`, `Bilinear`, `MatrixGame`, `LPSaddle` or `DRO`.
    method : str
        "feg" (the paper's fast extragradient with constraints), "eag" and "eag2" (its extra
        anchored gradient with one and two resolvents), or a baseline: "eg", "eg+", "ogda", "gda",
        "alternating-gda", "arg", "halpern", "pdhg".
    step : float or "auto", optional
        Step size; "auto" by default, or as in the run that `resume` goes on from. "auto" is the
        method's default for L when `lipschitz` is given; otherwise it starts from an estimate by
        one finite difference, and is shortened, with a reset of the anchor, when F turns out
        steeper between two points. Where there are no restarts, it is doubled, with a reset, when
        F has long been flat; this is ours, not the paper's.
    rho : float or "auto", optional
        Comonotonicity of F + A; 0 by default, or as in the run that `resume` goes on from. It
        is 0 for monotone (convex-concave) problems, negative for mildly nonmonotone ones. "auto"
        (for "feg") starts with 0 and lowers it when the potential rises.
    lipschitz : float, "power" or None
        F's Lipschitz constant L; "power" estimates it at z0 by power iteration and adds 2 %.
    tol : float
        Stop when |F(z) + c| <= tol. With 0 the run has exactly `max_iter` iterations, without a
        warning.
    max_iter : int
        The largest number of iterations in this call. When a linear program reaches it, or
        diverges, and `tol` is not 0, HiGHS is asked whether there is a solution at all; that
        solves the program once more.
    restart : "auto", "anchor" or "none"
        "anchor" makes the present point the new anchor when the residual has fallen by 4 in at
        least 8 steps. This is not the paper's; on games and linear programs it gives a linear
        rate. "auto" does so there, and only there.
    callback : callable, optional
        callback(iteration) after each iteration; a true return value stops the run.
    seed : int, optional
        For the power iteration's first vector.
    allow_large_step : bool
        Warn, instead of raising, when `step` is larger than what is known to converge.
    check_potential : bool
        Also check that the potential V_k never rises (for "feg"), and say so in the message.
    resume : SolverState, optional
        Go on from the end of an earlier run of the same problem and method. If another step or
        rho is given than that run had, the anchor is reset.

    Returns
    -------
    Result

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong, or the step does not fit L and rho.

    Warns
    -----
    ConvergenceWarning
        If the cap on iterations was reached; the result is returned all the same.

    Examples
    --------
    >>> from cameraready.minmax import MatrixGame
    >>> game = MatrixGame([[3.0, -1.0, 2.0], [-2.0, 4.0, 1.0], [0.0, 1.0, -3.0]])
    >>> result = solve(game, tol=1e-9)
    >>> result.converged, result.x.round(6).tolist(), result.y.round(6).tolist()
    (True, [0.2, 0.0, 0.8], [0.4, 0.6, 0.0])
    """
    if not isinstance(problem, Inclusion):
        raise TypeError(
            "problem must be a VI, MinMax, Bilinear, MatrixGame, LPSaddle or DRO, not "
            f"{type(problem).__name__}"
        )
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of the iteration, not {callback!r}")
    if resume is not None and not isinstance(resume, SolverState):
        raise TypeError(
            f"resume must be a SolverState, as in result.state, not {type(resume).__name__}"
        )
    run = _Run(
        problem,
        METHODS[check_choice("method", method, tuple(METHODS))],
        _Settings(
            step=None if step is None else _number_or("step", step, "auto"),
            rho=None if rho is None else _number_or("rho", rho, "auto", positive=False),
            lipschitz=None if lipschitz is None else _number_or("lipschitz", lipschitz, "power"),
            tol=_tolerance(tol),
            max_iter=_whole("max_iter", max_iter),
            restart=check_choice("restart", restart, ("auto", "anchor", "none")),
            seed=seed,
            allow_large_step=allow_large_step,
            check_potential=check_potential,
        ),
        resume,
    )
    status = run.iterate(callback)
    return run.result(status)


class _Settings(NamedTuple):
    step: float | str | None
    rho: float | str | None
    lipschitz: float | str | None
    tol: float
    max_iter: int
    restart: str
    seed: int | None
    allow_large_step: bool
    check_potential: bool


class _Run:
    """One call of `solve`."""

    def __init__(
        self, problem: Inclusion, method: Method, settings: _Settings, resume: SolverState | None
    ) -> None:
        if resume is None:
            settings = settings._replace(
                step="auto" if settings.step is None else settings.step,
                rho=0.0 if settings.rho is None else settings.rho,
            )
        self.problem, self.method, self.settings = problem, method, settings
        self.lipschitz: float | None = None
        self.counts = problem.n_grad, problem.n_prox
        self.notes = [problem.note] if problem.note else []
        self.history: list[float] = []
        self.resets, self.halvings, self.checked = 0, 0, 0
        self.growth = Growth(0.0, _GROW_AFTER, _GROW_AFTER, False)
        self.auto_rho = settings.rho == "auto"
        auto_step = settings.step == "auto"
        if resume is not None:
            self.auto_rho = resume.auto_rho if settings.rho is None else self.auto_rho
            auto_step = resume.auto_step if settings.step is None else auto_step
        self.backtracking = auto_step and settings.lipschitz is None
        self.bound_at: tuple[int, bool] | None = None
        self.rose, self.certified = False, False
        self.watching = method.has_potential and (self.auto_rho or settings.check_potential)
        self._check_method()
        with np.errstate(all="ignore"):
            self._start(resume)

    def _check_method(self) -> None:
        method, settings = self.method, self.settings
        if self.auto_rho and not method.has_potential:
            raise ValueError("rho='auto' needs the potential of method 'feg'; give rho as a number")
        if not method.takes_rho and settings.rho:
            raise ValueError(
                f"method {method.name!r} has no rho: use 'feg' or 'eag' for a problem with rho "
                f"{settings.rho}"
            )
        if settings.restart == "anchor" and not method.anchored:
            raise ValueError(f"method {method.name!r} has no anchor to reset; use restart='none'")
        if settings.check_potential and not method.has_potential:
            raise ValueError("check_potential=True is for method 'feg', whose potential is known")
        self.restarting = method.anchored and (
            settings.restart == "anchor" or (settings.restart == "auto" and self.problem.polyhedral)
        )

    def _start(self, resume: SolverState | None) -> None:
        problem, method, settings = self.problem, self.method, self.settings
        if resume is not None:
            if resume.method != method.name:
                raise ValueError(
                    f"resume holds a state of method {resume.method!r}, not {method.name!r}"
                )
            if tuple(resume.state.z.shape) != tuple(problem.z0.shape):
                raise ValueError(
                    f"resume holds a point of {len(resume.state.z)} numbers, but the problem has "
                    f"{len(problem.z0)}"
                )
            self.state = type(resume.state)(
                *(
                    part if isinstance(part, int) else like(part, problem.z0)
                    for part in resume.state
                )
            )
            self.step, self.rho, self.rung = resume.step, resume.rho, resume.rung
            self.first, self.potential, self.moved = resume.first, resume.potential, resume.moved
            self.growth, self.certified = resume.growth, resume.certified
            given = settings.lipschitz
            self.lipschitz = None if given is None or isinstance(given, str) else given
            if isinstance(settings.step, float):
                self.step = settings.step
            if isinstance(settings.rho, float):
                self.rho, self.rung = settings.rho, 0
            elif self.auto_rho and not resume.auto_rho:
                self.rho, self.rung = 0.0, 0
            self._check_step()
            unchecked = self.backtracking and not resume.auto_step
            if unchecked or (self.step, self.rho) != (resume.step, resume.rho):
                self._reset()  # what the anchor stands for held for the other step and rho
            else:
                self.rose = resume.rose
            return
        self.state = method.init(problem, problem.z0)
        self.first, self.potential, self.moved, self.rung = None, None, False, 0
        self.rho = settings.rho if isinstance(settings.rho, float) else 0.0
        if not self._starts_finite():
            self.step = settings.step if isinstance(settings.step, float) else 1.0
            return  # nothing to estimate; the run ends at once
        self.lipschitz = self._known_lipschitz()
        if isinstance(settings.step, float):
            self.step = settings.step
        else:
            constant = self.lipschitz
            if constant is None:
                constant = local_lipschitz(problem, self.state.z, self.state.value)
                if not (math.isfinite(constant) and constant > 0):
                    constant = 1.0  # F is constant or not finite here; the run will tell
            self.step = method.default(self.rho * constant) / constant
        self._check_step()

    def _starts_finite(self) -> bool:
        return math.isfinite(float(abs(self.state.value).max()))

    def _known_lipschitz(self) -> float | None:
        given = self.settings.lipschitz
        if given != "power":
            return None if given is None else float(given)
        estimate = 1.02 * estimate_lipschitz(self.problem, seed=self.settings.seed)
        self.notes.append(f"L is estimated as {estimate:.6g}")
        return estimate if estimate > 0 else 1.0

    def _check_step(self) -> None:
        step, rho, largest = self.step, self.rho, self.method.largest
        if self.method.takes_rho and not step + 2.0 * rho > 0:
            raise ValueError(
                f"need step + 2·rho > 0, but step is {step:g} and rho is {rho:g}: this method "
                f"reaches rho > -1/(2L) only, with step <= 1/L"
            )
        if self.lipschitz is None or largest is None:
            return
        if step * self.lipschitz <= largest * (1.0 + 1e-9):
            return
        limit = "1/L" if largest == 1.0 else f"{largest:.4f}/L"
        sentence = (
            f"step {step:g} is larger than {limit} = {largest / self.lipschitz:g}, beyond which "
            f"{self.method.name!r} is not known to converge"
        )
        if not self.settings.allow_large_step:
            raise ValueError(f"{sentence}; lower it, or pass allow_large_step=True")
        warnings.warn(sentence, UserWarning, stacklevel=5)

    def iterate(self, callback: Callable[[Iteration], Any] | None) -> str:
        """Step until something ends the run; its status."""
        problem, method, settings, history = (
            self.problem,
            self.method,
            self.settings,
            self.history,
        )
        take, tol, max_iter = method.step, settings.tol, settings.max_iter
        if not self._starts_finite():
            self.notes.append("F(z0) is not finite: start from another point")
            return "diverged"
        with np.errstate(all="ignore"):
            while len(history) < max_iter:
                new, trial = take(problem, self.state, self.step, self.rho)
                norm = math.sqrt(new.residual @ new.residual)
                if not norm < math.inf and not self._recover():
                    return self._diverged()
                if not norm < math.inf:
                    continue
                if self.backtracking and not self._fits(trial):
                    if not self._shorten(trial):
                        return "failed"
                    continue
                if self.watching and self._rises(new):
                    if not self._lower_rho():
                        return "failed"
                    continue
                self.state, self.certified = new, True
                del trial  # two vectors, not needed during the next step
                self.halvings = 0
                history.append(norm)
                if new.k == self.growth.look_at:
                    self._maybe_grow()
                if self.restarting or new.k == 1:
                    self._maybe_restart(new, norm)
                if callback is not None and callback(
                    Iteration(len(history), new, norm, self.step, self.rho, problem)
                ):
                    return "converged" if norm <= tol else "stopped"
                if norm <= tol and tol > 0:
                    return "converged"
        return "max_iter"

    def _maybe_grow(self) -> None:
        """A longer step and a reset, where F has been flat for half of the steps since the last."""
        growth = self.growth
        self.growth = growth._replace(steepest=0.0, look_at=2 * growth.look_at)
        free = self.backtracking and self.method.anchored and not self.restarting
        if not free or growth.steepest > _FLAT:
            return
        self.step *= 2.0
        if self.auto_rho:
            self.rho = _RHO_LADDER[self.rung] * self.step
        self._reset()
        self.growth = self.growth._replace(tried=True)

    def _maybe_restart(self, new: Any, norm: float) -> None:
        if new.k == 1:
            self.first = norm
        elif (
            new.k >= RESTART_AFTER
            and self.first is not None
            and norm * RESTART_FACTOR <= self.first
        ):
            bound_at = new.k, self.moved
            self._reset()
            self.bound_at = bound_at

    def _reset(self) -> None:
        """The present point becomes the start."""
        state = self.state
        if isinstance(state, AnchoredState):
            self.state = reset(state)
        else:
            # F at the point is known already, whatever the method remembers starts again.
            past = state.value if self.method is baselines.OGDA else state.z
            self.state = state._replace(anchor=state.z, past=past, k=0)
        self.first = self.potential = self.bound_at = None
        self.growth = self.growth._replace(steepest=0.0, look_at=self.growth.least)
        self.moved = True
        self.resets += 1

    def _fits(self, trial: Trial) -> bool:
        """F is no steeper between the trial's two points than the step allows."""
        values, points = trial.first_value - trial.second_value, trial.first - trial.second
        rise, run = math.sqrt(values @ values), math.sqrt(points @ points)
        if not run > 0:
            return True
        allowed = self.method.default(self.rho * rise / run)
        if self.step * rise <= allowed * run:
            used = self.step * rise / (allowed * run)
            if used > self.growth.steepest:
                self.growth = self.growth._replace(steepest=used)
            return True
        first, value = trial.first, trial.first_value
        noise = math.sqrt(first @ first) + self.step * math.sqrt(value @ value)
        return self.step * rise <= allowed * run + _ROUNDING * noise

    def _shorten(self, trial: Trial | None) -> bool:
        """A shorter step and a reset; False if no step will do.

        Halving may leave the step at nearly half of what L allows. The trial shows an L at least
        as steep, so the step need not fall below 0.9 of what that one allows.
        """
        self.halvings += 1
        if self.halvings > MOST_HALVINGS:
            self.notes.append(
                "no step was small enough: F does not seem to be Lipschitz near the last iterate"
            )
            return False
        fitting = 0.0
        if trial is not None:
            values, points = trial.first_value - trial.second_value, trial.first - trial.second
            rise, run = math.sqrt(values @ values), math.sqrt(points @ points)
            fitting = SHORTER * self.method.default(self.rho * rise / run) * run / rise
        self.step = max(self.step / 2.0, min(fitting, SHORTER * self.step))
        if self.growth.tried:  # too long: wait longer before the next try
            self.growth = self.growth._replace(tried=False, least=4 * self.growth.least)
        if self.auto_rho:
            self.rho = _RHO_LADDER[self.rung] * self.step
        if self.method.takes_rho and not self.step + 2.0 * self.rho > 0:
            self.notes.append(
                f"F is too steep for rho {self.rho:g}: backtracking needs a step of {self.step:g}, "
                "but also step + 2·rho > 0"
            )
            return False
        self._reset()
        return True

    def _rises(self, new: AnchoredState) -> bool:
        """The potential of `new` is larger than the last one (or than 0 at the start)."""
        value = potential(new, self.step, self.rho)
        last = 0.0 if self.potential is None else self.potential
        if value <= last:
            self.potential = value
            return False
        k, size = new.k, math.sqrt(new.residual @ new.residual)
        distance = new.z - new.anchor
        reach = math.sqrt(distance @ distance)
        scale = k * k * self.step * size * size + k * size * reach
        # Rounding in F and c, which are large where their sum is small.
        noise = _ROUNDING * (
            math.sqrt(new.value @ new.value) + math.sqrt(new.correction @ new.correction)
        )
        if value - last <= 1e-9 * scale + noise * k * (k * self.step * size + reach):
            self.potential = value
            return False
        if not self.auto_rho:
            self.notes.append(
                f"the potential rose at iteration {len(self.history) + 1}: F + A is not "
                f"{self.rho:g}-comonotone, or F is steeper than 1/step"
            )
            self.watching, self.rose = False, True
            return False
        return True

    def _lower_rho(self) -> bool:
        self.rung += 1
        if self.rung == len(_RHO_LADDER):
            self.notes.append(
                "rho='auto' found no rho down to -0.45/L with which the potential falls: F + A "
                "does not seem to be comonotone enough for this method"
            )
            self.rung -= 1
            return False
        constant = self.lipschitz or self.method.default(0.0) / self.step
        self.rho = _RHO_LADDER[self.rung] / constant
        self._reset()
        return True

    def _recover(self) -> bool:
        """After NaN or infinity: a smaller step or rho may help where they are free."""
        if self.auto_rho and self.rung + 1 < len(_RHO_LADDER):
            return self._lower_rho()
        self.checked += 1
        return self.backtracking and self.checked <= 30 and self._shorten(None)

    def _diverged(self) -> str:
        self.notes.append(
            f"F(z) + c became NaN or infinite at iteration {len(self.history) + 1}; the last "
            "finite iterate is returned"
        )
        return "diverged"

    def result(self, status: str) -> Result:
        """What the user gets."""
        problem, settings, state = self.problem, self.settings, self.state
        # At the start c = 0, which need not lie in A(z0).
        residual = math.sqrt(state.residual @ state.residual) if self.certified else math.inf
        if not self.certified:
            self.notes.append("no step was taken, so that no residual is certified")
        if status == "max_iter" and residual <= settings.tol and self.history:
            status = "converged"
        if status in ("max_iter", "diverged") and settings.tol > 0:
            found = problem.diagnose()
            if found is not None:
                status, sentence = found
                self.notes.append(sentence)
        start = {
            "converged": f"converged in {len(self.history)} iterations",
            "max_iter": f"stopped after {len(self.history)} iterations without converging",
            "diverged": "diverged",
            "stopped": f"stopped by the callback after {len(self.history)} iterations",
        }.get(status, status)
        message = "; ".join([start, *self.notes])
        if status == "max_iter" and settings.tol > 0:
            warnings.warn(
                f"{self.method.name!r} reached max_iter={settings.max_iter} with residual "
                f"{residual:.3g} > tol={settings.tol:g}",
                ConvergenceWarning,
                stacklevel=3,
            )
        x, y = problem.players(state.z)
        return Result(
            x=x,
            y=y,
            z=problem.value(state.z),
            residual=residual,
            residual_history=np.array(self.history),
            gap=problem.gap(state.z),
            n_grad=problem.n_grad - self.counts[0],
            n_prox=problem.n_prox - self.counts[1],
            converged=status == "converged",
            status=status,
            step=self.step,
            rho=self.rho,
            message=message,
            certificate_bound=self._bound(),
            resets=self.resets,
            state=SolverState(
                self.method.name,
                state,
                self.step,
                self.rho,
                self.rung,
                self.first,
                self.potential,
                self.moved,
                self.growth,
                self.backtracking,
                self.auto_rho,
                self.rose,
                self.certified,
            ),
        )

    def _bound(self) -> float | None:
        if self.method is not FEG or not (self.backtracking or self.lipschitz is not None):
            return None
        if self.rose or self.auto_rho:
            return None  # rho is known to be wrong, or is one that is only not refuted yet
        if self.settings.lipschitz == "power" and not isinstance(self.problem, Bilinear):
            return None  # F may be steeper elsewhere
        if self.lipschitz is not None and self.step * self.lipschitz > 1.0 + 1e-9:
            return None
        k, moved = self.state.k, self.moved
        if k == 0 and self.bound_at is not None:
            k, moved = self.bound_at  # the anchor was reset after the last step
        distance = self.problem.diameter if moved else self.problem.radius
        if distance is None:
            distance = self.problem.diameter
        if k == 0 or distance is None:
            return None
        return feg_bound(distance, k, self.step, self.rho)


def _number_or(name: str, value: Any, word: str, *, positive: bool = True) -> float | str:
    if isinstance(value, str):
        if value != word:
            raise ValueError(f"{name} must be a number or {word!r}, not {value!r}")
        return value
    if positive:
        return check_positive(name, value)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number or {word!r}, not {value!r}")
    return float(value)


def _tolerance(tol: Any) -> float:
    if tol == 0:
        return 0.0
    return check_positive("tol", tol)


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a whole number of at least 1, not {value!r}")
    if isinstance(value, bool) or not math.isfinite(value) or value != int(value) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)
