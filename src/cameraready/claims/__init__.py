"""What checking a claim means, the same for every system."""

from cameraready.claims.claim import (
    AtLeast,
    AtMost,
    Claim,
    Equal,
    Measurement,
    Verdict,
    Within,
)
from cameraready.claims.run import Run

__all__ = ["AtLeast", "AtMost", "Claim", "Equal", "Measurement", "Run", "Verdict", "Within"]
