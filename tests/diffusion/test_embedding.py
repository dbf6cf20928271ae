from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import noise_embedding


def test_formula():
    """Two frequencies, 2^-3 and 2^2 radians per nat, written out."""
    expected = np.sqrt(2) * np.array(
        [np.cos(np.log(3) / 8), np.cos(np.log(3) * 4), np.sin(np.log(3) / 8), np.sin(np.log(3) * 4)]
    )
    np.testing.assert_allclose(noise_embedding(3.0, 4), expected, rtol=1e-6)


def test_frequencies_are_geometric():
    """At sigma = e the angles are the frequencies themselves."""
    embedding = noise_embedding(np.e, 12) / np.sqrt(2)
    slow = np.arctan2(embedding[6:], embedding[:6])[:5]  # the sixth is 4 > pi
    np.testing.assert_allclose(slow[1:] / slow[:-1], 2, rtol=1e-5)


def test_mean_square_is_one():
    embedding = noise_embedding(np.geomspace(0.002, 80, 50), 16)
    np.testing.assert_allclose(np.mean(embedding**2, axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_tensor_and_numpy_agree(shape: tuple[int, ...]):
    sigma = np.exp(np.random.default_rng(0).uniform(np.log(0.002), np.log(80), shape))
    array = noise_embedding(sigma, 8)
    tensor = noise_embedding(tf.constant(sigma, tf.float32), 8)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float32
    assert array.shape == tuple(tensor.shape) == (*shape, 8)
    np.testing.assert_allclose(tensor, array, atol=1e-5)


@pytest.mark.parametrize("channels", [7, 0, -2])
def test_odd_or_missing_channels_are_refused(channels: int):
    with pytest.raises(ValueError, match=f"channels={channels}"):
        noise_embedding(1.0, channels)


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan")])
def test_level_without_logarithm_is_refused(sigma: float):
    with pytest.raises(ValueError, match="sigma="):
        noise_embedding(sigma, 8)
