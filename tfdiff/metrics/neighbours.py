"""Precision, recall, density and coverage: are pictures real ones' neighbours, and have real ones neighbours?

Kynkäänniemi et al. 2019 (precision, recall) and Naeem et al. 2020 (density, coverage).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfdiff.errors import DataError
from tfdiff.metrics.estimate import Estimate
from tfdiff.metrics.statistics import FeatureStatistics

#: Rows of a distance matrix that are held at a time.
_BLOCK = 1024


class Neighbours(NamedTuple):
    """Each in [0, 1], but for density, which may exceed 1.

    precision: share of drawn pictures inside the neighbourhood of a real one: fidelity.
    recall: share of real pictures inside the neighbourhood of a drawn one: variety.
    density: real neighbourhoods that a drawn picture lies in, over k: fidelity that outliers do not inflate.
    coverage: share of real pictures whose neighbourhood holds a drawn one: variety that outliers do not inflate.
    """

    precision: Estimate
    recall: Estimate
    density: Estimate
    coverage: Estimate


def precision_recall_density_coverage(
    real: FeatureStatistics, generated: FeatureStatistics, *, neighbours: int = 5
) -> Neighbours:
    """The four figures over the samples of both sides, k-th neighbours by Euclidean distance.

    Errors leave groups of drawn pictures out with all neighbourhoods held as they are. All four depend on the number
    of pictures on both sides.

    Args:
        real: of the real images, held fixed.
        generated: of the drawn images.
        neighbours: k; 5 as in the density paper, 3 in the precision paper.

    Raises:
        DataError: where a side has no more than `neighbours` images, or other features.
    """
    x, y = real.sample.astype(np.float64), generated.sample.astype(np.float64)
    if x.shape[1] != y.shape[1]:
        raise DataError(f"the two sets have {x.shape[1]} and {y.shape[1]} features: measure both with one network.")
    if min(len(x), len(y)) <= neighbours:
        raise DataError(
            f"neighbours={neighbours} needs more images than that on each side, found {len(x)} real and {len(y)} "
            "drawn: draw more."
        )
    x_radii, y_radii = _radii(x, neighbours), _radii(y, neighbours)
    member = generated.sample_groups
    groups = int(member.max()) + 1
    one_hot = (member[:, np.newaxis] == np.arange(groups)).astype(np.float64)
    holding = np.zeros(len(y))  # real neighbourhoods that hold a drawn picture
    recalled = np.zeros((len(x), groups))  # drawn neighbourhoods of each group that hold a real picture
    covered = np.zeros((len(x), groups))  # drawn pictures of each group in a real neighbourhood
    for begin in range(0, len(x), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        squared = _squared_distances(x[rows], y)
        inside = (squared <= x_radii[rows, np.newaxis]).astype(np.float64)
        holding += inside.sum(axis=0)
        covered[rows] = inside @ one_hot
        recalled[rows] = (squared <= y_radii[np.newaxis, :]).astype(np.float64) @ one_hot

    def over_drawn(values: np.ndarray) -> Estimate:
        sums, sizes = np.bincount(member, values, groups), np.bincount(member, minlength=groups)
        left = [(sums.sum() - sums[g]) / (sizes.sum() - sizes[g]) for g in range(groups)] if generated.filled else []
        return Estimate(float(values.mean()), tuple(map(float, left)))

    def over_real(hits: np.ndarray) -> Estimate:
        total = hits.sum(axis=1)
        left = [np.mean(total - hits[:, g] > 0) for g in range(groups)] if generated.filled else []
        return Estimate(float(np.mean(total > 0)), tuple(map(float, left)))

    return Neighbours(
        precision=over_drawn((holding > 0).astype(np.float64)),
        recall=over_real(recalled),
        density=over_drawn(holding / neighbours),
        coverage=over_real(covered),
    )


def _radii(points: np.ndarray, neighbours: int) -> np.ndarray:
    """Squared distance of each point to its k-th nearest other."""
    radii = np.empty(len(points))
    for begin in range(0, len(points), _BLOCK):
        squared = _squared_distances(points[begin : begin + _BLOCK], points)
        rows = np.arange(len(squared))
        squared[rows, begin + rows] = 0  # itself: exactly nearest, whatever rounding says
        radii[begin : begin + len(squared)] = np.partition(squared, neighbours, axis=1)[:, neighbours]
    return radii


def _squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(len(x), len(y)), in float64: |x|² + |y|² − 2x·y, clipped at 0."""
    squared = np.einsum("ij,ij->i", x, x)[:, np.newaxis] + np.einsum("ij,ij->i", y, y) - 2 * (x @ y.T)
    return np.maximum(squared, 0, out=squared)
