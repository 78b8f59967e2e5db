"""lightsb beside the published implementation, POT and torchcfm: steps, samples, memory.

Prints Markdown tables. Costs are process CPU time on one thread; ours and the peer's take turns on
the same data, and the ratio is the median of the paired ratios.

The published implementation is no package: check it out (github.com/SKholkin/LightSB-Matching) and
name its folder ``src`` with ``--published FOLDER``; without it, its rows are left out.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cameraready.lightsb import LightSB, energy_loss, optimal_matching_loss
from cameraready.lightsb.baselines import DSBM, SF2M, SinkhornBridge
from cameraready.lightsb.metrics import conditional_bw2_uvp
from cameraready.lightsb.mixtures import make_eot_mixture
from cameraready.lightsb.potential import LightSBModule
from cameraready.lightsb.training import training_step

Job = Callable[[], object]
BATCH = 512


def cpu(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def in_turn(ours: Job, peer: Job, rounds: int) -> tuple[float, float, float]:
    """Median times, and the median of the paired ratios peer / ours."""
    ours(), peer()
    times = [(cpu(ours), cpu(peer)) for _ in range(rounds)]
    a, b = (statistics.median(column) for column in zip(*times, strict=True))
    return a, b, statistics.median(peer / ours for ours, peer in times)


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    for row in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(row) + " |", flush=True)


def published_class(folder: Path) -> Any:
    """The published module's class; diagonal covariances need nothing of geotorch."""
    sys.modules.setdefault("geotorch", types.ModuleType("geotorch"))
    sys.path.insert(0, str(folder))
    import lightsbm

    return lightsbm.LightSBM


