"""minmax beside HiGHS and a Python loop: the driver's cost, games, batches.

Prints Markdown tables. Costs are process CPU time; ours and the peer's take turns on the same
data, and the ratio is the median of the paired ratios.
"""

import platform
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch
from scipy.optimize import linprog

from cameraready.minmax import VI, MatrixGame, Simplex, kuhn_poker, solve

Job = Callable[[], object]


def cpu(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def in_turn(ours: Job, peer: Job, rounds: int) -> tuple[float, float, float]:
    """Median times, and the median of the paired ratios peer / ours."""
    times = [(cpu(ours), cpu(peer)) for _ in range(rounds)]
    a, b = (statistics.median(column) for column in zip(*times, strict=True))
    return a, b, statistics.median(peer / ours for ours, peer in times)


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    for row in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(row) + " |")


def run(problem: object, iterations: int, method: str = "feg") -> None:
    solve(problem, method, lipschitz=1.0, tol=0.0, max_iter=iterations, restart="none")


def overhead() -> None:
    rows = []
    problem = VI(lambda z: z, np.ones(4))
    for method in ("feg", "eag", "eag2", "eg", "ogda", "gda"):
        run(problem, 100, method)
        taken = statistics.median(cpu(lambda m=method: run(problem, 5000, m)) for _ in range(3))
        rows.append([method, f"{taken / 5000 * 1e6:.1f} µs"])
    table(
        "The driver: one iteration on four numbers with F(z) = z, everything included "
        "(wanted: less than 20 µs)",
        ["method", "an iteration"],
        rows,
    )


def game(size: int) -> MatrixGame:
    payoff = np.random.default_rng(size).normal(size=(size, size))
    return MatrixGame(payoff / np.linalg.norm(payoff, 2))


def games() -> None:
    rows = []
    small = game(60)
    taken = statistics.median(cpu(lambda: run(small, 5000)) for _ in range(3))
    rows.append(["Gaussian 60×60, 5000 iterations of FEG", f"{taken:.2f} s", "0.8 s"])
    large = game(2000)
    point = large.z0.copy()
    products = statistics.median(
        cpu(lambda: [large.operator(point) for _ in range(40)]) for _ in range(5)
    )
    whole = statistics.median(cpu(lambda: run(large, 20)) for _ in range(5))
    rows.append(
        [
            "2000×2000: share of an iteration in its matrix products",
            f"{products / whole:.0%}",
            "at least 90 %",
        ]
    )
    table("Matrix games", ["what", "measured", "wanted"], rows)


def lp_value(payoff: np.ndarray) -> float:
    """The game by linear programming, as one would without us."""
    m, n = payoff.shape
    c = np.zeros(m + 1)
    c[-1] = 1.0
    found = linprog(
        c,
        A_ub=np.hstack([payoff.T, -np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=np.hstack([np.ones((1, m)), np.zeros((1, 1))]),
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
        method="highs",
    )
    return float(found.fun)


def against_highs(sizes: tuple[int, ...] = (200, 500, 1000, 2000)) -> None:
    rows = []
    for size in sizes:
        problem = game(size)
        scale = float(np.abs(problem.A).max())

        def ours(problem=problem, scale=scale):
            def near(iteration) -> bool:
                check = iteration.number % 20 == 0
                return check and problem.gap(iteration.state.z) <= 1e-3 * scale

            return solve(problem, lipschitz=1.0, tol=0.0, max_iter=100_000, callback=near)

        found = ours()
        rounds = 3 if size < 1000 else 1  # HiGHS takes long
        a, b, ratio = in_turn(ours, lambda problem=problem: lp_value(problem.A), rounds)
        rows.append(
            [
                f"{size}×{size}",
                f"{a:.2f} s",
                f"{len(found.residual_history)}",
                f"{b:.2f} s",
                f"{ratio:.1f}",
            ]
        )
    table(
        "Gaussian games to a duality gap of a thousandth of the largest entry, beside HiGHS "
        "(exact; wanted at 2000×2000: at least 4; one round from 1000×1000 on)",
        ["game", "FEG with restarts", "iterations", "linprog (HiGHS)", "HiGHS / ours"],
        rows,
    )
    poker = MatrixGame(kuhn_poker(), maximize=True)
    a, b, ratio = in_turn(lambda: solve(poker, tol=1e-9), lambda: lp_value(poker.A), 3)
    table(
        "Kuhn poker to a residual of 1e-9",
        ["FEG with restarts", "linprog (HiGHS)", "HiGHS / ours"],
        [[f"{a * 1e3:.0f} ms", f"{b * 1e3:.0f} ms", f"{ratio:.2f}"]],
    )


def batches() -> None:
    rows = []
    simplex = Simplex()
    for count, size in ((10_000, 10), (1000, 100), (1000, 1000)):
        points = torch.randn(count, size, dtype=torch.float64)
        simplex.prox(points, 1.0)  # once, to warm up
        ours, peer, ratio = in_turn(
            lambda points=points: simplex.prox(points, 1.0),
            lambda points=points: [simplex.prox(point, 1.0) for point in points],
            3,
        )
        rows.append(
            [f"{count} × {size}", f"{ours * 1e3:.1f} ms", f"{peer * 1e3:.0f} ms", f"{ratio:.0f}"]
        )
    table(
        "Projection on the simplex, a batch in torch beside a loop (wanted: at least 20)",
        ["points", "batch", "loop", "loop / batch"],
        rows,
    )


def main() -> None:
    names = ("numpy", "scipy", "torch")
    listed = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"{platform.machine()}, Python {platform.python_version()}, {listed}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # baselines reach their cap
        for part in (overhead, games, against_highs, batches):
            part()


if __name__ == "__main__":
    main()
