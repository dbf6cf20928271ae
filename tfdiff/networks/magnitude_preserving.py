"""Magnitude-preserving layers of EDM2 (Karras et al. 2024, arXiv 2312.02696) that fold for inference.

A kernel's columns (one per output channel) always have unit norm in the forward pass, so activations keep
unit magnitude without normalization layers; a Keras constraint also rescales the stored kernel to unit
variance after every optimizer step ("forced weight normalization", section 2.3), which makes the learning
rate mean the same thing all through training. For inference the normalized kernel is just a kernel:
`folded_layer` and `folded_weights` give the plain Keras layer that computes the same function.

`gain` is a constant factor on the output. It lets a block move the constants of its activations and sums
(1/0.596 for SiLU, for instance) into kernels, where they cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

#: E[silu(x)²]^½ for x ~ N(0, 1) (EDM2, eq. 81): dividing by it keeps unit magnitude.
SILU_MAGNITUDE = 0.596

_EPSILON = 1e-4


def normalized_kernel(kernel: tf.Tensor, fan_in_axes: tuple[int, ...]) -> tf.Tensor:
    """Scale a kernel to unit norm over `fan_in_axes` (EDM2, eq. 66); the norm is computed in float32.

    An all-zero column stays zero; masked (pruned) entries stay exactly zero.
    """
    kernel = tf.cast(kernel, tf.float32)
    norm = tf.sqrt(tf.reduce_sum(tf.square(kernel), axis=fan_in_axes, keepdims=True))
    fan_in = np.prod([kernel.shape[axis] for axis in fan_in_axes])
    return kernel / (norm + _EPSILON * float(np.sqrt(fan_in)))


@keras.saving.register_keras_serializable("tfdiff")
class UnitVariance(keras.constraints.Constraint):
    """Forced weight normalization: rescale each output channel of a kernel to unit mean square."""

    def __init__(self, fan_in_axes: tuple[int, ...] = (0,)) -> None:
        self.fan_in_axes = tuple(fan_in_axes)

    def __call__(self, weight: tf.Tensor) -> tf.Tensor:
        fan_in = np.prod([weight.shape[axis] for axis in self.fan_in_axes])
        return tf.cast(normalized_kernel(weight, self.fan_in_axes) * float(np.sqrt(fan_in)), weight.dtype)

    def get_config(self) -> dict[str, Any]:
        return {"fan_in_axes": self.fan_in_axes}


class _MagnitudePreserving:
    """What the three layers share; to be mixed in before the plain Keras layer.

    Args:
        gain: constant factor on the output (before the bias).
        learned_gain: also multiply by a trained scalar that starts at zero. EDM2 starts the last layer and the
            embedding's modulation there, since a normalized kernel cannot be zero itself.
        other arguments: as the plain layer's, but `use_bias` is False unless told otherwise.
    """

    #: The plain Keras layer that computes the same function with `folded_weights()`.
    plain: type[keras.layers.Layer]
    #: Axes of the kernel that one output channel sums over.
    fan_in_axes: tuple[int, ...]
    #: What the plain layer calls its kernel.
    kernel_name = "kernel"

    def __init__(self, *args: Any, gain: float = 1.0, learned_gain: bool = False, **kwargs: Any) -> None:
        prefix = self.kernel_name.removesuffix("_kernel")
        kwargs.setdefault(f"{prefix}_initializer", keras.initializers.RandomNormal(stddev=1.0))
        kwargs.setdefault(f"{prefix}_constraint", UnitVariance(self.fan_in_axes))
        kwargs.setdefault("use_bias", False)
        super().__init__(*args, **kwargs)
        self.gain = gain
        self.learned_gain = learned_gain

    def build(self, input_shape: tf.TensorShape) -> None:
        super().build(input_shape)  # type: ignore[misc]
        self.output_gain = (
            self.add_weight("output_gain", shape=(), initializer="zeros") if self.learned_gain else None  # type: ignore[attr-defined]
        )

    def effective_kernel(self) -> tf.Tensor:
        """The kernel that the layer computes with: normalized, times the gains, in float32."""
        effective = normalized_kernel(getattr(self, self.kernel_name), self.fan_in_axes) * self.gain
        return effective if self.output_gain is None else effective * tf.cast(self.output_gain, tf.float32)

    def folded_layer(self) -> keras.layers.Layer:
        """The plain layer, unbuilt; `folded_weights()` are its weights."""
        config = self.get_config()
        for key in ("gain", "learned_gain", "kernel_constraint", "depthwise_constraint"):
            config.pop(key, None)
        return self.plain.from_config(config)

    def folded_weights(self) -> list[np.ndarray]:
        """The effective kernel, then the bias if there is one."""
        bias = [keras.backend.get_value(self.bias)] if self.use_bias else []  # type: ignore[attr-defined]
        return [self.effective_kernel().numpy(), *bias]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gain": self.gain, "learned_gain": self.learned_gain}  # type: ignore[misc]


@keras.saving.register_keras_serializable("tfdiff")
class MPConv2D(_MagnitudePreserving, keras.layers.Conv2D):
    """Conv2D whose kernel has unit norm per output channel."""

    plain = keras.layers.Conv2D
    fan_in_axes = (0, 1, 2)

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return super().convolution_op(inputs, tf.cast(self.effective_kernel(), inputs.dtype))

    def get_prunable_weights(self) -> list[tf.Variable]:
        """TF-MOT's `PrunableLayer` protocol: the kernel, not the bias."""
        return [self.kernel]


@keras.saving.register_keras_serializable("tfdiff")
class MPDepthwiseConv2D(_MagnitudePreserving, keras.layers.DepthwiseConv2D):
    """DepthwiseConv2D whose kernel has unit norm per channel."""

    plain = keras.layers.DepthwiseConv2D
    fan_in_axes = (0, 1)
    kernel_name = "depthwise_kernel"

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        outputs = keras.backend.depthwise_conv2d(
            inputs,
            tf.cast(self.effective_kernel(), inputs.dtype),
            strides=self.strides,
            padding=self.padding,
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )
        return keras.backend.bias_add(outputs, self.bias) if self.use_bias else outputs


@keras.saving.register_keras_serializable("tfdiff")
class MPDense(_MagnitudePreserving, keras.layers.Dense):
    """Dense whose kernel has unit norm per unit, for (B, in) inputs."""

    plain = keras.layers.Dense
    fan_in_axes = (0,)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        outputs = tf.matmul(inputs, tf.cast(self.effective_kernel(), inputs.dtype))
        return tf.nn.bias_add(outputs, self.bias) if self.use_bias else outputs

    def get_prunable_weights(self) -> list[tf.Variable]:
        """TF-MOT's `PrunableLayer` protocol: the kernel, not the bias."""
        return [self.kernel]


@keras.saving.register_keras_serializable("tfdiff")
class WeightedAdd(keras.layers.Layer):
    """[a, b] → weight·a + b, the residual sum of the edge blocks.

    EDM2's magnitude-preserving sum (eq. 88) is ((1 − t)·a + t·b) / √((1 − t)² + t²); the factor of `b` is the
    `gain` of the layer that made it (`mp_sum_gains`), so only `a` is multiplied here.
    """

    def __init__(self, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        a, b = inputs
        return a * self.weight + b

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weight": self.weight}


def mp_sum_gains(t: float) -> tuple[float, float]:
    """The two factors of EDM2's magnitude-preserving sum: (1 − t, t) / √((1 − t)² + t²)."""
    norm = ((1 - t) ** 2 + t**2) ** 0.5
    return (1 - t) / norm, t / norm
