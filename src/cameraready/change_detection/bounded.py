"""Means of observations in a known range, without any other assumption."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from cameraready.change_detection import cells, kernels
from cameraready.change_detection.confidence_sequence import ConfidenceSequence
from cameraready.common.checks import check_interval, check_positive

__all__ = ["Betting", "Bounded", "EmpiricalBernstein", "Hoeffding"]


class Bounded(ConfidenceSequence):
    """A confidence sequence for the mean of observations in [low, high].

    Parameters
    ----------
    range : tuple of float
        Ends of the interval that holds every observation, in the observations' unit.
    alpha : float
        One minus the level.
    """

    def __init__(self, range: tuple[float, float] = (0.0, 1.0), alpha: float = 0.05) -> None:
        self.range = check_interval("range", range)
        self.bounds = self.range
        super().__init__(alpha)

    @property
    def _scale(self) -> np.ndarray:
        return np.array([self.range[0], self.range[1] - self.range[0]])


class Hoeffding(Bounded):
    """Hoeffding's bound as a confidence sequence.

    With a number `lam` the boundary is linear, S/m ± (log(2/alpha)/(lam m) + lam (b-a)^2/8); with
    K numbers each has level alpha/K and the best counts. Linear boundaries are the ones for which
    the hull engine keeps *all* starts in O(log n). Without `lam` the bets
    lambda_t = sqrt(8 log(2/alpha) / (t log(1+t))) weigh the observations: the predictable
    plug-in sequence.

    Parameters
    ----------
    range : tuple of float
        Ends of the interval that holds every observation.
    lam : float or sequence of float, optional
        Slope or slopes, in 1/unit of the observations.
    alpha : float
        One minus the level.

    References
    ----------
    Darling, Robbins, Confidence sequences for mean, variance, and median, 1967; Waudby-Smith,
    Ramdas, Estimating means of bounded random variables by betting, JRSS-B 2024, Prop. 1.
    """

    def __init__(
        self,
        range: tuple[float, float] = (0.0, 1.0),
        lam: float | Sequence[float] | None = None,
        alpha: float = 0.05,
    ) -> None:
        if lam is not None:
            slopes = np.atleast_1d(np.asarray(lam, dtype=float))
            if slopes.ndim != 1 or len(slopes) == 0:
                raise ValueError("lam must be a positive number or a list of them")
            for slope in slopes:
                check_positive("lam", float(slope))
        self.lam = lam
        self.kind = kernels.PREDICTABLE_HOEFFDING if lam is None else kernels.HOEFFDING
        super().__init__(range, alpha)

    @override
    def parameters(self) -> np.ndarray:
        if self.lam is None:
            return self._scale
        low, high = self.range
        return np.concatenate([[(low + high) / 2, (high - low) / 2], np.atleast_1d(self.lam)])

    @override
    def template(self) -> np.ndarray:
        return self._row(3 if self.lam is None else 2)


class EmpiricalBernstein(Bounded):
    """Mean of bounded observations, with a width that adapts to their variance.

    The predictable plug-in empirical Bernstein sequence: weights lambda_t from the variance seen
    before t. Valid under dependence with a constant conditional mean.

    Parameters
    ----------
    range : tuple of float
        Ends of the interval that holds every observation.
    alpha : float
        One minus the level.

    References
    ----------
    Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, JRSS-B 2024,
    Theorem 2.

    Examples
    --------
    >>> sequence = EmpiricalBernstein(alpha=0.05)
    >>> lower, upper = sequence.run([0.5, 0.6, 0.4, 0.55, 0.45] * 40, nested=False)
    >>> round(float(lower[-1]), 8), round(float(upper[-1]), 8)
    (0.46112794, 0.53887206)
    """

    kind = kernels.EMPIRICAL_BERNSTEIN

    @override
    def parameters(self) -> np.ndarray:
        return self._scale

    @override
    def template(self) -> np.ndarray:
        return self._row(5)


class Betting(Bounded):
    """Mean of bounded observations by hedged betting on cells (see `cells`): the tightest here.

    Parameters
    ----------
    range : tuple of float
        Ends of the interval that holds every observation.
    cells : int
        Into how many cells the range is cut; the interval's ends are ends of cells.
    fractions : sequence of float
        Fractions of the wealth that are bet, in (0, 1).
    alpha : float
        One minus the level.

    References
    ----------
    Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, JRSS-B 2024,
    section 4 (hedged capital).

    Examples
    --------
    >>> lower, upper = Betting(alpha=0.05).run([0.5] * 200)
    >>> bool(lower[-1] < 0.5 < upper[-1])
    True
    """

    def __init__(
        self,
        range: tuple[float, float] = (0.0, 1.0),
        cells: int = 100,
        fractions: Sequence[float] = cells.FRACTIONS,
        alpha: float = 0.05,
    ) -> None:
        self.cells = check_cells(cells)
        self.fractions = check_fractions(fractions)
        super().__init__(range, alpha)

    def cut(self, known: np.ndarray) -> np.ndarray:
        """The cells, in [0, 1], as far as they meet what is known of the mean, (2, 1)."""
        low, high = np.clip((known[:, 0] - self.range[0]) / self._scale[1], 0.0, 1.0)
        return cells.cut(self.cells, float(low), float(high))

    @override
    def template(self) -> np.ndarray:
        return np.zeros(0)

    @override
    def reset(self) -> None:
        super().reset()
        self._engine = cells.CellEngine(
            cells.cut(self.cells), self.fractions, cells.FIXED, self.alpha, self.range
        )

    def run(self, array: Any, nested: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As for every sequence; cells once rejected stay so, hence only ``nested=True``."""
        if not nested:
            raise ValueError("nested must be True: a betting sequence never takes a cell back")
        fresh = self.with_alpha(self.alpha)
        lower, upper = fresh._advance(fresh._checked(array, 0), fresh.template(), True)
        return lower[:, 0], upper[:, 0]

    def _advance(
        self, values: np.ndarray, state: np.ndarray, nested: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        ends = self._engine.intervals(values)
        return ends[:, :1], ends[:, 1:]


def check_cells(cells: Any) -> int:
    """``cells`` as a whole number from 2 on.

    Raises
    ------
    ValueError
        If it is not.
    """
    if isinstance(cells, bool) or not isinstance(cells, (int, np.integer)) or cells < 2:
        raise ValueError(f"cells must be a whole number from 2 on, not {cells!r}")
    return int(cells)


def check_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    """``fractions`` as a tuple of numbers in (0, 1).

    Raises
    ------
    ValueError
        If there is none or one lies outside.
    """
    values = tuple(float(fraction) for fraction in fractions)
    if not values or not all(0.0 < value < 1.0 and math.isfinite(value) for value in values):
        raise ValueError("fractions must be numbers strictly between 0 and 1, at least one")
    return values
