"""The pruning wrapper: a wrapped layer is the plain layer on masked weights, in every precision."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff.networks.magnitude_preserving import MPConv2D, MPDense
from tfdiff.sparsity import ConstantSparsity, PruneLowMagnitude
from tfdiff.training import PRECISIONS, precision

LAYERS = {
    "dense": (lambda **kwargs: keras.layers.Dense(6, **kwargs), (3, 8)),
    "conv": (lambda **kwargs: keras.layers.Conv2D(6, 3, padding="same", **kwargs), (2, 5, 5, 4)),
    "mp_conv": (lambda **kwargs: MPConv2D(6, 1, **kwargs), (2, 5, 5, 8)),
    "mp_dense": (lambda **kwargs: MPDense(6, **kwargs), (3, 8)),
}


def wrapped(kind, policy="float32"):
    make, shape = LAYERS[kind]
    with precision(policy):
        wrapper = PruneLowMagnitude(make(), pruning_schedule=ConstantSparsity(0.5, begin_step=0, frequency=1))
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    wrapper(x)
    wrapper.pruning_step.assign(0)
    return wrapper, x


def kernel(layer):
    return next(weight for weight in layer.weights if "kernel" in weight.name)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("policy", PRECISIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_equals_the_plain_layer_on_masked_weights(kind, policy, jit_compile):
    wrapper, x = wrapped(kind, policy)
    dense = kernel(wrapper.layer).numpy()
    output = tf.function(lambda: wrapper(x, training=True), jit_compile=jit_compile)()

    with precision(policy):
        plain = LAYERS[kind][0]()
    plain(x)
    plain.set_weights(wrapper.layer.get_weights())
    threshold = np.sort(np.abs(dense), axis=None)[dense.size // 2]
    kernel(plain).assign(np.where(np.abs(dense) >= threshold, dense, 0))
    assert output.dtype == plain(x).dtype
    tolerance = {"float32": 1e-5, "mixed_float16": 5e-3, "mixed_bfloat16": 4e-2}[policy]
    np.testing.assert_allclose(tf.cast(output, tf.float32), tf.cast(plain(x), tf.float32), atol=tolerance)
    assert np.mean(kernel(wrapper.layer).numpy() == 0) == 0.5


@pytest.mark.parametrize("policy", PRECISIONS)
def test_kept_weights_keep_all_their_bits(policy):
    wrapper, x = wrapped("dense", policy)
    before = kernel(wrapper.layer).numpy()
    wrapper(x, training=True)
    after = kernel(wrapper.layer).numpy()
    assert after.dtype == np.float32
    np.testing.assert_array_equal(after[after != 0], before[after != 0])


def test_a_float32_layer_stays_float32_under_mixed_float16():
    with precision("mixed_float16"):
        head = keras.layers.Dense(4, dtype="float32")
        wrapper = PruneLowMagnitude(head, pruning_schedule=ConstantSparsity(0.5, begin_step=0, frequency=1))
    x = 300 * np.ones((2, 400), "float16")  # sums leave float16's range
    wrapper(x)
    wrapper.pruning_step.assign(0)
    head.set_weights([np.ones((400, 4), "float32"), np.zeros(4, "float32")])
    output = wrapper(x, training=False)
    assert output.dtype == tf.float32
    np.testing.assert_array_equal(output, np.full((2, 4), 120_000.0))


def test_inference_changes_nothing():
    wrapper, x = wrapped("conv")
    before = [weight.numpy() for weight in wrapper.weights]
    wrapper(x, training=False)
    for old, new in zip(before, wrapper.weights, strict=True):
        np.testing.assert_array_equal(old, new)


def test_mask_changes_only_on_multiples_of_the_frequency():
    wrapper, x = wrapped("dense")
    wrapper.pruning_schedule = ConstantSparsity(0.5, begin_step=2, frequency=3)
    wrapper.pruning_obj._pruning_schedule = wrapper.pruning_schedule
    zeros = []
    for _ in range(5):
        wrapper(x, training=True)
        zeros.append(float(np.mean(kernel(wrapper.layer).numpy() == 0)))
    assert zeros == [0.0, 0.5, 0.5, 0.5, 0.5]


def test_config_round_trip():
    wrapper, _ = wrapped("conv")
    again = PruneLowMagnitude.from_config(wrapper.get_config())
    assert again.name == wrapper.name
    assert again.pruning_schedule.get_config() == wrapper.pruning_schedule.get_config()
    assert again.layer.get_config() == wrapper.layer.get_config()


def test_training_without_the_step_callback_raises():
    wrapper, x = wrapped("dense")
    wrapper.pruning_step.assign(-1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="UpdatePruningStep"):
        wrapper(x, training=True)
