"""Denoising loss by noise level on held-out images: the cheapest and least noisy measure of a diffusion model.

Every model sees the same images under the same noise, so that the difference of two models is measured pair by pair.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff import diffusion
from tfdiff.errors import DataError, ModelError, UsageError


@dataclass(frozen=True, eq=False)
class DenoisingLoss:
    """Squared denoising errors, weighted by noise level.

    Attributes:
        sigmas: (L,) noise levels.
        errors: (N,L) float64: w(σ)·mean((D(x + σε; σ) − x)²) of each image at each level.
        seed: of the noise.
        images: hash of the images.
    """

    sigmas: tuple[float, ...]
    errors: np.ndarray
    seed: int
    images: str

    @property
    def by_level(self) -> np.ndarray:
        """(L,) mean over images."""
        return self.errors.mean(axis=0)

    @property
    def mean(self) -> float:
        """Over images and levels."""
        return float(self.errors.mean())

    @property
    def standard_error(self) -> float | None:
        """Of `mean`, from the spread of the images; None for a single image."""
        return _standard_error(self.errors)

    def difference(self, other: DenoisingLoss) -> tuple[float, float | None]:
        """(mean of this − mean of the other, its standard error), image by image.

        Raises:
            UsageError: where the two saw other images, noise or levels.
        """
        mine, theirs = (
            {"images": x.images, "noise levels": x.sigmas, "seed": x.seed, "number of images": len(x.errors)}
            for x in (self, other)
        )
        unlike = [key for key in mine if mine[key] != theirs[key]]
        if unlike:
            raise UsageError(f"the two losses differ in {', '.join(unlike)}: measure both alike.")
        errors = self.errors - other.errors
        return float(errors.mean()), _standard_error(errors)

    def to_json(self) -> dict[str, Any]:
        """Plain values: levels, means and errors of the means."""
        count = len(self.errors)
        spread = self.errors.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else None
        return {
            "sigmas": list(self.sigmas),
            "loss": self.by_level.tolist(),
            "standard_error": None if spread is None else spread.tolist(),
            "mean": self.mean,
            "images": count,
            "seed": self.seed,
        }


def denoising_loss_by_level(
    denoiser: diffusion.Denoiser,
    images: Any,
    labels: Any = None,
    *,
    sigmas: Sequence[float] | np.ndarray | None = None,
    weighting: str = "edm",
    seed: int = 0,
    batch_size: int = 64,
) -> DenoisingLoss:
    """Measure a denoiser on held-out images; the noise of (image i, level j) is a function of (seed, i, j).

    Args:
        denoiser: of a Keras network, or of anything that computes its F.
        images: (N,H,W,C) float in [−1, 1], not trained on.
        labels: (N,) ints, or None for no class.
        sigmas: noise levels; default: 8 from 20 to 0.05, evenly in log σ.
        weighting: makes levels comparable; see `diffusion.get_weighting`.
        seed: of the noise.
        batch_size: images per network call.

    Raises:
        DataError: for images of another shape or kind, or none.
        ModelError: where the denoiser gives NaN or infinity.
    """
    images = np.asarray(images)
    if images.shape[1:] != tuple(denoiser.image_shape) or images.dtype.kind != "f" or not len(images):
        raise DataError(
            f"images are {images.dtype} {images.shape}: give floats (N, {', '.join(map(str, denoiser.image_shape))}), "
            "N >= 1, in [-1, 1]."
        )
    images = images.astype(np.float32)
    levels = np.geomspace(20.0, 0.05, 8) if sigmas is None else np.asarray(sigmas, np.float64)
    rows = None
    if labels is not None and denoiser.num_classes is not None:
        rows = diffusion.one_hot_labels(np.asarray(labels), denoiser.num_classes)
    weights = np.asarray(diffusion.get_weighting(weighting)(levels, denoiser.sigma_data), np.float64)
    errors = np.empty((len(images), len(levels)))
    for begin in range(0, len(images), batch_size):
        batch = slice(begin, begin + batch_size)
        count = len(images[batch])
        for j, sigma in enumerate(levels):
            # Each level has a seed of its own: one noise for all would tie their errors together.
            draw = int(np.random.SeedSequence([seed, j]).generate_state(1)[0])
            noise = diffusion.initial_noise(count, denoiser.image_shape, draw, start=begin)
            noisy = images[batch] + np.float32(sigma) * noise
            # A tensor: one trace of the network serves all levels.
            denoised = denoiser(noisy, tf.fill([count], tf.constant(sigma, tf.float32)), _part(rows, batch))
            squared = np.square(np.asarray(denoised, np.float64) - images[batch])
            errors[batch, j] = weights[j] * squared.mean(axis=(1, 2, 3))
    if not np.isfinite(errors).all():
        image, level = np.argwhere(~np.isfinite(errors))[0]
        raise ModelError(f"the denoised image {image} at sigma {levels[level]:.3g} is not finite: check the model.")
    digest = hashlib.sha256(np.ascontiguousarray(images).data)
    digest.update(b"" if rows is None else rows.tobytes())
    return DenoisingLoss(tuple(levels.tolist()), errors, seed, digest.hexdigest())


def _part(rows: Any, batch: slice) -> Any:
    return None if rows is None else rows[batch]


def _standard_error(errors: np.ndarray) -> float | None:
    """Of the mean over images, the levels of each image taken together: their noise shares the image."""
    per_image = errors.mean(axis=1)
    return float(per_image.std(ddof=1) / math.sqrt(len(per_image))) if len(per_image) > 1 else None
