"""A network and its parameterization as one function of noisy image and noise level."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.diffusion.embedding import noise_embedding
from tfdiff.diffusion.parameterizations import Parameterization, get_parameterization
from tfdiff.errors import ModelError, UsageError


def one_hot_labels(labels: Any, num_classes: int) -> Any:
    """Class numbers as the rows that networks receive.

    labels: ints, shape (...): -1 is the null class (unconditional), which becomes a row of zeros.
    Returns float32 (..., num_classes): a tensor for a tensor, else a NumPy array.
    Raises ValueError where labels are not ints, or NumPy labels lie outside -1 .. num_classes - 1. Tensor
    labels cannot be checked inside a graph: those out of range become null rows.
    """
    if tf.is_tensor(labels):
        if not labels.dtype.is_integer:
            raise UsageError(f"labels have dtype {labels.dtype.name}: give ints.")
        return tf.one_hot(labels, num_classes, dtype=tf.float32)
    labels = np.asarray(labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(f"labels have dtype {labels.dtype}: give ints.")
    outside = labels[(labels < -1) | (labels >= num_classes)]
    if outside.size:
        raise UsageError(f"labels contain {outside[0]}: give 0 to {num_classes - 1}, or -1 for no class.")
    return (labels[..., np.newaxis] == np.arange(num_classes)).astype(np.float32)


class Denoiser:
    """D(x; sigma): the estimate of the clean image under a noisy one (Karras et al. 2022, eq. 7).

    network: a functional Keras model, or any callable with a list `inputs` of things that have a shape
        (such as `tf.TensorSpec`). It takes the list [image (B, H, W, C), noise_embedding (B, E)], and
        label (B, K) where it is conditional, and returns F (B, H, W, C).
    parameterization: a name (edm, eps, v, x0, flow) or a `Parameterization`.
    sigma_data: standard deviation of the training images, > 0.

    Attributes: `network`, `parameterization`, `sigma_data`, `image_shape` (H, W, C), `noise_channels`,
    `num_classes` (None where unconditional). Raises ValueError where the network's inputs do not fit.
    """

    def __init__(
        self,
        network: Callable[..., Any],
        parameterization: str | Parameterization = "edm",
        sigma_data: float = 0.5,
    ) -> None:
        if not sigma_data > 0:
            raise UsageError(f"sigma_data={sigma_data} must be > 0: the standard deviation of the images.")
        if isinstance(parameterization, str):
            parameterization = get_parameterization(parameterization)
        self.network = network
        self.parameterization = parameterization
        self.sigma_data = sigma_data

        shapes = [tuple(tensor.shape) for tensor in getattr(network, "inputs", None) or ()]
        if [len(shape) for shape in shapes] not in ([4, 2], [4, 2, 2]):
            raise ModelError(
                f"network has inputs of shapes {shapes}: it needs image (B, H, W, C), noise_embedding (B, E) "
                "and, if conditional, label (B, K)."
            )
        sizes = [shape[1:] for shape in shapes]
        if None in (size for shape in sizes for size in shape):
            raise ModelError(f"network has inputs of shapes {shapes}: fix every size but the batch.")
        self.image_shape: tuple[int, int, int] = sizes[0]
        self.noise_channels: int = sizes[1][0]
        self.num_classes: int | None = sizes[2][0] if len(sizes) == 3 else None

        # A Keras model's __call__ hides what its call method accepts.
        parameters = inspect.signature(getattr(network, "call", network)).parameters
        self._takes_training = "training" in parameters

    def __call__(self, x: Any, sigma: Any, label: Any = None, *, training: bool = False) -> Any:
        """The denoised image, float32 (batch, H, W, C).

        x: noisy images x0 + sigma * noise, (batch, H, W, C).
        sigma: noise level > 0. A Python or NumPy scalar enters a graph as constants, computed in float64,
            so that an exported file holds no sines; a tensor or array has shape () or (batch,).
        label: one-hot float rows (batch, K), zeros for no class; None means no class for all.
        training: passed on to a network that knows it.
        Raises ValueError where label does not fit the network, or sigma has another rank.
        """
        x = tf.cast(x, tf.float32)
        # A batch known while tracing keeps BROADCAST_TO and SHAPE, which delegates refuse, out of files.
        batch = tf.shape(x)[0] if x.shape[0] is None else x.shape[0]
        if np.ndim(sigma) == 0 and not tf.is_tensor(sigma):
            c_skip, c_out, c_in = map(float, self.parameterization.coefficients(np.float64(sigma), self.sigma_data))
            embedding = noise_embedding(sigma, self.noise_channels)
            embedding = tf.constant(np.broadcast_to(embedding, (x.shape[0] or 1, self.noise_channels)))
            if x.shape[0] is None:
                embedding = tf.repeat(embedding, batch, axis=0)
        else:
            sigma = tf.cast(sigma, tf.float32)
            if sigma.shape.rank not in (0, 1):
                raise UsageError(f"sigma has shape {sigma.shape}: give a scalar or one level per image.")
            if sigma.shape.rank == 0:
                sigma = tf.broadcast_to(sigma, [batch])
            c_skip, c_out, c_in = (
                c[:, tf.newaxis, tf.newaxis, tf.newaxis]
                for c in self.parameterization.coefficients(sigma, self.sigma_data)
            )
            embedding = noise_embedding(sigma, self.noise_channels)
        inputs = [c_in * x, embedding, *self._label_rows(label, batch)]
        options = {"training": training} if self._takes_training else {}
        return c_skip * x + c_out * tf.cast(self.network(inputs, **options), tf.float32)

    def guided(self, label: Any, guidance_scale: float) -> Callable[[Any, Any], Any]:
        """Classifier-free guidance: a function denoise(x, sigma) for the samplers (Ho & Salimans 2022).

        label: one-hot rows (batch, K), or None for no class.
        guidance_scale: s in D_u + s * (D_c - D_u). At 1 the conditional network alone is called, at 0 the
            unconditional one alone; any other value calls both.
        Raises ValueError where guidance is asked of an unconditional network or without a label.
        """
        if guidance_scale not in (0, 1) and (label is None or self.num_classes is None):
            lacking = "a conditional network" if self.num_classes is None else "a label"
            raise UsageError(f"guidance_scale={guidance_scale} needs {lacking}: give one, or leave it at 1.")
        if guidance_scale == 1:
            return lambda x, sigma: self(x, sigma, label)
        if guidance_scale == 0:
            return lambda x, sigma: self(x, sigma)

        def denoise(x: Any, sigma: Any) -> Any:
            unconditional = self(x, sigma)
            return unconditional + guidance_scale * (self(x, sigma, label) - unconditional)

        return denoise

    def _label_rows(self, label: Any, batch: Any) -> list[Any]:
        """The network's label input, as a list of none or one."""
        if self.num_classes is None:
            if label is not None:
                raise UsageError("label was given, but this network is unconditional: leave it out.")
            return []
        if label is None:
            return [tf.zeros([batch, self.num_classes])]
        label = tf.cast(label, tf.float32)
        if label.shape.rank != 2 or label.shape[1] != self.num_classes:
            raise UsageError(
                f"label has shape {tuple(label.shape)}: give one-hot rows (batch, {self.num_classes}), "
                "as one_hot_labels makes them."
            )
        return [label]
