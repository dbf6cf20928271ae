"""Draw many images, with a denoiser or with anything else that turns noise into images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

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
    def draw_batch(self, noise: np.ndarray, label: np.ndarray | None, seeds: np.ndarray) -> np.ndarray:
        """Images (n,H,W,C) in [−1, 1] from unit noise (n,H,W,C), n ≤ batch_size.

        Args:
            noise: where the images start.
            label: one-hot rows (n,K), zeros for no class; None where there are no classes.
            seeds: (n,) ints, of noise that is drawn on the way, if any.
        """

    def draw(
        self,
        labels: Sequence[int] | np.ndarray | None = None,
        *,
        num_images: int | None = None,
        seed: int = 0,
        start: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """Draw images start, start + 1, … of `seed`.

        Args:
            labels: (N,) ints, −1 for unconditional; None: all unconditional.
            num_images: N where `labels` is None.
            seed: of the starting noise.
            start: number of the first image.
            progress: called with the number of images drawn since the last call.

        Returns:
            (N,H,W,C) float32 in [−1, 1].

        Raises:
            UsageError: when neither `labels` nor `num_images` says how many, or labels do not suit the network.
        """
        batches = list(self.stream(labels, num_images=num_images, seed=seed, start=start, progress=progress))
        return np.concatenate([*batches, np.empty((0, *self.image_shape), np.float32)])

    def stream(
        self,
        labels: Sequence[int] | np.ndarray | None = None,
        *,
        num_images: int | None = None,
        seed: int = 0,
        start: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[np.ndarray]:
        """The images of `draw` in batches of at most `batch_size`, of which one is held at a time."""
        if labels is None and num_images is None:
            raise UsageError("sample: give labels (one per image) or num_images.")
        if labels is not None and self.num_classes is None:
            raise UsageError("sample: labels were given, but the network is unconditional; give num_images.")
        count = num_images if labels is None else len(labels)
        assert count is not None
        rows = None
        if self.num_classes is not None:
            chosen = np.full(count, -1) if labels is None else np.asarray(labels)
            rows = np.asarray(diffusion.one_hot_labels(chosen, self.num_classes))
        for begin in range(0, count, self.batch_size):
            end = min(begin + self.batch_size, count)
            noise = diffusion.initial_noise(end - begin, self.image_shape, seed, start=start + begin)
            # Stochastic samplers draw on the way: each image has a seed of its own for that, too.
            numbers = range(start + begin, start + end)
            seeds = np.array([np.random.SeedSequence([seed, i, 1]).generate_state(1)[0] for i in numbers], np.int64)
            yield self.draw_batch(noise, None if rows is None else rows[begin:end], seeds)
            if progress:
                progress(end - begin)


class Generator(Drawer):
    """Draws with a denoiser. The network is traced once, for one batch size and any number of steps."""

    def __init__(self, denoiser: diffusion.Denoiser, sampling: diffusion.Sampling, *, batch_size: int = 64) -> None:
        super().__init__(denoiser.image_shape, denoiser.num_classes, batch_size)
        self.sampling = sampling

        def denoise(x: tf.Tensor, sigma: tf.Tensor, label: tf.Tensor | None) -> tf.Tensor:
            return denoiser.guided(label, sampling.guidance_scale)(x, sigma)

        # No autograph: there is no tensor-dependent control flow to convert.
        self._denoise = tf.function(denoise, autograph=False)

    def draw_batch(self, noise: np.ndarray, label: np.ndarray | None, seeds: np.ndarray) -> np.ndarray:
        """One batch, padded to the fixed size so that a smaller last one is not traced anew."""
        missing = self.batch_size - len(noise)

        def pad(array: np.ndarray) -> tf.Tensor:
            return tf.constant(np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array)

        rows = None if label is None else pad(label)
        # A tensor sigma, not the float that the samplers hold: one trace serves every step.
        drawn = self.sampling.run(
            lambda x, sigma: self._denoise(x, tf.constant(sigma, tf.float32), rows), pad(noise), seed=pad(seeds)
        )
        return np.clip(drawn.numpy()[: len(noise)], -1.0, 1.0)
