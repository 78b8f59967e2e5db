import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from cameraready.common.plotting import PALETTES, plot_style

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
VISIONS = {
    "full": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(XYZ[1] @ linear(colour))


def lab(rgb):
    xyz = XYZ @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_stands_out_from_the_paper(theme):
    with plot_style(theme):
        paper = luminance(mpl.rcParams["figure.facecolor"])
        ink = luminance(mpl.rcParams["text.color"])
    for colour, least in [*((luminance(c), 3.0) for c in PALETTES[theme]), (ink, 7.0)]:
        low, high = sorted((colour, paper))
        assert (high + 0.05) / (low + 0.05) >= least


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stay_apart_to_every_eye(theme, vision):
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in PALETTES[theme]]
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other) > 14


def test_the_style_ends_with_the_block():
    before = mpl.rcParams["axes.grid"]
    with plot_style("dark"):
        assert mpl.rcParams["axes.grid"] is True
    assert mpl.rcParams["axes.grid"] == before
    with pytest.raises(ValueError, match="theme"), plot_style("sepia"):  # type: ignore[arg-type]
        pass
