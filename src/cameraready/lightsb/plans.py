"""Input plans: how the rows of a batch of each side are paired. And units of eps."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from cameraready.common import check_choice, check_positive

__all__ = ["CONVENTIONS", "PLANS", "Plan", "eps_from", "index_pairs"]

PLANS = ("independent", "minibatch", "sinkhorn", "paired")
CONVENTIONS = ("sde", "half_cost", "entropic_ot")

Plan = Callable[
    [Float[np.ndarray, "n features"], Float[np.ndarray, "n features"], np.random.Generator],
    tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]],
]

_SINKHORN_TOLERANCE, _SINKHORN_ITERATIONS = 1e-4, 500
# Kernels exp(-cost / reg) down to exp(-60) are far from single precision's smallest numbers.
_SINGLE_PRECISION_RANGE = 60.0


def eps_from(convention: str, value: float) -> float:
    """The bridge's variance rate eps, from another library's regularisation.

    Parameters
    ----------
    convention : {"sde", "half_cost", "entropic_ot"}
        "sde": dX = drift dt + sqrt(value) dW, as here; torchcfm's sigma squared. "half_cost":
        entropic transport of |x - y|^2 / 2, where value = eps too. "entropic_ot": entropic
        transport of |x - y|^2, as `ot.sinkhorn`'s reg, and ott's epsilon with its squared
        Euclidean cost, where value = 2 eps.
    value : float
        The number in that convention; > 0.

    Raises
    ------
    ValueError
        If the convention is unknown or the value not positive.

    Examples
    --------
    >>> eps_from("entropic_ot", 0.2)
    0.1
    """
    check_choice("convention", convention, CONVENTIONS)
    value = check_positive("value", value)
    return value / 2 if convention == "entropic_ot" else value


def index_pairs(
    plan: str | Plan,
    x0: Float[np.ndarray, "n features"],
    x1: Float[np.ndarray, "n features"],
    eps: float,
    rng: np.random.Generator,
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Pairs of rows (i, j) of two batches, by a plan whose marginals are the batches.

    Parameters
    ----------
    plan : str or callable
        "minibatch" pairs each row with one of the other side at the least total squared
        distance; "sinkhorn" draws j for each i from the entropic plan of the batch, whose
        marginal over j is right in expectation, to Sinkhorn's tolerance; "independent" and
        "paired" leave the rows as they were drawn. A callable plan(x0, x1, rng) returns the
        index arrays itself.
    x0, x1 : arrays of shape (n, D)
        The batches.
    eps : float
        Variance rate, for "sinkhorn", which uses reg = 2 eps.
    rng : numpy.random.Generator
        For plans that draw.

    Raises
    ------
    ValueError
        If a callable's arrays are not indices of the same number of rows.
    """
    rows = np.arange(len(x0))
    if not isinstance(plan, str):
        i, j = (np.asarray(index) for index in plan(x0, x1, rng))
        for name, index in (("i", i), ("j", j)):
            fits = index.ndim == 1 and index.size and index.dtype.kind in "iu"
            if not fits or index.min() < 0 or index.max() >= len(rows):
                raise ValueError(
                    f"plan must return two arrays of row numbers below {len(rows)}; {name} is not"
                )
        if i.shape != j.shape:
            raise ValueError(f"plan returned {i.size} rows of x0 but {j.size} of x1")
        return i, j
    check_choice("plan", plan, PLANS)
    if plan in ("independent", "paired"):
        return rows, rows
    import ot
    import torch
    from scipy.optimize import linear_sum_assignment

    cost = ot.dist(x0.astype(float), x1.astype(float))
    if plan == "minibatch":
        # With uniform weights a vertex of the transport polytope is a permutation, and an
        # assignment is found in half the time of ot.emd.
        return linear_sum_assignment(cost)
    uniform = np.full(len(rows), 1 / len(rows))
    # torch is several times as fast here, and single precision again, where it has the range.
    wide = cost.max() > _SINGLE_PRECISION_RANGE * 2 * eps
    table = torch.from_numpy(cost).to(torch.float64 if wide else torch.float32)
    masses = torch.from_numpy(uniform).to(table)
    coupling = ot.sinkhorn(
        masses,
        masses,
        table,
        reg=2 * eps,
        method="sinkhorn_log",
        numItermax=_SINKHORN_ITERATIONS,
        stopThr=_SINKHORN_TOLERANCE,
        warn=False,
    )
    cumulative = np.cumsum(np.asarray(coupling, dtype=float), axis=1)
    u = rng.random((len(rows), 1)) * cumulative[:, -1:]
    return rows, np.minimum((cumulative <= u).sum(1), len(rows) - 1)
