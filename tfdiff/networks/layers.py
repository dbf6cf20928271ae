"""Small layers that the networks share, each safe under mixed precision, XLA, saving and conversion."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras


@keras.saving.register_keras_serializable("tfdiff")
class GroupNormalization(keras.layers.Layer):
    """Group normalization (Wu & He 2018) with float32 statistics: (B,H,W,C) → (B,H,W,C).

    tf_keras's own layer squares activations in the compute dtype, which overflows in float16 for values
    near 300. Here mean and variance are float32 whatever the policy; the result has the compute dtype.

    Args:
        groups: number of groups; must divide the channels.
        epsilon: added to the variance.

    Raises:
        ValueError: when `groups` does not divide the channels.
    """

    def __init__(self, groups: int = 32, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.groups = groups
        self.epsilon = epsilon

    def build(self, input_shape: tf.TensorShape) -> None:
        channels = int(input_shape[-1])
        if channels % self.groups:
            raise ValueError(
                f"{self.name}: groups={self.groups} does not divide {channels} channels; "
                "choose a divisor of the channels."
            )
        self.gamma = self.add_weight("gamma", shape=(channels,), initializer="ones")
        self.beta = self.add_weight("beta", shape=(channels,), initializer="zeros")
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        batch = -1 if inputs.shape[0] is None else inputs.shape[0]
        height, width, channels = inputs.shape[1:]
        x = tf.cast(inputs, tf.float32)
        grouped = tf.reshape(x, (batch, height * width, self.groups, channels // self.groups))
        mean = tf.reduce_mean(grouped, axis=(1, 3), keepdims=True)
        centred = grouped - mean
        variance = tf.reduce_mean(tf.square(centred), axis=(1, 3), keepdims=True)
        normalized = tf.reshape(centred * tf.math.rsqrt(variance + self.epsilon), (batch, height, width, channels))
        scaled = normalized * tf.cast(self.gamma, tf.float32) + tf.cast(self.beta, tf.float32)
        return tf.cast(scaled, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "groups": self.groups, "epsilon": self.epsilon}


@keras.saving.register_keras_serializable("tfdiff")
class Upsample(keras.layers.Layer):
    """Nearest-neighbour ×2: (B,H,W,C) → (B,2H,2W,C).

    `UpSampling2D` has no XLA gradient on CPU and GPU, and its RESIZE_NEAREST_NEIGHBOR is not delegated
    by XNNPACK. Four copies and a depth-to-space are the same numbers and have neither fault.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.depth_to_space(tf.concat([inputs] * 4, axis=-1), 2)


@keras.saving.register_keras_serializable("tfdiff")
class DepthToSpace(keras.layers.Layer):
    """Unfold groups of block² channels into space: (B,H,W,C·block²) → (B,H·block,W·block,C)."""

    def __init__(self, block_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block_size = block_size

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.depth_to_space(inputs, self.block_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "block_size": self.block_size}


@keras.saving.register_keras_serializable("tfdiff")
class ScaleShift(keras.layers.Layer):
    """FiLM (Perez et al. 2018): [x (B,H,W,C), modulation (B,2C)] → x·(1 + scale) + shift."""

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        x, modulation = inputs
        channels = x.shape[-1]
        # Slices rather than tf.split: SPLIT_V is not delegated by XNNPACK.
        scale = modulation[:, None, None, :channels]
        shift = modulation[:, None, None, channels:]
        return x * (1.0 + scale) + shift


@keras.saving.register_keras_serializable("tfdiff")
class DotProductAttention(keras.layers.Layer):
    """Scaled dot-product attention over positions: [q, k, v], each (B,N,heads·d) → (B,N,heads·d).

    The projections are Dense layers outside (so that they can be masked); the softmax is float32.
    """

    def __init__(self, heads: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = heads

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        query, key, value = (self._split_heads(x) for x in inputs)
        scale = float(query.shape[-1]) ** -0.5
        logits = tf.cast(tf.matmul(query * scale, key, transpose_b=True), tf.float32)
        weights = tf.cast(tf.nn.softmax(logits), value.dtype)
        heads_first = tf.matmul(weights, value)
        _, _, positions, depth = heads_first.shape
        batch = -1 if inputs[0].shape[0] is None else inputs[0].shape[0]
        return tf.reshape(tf.transpose(heads_first, (0, 2, 1, 3)), (batch, positions, self.heads * depth))

    def _split_heads(self, x: tf.Tensor) -> tf.Tensor:
        batch = -1 if x.shape[0] is None else x.shape[0]
        _, positions, width = x.shape
        split = tf.reshape(x, (batch, positions, self.heads, width // self.heads))
        return tf.transpose(split, (0, 2, 1, 3))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "heads": self.heads}
