"""Matrix games, and Kuhn's poker as one."""

import math
from itertools import permutations, product
from typing import Any

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from cameraready.minmax.arrays import to_numpy
from cameraready.minmax.bilinear import Bilinear, check_matrix
from cameraready.minmax.resolvents import Simplex

__all__ = ["MatrixGame", "kuhn_poker"]


class MatrixGame(Bilinear):
    """A zero-sum game: the row player chooses x, the column player y, and x'Ay changes hands.

    Strategies are points of the simplex. Solvers start from uniform strategies.

    Parameters
    ----------
    A : matrix, (m, n)
        What the row player pays the column player.
    maximize : bool
        True if A is what the row player gets.

    Raises
    ------
    TypeError, ValueError
        If A is not a matrix of finite numbers.

    Examples
    --------
    >>> game = MatrixGame([[0.0, 1.0], [1.0, 0.0]])
    >>> game.value_bounds(game.z0), game.gap(game.z0)
    ((0.5, 0.5), 0.0)
    """

    polyhedral = True

    def __init__(self, A: Any, *, maximize: bool = False) -> None:  # noqa: N803
        self.payoff, self.maximize = check_matrix("A", A), bool(maximize)
        m, n = self.payoff.shape
        super().__init__(
            -self.payoff if maximize else self.payoff,
            X=Simplex(),
            Y=Simplex(),
            x0=np.full(m, 1.0 / m),
            y0=np.full(n, 1.0 / n),
            # From the middle of a simplex to a corner, and from corner to corner, of both.
            radius=math.sqrt(2.0 - 1.0 / m - 1.0 / n),
            diameter=2.0,
        )
        self.note = ""

    def value_bounds(self, z: Any) -> tuple[float, float]:
        """The value of the game lies between what the two strategies guarantee.

        Returns
        -------
        low, high : float
            min (Ay) and max (A'x), in the sign of the payoff as it was given.
        """
        x, y = z[: self.split], z[self.split :]
        low, high = float((self.A @ y).min()), float((self._transposed @ x).max())
        return (-high, -low) if self.maximize else (low, high)

    @override
    def gap(self, z: Any) -> float:
        """Duality gap, max (A'x) - min (Ay): what both could gain by changing strategy."""
        low, high = self.value_bounds(z)
        return high - low

    def highs(self) -> Any:
        """The solution by HiGHS: what `scipy.optimize.linprog` returns.

        Its `x` is the row player's strategy and the value of `A`, its `fun` that value; with
        `maximize` both have the sign of what the row player pays.
        """
        from scipy.optimize import linprog

        transposed = self._transposed
        n, m = transposed.shape
        if hasattr(transposed, "tocsr"):
            import scipy.sparse

            rows: Any = scipy.sparse.hstack([transposed, -np.ones((n, 1))], format="csr")
        else:
            rows = np.column_stack([to_numpy(transposed), -np.ones(n)])
        return linprog(  # min v with A'x <= v
            np.append(np.zeros(m), 1.0),
            A_ub=rows,
            b_ub=np.zeros(n),
            A_eq=np.append(np.ones(m), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * m + [(None, None)],
            method="highs",
        )


def kuhn_poker() -> Float[np.ndarray, "27 64"]:
    """What the first player of Kuhn's poker gets on average, for all pure strategies.

    Three cards (jack, queen, king), one each, ante 1, bets of 1. For each card the first player
    checks and then folds, checks and then calls, or bets (3³ = 27 strategies); the second one
    answers a check by checking or betting and a bet by folding or calling (4³ = 64). The value is
    -1/18.

    References
    ----------
    Kuhn, A simplified two-person poker, Contributions to the Theory of Games, 1950.

    Examples
    --------
    >>> kuhn_poker().shape
    (27, 64)
    """
    deals = list(permutations(range(3), 2))
    firsts = list(product(("fold", "call", "bet"), repeat=3))
    seconds = list(product(product(("check", "bet"), ("fold", "call")), repeat=3))
    payoff = np.zeros((len(firsts), len(seconds)))
    for i, first in enumerate(firsts):
        for j, second in enumerate(seconds):
            for card, other in deals:
                to_check, to_bet = second[other]
                payoff[i, j] += _kuhn_hand(card > other, first[card], to_check, to_bet)
    return payoff / len(deals)


def _kuhn_hand(wins: bool, plan: str, to_check: str, to_bet: str) -> int:
    """What the first player gets from one hand."""
    if plan == "bet":
        stake = 2 if to_bet == "call" else 0
        return 1 if not stake else (stake if wins else -stake)
    if to_check == "check":
        return 1 if wins else -1
    if plan == "fold":
        return -1
    return 2 if wins else -2
