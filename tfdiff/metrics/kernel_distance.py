"""Kernel distance between features of two sets of images (KID; Bińkowski et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfdiff.errors import DataError
from tfdiff.metrics.estimate import Estimate
from tfdiff.metrics.statistics import FeatureStatistics

#: Rows of a kernel matrix that are held at a time.
_BLOCK = 1024


@dataclass(frozen=True)
class SubsetKernelDistance:
    """KID as it is usually reported: over random subsets.

    Attributes:
        mean, standard_deviation: over the subsets. The deviation is of a subset of that size, not of the mean.
        subsets, subset_size: how many, and images of each side in each.
    """

    mean: float
    standard_deviation: float
    subsets: int
    subset_size: int


def kernel_distance(real: FeatureStatistics, generated: FeatureStatistics) -> Estimate:
    """The unbiased squared MMD of the kernel (x·y/D + 1)³ over the samples of both sides, with its error.

    It uses all features while they fit the statistics' capacity, hence no random subsets. Unbiased: its expectation
    does not depend on the number of images, and it may fall below zero. O(N²·D) time, constant memory.

    Args:
        real: of the real images, held fixed.
        generated: of the drawn images.

    Raises:
        DataError: for fewer than two images on a side, or other features.
    """
    x, y = _features(real), _features(generated)
    if x.shape[1] != y.shape[1]:
        raise DataError(f"the two sets have {x.shape[1]} and {y.shape[1]} features: measure both with one network.")
    member = generated.sample_groups
    groups = member.max() + 1
    one = np.zeros(len(x), np.int64)
    real_term = (_group_sums(x, one, x, one)[0, 0] - _diagonal(x).sum()) / (len(x) * (len(x) - 1))
    within = _group_sums(y, member, y, member)
    diagonal = np.bincount(member, _diagonal(y), groups)
    across = _group_sums(x, one, y, member)[0]
    sizes = np.bincount(member, minlength=groups)

    def distance(kept: np.ndarray) -> float:
        count = sizes[kept].sum()
        own = (within[np.ix_(kept, kept)].sum() - diagonal[kept].sum()) / (count * (count - 1))
        return float(real_term + own - 2 * across[kept].sum() / (len(x) * count))

    everyone = np.arange(groups)
    replicates = [distance(np.delete(everyone, group)) for group in everyone] if generated.filled else []
    return Estimate(distance(everyone), tuple(replicates))


def subset_kernel_distance(
    real: FeatureStatistics,
    generated: FeatureStatistics,
    *,
    subsets: int = 100,
    subset_size: int = 1000,
    seed: int = 2020,
) -> SubsetKernelDistance:
    """KID as torch-fidelity computes it: mean and deviation over random subsets, drawn as it draws them.

    Args:
        real, generated: their samples are drawn from.
        subsets: how many.
        subset_size: images of each side in each; as many as there are, where there are fewer.
        seed: of NumPy's RandomState.

    Raises:
        DataError: for fewer than two images on a side.
    """
    x, y = _features(real), _features(generated)
    size = min(subset_size, len(x), len(y))
    generator = np.random.RandomState(seed)
    values = []
    for _ in range(subsets):
        # The order of the draws is torch-fidelity's, whose first set is the drawn one.
        drawn = y[generator.choice(len(y), size, replace=False)]
        chosen = x[generator.choice(len(x), size, replace=False)]
        kernels = [_kernel(a, b) for a, b in ((drawn, drawn), (chosen, chosen), (drawn, chosen))]
        own = sum(kernel.sum() - np.trace(kernel) for kernel in kernels[:2]) / (size * (size - 1))
        values.append(own - 2 * kernels[2].mean())
    return SubsetKernelDistance(float(np.mean(values)), float(np.std(values)), subsets, size)


def _features(statistics: FeatureStatistics) -> np.ndarray:
    if statistics.count < 2:
        raise DataError(f"KID needs at least two images on each side, found {statistics.count}: draw more.")
    return statistics.sample.astype(np.float64)


def _kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x @ y.T / x.shape[1] + 1) ** 3


def _diagonal(x: np.ndarray) -> np.ndarray:
    return (np.einsum("ij,ij->i", x, x) / x.shape[1] + 1) ** 3


def _group_sums(x: np.ndarray, x_groups: np.ndarray, y: np.ndarray, y_groups: np.ndarray) -> np.ndarray:
    """Kernel sums between the groups of x and those of y: (groups of x, groups of y)."""
    sums = np.zeros((x_groups.max() + 1, y_groups.max() + 1))
    one_hot = (y_groups[:, np.newaxis] == np.arange(sums.shape[1])).astype(np.float64)
    for begin in range(0, len(x), _BLOCK):
        np.add.at(sums, x_groups[begin : begin + _BLOCK], _kernel(x[begin : begin + _BLOCK], y) @ one_hot)
    return sums
