"""Shared layers against plain formulas, in three precisions."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff.networks.layers import DotProductAttention, GroupNormalization, ScaleShift, Upsample
from tfdiff.training import PRECISIONS, precision


def test_group_normalization_equals_keras():
    x = np.random.default_rng(0).normal(3, 2, (2, 4, 4, 8)).astype("float32")
    ours, theirs = GroupNormalization(4), keras.layers.GroupNormalization(4, epsilon=1e-5)
    np.testing.assert_allclose(ours(x), theirs(x), atol=1e-5)


def test_group_normalization_survives_large_activations_in_float16():
    # Squares of 1,000 lie beyond float16's 65,504.
    x = (1000 * np.random.default_rng(0).standard_normal((2, 4, 4, 8))).astype("float32")
    with precision("mixed_float16"):
        layer = GroupNormalization(4)
    reference = GroupNormalization(4)(x)
    result = layer(x)
    assert result.dtype == tf.float16
    np.testing.assert_allclose(np.asarray(result, "float32"), reference, atol=5e-3)


def test_group_normalization_refuses_groups_that_do_not_divide():
    with pytest.raises(ValueError, match="groups=3 does not divide 8 channels"):
        GroupNormalization(3)(np.zeros((1, 2, 2, 8), "float32"))


def test_upsample_repeats_each_pixel():
    x = np.arange(2 * 2 * 3 * 5, dtype="float32").reshape(2, 2, 3, 5)
    np.testing.assert_array_equal(Upsample()(x), x.repeat(2, axis=1).repeat(2, axis=2))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_upsample_gradient_sums_the_four_pixels(jit_compile):
    x = tf.constant(np.random.default_rng(0).standard_normal((1, 2, 2, 3)), tf.float32)
    weight = tf.constant(np.random.default_rng(1).standard_normal((1, 4, 4, 3)), tf.float32)
    layer = Upsample()

    @tf.function(jit_compile=jit_compile)
    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(layer(x) * weight)
        return tape.gradient(value, x)

    expected = weight.numpy().reshape(1, 2, 2, 2, 2, 3).sum(axis=(2, 4))
    np.testing.assert_allclose(gradient(), expected, rtol=1e-5)


def test_scale_shift_formula():
    rng = np.random.default_rng(0)
    x, modulation = rng.standard_normal((2, 3, 3, 4)), rng.standard_normal((2, 8))
    expected = x * (1 + modulation[:, None, None, :4]) + modulation[:, None, None, 4:]
    result = ScaleShift()([x.astype("float32"), modulation.astype("float32")])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("policy", PRECISIONS)
def test_attention_formula(heads, policy):
    rng = np.random.default_rng(0)
    query, key, value = rng.standard_normal((3, 2, 5, 8))
    expected = []
    for q, k, v in zip(*(np.split(x, heads, axis=-1) for x in (query, key, value)), strict=True):
        logits = q @ k.transpose(0, 2, 1) / np.sqrt(8 / heads)
        weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        expected.append(weights @ v)
    with precision(policy):
        layer = DotProductAttention(heads)
    result = layer([query.astype("float32"), key.astype("float32"), value.astype("float32")])
    tolerance = {"float32": 1e-5, "mixed_float16": 1e-2, "mixed_bfloat16": 6e-2}[policy]
    np.testing.assert_allclose(tf.cast(result, tf.float32), np.concatenate(expected, -1), atol=tolerance)
