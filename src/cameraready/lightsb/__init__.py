"""Schrödinger bridges that fit in seconds, by optimal bridge matching."""

from cameraready.lightsb.potential import LightSBModule

__all__ = ["LightSBModule"]
