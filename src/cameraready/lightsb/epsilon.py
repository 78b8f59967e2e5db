"""How large eps should be: what the data say, and what they cannot say."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import clone
from torch import Tensor

from cameraready.common import check_positive
from cameraready.lightsb.bridge import LightSB
from cameraready.lightsb.points import check_points
from cameraready.lightsb.scaling import Scaling
from cameraready.lightsb.smooth_marginal import fit_source, smooth_marginal_log_prob

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EpsilonChoice", "EpsilonScore", "choose_eps", "plot_epsilon_choice"]

_ROWS = 20_000  # of each side at most
# Differences below so many standard errors are noise.
_NOISE = 2.0
# eps counts as identified when what is left of the grid spans no more than this factor.
_IDENTIFIED = 10.0


class EpsilonScore(NamedTuple):
    """One row of the table: all of it on rows that the fits have not seen.

    Attributes
    ----------
    eps : float
        In scaled units, as `LightSB` takes it.
    eps_data_units : float
        In the data's units, squared.
    log_likelihood : float
        The criterion, in nats a row: of the target, or of the pairs.
    behind : float
        By how much it is below that of the best eps.
    standard_error : float
        Of `behind`, over the rows, which are the same for each eps; the noise of the fits is not
        in it.
    energy : float
        LightSB's energy in scaled units, with a constant of its own at each eps: no criterion.
    entropy : float
        Of x1 given x0, on average, in nats; the plan's entropy is the source's more.
    """

    eps: float
    eps_data_units: float
    log_likelihood: float
    behind: float
    standard_error: float
    energy: float
    entropy: float


@dataclass(frozen=True)
class EpsilonChoice:
    """An eps, and what speaks for it.

    Attributes
    ----------
    eps, eps_data_units : float
        The choice, in scaled units and in the data's.
    criterion : {"marginal", "conditional"}
        Whether the target or pairs were scored.
    table : list of EpsilonScore
        One for each eps, in increasing order.
    plausible : tuple of float
        The least and the greatest eps that cannot be told from the best.
    identified : bool
        Whether these are less than a factor of ten apart, and inside the grid.
    note : str
        What the data say, in a sentence.
    """

    eps: float
    eps_data_units: float
    criterion: str
    table: list[EpsilonScore]
    plausible: tuple[float, float]
    identified: bool
    note: str


def choose_eps(
    X0: Any,  # noqa: N803
    X1: Any,  # noqa: N803
    grid: Sequence[float],
    *,
    paired: bool = False,
    bridge: LightSB | None = None,
    folds: int = 3,
    seed: int | None = None,
    callback: Callable[[int, int], Any] | None = None,
) -> EpsilonChoice:
    r"""Choose eps by the likelihood of rows that were held out.

    **With pairs**, rows of X0 and X1 that belong together, eps is a parameter like others. Its
    criterion is the conditional log-likelihood

    .. math::
        \log \pi(x_1 \mid x_0) = \langle x_0, x_1 \rangle / \epsilon + \log v(x_1) - \log c(x_0),

    of which the maximum over v is the fit (the energy is minus it, without the first term), and
    the eps of the greatest is taken. The slope S_k and the covariance eps S_k of a component are
    tied, so that pairs tell eps apart.

    **Without pairs** nothing in the data is random given x0: every eps has a bridge between the
    same marginals, and what eps should be is a matter of what the map is for. All that data can
    say is with which eps a potential of `n_components` components describes the target. The
    criterion is the log-likelihood of held-out targets under what the plan makes of the source,

    .. math::
        \log p_1(x_1) = \log \int p_0(x_0)\, \pi(x_1 \mid x_0)\, dx_0

    (see `smooth_marginal_log_prob`), a proper score of a density in the same space for all eps;
    the energy is not, as it has a constant of its own for each. It falls where eps is too small
    for so few components, and is often flat above: then eps is bounded from below only. Of all eps
    that are within two standard errors of the best the smallest is taken, the closest to optimal
    transport: any larger one adds randomness to the map that the data do not ask for. `identified`
    and `note` say whether much was left to this rule. With more components there is less to be
    told; with one, nothing, if the source is Gaussian.

    Parameters
    ----------
    X0, X1 : array-like or Tensor of shape (n0, D), (n1, D)
        Source and target; of more than 20 000 rows so many are drawn.
    grid : sequence of float
        The eps to compare, in scaled units (see `LightSB`), two at least. A factor of 2 or 3
        between neighbours is fine enough.
    paired : bool
        Whether row i of X0 belongs to row i of X1.
    bridge : LightSB, optional
        Settings of the fits but for eps; by default 10 components, and 1000 steps on the energy
        with the step size 0.1, which suffice for some thousand rows. Fits that have not converged
        make small eps look worse than they are.
    folds : int
        Each row is held out in one of so many folds.
    seed : int, optional
        For the folds and the fits.
    callback : callable, optional
        callback(fits done, fits in all).

    Returns
    -------
    EpsilonChoice

    Raises
    ------
    ValueError
        If there are too few rows or grid values, one is not positive, or pairs do not match.

    Notes
    -----
    Measured on `make_eot_mixture`, dimensions 2 and 16, eps 0.1, 1 and 10, three seeds each, 4000
    rows, 10 components where the truth has 5, two folds, over the grid 0.03, 0.1, 0.3, ..., 30.
    With pairs the true eps was taken each time. Without pairs it was where the plan is sharp: at
    eps = 0.1 each time, and at eps = 1 in dimension 16. At eps = 1 in dimension 2 either it or the
    0.3 below was taken, and at eps = 10 something from 0.3 to 3; `identified` was false
    wherever the eps taken was not the true one.

    Examples
    --------
    >>> from cameraready.lightsb.mixtures import make_eot_mixture
    >>> x0, x1 = make_eot_mixture(2, eps=1.0, seed=0).sample_pair(400, seed=0)
    >>> fast = LightSB(5, objective="energy", lr=0.1, max_iter=100, scale="none")
    >>> choose_eps(x0, x1, [0.1, 1, 10], paired=True, bridge=fast, folds=2, seed=0).eps
    1.0
    """
    source, target = check_points("X0", X0), check_points("X1", X1)
    values = sorted({check_positive("grid", value) for value in grid})
    if len(values) < 2:
        raise ValueError(f"grid must have two different eps at least, not {list(grid)!r}")
    if source.shape[1] != target.shape[1]:
        raise ValueError(
            "X0 and X1 must have the same number of features: their shapes are "
            f"{tuple(source.shape)} and {tuple(target.shape)}"
        )
    if paired and len(source) != len(target):
        raise ValueError(
            f"paired needs as many rows in X0 as in X1: there are {len(source)} and {len(target)}"
        )
    if not 2 <= folds <= min(len(source), len(target)):
        raise ValueError(f"folds must be from 2 to the number of rows, not {folds!r}")
    if bridge is None:
        bridge = LightSB(objective="energy", lr=0.1, max_iter=1000)
    rng = np.random.default_rng(seed)
    rows0 = rng.permutation(len(source))[:_ROWS]
    rows1 = rows0 if paired else rng.permutation(len(target))[:_ROWS]
    source, target = source[torch.from_numpy(rows0)], target[torch.from_numpy(rows1)]
    # One scale for all folds: eps means the same in each, and in a fit to all rows.
    scaling, _ = Scaling.fit(bridge.scale, source, target, (None, None))
    wide = torch.empty(0, dtype=torch.float64)
    x0, x1 = scaling.into(source, wide), scaling.into(target, wide)
    fit_seed = None if seed is None else int(rng.integers(2**31))
    scores = np.empty((len(values), len(x1)))
    energies, entropies = np.zeros(len(values)), np.zeros(len(values))
    for fold in range(folds):
        held0, held1 = (torch.arange(len(x)) % folds == fold for x in (x0, x1))
        mixture = None if paired else fit_source(x0[~held0].numpy(), fit_seed)
        for k, eps in enumerate(values):
            fitted = clone(bridge).set_params(eps=eps, scale="none", random_state=fit_seed)
            with warnings.catch_warnings():
                # Of eps that are too small, which the table shows.
                warnings.simplefilter("ignore", UserWarning)
                fitted.fit(x0[~held0], x1[~held1])
            if fitted.stopped_ == "interrupted":
                raise KeyboardInterrupt
            found = _score(fitted, mixture, x0[held0], x1[held1])
            scores[k, held1.numpy()] = found[0]
            energies[k] += found[1] / folds
            entropies[k] += found[2] / folds
            if callback is not None:
                callback(fold * len(values) + k + 1, folds * len(values))
    # Densities of all bridges are in scaled units.
    constant = x1.shape[1] * float(np.log(scaling.scale))
    return _choose(
        values,
        scaling.scale**2,
        scores - constant,
        energies,
        entropies + constant,
        paired,
    )


def plot_epsilon_choice(choice: EpsilonChoice, ax: "Axes") -> "Axes":
    """How far each eps is behind the best, with two standard errors, and which was taken.

    Parameters
    ----------
    choice : EpsilonChoice
        What `choose_eps` returned.
    ax : Axes
        Where to draw.
    """
    eps = [row.eps for row in choice.table]
    behind = [-row.behind for row in choice.table]
    errors = [_NOISE * row.standard_error for row in choice.table]
    low, high = choice.plausible
    if low < high:
        ax.axvspan(low, high, alpha=0.15, lw=0, label="cannot be told from the best")
    ax.errorbar(eps, behind, errors, marker="o", capsize=3)
    ax.axvline(choice.eps, color="C1", ls="--", label=f"taken: {choice.eps:g}")
    ax.set_xscale("log")
    # The worst may be hundreds of nats behind; a nat is a lot.
    ax.set_yscale("symlog", linthresh=max(errors) or 1.0)
    ax.set_xlabel("eps (scaled units)")
    what = "pairs" if choice.criterion == "conditional" else "targets"
    ax.set_ylabel(f"log-likelihood of held-out {what}\nless the best's (nats a row)")
    ax.legend()
    return ax


def _score(
    fitted: LightSB, mixture: Any, x0: Tensor, x1: Tensor
) -> tuple[Float[np.ndarray, " n"], float, float]:
    """Log-likelihood of each held-out row, the energy, and the entropy of x1 given x0."""
    if mixture is None:
        score = fitted.conditional_log_prob(x0, x1).cpu().numpy()
    else:
        score = smooth_marginal_log_prob(fitted, mixture, x1)
    entropy = -fitted.conditional_log_prob(x0, fitted.transform(x0)).mean()
    return score, -fitted.score(x0, x1), float(entropy)


def _choose(
    values: list[float],
    square: float,
    scores: Float[np.ndarray, "grid n"],
    energies: Float[np.ndarray, " grid"],
    entropies: Float[np.ndarray, " grid"],
    paired: bool,
) -> EpsilonChoice:
    best = int(scores.mean(1).argmax())
    behind = scores[best] - scores
    mean = behind.mean(1)
    error = behind.std(1, ddof=1) / np.sqrt(scores.shape[1])
    left = np.flatnonzero(mean <= _NOISE * error)
    taken = best if paired else int(left[0])
    low, high = values[left[0]], values[left[-1]]
    inside = left[0] > 0 and left[-1] < len(values) - 1
    identified = bool(inside and high <= _IDENTIFIED * low)
    table = [
        EpsilonScore(
            eps,
            eps * square,
            float(scores[k].mean()),
            float(mean[k]),
            float(error[k]),
            float(energies[k]),
            float(entropies[k]),
        )
        for k, eps in enumerate(values)
    ]
    return EpsilonChoice(
        values[taken],
        values[taken] * square,
        "conditional" if paired else "marginal",
        table,
        (low, high),
        identified,
        _note(values, left, paired, identified),
    )


def _note(values: list[float], left: np.ndarray, paired: bool, identified: bool) -> str:
    low, high = values[left[0]], values[left[-1]]
    what = "held-out pairs" if paired else "held-out targets"
    span = f"eps from {low:g} to {high:g}" if len(left) > 1 else f"eps = {low:g} only"
    told = f"within two standard errors of the best log-likelihood of {what}: {span}"
    if identified:
        return told
    ends = []
    if left[0] == 0:
        ends.append("smaller")
    if left[-1] == len(values) - 1:
        ends.append("larger")
    if len(left) == 1:
        return f"{told}, the end of the grid: try {ends[0]} eps too"
    taken = (
        "the best was taken"
        if paired
        else f"the smallest, {low:g}, was taken, the closest to optimal transport; "
        "only pairs, or what the map is for, can tell more"
    )
    return (
        f"not identified by these data: the log-likelihood of {what} differs by less than two "
        f"standard errors from {low:g} to {high:g}; {taken}"
    )
