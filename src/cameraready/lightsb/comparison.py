"""All solvers on the same problems with a known plan."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from cameraready.common import check_choice
from cameraready.lightsb.bridge import LightSB
from cameraready.lightsb.metrics import conditional_bw2_uvp
from cameraready.lightsb.mixtures import EOTMixture, make_eot_mixture

__all__ = ["SOLVERS", "SolverResult", "compare_solvers", "installed_solvers"]

# Sinkhorn's plan has as many entries as this squared.
_SINKHORN_ROWS = 2048
# Points at which plans are compared, and samples of those whose moments have no closed form.
_POINTS, _SAMPLES = 200, 1000


@dataclass(frozen=True)
class SolverResult:
    """How well one solver found one plan.

    Attributes
    ----------
    dim : int
    eps : float
    solver : str
        A key of `SOLVERS`, or "truth": the true plan's own moments from as many samples as the
        neural solvers' are estimated from, which is the least that these can reach.
    cbw2_uvp : float
        Unexplained variance of the plan, in percent; see `conditional_bw2_uvp`.
    cpu_seconds : float
        Of the fit, all threads together.
    """

    dim: int
    eps: float
    solver: str
    cbw2_uvp: float
    cpu_seconds: float


def compare_solvers(
    dims: Sequence[int],
    epsilons: Sequence[float],
    solvers: Sequence[str] | None = None,
    *,
    n_components: int = 20,
    max_iter: int = 3000,
    n_rows: int = 10_000,
    seed: int = 0,
) -> Iterator[SolverResult]:
    """Fit every solver to every problem.

    Parameters
    ----------
    dims : sequence of int
        Dimensions of the problems.
    epsilons : sequence of float
        Their eps, which the solvers are told.
    solvers : sequence of str, optional
        Keys of `SOLVERS`; all that are installed by default.
    n_components : int
        Of LightSB's potential; the truth has 5.
    max_iter : int
        Gradient steps of each solver.
    n_rows : int
        Rows of the source and of the target, unpaired; 2048 of them for Sinkhorn.
    seed : int
        For everything.

    Yields
    ------
    SolverResult
        As soon as it is there.
    """
    names = installed_solvers() if solvers is None else list(solvers)
    for name in names:
        check_choice("solvers", name, tuple(SOLVERS))
    for name, count in (("n_components", n_components), ("max_iter", max_iter)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count!r}")
    if n_rows < n_components:
        raise ValueError(f"n_rows must be at least n_components={n_components}, not {n_rows!r}")
    problems = [make_eot_mixture(dim, eps, seed=seed) for dim in dims for eps in epsilons]
    for problem in problems:
        rng = np.random.default_rng([seed, problem.truth.dim])
        x0, x1 = problem.sample_x0(n_rows, rng), problem.sample_x1(n_rows, rng)
        points = problem.sample_x0(_POINTS, rng)
        true = problem.conditional_moments(points)

        def result(
            name: str,
            seconds: float,
            moments: Any,
            problem: EOTMixture = problem,
            true: Any = true,
        ) -> SolverResult:
            error = conditional_bw2_uvp(moments, true)
            return SolverResult(problem.truth.dim, problem.truth.eps, name, error, seconds)

        for name in names:
            solver = SOLVERS[name](problem.truth.eps, n_components, max_iter, seed)
            rows = slice(_SINKHORN_ROWS if name == "sinkhorn" else None)
            start = time.process_time()
            solver.fit(x0[rows], x1[rows])
            seconds = time.process_time() - start
            if getattr(solver, "stopped_", "") == "interrupted":
                raise KeyboardInterrupt
            if isinstance(solver, LightSB):
                moments = solver.conditional_moments(points)
            else:
                moments = solver.conditional_moments(points, _SAMPLES)
            yield result(name, seconds, moments)
        yield result("truth", 0.0, _sampled_moments(problem, points, seed))


def installed_solvers() -> list[str]:
    """The keys of `SOLVERS` whose packages are there."""
    return [name for name in SOLVERS if name != "sf2m" or find_spec("torchcfm") is not None]


def _sampled_moments(
    problem: EOTMixture, points: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    drawn = problem.truth.sample_conditional(torch.from_numpy(points), _SAMPLES, generator)
    samples = drawn.numpy()
    mean = samples.mean(1)
    centred = samples - mean[:, None]
    return mean, np.swapaxes(centred, 1, 2) @ centred / (_SAMPLES - 1)


def _light(**settings: Any) -> Callable[[float, int, int, int], Any]:
    def make(eps: float, n_components: int, max_iter: int, seed: int) -> Any:
        return LightSB(
            n_components, eps, scale="none", max_iter=max_iter, random_state=seed, **settings
        )

    return make


def _neural(name: str) -> Callable[[float, int, int, int], Any]:
    def make(eps: float, n_components: int, max_iter: int, seed: int) -> Any:
        from cameraready.lightsb import baselines

        return getattr(baselines, name)(eps, max_iter=max_iter, random_state=seed)

    return make


def _sinkhorn(eps: float, n_components: int, max_iter: int, seed: int) -> Any:
    from cameraready.lightsb.baselines import SinkhornBridge

    return SinkhornBridge(eps, random_state=seed)


# What makes each solver, given eps, components, steps and seed.
SOLVERS: dict[str, Callable[[float, int, int, int], Any]] = {
    "lightsb-m": _light(),
    "lightsb-m-minibatch": _light(plan="minibatch"),
    "lightsb": _light(objective="energy"),
    "sinkhorn": _sinkhorn,
    "bridge-matching": _neural("BridgeMatching"),
    "dsbm": _neural("DSBM"),
    "sf2m": _neural("SF2M"),
}
