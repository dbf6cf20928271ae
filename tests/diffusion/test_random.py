from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import stateless_normal, stateless_uniform

SEED = tf.constant([3, 4])


@pytest.mark.parametrize("draw", [stateless_uniform, stateless_normal])
@pytest.mark.parametrize("shape", [[], [7], [2, 4, 4, 3]])
def test_xla_draws_the_same(draw, shape: list[int]):
    traced = tf.function(lambda seed: draw(tf.constant(shape, tf.int32), seed))
    compiled = tf.function(lambda seed: draw(shape, seed), jit_compile=True)
    plain = draw(shape, SEED)
    assert plain.shape == traced.get_concrete_function(SEED).structured_outputs.shape == shape
    np.testing.assert_allclose(traced(SEED), plain, atol=1e-5)
    np.testing.assert_allclose(compiled(SEED), plain, atol=1e-5)
    assert np.abs(draw(shape, SEED + 1) - plain).max() > 1e-3


@pytest.mark.parametrize("draw", [stateless_uniform, stateless_normal])
def test_distribution(draw):
    """Kolmogorov-Smirnov: below 1.95 / sqrt(n), which chance exceeds once in a thousand."""
    values = np.sort(draw([20000], SEED).numpy().astype(float))
    shares = values if draw is stateless_uniform else np.vectorize(NormalDist().cdf)(values)
    assert np.max(np.abs(shares - (np.arange(20000) + 0.5) / 20000)) < 1.95 / math.sqrt(20000)
    assert shares.min() >= 0
    assert shares.max() < 1


def test_neighbours_are_independent():
    values = stateless_normal([2, 20000], SEED).numpy()
    assert abs(np.mean(values[0] * values[1])) < 5 / math.sqrt(20000)
    assert abs(np.mean(values[0, 1:] * values[0, :-1])) < 5 / math.sqrt(20000)


def test_float64_is_the_same_draw():
    exact = stateless_normal([100], SEED, tf.float64)
    assert exact.dtype == tf.float64
    np.testing.assert_allclose(stateless_normal([100], SEED), exact, atol=1e-5)