class Stepper(torch.nn.Module):
    """An objective as `training_step` calls it."""

    def __init__(self, module: torch.nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
        return self.loss(self.module, x0, x1)


def module(dim: int, components: int, eps: float) -> LightSBModule:
    draws = torch.Generator().manual_seed(0)
    return LightSBModule(
        torch.zeros(components),
        torch.randn(components, dim, generator=draws),
        torch.full((components, dim), -0.5),
        eps,
    )


def direct_loss(peer: Any, x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
    """Bridge matching on the peer's drift, its times ending at 0.99 as published."""
    t = 0.99 * torch.rand(len(x0), 1)
    spread = (peer.epsilon * t * (1 - t)).sqrt()
    x = t * x1 + (1 - t) * x0 + spread * torch.randn_like(x0)
    drift = peer.get_drift(x, t[:, 0])
    return torch.nn.functional.mse_loss(drift, (x1 - x) / (1 - t))


def published_loop(peer: Any, x0: torch.Tensor, x1: torch.Tensor, count: int) -> Job:
    """A step as the published notebooks make it: they also take the energy, to show it."""
    optimizer = torch.optim.Adam(peer.parameters(), lr=1e-3)

    def job() -> None:
        for _ in range(count):
            loss = direct_loss(peer, x0, x1)
            shown = (peer.get_log_C(x0) - peer.get_log_potential(x1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item(), shown.item()

    return job


def steps(peer_class: Any) -> None:
    rows, whole = [], []
    for dim, components, count in ((2, 10, 200), (16, 50, 100), (64, 100, 10)):
        draws = torch.Generator().manual_seed(1)
        x0, x1 = torch.randn(2, BATCH, dim, generator=draws)
        losses = {
            "matching": lambda m, a, b: optimal_matching_loss(m, a, b),
            "matching, direct": lambda m, a, b: optimal_matching_loss(m, a, b, estimator="direct"),
            "energy": energy_loss,
        }
        peer: Any = None
        if peer_class is not None:
            peer = peer_class(dim, components, 1.0)
            peer_step = stepping(peer, direct_loss, x0, x1, count)
            ours = stepping(module(dim, components, 1.0), losses["matching"], x0, x1, count)
            a, b, ratio = in_turn(ours, published_loop(peer, x0, x1, count), 5)
            whole.append(
                [
                    f"D={dim}, K={components}",
                    f"{a / count * 1e3:.2f} ms",
                    f"{b / count * 1e3:.2f} ms",
                    f"{ratio:.1f}",
                ]
            )
        for name, loss in losses.items():
            ours = stepping(module(dim, components, 1.0), loss, x0, x1, count)
            row = [f"D={dim}, K={components}", name]
            if peer is None:
                ours()
                taken = statistics.median(cpu(ours) for _ in range(5))
                rows.append([*row, f"{taken / count * 1e3:.2f} ms", "", ""])
            else:
                a, b, ratio = in_turn(ours, peer_step, 5)
                rows.append(
                    [*row, f"{a / count * 1e3:.2f} ms", f"{b / count * 1e3:.2f} ms", f"{ratio:.1f}"]
                )
    if whole:
        table(
            f"A step of training, batch {BATCH}, ours (matching) and as the published loop makes "
            "it (wanted: 1.8 times as fast; 2.5 with times shared by blocks of rows, as ours are)",
            ["size", "ours", "published", "ratio"],
            whole,
        )
    table(
        "The same with the published drift in our own loop: one loss, fused Adam, no look at the "
        "energy",
        ["size", "ours", "a step", "published", "ratio"],
        rows,
    )


def stepping(
    model: Any, loss: Callable[..., torch.Tensor], x0: torch.Tensor, x1: torch.Tensor, count: int
) -> Job:
    objective = Stepper(model, loss)
    used = [p for name, p in model.named_parameters() if name not in ("r_scale",)]
    # The published module keeps rotations that diagonal covariances do not use.
    used = [p for p in used if p.ndim < 3]
    optimizer = torch.optim.Adam(used, lr=1e-3, fused=True)

    def job() -> None:
        for _ in range(count):
            training_step(objective, optimizer, x0, x1)

    return job


def samples(peer_class: Any) -> None:
    if peer_class is None:
        return
    rows = []
    for dim, components in ((2, 10), (16, 50)):
        x0 = torch.randn(2000, dim, generator=torch.Generator().manual_seed(2))
        ours = module(dim, components, 1.0)
        for batch, name in ((1, "as published, row by row"), (2000, "its batch raised to 2000")):
            peer = peer_class(dim, components, 1.0, sampling_batch_size=batch)
            a, b, ratio = in_turn(
                lambda m=ours, x=x0: m.sample_conditional(x), lambda p=peer, x=x0: p(x), 5
            )
            rows.append(
                [
                    f"D={dim}, K={components}",
                    name,
                    f"{a * 1e3:.1f} ms",
                    f"{b * 1e3:.1f} ms",
                    f"{ratio:.0f}" if ratio > 10 else f"{ratio:.1f}",
                ]
            )
    table(
        "2000 samples of the plan (wanted: 100 times as fast at D=2)",
        ["size", "published", "ours", "theirs", "ratio"],
        rows,
    )


def solvers() -> None:
    rows = []
    problem = make_eot_mixture(16, 1.0, seed=200)
    x0, x1 = problem.sample_x0(20_000, 0), problem.sample_x1(20_000, 1)
    tests = problem.sample_x0(100, 2)
    true = problem.conditional_moments(tests)
    ours = {"scale": "none", "tol": None, "random_state": 0}
    for name, solver in (
        ("LightSB, matching, 300 steps", LightSB(20, 1.0, max_iter=300, **ours)),
        ("LightSB, matching, 1500 steps", LightSB(20, 1.0, max_iter=1500, **ours)),
        (
            "LightSB, energy, 1500 steps",
            LightSB(20, 1.0, max_iter=1500, objective="energy", **ours),
        ),
        ("Sinkhorn bridge (POT), 2048 rows", SinkhornBridge(1.0, random_state=0)),
        ("SF2M (torchcfm), 3000 steps", SF2M(1.0, max_iter=3000, random_state=0)),
        ("DSBM, 3000 steps", DSBM(1.0, max_iter=3000, random_state=0)),
    ):
        few = 2048 if isinstance(solver, SinkhornBridge) else None  # its tables are n by n
        seconds = cpu(lambda s=solver, n=few: s.fit(x0[:n], x1[:n]))
        error = conditional_bw2_uvp(solver.conditional_moments(tests), true)
        rows.append([name, f"{seconds:.1f} s", f"{error:.2f} %"])
    table(
        "Fits of a mixture with a known plan, D=16, eps 1, 20 000 rows a side",
        ["solver", "CPU", "cBW2-UVP"],
        rows,
    )


def scale() -> None:
    rows = []
    for count, wanted in ((100_000, "1 GB"), (1_000_000, "60 s on two cores")):
        code = (
            "import resource, sys, time, numpy as np\n"
            "from cameraready.lightsb import LightSB\n"
            "rng = np.random.default_rng(0)\n"
            "x = rng.standard_normal((2000, 50), np.float32)\n"
            "bridge = LightSB(50, 0.5, max_iter=5, random_state=0).fit(x, x + 1)\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            f"rows = rng.standard_normal(({count}, 50), np.float32)\n"
            "start = time.perf_counter()\n"
            "bridge.transform(rows)\n"
            "taken = time.perf_counter() - start\n"
            "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "print(taken, (after - before) / 1e6, after / 1e6)\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
        )
        taken, added, peak = map(float, done.stdout.split())
        rows.append([f"{count:,}", f"{taken:.1f} s", f"{added:.2f} GB", f"{peak:.2f} GB", wanted])
    table(
        "transform of rows with 50 features, K=50, in a process of its own, two threads",
        ["rows", "wall", "memory added (rows and samples included)", "peak", "wanted"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published", type=Path, default=os.environ.get("LIGHTSB_PUBLISHED"))
    folder = parser.parse_args().published
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}")
    peer = None
    if folder is None:
        print("The published implementation is left out: name its folder src with --published.")
    else:
        peer = published_class(Path(folder))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    steps(peer)
    samples(peer)
    solvers()
    torch.set_num_threads(threads)
    scale()


if __name__ == "__main__":
    main()
