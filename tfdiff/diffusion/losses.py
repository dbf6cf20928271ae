"""The training loss, and the noise that makes its task."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdiff.diffusion.weightings import Weighting


def add_noise(images: Any, noise: Any, sigma: Any) -> Any:
    """x = x0 + sigma * noise, float32 (batch, H, W, C).

    images: in [-1, 1], (batch, H, W, C). noise: unit normal, the same shape. sigma: (batch,) or a scalar.
    """
    sigma = tf.cast(sigma, tf.float32)[..., tf.newaxis, tf.newaxis, tf.newaxis]
    return tf.cast(images, tf.float32) + sigma * tf.cast(noise, tf.float32)


def denoising_loss(denoised: Any, images: Any, sigma: Any, weighting: Weighting, sigma_data: float) -> Any:
    """w(sigma) * mean((D - x0)^2) of each example: float32 (batch,).

    denoised, images: (batch, H, W, C). sigma: (batch,) or a scalar. weighting: from `get_weighting`.
    sigma_data: standard deviation of the images.
    """
    # At sigma = 0.002 weights reach 1e5 and the difference 1e-3 of what is subtracted: float32 leaves it four
    # digits, half precision none. Weighting before squaring keeps every intermediate near 1.
    sigma = tf.cast(sigma, tf.float32)
    scale = tf.sqrt(weighting(sigma, sigma_data))[..., tf.newaxis, tf.newaxis, tf.newaxis]
    error = scale * (tf.cast(denoised, tf.float32) - tf.cast(images, tf.float32))
    return tf.reduce_mean(tf.square(error), axis=[1, 2, 3])
