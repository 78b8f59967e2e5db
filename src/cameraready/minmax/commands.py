"""The verbs of ``cameraready minmax``."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import App, Parameter

from cameraready.common.checks import check_positive
from cameraready.common.files import atomic_write
from cameraready.minmax.games import MatrixGame
from cameraready.minmax.long_runs import LongRun
from cameraready.minmax.result import Iteration, Result
from cameraready.minmax.tables import Payoff, read_data, read_payoff

__all__ = ["app"]

app = App(
    name="minmax",
    help="Games, saddle points, variational inequalities and robust fits, with a certified last "
    "iterate.",
)

MethodName = Literal[
    "feg",
    "eag",
    "eag2",
    "eg",
    "eg+",
    "ogda",
    "gda",
    "alternating-gda",
    "arg",
    "halpern",
    "pdhg",
]
Restart = Literal["auto", "anchor", "none"]
Switch = Annotated[bool, Parameter(negative="")]
NumberOr = Annotated[str, Parameter(allow_leading_hyphen=True)]
SHOWN = 1e-9  # a strategy played less often is left out of the summary
LOOK_EVERY = 10  # iterations between two looks at a linear program's errors
FIT_EVERY = 250  # iterations between two looks at a robust fit's gap


@app.command
def game(
    payoff: Path,
    /,
    *,
    method: MethodName = "feg",
    tol: float = 1e-6,
    max_iter: int = 100_000,
    restart: Restart = "auto",
    maximize_rows: Switch = False,
    out: Path | None = None,
    check: Switch = False,
    resume: Path | None = None,
) -> int:
    """Solve a zero-sum matrix game: its value, and an optimal strategy for each player.

    Parameters
    ----------
    payoff
        A matrix in a text file, with commas, semicolons or tabs: what the row player pays the
        column player. A first row and a first column of names are taken as such.
    method
        How to solve it.
    tol
        The duality gap to reach, in units of the payoff.
    max_iter
        The largest number of iterations.
    restart
        anchor: make the present point the new anchor when the residual has fallen by 4; auto does
        so too on games; none is the paper's method.
    maximize_rows
        The payoff is what the row player gets, not what he pays.
    out
        A JSON file for the whole strategies.
    check
        Solve the game by linear programming too, and show the difference.
    resume
        A file to save the solver's state in and to go on from, also after Ctrl-C.
    """
    check_positive("tol", tol)
    _not_over(out, "--out", payoff, resume)
    table = read_payoff(payoff)
    _note(f"{payoff}: {len(table.rows)} rows, {len(table.columns)} columns of payoffs")
    _note_names(table)
    problem = MatrixGame(table.matrix, maximize=maximize_rows)
    run = LongRun(resume)
    # The gap is at most the residual times the diameter of the strategies, which is 2.
    result, status = run.solve(problem, method, tol=tol / 2.0, max_iter=max_iter, restart=restart)
    low, high = problem.value_bounds(result.state.state.z)
    value = float(result.x @ table.matrix @ result.y)
    found: dict[str, Any] = {"value": value, "value_bounds": [low, high], "gap": result.gap}
    rows = dict(zip(table.rows, result.x.tolist(), strict=True))
    columns = dict(zip(table.columns, result.y.tolist(), strict=True))
    _write_json(out, found | {"row_strategy": rows, "column_strategy": columns})
    shown = _summary(method, result, status) | found
    if check:
        exact = float(problem.highs().fun) * (-1.0 if maximize_rows else 1.0)
        shown["check"] = {"by": "HiGHS", "value": exact, "difference": value - exact}
    shown["row_strategy"] = {name: p for name, p in rows.items() if p > SHOWN}
    shown["column_strategy"] = {name: p for name, p in columns.items() if p > SHOWN}
    _show(shown)
    return run.code(status)


@app.command
def lp(
    model: Path,
    /,
    *,
    method: MethodName = "feg",
    tol: float = 1e-6,
    max_iter: int = 100_000,
    restart: Restart = "auto",
    out: Path | None = None,
    check: Switch = False,
    resume: Path | None = None,
) -> int:
    """Solve a linear program as a saddle point.

    Parameters
    ----------
    model
        An MPS or LP file (.mps, .lp); HiGHS reads it.
    method
        How to solve it.
    tol
        The largest relative error to reach: of the gap between primal and dual objective, and of
        their infeasibilities.
    max_iter
        The largest number of iterations.
    restart
        anchor: make the present point the new anchor when the residual has fallen by 4; auto does
        so too on linear programs; none is the paper's method.
    out
        A JSON file for all variables and the rows' duals.
    check
        Solve the program by HiGHS too, and show the relative difference.
    resume
        A file to save the solver's state in and to go on from, also after Ctrl-C.
    """
    from cameraready.minmax.lp_files import read_lp

    check_positive("tol", tol)
    _not_over(out, "--out", model, resume)
    program = read_lp(model)
    if program.hopeless:
        word, _ = program.solve()
        _show({"status": word.lower(), "converged": False, "message": f"HiGHS: {word}"})
        return 1
    problem = program.saddle()

    def near(iteration: Iteration) -> bool:
        return iteration.number % LOOK_EVERY == 0 and problem.gap(iteration.state.z) <= tol

    run = LongRun(resume, near)
    result, status = run.solve(problem, method, tol=0.0, max_iter=max_iter, restart=restart)
    message = ""
    if status in ("max_iter", "diverged"):
        status, message = problem.diagnose() or (status, "")
    errors = problem.errors(result.state.state.z)
    shown = _summary(method, result, status)
    if message:
        shown["message"] = message
    if status not in ("infeasible", "unbounded"):
        objective = program.objective(errors.primal_objective)
        found = {
            "objective": objective,
            "dual_objective": program.objective(errors.dual_objective),
            "errors": {
                "gap": errors.gap,
                "primal_infeasibility": errors.primal_infeasibility,
                "dual_infeasibility": errors.dual_infeasibility,
            },
        }
        variables = dict(zip(program.variables, result.x.tolist(), strict=True))
        duals = dict(zip(program.rows, program.duals(result.y).tolist(), strict=True))
        _write_json(out, found | {"variables": variables, "row_duals": duals})
        shown |= found
    if check:
        word, exact = program.solve()
        shown["check"] = {"by": "HiGHS", "status": word, "objective": exact}
        if exact is not None and "objective" in shown:
            difference = (shown["objective"] - exact) / max(1.0, abs(exact))
            shown["check"]["relative_difference"] = difference
    _show(shown)
    return run.code(status)


@app.command(name=("vi", "solve"))
def vi(
    problem: str,
    /,
    *,
    method: MethodName = "feg",
    step: NumberOr | None = None,
    rho: NumberOr | None = None,
    lipschitz: str | None = None,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    restart: Restart = "auto",
    out: Path | None = None,
    resume: Path | None = None,
) -> int:
    """Solve a problem that your own Python file makes: a variational inequality, a min-max problem.

    Parameters
    ----------
    problem
        FILE.py:function; the function takes nothing and returns a VI, MinMax, Bilinear, … The file
        is run.
    method
        How to solve it.
    step
        The step size, or auto; without it auto, or the step of the state that is gone on from.
    rho
        The comonotonicity: 0 for convex-concave problems, negative for mildly nonmonotone ones,
        or auto; without it 0, or that of the state that is gone on from.
    lipschitz
        The Lipschitz constant of F, or power to estimate it at the start; without it the step is
        found by backtracking.
    tol
        The certified residual to reach.
    max_iter
        The largest number of iterations.
    restart
        anchor: make the present point the new anchor when the residual has fallen by 4; auto does
        so on games and linear programs only; none is the paper's method.
    out
        A file for the solution: .json, or .npz.
    resume
        A file to save the solver's state in and to go on from, also after Ctrl-C.
    """
    from cameraready.minmax.problem_files import errors_in, load_problem

    if out is not None and out.suffix not in (".json", ".npz"):
        raise ValueError(f"--out must end in .json or .npz, not {out.name!r}")
    _not_over(out, "--out", Path(problem.rpartition(":")[0]), resume)
    made, path = load_problem(problem)
    run = LongRun(resume)
    with errors_in(path):
        result, status = run.solve(
            made,
            method,
            step=None if step is None else _number_or("--step", step, "auto"),
            rho=None if rho is None else _number_or("--rho", rho, "auto"),
            lipschitz=None if lipschitz is None else _number_or("--lipschitz", lipschitz, "power"),
            tol=check_positive("tol", tol),
            max_iter=max_iter,
            restart=restart,
        )
    parts = {"z": result.z} if result.x is None else {"x": result.x, "y": result.y}
    if out is not None and out.suffix == ".npz":
        with atomic_write(out, "wb") as file:
            np.savez(file, allow_pickle=False, **_arrays(parts))
    else:
        _write_json(out, _plain(parts))
    shown = _summary(method, result, status)
    shown["rho"] = result.rho
    if result.certificate_bound is not None:
        shown["certificate_bound"] = result.certificate_bound
    if result.gap is not None:
        shown["gap"] = result.gap
    _show(shown | (_plain(parts) if len(made.z0) <= 100 else {}))
    return run.code(status)


@app.command
def dro(
    table: Path,
    /,
    *,
    target: str,
    cvar: float | None = None,
    kl: float | None = None,
    chi2: float | None = None,
    l2: float | None = None,
    method: MethodName = "feg",
    tol: float = 1e-3,
    max_iter: int = 50_000,
    restart: Restart = "anchor",
    out: Path | None = None,
    resume: Path | None = None,
) -> int:
    """Fit a logistic regression to the worst weights of the examples, beside a plain one.

    Features are standardised inside; coefficients are for the features as they are. All losses
    are those on the table itself.

    Parameters
    ----------
    table
        A text file with a header and numeric columns.
    target
        The column with the two labels.
    cvar
        Weights up to 1/(cvar n): the mean loss of the worst such share of the examples.
    kl
        Weights within this Kullback-Leibler divergence (nats) of uniform ones.
    chi2
        Weights q with n |q - uniform|²/2 up to this.
    l2
        Penalty l2/2 times the squared coefficients (standardised, without the intercept), for both
        fits; without it one over the number of examples, as scikit-learn's default.
    method
        How to solve it.
    tol
        How far from the least robust loss the fit may be, by a lower bound on it.
    max_iter
        The largest number of iterations.
    restart
        anchor: make the present point the new anchor when the residual has fallen by 4; none and
        auto are the paper's method.
    out
        A JSON file for the coefficients.
    resume
        A file to save the solver's state in and to go on from, also after Ctrl-C.
    """
    from cameraready.minmax.robust import KL, ChiSquare, CVaR
    from cameraready.minmax.robust_logistic import RobustLogistic

    chosen = [
        kind(size) for kind, size in ((CVaR, cvar), (KL, kl), (ChiSquare, chi2)) if size is not None
    ]
    if len(chosen) != 1:
        raise ValueError("give one of --cvar, --kl and --chi2")
    check_positive("tol", tol)
    _not_over(out, "--out", table, resume)
    data = read_data(table, target)
    fit = RobustLogistic(data, chosen[0], l2)

    def near(iteration: Iteration) -> bool:
        return iteration.number % FIT_EVERY == 0 and fit.gap(iteration.state.z) <= tol

    run = LongRun(resume, near)
    result, status = run.solve(fit.problem, method, tol=0.0, max_iter=max_iter, restart=restart)
    robust, plain = fit.theta(result.state.state.z), fit.plain()
    names = [*data.names, "intercept"]
    coefficients = {
        name: dict(zip(names, fit.coefficients(theta).tolist(), strict=True))
        for name, theta in (("robust", robust), ("plain", plain))
    }
    predicts = data.labels[1]
    _write_json(out, {"predicts": predicts, "l2": fit.l2, "coefficients": coefficients})
    _show(
        _summary(method, result, status)
        | {
            "optimality_gap": fit.gap(result.state.state.z),
            "examples": len(data.target),
            "predicts": predicts,
            "l2": fit.l2,
            "robust": fit.losses(robust),
            "plain": fit.losses(plain),
        }
    )
    return run.code(status)


@app.command
def certify(
    *,
    method: Literal["feg", "eag", "eag2"] = "feg",
    n: Annotated[int, Parameter(name="--N")] = 10,
    lipschitz: Annotated[float, Parameter(name="--L")] = 1.0,
    rho: float = 0.0,
    step: float | None = None,
) -> int:
    """Compute a method's worst case, as a semidefinite program through PEPit.

    For eag2 the value is an upper bound on the worst case: that F is monotone and Lipschitz is
    asked for between each two points only.

    Parameters
    ----------
    method
        The method.
    n
        Its number of steps; 10 take some seconds.
    lipschitz
        The Lipschitz constant of F.
    rho
        The comonotonicity of F + A.
    step
        The step size; the method's default without it.
    """
    from cameraready.minmax.certificates import certify as worst_case

    try:
        found = worst_case(method, n, lipschitz, rho, step)
    except ImportError as error:
        raise ValueError(str(error)) from None
    except RuntimeError as error:
        _note(str(error))
        return 1
    shown: dict[str, Any] = {
        "method": method,
        "N": n,
        "L": lipschitz,
        "rho": rho,
        "step": found.step,
        "worst_case": found.worst_case,
        "normalised": found.normalised,
        "status": found.status,
    }
    if method == "feg" and found.step * lipschitz <= 1.0 + 1e-9:
        shown["theory"] = 4.0 / (found.step + 2.0 * rho) ** 2  # of the normalised one
    _show(shown)
    return 0


@app.command
def compare(
    payoff: Path,
    /,
    *,
    budget: int = 20_000,
    maximize_rows: Switch = False,
    plot: Path | None = None,
) -> int:
    """Run all methods on a matrix game with equally many evaluations, each with its default step.

    Parameters
    ----------
    payoff
        A matrix in a text file, as for game.
    budget
        Evaluations of F for each method.
    maximize_rows
        The payoff is what the row player gets, not what he pays.
    plot
        A picture of residual and duality gap against evaluations (.png, .svg or .pdf).
    """
    from cameraready.minmax.comparison import Trace, compare_methods

    kind = "" if plot is None else plot.suffix.lstrip(".").lower()
    if plot is not None and kind not in ("png", "svg", "pdf"):
        raise ValueError(f"--plot must end in .png, .svg or .pdf, not {plot.name!r}")
    if budget < 10:
        raise ValueError(f"--budget must be at least 10, not {budget}")
    _not_over(plot, "--plot", payoff)
    table = read_payoff(payoff)
    _note_names(table)
    lipschitz = float(np.linalg.norm(table.matrix, 2)) or 1.0
    traces: dict[str, Trace] = {}
    for trace in compare_methods(
        lambda: MatrixGame(table.matrix, maximize=maximize_rows), budget, lipschitz
    ):
        traces[trace.name] = trace
        if sys.stderr.isatty():
            _note(f"{trace.name}: done")
    rows = [
        {
            "method": trace.method,
            "restart": trace.restart,
            "iterations": len(trace.result.residual_history),
            "evaluations": trace.result.n_grad,
            "residual": trace.result.residual,
            "gap": trace.result.gap,
        }
        for trace in traces.values()
    ]
    if plot is not None:
        _draw(plot, kind, traces)
    _table(rows)
    _show(rows)
    return 0


# What the verbs share.


def _summary(method: str, result: Result, status: str) -> dict[str, Any]:
    """What every solving verb says first; iterations and counts are of this call."""
    _, _, notes = result.message.partition("; ")
    shown = {
        "status": status,
        "converged": status == "converged",
        "method": method,
        "iterations": len(result.residual_history),
        "evaluations": result.n_grad,
        "resolvents": result.n_prox,
        "resets": result.resets,
        "step": result.step,
        "residual": result.residual,
    }
    return shown | ({"message": notes} if notes else {})


def _number_or(name: str, text: str, word: str) -> float | str:
    if text == word:
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number or {word}, not {text!r}") from None


def _not_over(path: Path | None, option: str, *read: Path | None) -> None:
    """Refuse to write over a file that is read, and into a folder that is not there."""
    if path is None:
        return
    for other in read:
        if other is not None and path.absolute() == other.absolute():
            raise ValueError(f"{option} would overwrite {other}: name another file")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: there is no folder {path.parent}")


def _plain(value: Any) -> Any:
    """A value that JSON can hold; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _arrays(parts: dict[str, Any]) -> dict[str, np.ndarray]:
    """The parts, and the entries of those that are dicts as x.key, as arrays."""
    flat: dict[str, np.ndarray] = {}
    for name, part in parts.items():
        if isinstance(part, dict):
            flat |= _arrays({f"{name}.{key}": entry for key, entry in part.items()})
        else:
            flat[name] = np.asarray(part.cpu() if hasattr(part, "cpu") else part)
    return flat


def _write_json(path: Path | None, value: Any) -> None:
    if path is not None:
        with atomic_write(path) as file:
            file.write(json.dumps(_plain(value), indent=2, ensure_ascii=False) + "\n")


def _show(value: Any) -> None:
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def _note_names(table: Payoff) -> None:
    if table.labels:
        _note(f"names: {table.labels}")
    if "first row" not in table.labels:
        _note("the first row is all numbers and was taken as payoffs")


def _table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for heading in ("method", "evaluations", "residual", "duality gap"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for row in rows:
        name = row["method"] + (", restart" if row["restart"] == "anchor" else "")
        table.add_row(name, str(row["evaluations"]), f"{row['residual']:.3g}", f"{row['gap']:.3g}")
    Console(stderr=True).print(table)


def _draw(path: Path, kind: str, traces: dict[str, Any]) -> None:
    from matplotlib.figure import Figure

    from cameraready.common.plotting import plot_style
    from cameraready.minmax.plots import plot_traces

    with plot_style("light"):
        figure = Figure(figsize=(11, 4.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        plot_traces(traces, left, "residual")
        plot_traces(traces, right, "gap")
        if right.lines:
            right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format=kind, dpi=150)
