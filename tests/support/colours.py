"""What a reader sees of a colour: lightness, contrast, and distances with normal and with colour-blind eyes."""

import numpy as np
from matplotlib.colors import to_rgb

#: What eyes that lack a kind of cone make of linear RGB. Source: Machado, Oliveira and Fernandes, "A
#: physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6), 2009, severity 1.0.
EYES = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
#: Linear sRGB to CIE XYZ, IEC 61966-2-1.
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def distance(one: str, other: str, eyes: str = "normal") -> float:
    """How far apart two colours look: the Euclidean distance in CIELAB (a just noticeable one is about 2.3)."""
    return float(np.linalg.norm(_lab(one, eyes) - _lab(other, eyes)))


def lightness(colour: str) -> float:
    """L* of CIELAB, 0 black to 100 white: what a grey print leaves of a colour."""
    return float(_lab(colour, "normal")[0])


def contrast(colour: str) -> float:
    """The ratio of contrast against white, 1 to 21. Source: WCAG 2.2, which asks 3 of graphics and 4.5 of text."""
    return float(1.05 / ((_XYZ @ _linear(colour))[1] + 0.05))


def _linear(colour: str) -> np.ndarray:
    parts = np.array(to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _lab(colour: str, eyes: str) -> np.ndarray:
    share = _XYZ @ np.clip(EYES[eyes] @ _linear(colour), 0, 1) / (_XYZ @ np.ones(3))
    x, y, z = np.where(share > (6 / 29) ** 3, np.cbrt(share), share / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
