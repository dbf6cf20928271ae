"""Random numbers that are the same with XLA and without it.

TensorFlow and XLA turn the same random bits into different floats: `tf.random.stateless_normal` with one seed
gives other noise once a function is compiled. The bits themselves agree, so the floats are made here; what is
left between the two is rounding.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf


def stateless_uniform(shape: Any, seed: Any) -> Any:
    """Uniform in [0, 1): float32 multiples of 2^-24, a function of shape and seed alone.

    shape: ints or an int tensor. seed: int tensor of shape (2,).
    """
    return tf.cast(_bits(shape, seed), tf.float32) * 2.0**-24


def stateless_normal(shape: Any, seed: Any, dtype: Any = tf.float32) -> Any:
    """Unit normal, within 5.8 of 0, a function of shape and seed alone (Box & Muller 1958).

    shape: ints or an int tensor. seed: int tensor of shape (2,). dtype: float32 or float64.
    """
    pair = tf.concat([[2], tf.cast(shape, tf.int32)], axis=0)
    first, second = tf.unstack(tf.cast(_bits(pair, seed), dtype) * 2.0**-24)
    # 1 - first lies in (0, 1], where the logarithm is finite.
    return tf.sqrt(-2.0 * tf.math.log(1.0 - first)) * tf.cos(2 * math.pi * second)


def _bits(shape: Any, seed: Any) -> Any:
    """24 random bits as uint32: as many as float32 holds exactly."""
    bits = tf.random.stateless_uniform(shape, seed, None, None, tf.uint32, alg="philox")
    return tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32))
