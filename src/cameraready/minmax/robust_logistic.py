"""Logistic regression against the worst weights of the examples, on a table."""

import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from cameraready.common.checks import check_positive
from cameraready.minmax.resolvents import L2Squared
from cameraready.minmax.robust import DRO, LogisticLosses
from cameraready.minmax.tables import DataTable

__all__ = ["RobustLogistic"]


class RobustLogistic:
    """min over theta of max over weights q of q'losses(theta) + l2/2 |theta|², and how far it is.

    Features are standardised; the last entry of theta is the intercept, which has no penalty. The
    solver's theta is that one over √n, n the number of examples: the weights are of size 1/n, and
    so both players' steps fit the same step size.

    Parameters
    ----------
    data
        The examples.
    uncertainty
        `CVaR`, `KL` or `ChiSquare`.
    l2
        Penalty; 1/n when not given, which is scikit-learn's default.
    """

    def __init__(self, data: DataTable, uncertainty: Any, l2: float | None = None) -> None:
        n, d = data.features.shape
        self.l2 = 1.0 / n if l2 is None else check_positive("l2", l2)
        self.mean, scale = data.features.mean(axis=0), data.features.std(axis=0)
        self.scale = np.where(scale > 0, scale, 1.0)
        self.features = (data.features - self.mean) / self.scale
        self.target, self.unit = data.target, math.sqrt(n)
        design = np.column_stack([self.features, np.ones(n)])
        self._losses = LogisticLosses(design, data.target)
        self._penalties = np.append(np.full(d, self.l2), 0.0)
        self.problem = DRO(
            LogisticLosses(self.unit * design, data.target),
            np.zeros(d + 1),
            uncertainty,
            X=L2Squared(self.unit**2 * self._penalties),
        )

    def theta(self, z: Any) -> Float[np.ndarray, " coefficients"]:
        """Coefficients of the standardised features, and the intercept, at a solver's point."""
        return self.unit * z[: self.problem.split]

    def coefficients(self, theta: np.ndarray) -> Float[np.ndarray, " coefficients"]:
        """The same for the features as they are in the table."""
        slopes = theta[:-1] / self.scale
        return np.append(slopes, theta[-1] - slopes @ self.mean)

    def plain(self) -> Float[np.ndarray, " coefficients"]:
        """The coefficients under uniform weights, by scikit-learn."""
        return self._weighted(np.ones(len(self.target)))

    def gap(self, z: Any) -> float:
        """The robust objective at z less a lower bound on its minimum.

        The bound is the minimum under the weights at z, by scikit-learn.
        """
        theta, q = self.theta(z), np.asarray(z[self.problem.split :])
        above = self.problem.worst_case(theta / self.unit) + self._penalty(theta)
        best = self._weighted(len(q) * q)
        return max(0.0, float(above - q @ self._losses(best) - self._penalty(best)))

    def losses(self, theta: np.ndarray) -> dict[str, float]:
        """Average and worst-case loss on the table, and the share of right answers."""
        margins = self.features @ theta[:-1] + theta[-1]
        return {
            "average_loss": float(self._losses(theta).mean()),
            "worst_case_loss": self.problem.worst_case(theta / self.unit),
            "accuracy": float(np.mean((margins > 0) == (self.target == 1))),
        }

    def _penalty(self, theta: np.ndarray) -> float:
        return float(self._penalties @ theta**2) / 2.0

    def _weighted(self, weights: np.ndarray) -> np.ndarray:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=1.0 / (self.l2 * len(weights)), solver="newton-cholesky", tol=1e-8
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self.features, self.target, sample_weight=weights)
        return np.append(model.coef_[0], model.intercept_)
