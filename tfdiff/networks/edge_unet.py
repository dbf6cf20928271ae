"""`edge_unet`: a denoising U-Net of what phones run well.

Mobile inverted-bottleneck blocks made magnitude-preserving (EDM2): almost all multiply-adds sit in 1×1
convolutions, there is no normalization layer to cut a delegate's partition or to be quantized, skips are sums,
and every training-only factor folds into a kernel. The first convolution and the last depth-to-space work on
2×2 pixels, so the most expensive resolution is half the image's.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tf_keras as keras

from tfdiff.networks.checks import check_image_shape
from tfdiff.networks.layers import DepthToSpace, ScaleShift, Upsample
from tfdiff.networks.magnitude_preserving import (
    SILU_MAGNITUDE,
    MPConv2D,
    MPDense,
    MPDepthwiseConv2D,
    WeightedAdd,
    mp_sum_gains,
)

#: Share of the branch in a residual sum (EDM2, section 2.5) and of the skip in the decoder's joins.
_BRANCH, _SKIP = 0.3, 0.5


def edge_unet(
    image_size: int,
    channels: int = 3,
    num_classes: int | None = None,
    *,
    widths: Sequence[int] = (32, 64, 96),
    blocks: int = 2,
    expansion: int = 3,
    noise_channels: int = 32,
    embedding_width: int = 128,
    name: str = "edge_unet",
) -> keras.Model:
    """Build the network: [image (B,H,W,C), noise_embedding (B,E), label (B,K)?] → F (B,H,W,C), float32.

    Args:
        image_size: H and W in pixels; must divide by 2^len(widths).
        channels: C, 1 or 3.
        num_classes: K for a class-conditional network, None for an unconditional one.
        widths: channels at 1/2, 1/4, … of the image's size.
        blocks: residual blocks per level, on the way down and on the way up.
        expansion: width inside a block over the width outside.
        noise_channels: E, the length of `diffusion.noise_embedding`.
        embedding_width: width of the vector that conditions every block.

    Raises:
        UsageError: when the image's shape does not suit the down-sampling.
    """
    check_image_shape(image_size, channels, 2 ** len(widths), f"{name} with {len(widths)} levels")
    image = keras.Input((image_size, image_size, channels), name="image")
    noise = keras.Input((noise_channels,), name="noise_embedding")
    label = keras.Input((num_classes,), name="label") if num_classes else None
    embedding = _embedding(noise, label, embedding_width)

    x = keras.layers.ZeroPadding2D(1, name="stem_pad")(image)
    x = MPConv2D(widths[0], 3, strides=2, use_bias=True, name="stem")(x)
    skips = []
    for level, width in enumerate(widths):
        if level:
            x = _downsample(x, width, f"down{level}_reduce")
        for index in range(blocks):
            x = _block(x, embedding, expansion, f"down{level}_block{index}")
        skips.append(x)
    for level in reversed(range(len(widths))):
        if level < len(widths) - 1:
            x = MPConv2D(widths[level], 1, name=f"up{level}_project")(x)
            x = Upsample(name=f"up{level}_upsample")(x)
            x = _join(x, skips[level], f"up{level}_join")
        for index in range(blocks):
            x = _block(x, embedding, expansion, f"up{level}_block{index}")
    # The learned gain starts at zero: an untrained network predicts F = 0.
    x = MPConv2D(4 * channels, 3, padding="same", learned_gain=True, use_bias=True, name="head", dtype="float32")(x)
    output = DepthToSpace(2, name="output", dtype="float32")(x)
    inputs = [image, noise] + ([label] if label is not None else [])
    return keras.Model(inputs, output, name=name)


def _embedding(noise: tf.Tensor, label: tf.Tensor | None, width: int) -> tf.Tensor:
    """One vector per image that conditions the blocks: noise level, and class where there is one."""
    if label is None:
        x = MPDense(width, name="embed_noise")(noise)
    else:
        keep, add = mp_sum_gains(0.5)
        x = MPDense(width, gain=keep, name="embed_noise")(noise)
        # A one-hot row has norm 1; √K of it gives each class a vector of unit magnitude. The null row adds none.
        classes = MPDense(width, gain=add * float(label.shape[-1]) ** 0.5, name="embed_label")(label)
        x = keras.layers.Add(name="embed_sum")([x, classes])
    return keras.layers.Activation("silu", name="embed_activation")(x)


def _block(x: tf.Tensor, embedding: tf.Tensor, expansion: int, name: str) -> tf.Tensor:
    """Expand 1×1 → SiLU → depthwise 3×3 → scale and shift by the embedding → SiLU → project 1×1 → sum."""
    width = x.shape[-1]
    keep, add = mp_sum_gains(_BRANCH)
    after_silu = 1 / SILU_MAGNITUDE
    h = MPConv2D(expansion * width, 1, use_bias=True, name=f"{name}_expand")(x)
    h = keras.layers.Activation("silu", name=f"{name}_expand_activation")(h)
    h = MPDepthwiseConv2D(3, padding="same", gain=after_silu, name=f"{name}_depthwise")(h)
    modulation = MPDense(
        2 * expansion * width, gain=after_silu, learned_gain=True, use_bias=True, name=f"{name}_modulation"
    )(embedding)
    h = ScaleShift(name=f"{name}_scale_shift")([h, modulation])
    h = keras.layers.Activation("silu", name=f"{name}_depthwise_activation")(h)
    h = MPConv2D(width, 1, gain=add * after_silu, name=f"{name}_project")(h)
    return WeightedAdd(keep, name=f"{name}_sum")([x, h])


def _downsample(x: tf.Tensor, width: int, name: str) -> tf.Tensor:
    """Half the size with a depthwise 3×3 of stride 2, then 1×1 to the new width."""
    x = keras.layers.ZeroPadding2D(1, name=f"{name}_pad")(x)
    x = MPDepthwiseConv2D(3, strides=2, name=f"{name}_depthwise")(x)
    return MPConv2D(width, 1, use_bias=True, name=f"{name}_project")(x)


def _join(x: tf.Tensor, skip: tf.Tensor, name: str) -> tf.Tensor:
    """Magnitude-preserving sum of the decoder's features and the encoder's skip."""
    keep, add = mp_sum_gains(_SKIP)
    skip = MPConv2D(skip.shape[-1], 1, gain=add, name=f"{name}_skip")(skip)
    return WeightedAdd(keep, name=name)([x, skip])
