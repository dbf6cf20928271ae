"""How close an output is to the one that it should equal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfdiff.errors import UsageError


def snr_db(reference: Any, candidate: Any) -> float:
    """Signal-to-noise ratio in decibels: 10·log10(Σ reference² / Σ (reference − candidate)²), in float64.

    Args:
        reference: array of any shape, such as the Keras network's output.
        candidate: array of the same shape, such as the exported file's output.

    Returns:
        inf where the two are equal. −inf where the candidate holds NaN or infinity, or differs from a
        reference of zeros: a broken file misses every tolerance, where NaN would slip past a comparison.

    Raises:
        UsageError: when the shapes differ, there is nothing to compare, or the reference is not finite.
    """
    signal = np.asarray(reference, np.float64)
    other = np.asarray(candidate, np.float64)
    # No broadcasting: a file that lost an axis must not pass.
    if signal.shape != other.shape or signal.size == 0:
        raise UsageError(
            f"candidate has shape {other.shape}, reference {signal.shape}: give two non-empty arrays of one shape."
        )
    if not np.isfinite(signal).all():
        raise UsageError("reference holds NaN or infinity: nothing compares with it; check the model.")
    if not np.isfinite(other).all():
        return -math.inf
    noise_power = float(np.sum(np.square(signal - other)))
    if noise_power == 0:
        return math.inf
    signal_power = float(np.sum(np.square(signal)))
    return 10 * math.log10(signal_power / noise_power) if signal_power else -math.inf
