"""Draw many images, with a denoiser or with anything else that turns noise into images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfdiff import diffusion
from tfdiff.errors import UsageError


class Drawer(ABC):
    """Draws images in batches from numbered noise.

    Image i of seed s starts from `diffusion.initial_noise(1, shape, s, start=i)`: the same picture whatever the
    batch size, and the same start for every model and file that is compared.

    Args:
        image_shape: (H, W, C).
        num_classes: K, or None where images have no class.
        batch_size: images drawn at a time.
    """

    def __init__(self, image_shape: tuple[int, ...], num_classes: int | None, batch_size: int) -> None:
        self.image_shape = image_shape
        self.num_classes = num_classes
        self.batch_size = batch_size

    @abstractmethod
    def draw_batch(self, noise: np.ndarray, label: np.ndarray | None, seed: int) -> np.ndarray:
        """Images (n,H,W,C) in [−1, 1] from unit noise (n,H,W,C), n ≤ batch_size.

        Args:
            noise: where the images start.
            label: one-hot rows (n,K), zeros for no class; None where there are no classes.
            seed: of noise that is drawn on the way, if any.
        """

    def draw(
        self,
        labels: Sequence[int] | np.ndarray | None = None,
        *,
        num_images: int | None = None,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """Draw images 0, 1, … of `seed`.

        Args:
            labels: (N,) ints, −1 for unconditional; None: all unconditional.
            num_images: N where `labels` is None.
            seed: of the starting noise.
            progress: called with the number of images drawn since the last call.

        Returns:
            (N,H,W,C) float32 in [−1, 1].

        Raises:
            UsageError: when neither `labels` nor `num_images` says how many, or labels do not suit the network.
        """
        if labels is None and num_images is None:
            raise UsageError("sample: give labels (one per image) or num_images.")
        if labels is not None and self.num_classes is None:
            raise UsageError("sample: labels were given, but the network is unconditional; give num_images.")
        count = num_images if labels is None else len(labels)
        assert count is not None
        noise = diffusion.initial_noise(count, self.image_shape, seed)
        rows = None
        if self.num_classes is not None:
            chosen = np.full(count, -1) if labels is None else np.asarray(labels)
            rows = np.asarray(diffusion.one_hot_labels(chosen, self.num_classes))
        images = np.empty_like(noise)
        for begin in range(0, count, self.batch_size):
            end = min(begin + self.batch_size, count)
            # Stochastic samplers draw per batch: each needs a seed of its own.
            draws = int(np.random.SeedSequence([seed, begin]).generate_state(1)[0])
            images[begin:end] = self.draw_batch(noise[begin:end], None if rows is None else rows[begin:end], draws)
            if progress:
                progress(end - begin)
        return images


class Generator(Drawer):
    """Draws with a denoiser. The network is traced once, for one batch size and any number of steps."""

    def __init__(self, denoiser: diffusion.Denoiser, sampling: diffusion.Sampling, *, batch_size: int = 64) -> None:
        super().__init__(denoiser.image_shape, denoiser.num_classes, batch_size)
        self.sampling = sampling

        def denoise(x: tf.Tensor, sigma: tf.Tensor, label: tf.Tensor | None) -> tf.Tensor:
            return denoiser.guided(label, sampling.guidance_scale)(x, sigma)

        # No autograph: there is no tensor-dependent control flow to convert.
        self._denoise = tf.function(denoise, autograph=False)

    def draw_batch(self, noise: np.ndarray, label: np.ndarray | None, seed: int) -> np.ndarray:
        """One batch, padded to the fixed size so that a smaller last one is not traced anew."""
        missing = self.batch_size - len(noise)

        def pad(array: np.ndarray) -> tf.Tensor:
            return tf.constant(np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array)

        rows = None if label is None else pad(label)
        # A tensor sigma, not the float that the samplers hold: one trace serves every step.
        drawn = self.sampling.run(
            lambda x, sigma: self._denoise(x, tf.constant(sigma, tf.float32), rows), pad(noise), seed=seed
        )
        return np.clip(drawn.numpy()[: len(noise)], -1.0, 1.0)
