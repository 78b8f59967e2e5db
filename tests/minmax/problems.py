"""Random problems with known solutions."""

import numpy as np

from cameraready.minmax import VI, Box


class Shifted:
    """A monotone affine F on a box or orthant whose solution is built in."""

    def __init__(self, rng, size, low, high):
        M = rng.normal(size=(size, size))  # noqa: N806
        skew = M - M.T
        root = rng.normal(size=(size, size // 2)) * rng.choice([0.0, 0.3])
        self.M = skew + root @ root.T
        self.L = float(np.linalg.norm(self.M, 2))
        kind = rng.integers(3, size=size)  # inside, at the low end, at the high end
        self.solution = np.where(
            kind == 0, low + (high - low) * rng.random(size), np.where(kind == 1, low, high)
        )
        push = rng.random(size)
        # 0 in F(z*) + N(z*): F is positive at the low end and negative at the high end.
        value = np.where(kind == 0, 0.0, np.where(kind == 1, push, -push))
        self.q = value - self.M @ self.solution
        self.A = Box(low, high)

    def __call__(self, z):
        return self.M @ z + self.q


def monotone(seed, size=6):
    rng = np.random.default_rng(seed)
    F = Shifted(rng, size, -1.0, 1.5)  # noqa: N806
    return VI(F, rng.uniform(-1, 1.5, size), F.A), F.L, F.solution


def negative(seed, a=None):
    """Rotations with a < 0, unconstrained, beside a constrained monotone block; L = 1."""
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(-0.45, -0.02)
    a = drawn if a is None else a
    b = (1 - a * a) ** 0.5
    angle = np.array([[a, b], [-b, a]])
    inner = Shifted(rng, 4, -1.0, 1.5)
    centre = rng.normal(size=2)

    def F(z):  # noqa: N802
        return np.concatenate((angle @ (z[:2] - centre), inner(z[2:]) / inner.L))

    box = Box([-np.inf] * 2 + [-1.0] * 4, [np.inf] * 2 + [1.5] * 4)
    z0 = np.concatenate((rng.normal(size=2), rng.uniform(-1, 1.5, 4)))
    return VI(F, z0, box), a, np.concatenate((centre, inner.solution))
