"""The noise level as a vector: what a network is told about sigma.

It is computed outside the network. Inside, INT8 quantization destroys the sines and cosines; fed in, or
folded into a constant per sampling step, they survive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.errors import UsageError

#: Lowest and highest angular frequency, in radians per nat of ln(sigma). Over the usual 0.002 to 80
#: (10.6 nats) the slowest turns through a fifth of a circle, hence never repeats; the fastest tells apart
#: levels a few per cent from each other.
MIN_FREQUENCY, MAX_FREQUENCY = 2.0**-3, 2.0**2


def noise_embedding(sigma: Any, channels: int) -> Any:
    """Fourier features of the log noise level, of mean square 1.

    sigma: noise levels > 0, shape (...): a Python or NumPy number, an array or a tensor.
    channels: width of the embedding, even and positive.
    Returns sqrt(2) * [cos(w_i ln sigma), sin(w_i ln sigma)], shape (..., channels), float32; the w_i are
    spaced geometrically. A tensor gives a tensor. Anything else gives a NumPy array computed in float64,
    which becomes a constant in a graph.
    Raises ValueError where channels is odd or not positive, or a NumPy sigma is not > 0.
    """
    if channels < 2 or channels % 2:
        raise UsageError(f"channels={channels} must be even and positive: half are cosines, half are sines.")
    frequencies = np.geomspace(MIN_FREQUENCY, MAX_FREQUENCY, channels // 2)
    if tf.is_tensor(sigma):
        angles = tf.math.log(tf.cast(sigma, tf.float32))[..., tf.newaxis] * frequencies.astype(np.float32)
        return 2**0.5 * tf.concat([tf.cos(angles), tf.sin(angles)], axis=-1)
    levels = np.asarray(sigma, np.float64)
    if not np.all(levels > 0):
        raise UsageError(f"sigma={sigma} must be > 0: the embedding takes its logarithm.")
    angles = np.log(levels)[..., np.newaxis] * frequencies
    return (2**0.5 * np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)).astype(np.float32)
