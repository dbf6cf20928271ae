"""`unet`: the denoising U-Net of DDPM and ADM (Ho et al. 2020; Dhariwal & Nichol 2021)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tf_keras as keras

from tfdiff.errors import UsageError
from tfdiff.networks.checks import check_image_shape
from tfdiff.networks.layers import DotProductAttention, GroupNormalization, ScaleShift, Upsample


def unet(
    image_size: int,
    channels: int = 3,
    num_classes: int | None = None,
    *,
    widths: Sequence[int] = (32, 64, 64),
    blocks: int = 2,
    attention: Sequence[int] = (8,),
    heads: int = 1,
    groups: int = 8,
    noise_channels: int = 32,
    embedding_width: int = 128,
    name: str = "unet",
) -> keras.Model:
    """Build the network: [image (B,H,W,C), noise_embedding (B,E), label (B,K)?] → F (B,H,W,C), float32.

    Where the original concatenates a skip before a convolution, two convolutions are summed:
    conv(concat(a, b)) = conv_a(a) + conv_b(b), the same function with the same parameters, but in INT8 each
    half keeps its own scale (Q-Diffusion's split, arXiv 2302.04304).

    Args:
        image_size: H and W in pixels; must divide by 2^(len(widths) − 1).
        channels: C, 1 or 3.
        num_classes: K for a class-conditional network, None for an unconditional one.
        widths: channels at full size, 1/2, 1/4, …
        blocks: residual blocks per level on the way down; one more on the way up, as in DDPM.
        attention: image sizes (in pixels, not factors) at which self-attention follows each block.
        heads: attention heads.
        groups: groups of the group normalizations; must divide every width.
        noise_channels: E, the length of `diffusion.noise_embedding`.
        embedding_width: width of the vector that conditions every block.

    Raises:
        UsageError: when the image's shape, `groups` or `heads` does not suit the widths.
    """
    check_image_shape(image_size, channels, 2 ** (len(widths) - 1), f"{name} with {len(widths)} levels")
    for argument, divisor in (("groups", groups), ("heads", heads)):
        unfit = [width for width in widths if width % divisor]
        if unfit:
            raise UsageError(f"{argument}={divisor} does not divide the widths {unfit}; choose a common divisor.")
    image = keras.Input((image_size, image_size, channels), name="image")
    noise = keras.Input((noise_channels,), name="noise_embedding")
    label = keras.Input((num_classes,), name="label") if num_classes else None
    embedding = _embedding(noise, label, embedding_width)

    def stage(x: tf.Tensor, skip: tf.Tensor | None, width: int, prefix: str) -> tf.Tensor:
        x = _residual(x, skip, embedding, width, groups, prefix)
        return _attend(x, heads, groups, f"{prefix}_attention") if x.shape[1] in attention else x

    x = keras.layers.Conv2D(widths[0], 3, padding="same", name="stem")(image)
    skips = [x]
    for level, width in enumerate(widths):
        if level:
            x = keras.layers.Conv2D(width, 3, strides=2, padding="same", name=f"down{level}_reduce")(x)
            skips.append(x)
        for index in range(blocks):
            x = stage(x, None, width, f"down{level}_block{index}")
            skips.append(x)
    x = _residual(x, None, embedding, widths[-1], groups, "middle_block0")
    if attention:
        x = _attend(x, heads, groups, "middle_attention")
    x = _residual(x, None, embedding, widths[-1], groups, "middle_block1")
    for level in reversed(range(len(widths))):
        for index in range(blocks + 1):
            x = stage(x, skips.pop(), widths[level], f"up{level}_block{index}")
        if level:
            x = Upsample(name=f"up{level}_upsample")(x)
            x = keras.layers.Conv2D(widths[level], 3, padding="same", name=f"up{level}_conv")(x)
    x = _normalized_silu(x, groups, "head")
    # Zero-initialized: an untrained network predicts F = 0. Float32, as the loss and the sampler are.
    output = keras.layers.Conv2D(channels, 3, padding="same", kernel_initializer="zeros", name="head", dtype="float32")(
        x
    )
    inputs = [image, noise] + ([label] if label is not None else [])
    return keras.Model(inputs, output, name=name)


def _embedding(noise: tf.Tensor, label: tf.Tensor | None, width: int) -> tf.Tensor:
    """The vector that conditions every block: an MLP of the noise level, plus a row per class."""
    x = keras.layers.Dense(width, activation="silu", name="embed_noise")(noise)
    x = keras.layers.Dense(width, name="embed_hidden")(x)
    if label is not None:
        # A one-hot row times a matrix is an embedding look-up without GATHER; the null row adds nothing.
        initializer = keras.initializers.RandomNormal(stddev=1.0)
        classes = keras.layers.Dense(width, use_bias=False, kernel_initializer=initializer, name="embed_label")(label)
        x = keras.layers.Add(name="embed_sum")([x, classes])
    return keras.layers.Activation("silu", name="embed_activation")(x)


def _normalized_silu(x: tf.Tensor, groups: int, name: str) -> tf.Tensor:
    x = GroupNormalization(groups, name=f"{name}_norm")(x)
    return keras.layers.Activation("silu", name=f"{name}_silu")(x)


def _residual(
    x: tf.Tensor, skip: tf.Tensor | None, embedding: tf.Tensor, width: int, groups: int, name: str
) -> tf.Tensor:
    """ADM's residual block with scale-shift normalization; `skip` joins through split convolutions."""

    def convolve_both(from_x: tf.Tensor, from_skip: tf.Tensor | None, size: int, prefix: str) -> tf.Tensor:
        y = keras.layers.Conv2D(width, size, padding="same", name=prefix)(from_x)
        if from_skip is None:
            return y
        z = keras.layers.Conv2D(width, size, padding="same", use_bias=False, name=f"{prefix}_skip")(from_skip)
        return keras.layers.Add(name=f"{prefix}_join")([y, z])

    h = _normalized_silu(x, groups, f"{name}_in")
    h_skip = None if skip is None else _normalized_silu(skip, groups, f"{name}_in_skip")
    h = convolve_both(h, h_skip, 3, f"{name}_conv0")
    modulation = keras.layers.Dense(2 * width, kernel_initializer="zeros", name=f"{name}_modulation")(embedding)
    h = GroupNormalization(groups, name=f"{name}_out_norm")(h)
    h = ScaleShift(name=f"{name}_scale_shift")([h, modulation])
    h = keras.layers.Activation("silu", name=f"{name}_out_silu")(h)
    h = keras.layers.Conv2D(width, 3, padding="same", kernel_initializer="zeros", name=f"{name}_conv1")(h)
    if skip is not None or x.shape[-1] != width:
        x = convolve_both(x, skip, 1, f"{name}_shortcut")
    return keras.layers.Add(name=f"{name}_sum")([x, h])


def _attend(x: tf.Tensor, heads: int, groups: int, name: str) -> tf.Tensor:
    """Self-attention over positions with Dense projections, so that they can be masked."""
    _, height, width, channels = x.shape
    h = GroupNormalization(groups, name=f"{name}_norm")(x)
    h = keras.layers.Reshape((height * width, channels), name=f"{name}_flatten")(h)
    query, key, value = (keras.layers.Dense(channels, name=f"{name}_{part}")(h) for part in ("query", "key", "value"))
    h = DotProductAttention(heads, name=f"{name}_product")([query, key, value])
    h = keras.layers.Dense(channels, kernel_initializer="zeros", name=f"{name}_output")(h)
    h = keras.layers.Reshape((height, width, channels), name=f"{name}_unflatten")(h)
    return keras.layers.Add(name=f"{name}_sum")([x, h])
