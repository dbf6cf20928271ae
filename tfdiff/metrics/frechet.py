"""Fréchet distance between the feature Gaussians of two sets of images (FID; Heusel et al. 2017)."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from tfdiff.errors import DataError
from tfdiff.metrics.estimate import Estimate
from tfdiff.metrics.moments import Moments
from tfdiff.metrics.statistics import FeatureStatistics


def frechet_distance(real: FeatureStatistics, generated: FeatureStatistics) -> Estimate:
    """|μ − μ'|² + tr(Σ + Σ' − 2(ΣΣ')^½), with its error where groups' moments were kept.

    The trace of (ΣΣ')^½ is that of (Σ^½ Σ' Σ^½)^½, which is symmetric: its eigenvalues are real and need no
    correction. Biased upwards by about 1/N: compare only distances of equal numbers of images.

    Args:
        real: of the real images, held fixed.
        generated: of the drawn images.

    Raises:
        DataError: where either side has no more images than there are features, so that its covariance is
            singular, or the two have other features.
    """
    if real.dimension != generated.dimension:
        raise DataError(
            f"the two sets have {real.dimension} and {generated.dimension} features: measure both with one network."
        )
    least = real.dimension + 1
    if min(real.count, generated.count) < least:
        raise DataError(
            f"FID over {real.dimension:,} features needs at least {least:,} images on each side, found {real.count:,} "
            f"real and {generated.count:,} drawn: draw more, use a smaller feature network, or use KID, which needs "
            "no more than two."
        )
    reference = real.moments()
    root = _root(reference.covariance)
    value = _distance(reference, root, generated.moments())
    parts = [part for part in generated.moments_without_groups() if part.count >= least]
    replicates = [_distance(reference, root, part) for part in parts] if len(parts) == generated.groups else []
    return Estimate(value, tuple(replicates))


def _distance(real: Moments, real_root: np.ndarray, generated: Moments) -> float:
    covariance = generated.covariance
    eigenvalues = linalg.eigvalsh(real_root @ covariance @ real_root)
    trace = np.sum(np.sqrt(np.clip(eigenvalues, 0, None)))
    shift = real.mean - generated.mean
    return float(shift @ shift + np.trace(real.covariance) + np.trace(covariance) - 2 * trace)


def _root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance; rounding below zero counts as zero."""
    values, vectors = linalg.eigh(covariance)
    return (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
