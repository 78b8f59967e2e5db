"""Schrödinger bridges that fit in seconds, by optimal bridge matching.

Gushchin, Kholkin, Burnaev, Korotin, "Light and Optimal Schrödinger Bridge Matching", ICML 2024:
of all stochastic processes from one sample to another, the one closest to Brownian motion, found
by one projection whatever the pairing of the data. The potential is a Gaussian mixture, so that
the plan of new points, their paths and the drift are exact.

>>> import numpy as np
>>> from cameraready.lightsb import LightSB
>>> rng = np.random.default_rng(0)
>>> source = rng.normal(size=(2000, 2))
>>> target = rng.normal(size=(2000, 2)) * 0.3 + rng.choice([-2, 2], size=(2000, 1))
>>> bridge = LightSB(n_components=2, eps=0.1, max_iter=500, random_state=0).fit(source, target)
>>> bridge.transform(source).std(axis=0).round(0).tolist()
[2.0, 2.0]
>>> bridge.sample_paths(source[:10], n_steps=20).shape  # exact at all times
(10, 21, 2)
>>> mean, covariance = bridge.conditional_moments(source[:3])
>>> covariance.shape
(3, 2, 2)
"""

from cameraready.lightsb.bridge import Components, LightSB
from cameraready.lightsb.chain import ChainedLightSB
from cameraready.lightsb.epsilon import EpsilonChoice, choose_eps
from cameraready.lightsb.latent import LatentTranslator, from_encoder
from cameraready.lightsb.mixtures import EOTMixture, make_eot_mixture
from cameraready.lightsb.objectives import (
    BridgeObjective,
    energy_loss,
    optimal_matching_loss,
)
from cameraready.lightsb.plans import eps_from
from cameraready.lightsb.potential import LightSBModule
from cameraready.lightsb.training import TrainingProgress

__all__ = [
    "BridgeObjective",
    "ChainedLightSB",
    "Components",
    "EOTMixture",
    "EpsilonChoice",
    "LatentTranslator",
    "LightSB",
    "LightSBModule",
    "TrainingProgress",
    "choose_eps",
    "energy_loss",
    "eps_from",
    "from_encoder",
    "make_eot_mixture",
    "optimal_matching_loss",
]
