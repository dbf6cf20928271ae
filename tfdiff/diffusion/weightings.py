"""How much each noise level counts: weights on the squared error of the denoised image.

The loss is w(sigma) * (D - x0)^2. Losses on other predictions are such weights in disguise: the error of the
noise is that of x0 divided by sigma, the error of v that of x0 times sqrt(1 + 1 / sigma^2), and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.errors import UsageError

#: weighting(sigma, sigma_data) -> weights of sigma's shape, for NumPy and tensors.
Weighting = Callable[[Any, float], Any]


def edm(sigma: Any, sigma_data: float) -> Any:
    """(sigma^2 + sigma_data^2) / (sigma * sigma_data)^2: 1 on F's error (Karras et al. 2022, table 1)."""
    return (sigma**2 + sigma_data**2) / (sigma * sigma_data) ** 2


def uniform(sigma: Any, sigma_data: float) -> Any:
    """1: the mean squared error of x0."""
    return 1.0 + 0.0 * sigma


def snr(sigma: Any, sigma_data: float) -> Any:
    """1 / sigma^2: the mean squared error of the noise, DDPM's simple loss (Ho et al. 2020, eq. 14)."""
    return 1.0 / sigma**2


def min_snr(sigma: Any, sigma_data: float) -> Any:
    """min(1 / sigma^2, 5): `snr` without the rule of the least noisy levels (Hang et al. 2023)."""
    minimum = tf.minimum if tf.is_tensor(sigma) else np.minimum
    return minimum(1.0 / sigma**2, 5.0)


WEIGHTINGS: dict[str, Weighting] = {"edm": edm, "uniform": uniform, "snr": snr, "min_snr": min_snr}


def get_weighting(name: str) -> Weighting:
    """The weighting called `name`: edm, uniform, snr or min_snr. Raises ValueError for any other name."""
    if name not in WEIGHTINGS:
        raise UsageError(f"weighting={name!r} is unknown: use one of {', '.join(WEIGHTINGS)}.")
    return WEIGHTINGS[name]
