"""The plan of a bridge between two sets of points that were seen."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.lightsb.bridge import LightSB
from cameraready.lightsb.points import check_points, check_weights

__all__ = ["ObservedPlan"]


class ObservedPlan:
    r"""A bridge's plan, told by points of both sides instead of densities.

    The points x1_j are a sample of the target. That x0_i goes to x1_j has a probability
    proportional to :math:`b_j\,\pi(x_{1j} \mid x_{0i}) / p_1(x_{1j})`, with p1 the law that the
    plan makes of the weighted x0: the density has to be divided out, or where points lie dense
    they would count twice. The potential v cancels, and what remains is

    .. math::
        P_{ij} \propto \exp(\langle x_{0i}, x_{1j}\rangle / \epsilon)\, b_j / Z_j, \qquad
        Z_j = \sum_i \frac{a_i}{c(x_{0i})} \exp(\langle x_{0i}, x_{1j}\rangle / \epsilon).

    Going back from x1_j to x0_i the probabilities are those of `LightSB.ancestors`.

    Parameters
    ----------
    bridge : LightSB
        The fitted bridge.
    x0, x1 : array-like of shape (n0, D), (n1, D)
        Points of the source and of the target, in the units that the bridge was fitted to.
    weights0, weights1 : array-like of shape (n0,), (n1,), optional
        The points' shares a and b; equal by default.
    """

    def __init__(
        self,
        bridge: LightSB,
        x0: Float[np.ndarray, "n0 features"],
        x1: Float[np.ndarray, "n1 features"],
        weights0: Float[np.ndarray, " n0"] | None = None,
        weights1: Float[np.ndarray, " n1"] | None = None,
    ) -> None:
        module = bridge.module_
        self._max_bytes = bridge.max_memory * 1e6
        self._z0, self._z1 = (
            bridge.scaling_.into(check_points(name, x, module.dim), module.means.detach())
            for name, x in (("x0", x0), ("x1", x1))
        )
        self._slope = 1 / module.eps
        with torch.no_grad():
            source = -module.log_c(self._z0) + self._log_shares("weights0", weights0, self._z0)
        self._source = source
        back = [logits.logsumexp(1) for _, logits in self._blocks(self._z1, self._z0, source)]
        self._target = self._log_shares("weights1", weights1, self._z1) - torch.cat(back)

    def expect(self, values: Float[np.ndarray, "n1 k"]) -> Float[np.ndarray, "n0 k"]:
        """E[values(x1) | x0_i] for each x0_i."""
        given = torch.as_tensor(values).to(self._z1)
        return torch.cat([rows @ given for _, rows in self._forward()]).cpu().numpy()

    def push(self, mass: Float[np.ndarray, " n0"]) -> Float[np.ndarray, " n1"]:
        """Where masses at the x0 go: the masses at the x1."""
        return self._carry(mass, self._forward(), self._z1)

    def pull(self, mass: Float[np.ndarray, " n1"]) -> Float[np.ndarray, " n0"]:
        """Where masses at the x1 come from: the masses at the x0."""
        back = self._blocks(self._z1, self._z0, self._source)
        return self._carry(mass, ((part, x.softmax(1)) for part, x in back), self._z0)

    def transitions(self) -> Float[np.ndarray, "n0 n1"]:
        """The probabilities P_ij, all at once; rows sum to one."""
        return torch.cat([rows for _, rows in self._forward()]).cpu().numpy()

    def _forward(self) -> Iterator[tuple[slice, Tensor]]:
        for part, logits in self._blocks(self._z0, self._z1, self._target):
            yield part, logits.softmax(1)

    def _blocks(
        self, rows: Tensor, columns: Tensor, terms: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """<row, column> / eps plus the columns' terms, some rows at a time."""
        size = max(1, int(self._max_bytes // (4 * len(columns) * columns.element_size())))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            yield part, torch.addmm(terms, rows[part], columns.mT, alpha=self._slope)

    @staticmethod
    def _carry(
        mass: np.ndarray, blocks: Iterator[tuple[slice, Tensor]], like: Tensor
    ) -> np.ndarray:
        given = torch.as_tensor(mass).to(like)
        total = torch.zeros(len(like), dtype=like.dtype, device=like.device)
        for part, rows in blocks:
            total += given[part] @ rows
        return total.cpu().numpy()

    @staticmethod
    def _log_shares(name: str, weights: np.ndarray | None, points: Tensor) -> Tensor:
        shares = check_weights(name, weights, len(points))
        if shares is None:
            return points.new_full((len(points),), -np.log(len(points)))
        return torch.as_tensor(shares).to(points).log()
