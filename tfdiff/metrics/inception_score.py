"""Inception Score (Salimans et al. 2016): are pictures of a clear class, and of all classes?"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from tfdiff.errors import DataError
from tfdiff.metrics.estimate import Estimate
from tfdiff.metrics.statistics import FeatureStatistics


def inception_score(generated: FeatureStatistics) -> Estimate:
    """exp(mean KL(p(y|x) ‖ p(y))), between 1 and the number of classes, as the mean over the groups' scores.

    The groups are its splits; torch-fidelity's are contiguous, after a shuffle. The classes are those of the
    network that gave the probabilities: a score holds for that network alone.

    Args:
        generated: with class probabilities.

    Raises:
        UsageError: without class probabilities.
        DataError: without an image.
    """
    if not generated.count:
        raise DataError("the Inception Score of no images is not defined: draw some.")
    counts, sums, negative_entropies = generated.class_sums()
    scores = split_scores(counts, sums, negative_entropies)
    value = float(np.mean(scores))
    left_out = len(scores) if len(scores) == len(counts) and len(counts) > 1 else 0
    replicates = tuple(float(np.mean(np.delete(scores, group))) for group in range(left_out))
    return Estimate(value, replicates)


def split_scores(counts: np.ndarray, sums: np.ndarray, negative_entropies: np.ndarray) -> np.ndarray:
    """The score of each group that has images, from `FeatureStatistics.class_sums`."""
    filled = counts > 0
    marginal = sums[filled] / counts[filled, np.newaxis]
    divergence = negative_entropies[filled] / counts[filled] - xlogy(marginal, marginal).sum(axis=1)
    return np.exp(divergence)
