"""Mean and covariance of rows that arrive a block at a time."""

from __future__ import annotations

import math

import numpy as np


class Moments:
    """Count, mean and centred second moment of the rows seen so far, in float64.

    Blocks are joined by the parallel update of Chan, Golub & LeVeque 1979, which never subtracts two large
    sums of squares as the textbook formula does: features of mean 1000 and spread 1 keep their digits.

    Attributes:
        count: rows seen.
        mean: (D,).
        scatter: (D,D): Σ (row − mean)(row − mean)ᵀ.
    """

    def __init__(self, dimension: int) -> None:
        self.count = 0
        self.mean = np.zeros(dimension)
        self.scatter = np.zeros((dimension, dimension))

    def add(self, rows: np.ndarray) -> None:
        """Take in rows (n,D); n may be 0."""
        if not len(rows):
            return
        mean = np.mean(rows, axis=0, dtype=np.float64)
        total = self.count + len(rows)
        shift = mean - self.mean
        # The shift's outer product is one more row of the same product, and costs no second pass over (D,D).
        centred = np.vstack([rows - mean, shift * math.sqrt(self.count * len(rows) / total)])
        self.scatter += centred.T @ centred
        self.mean += shift * (len(rows) / total)
        self.count = total

    def merge(self, other: Moments) -> None:
        """Take in all rows that `other` has seen."""
        if not other.count:
            return
        total = self.count + other.count
        shift = other.mean - self.mean
        self.scatter += other.scatter
        self.scatter += np.outer(shift * (self.count * other.count / total), shift)
        self.mean += shift * (other.count / total)
        self.count = total

    @property
    def covariance(self) -> np.ndarray:
        """(D,D) unbiased: scatter/(count − 1), as np.cov; needs two rows."""
        return self.scatter / (self.count - 1)


def merged(parts: list[Moments]) -> Moments:
    """The moments of all parts together; the parts stay as they are."""
    total = Moments(len(parts[0].mean))
    for part in parts:
        total.merge(part)
    return total
