"""A measured number with the error that it would show if other pictures were drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

#: Share of intervals that hold the true value.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value, and how far drawing other pictures would move it.

    The error is the delete-a-group jackknife's (Quenouille 1956; Kott 2001): each image belongs to one of G
    groups, the value is computed G times with one group left out, and the replicates' spread tells the error. Only
    the drawn pictures are grouped; the reference set is held fixed. Two models that drew from the same seeds
    have paired replicates, so that their difference has an error of its own: `difference`.

    Attributes:
        value: over all images.
        replicates: G values, each without one group; empty where they cannot be had.
    """

    value: float
    replicates: tuple[float, ...] = ()

    @property
    def standard_error(self) -> float | None:
        """√((G − 1)/G · Σ (replicate − their mean)²); None without two finite replicates."""
        return jackknife_error(self.replicates)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval (low, high), Student's t with G − 1 degrees of freedom; None without an error."""
        return confidence_interval(self.value, self.replicates)


def jackknife_error(replicates: Sequence[float]) -> float | None:
    """Standard error of a value from its G leave-one-group-out replicates; None where it cannot be told."""
    groups = len(replicates)
    if groups < 2 or not np.isfinite(replicates).all():
        return None
    return math.sqrt((groups - 1) * float(np.var(replicates)))


def confidence_interval(value: float, replicates: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval around a value from its replicates; None where there is no error or no finite value."""
    error = jackknife_error(replicates)
    if error is None or not math.isfinite(value):
        return None
    reach = float(stdtrit(len(replicates) - 1, 0.5 + CONFIDENCE / 2)) * error
    return value - reach, value + reach
