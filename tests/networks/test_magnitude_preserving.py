"""Magnitude-preserving layers: unit magnitude, exact folding, zeros that stay zero."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff.networks.magnitude_preserving import (
    SILU_MAGNITUDE,
    MPConv2D,
    MPDense,
    MPDepthwiseConv2D,
    UnitVariance,
    mp_sum_gains,
    normalized_kernel,
)

MAKERS = {
    "conv": lambda **kwargs: MPConv2D(16, 3, use_bias=True, **kwargs),
    "pointwise": lambda **kwargs: MPConv2D(16, 1, **kwargs),
    "depthwise": lambda **kwargs: MPDepthwiseConv2D(3, use_bias=True, **kwargs),
    "dense": lambda **kwargs: MPDense(16, use_bias=True, **kwargs),
}


def build(kind, **kwargs):
    layer = MAKERS[kind](**kwargs)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 12) if kind == "dense" else (8, 16, 16, 12)).astype("float32")
    layer(x)
    for weight in layer.weights:
        if weight.shape.rank < 2:
            weight.assign(rng.standard_normal(weight.shape))
    return layer, x


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("learned_gain", [False, True])
def test_folded_layer_is_keras_own_and_computes_the_same(kind, learned_gain):
    layer, x = build(kind, gain=1.7, learned_gain=learned_gain)
    plain = layer.folded_layer()
    plain.build(x.shape)
    plain.set_weights(layer.folded_weights())
    assert type(plain).__module__.startswith("tf_keras.")
    np.testing.assert_allclose(plain(x), layer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", MAKERS)
def test_unit_normal_input_gives_unit_magnitude(kind):
    layer = MAKERS[kind]()
    x = np.random.default_rng(0).standard_normal((4096, 12) if kind == "dense" else (8, 34, 34, 12)).astype("float32")
    magnitude = np.sqrt(np.mean(np.square(layer(x))))
    # Channels are correlated samples: 5 % is several standard errors for 12 or 16 of them.
    assert magnitude == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("kind", MAKERS)
def test_scaling_the_kernel_changes_nothing(kind):
    layer, x = build(kind)
    before = layer(x).numpy()
    kernel = layer.weights[0]
    kernel.assign(kernel * 7.0)
    np.testing.assert_allclose(layer(x), before, rtol=1e-3, atol=1e-3)


def test_masked_entries_stay_exactly_zero_and_empty_columns_are_finite():
    kernel = np.random.default_rng(0).standard_normal((1, 1, 8, 4)).astype("float32")
    kernel[..., ::2, :] = 0
    kernel[..., 3] = 0
    folded = normalized_kernel(tf.constant(kernel), (0, 1, 2)).numpy()
    assert np.all(np.isfinite(folded))
    np.testing.assert_array_equal(folded == 0, kernel == 0)


def test_constraint_gives_unit_mean_square_per_output():
    kernel = 5 * np.random.default_rng(0).standard_normal((3, 3, 8, 4)).astype("float32")
    constrained = UnitVariance((0, 1, 2))(tf.constant(kernel)).numpy()
    np.testing.assert_allclose(np.mean(constrained**2, axis=(0, 1, 2)), 1.0, rtol=1e-3)


def test_training_keeps_kernels_at_unit_mean_square():
    layer, x = build("dense")
    model = keras.Sequential([layer])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(x, x[:, :1] * np.ones((1, 16), "float32"), epochs=2, verbose=0)
    np.testing.assert_allclose(np.mean(np.square(layer.kernel), axis=0), 1.0, rtol=1e-3)


def test_silu_magnitude_and_sum_gains():
    # E[silu(x)²] by Gauss–Hermite quadrature for N(0, 1).
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    second_moment = np.sum(weights * (nodes / (1 + np.exp(-nodes))) ** 2) / np.sqrt(2 * np.pi)
    assert np.sqrt(second_moment) == pytest.approx(SILU_MAGNITUDE, abs=5e-4)
    keep, add = mp_sum_gains(0.3)
    assert keep**2 + add**2 == pytest.approx(1.0)
    assert add / keep == pytest.approx(0.3 / 0.7)
