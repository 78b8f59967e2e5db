"""Other ways to a Schrödinger bridge, to compare with: same data, same two verbs.

Each is fitted to unpaired samples with ``fit(X0, X1)`` and maps new points with ``transform``.
"""

from cameraready.lightsb.baselines.bridge_matching import BridgeMatching
from cameraready.lightsb.baselines.dsbm import DSBM
from cameraready.lightsb.baselines.gaussian_imf import bridge_correlation, imf_correlations
from cameraready.lightsb.baselines.path_sampler import PathSampler
from cameraready.lightsb.baselines.sf2m import SF2M
from cameraready.lightsb.baselines.sinkhorn_bridge import SinkhornBridge

__all__ = [
    "DSBM",
    "SF2M",
    "BridgeMatching",
    "PathSampler",
    "SinkhornBridge",
    "bridge_correlation",
    "imf_correlations",
]
