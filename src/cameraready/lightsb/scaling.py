"""Units: eps is not invariant to the scale of the data."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["SCALES", "Scaling"]

SCALES = ("global", "none")


@dataclass(frozen=True)
class Scaling:
    """A shift and one factor: z = (x - shift) / scale, for the source and the target alike.

    One factor keeps the quadratic cost what it is, times a constant; a shift of both sides does
    not change their bridge.

    Parameters
    ----------
    shift : array of shape (D,)
        In data units.
    scale : float
        In data units; > 0.
    """

    shift: Float[np.ndarray, " features"]
    scale: float

    def into(self, points: Tensor, like: Tensor) -> Tensor:
        """Points in scaled units, of the type and on the device of ``like``."""
        if self.is_identity:
            return points.to(like.device, like.dtype)
        wide = torch.float64 if points.device.type != "mps" else points.dtype
        shift = torch.as_tensor(self.shift, dtype=wide, device=points.device)
        # Far from the origin single precision would lose the digits that matter.
        return ((points.to(wide) - shift) / self.scale).to(like.device, like.dtype)

    def out(self, points: Tensor) -> Tensor:
        """Points in data units."""
        if self.is_identity:
            return points
        shift = torch.as_tensor(self.shift, dtype=points.dtype, device=points.device)
        return torch.add(shift, points, alpha=self.scale)

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return self.scale == 1.0 and not self.shift.any()

    @classmethod
    def fit(
        cls,
        kind: str,
        x0: Tensor,
        x1: Tensor,
        weights: tuple[np.ndarray | None, np.ndarray | None],
    ) -> tuple["Scaling", list[int]]:
        """The scaling of two samples, and the columns that are constant in both.

        "global" shifts by the source's mean and divides by the mean over features of the standard
        deviations of both samples together, each sample counting half; "none" changes nothing.
        """
        means, squares = [], []
        for points, weight in zip((x0, x1), weights, strict=True):
            mean, square = _moments(points, weight)
            means.append(mean)
            squares.append(square)
        spread = np.sqrt((squares[0] + squares[1]) / 2 + ((means[0] - means[1]) / 2) ** 2)
        size = np.maximum(np.abs(means[0]), np.abs(means[1]))
        constant = np.flatnonzero(spread <= 1e-7 * size)
        if kind == "none":
            return cls(np.zeros(x0.shape[1]), 1.0), constant.tolist()
        scale = float(spread.mean())
        return cls(means[0], scale if scale > 0 else 1.0), constant.tolist()


def _moments(points: Tensor, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the columns."""
    wide = torch.float64 if points.device.type != "mps" else points.dtype
    if weights is None:
        mean = points.mean(0, dtype=wide)
        variance = torch.zeros_like(mean)
        for part in points.split(1 << 16):
            variance += (part.to(wide) - mean).square().sum(0)
        variance /= len(points)
    else:
        weight = torch.as_tensor(weights, dtype=wide, device=points.device)
        mean = weight @ points.to(wide)
        variance = weight @ (points.to(wide) - mean).square()
    return mean.cpu().numpy(), variance.cpu().numpy()
