from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import WEIGHTINGS, add_noise, denoising_loss, get_parameterization, get_weighting

SIGMA_DATA = 0.5
LEVELS = np.geomspace(0.002, 80, 9)


@pytest.mark.parametrize(("weighting", "parameterization"), [("edm", "edm"), ("uniform", "x0"), ("snr", "eps")])
def test_weight_turns_the_error_of_x0_into_that_of_the_network(weighting: str, parameterization: str):
    """D - x0 = c_out (F - target), so a plain squared error of F is the weight 1 / c_out^2."""
    _, c_out, _ = get_parameterization(parameterization).coefficients(LEVELS, SIGMA_DATA)
    np.testing.assert_allclose(get_weighting(weighting)(LEVELS, SIGMA_DATA), 1 / c_out**2, rtol=1e-12)


def test_min_snr_caps_at_five():
    weights = get_weighting("min_snr")(np.array([0.1, 5**-0.5, 1.0, 2.0]), SIGMA_DATA)
    np.testing.assert_allclose(weights, [5, 5, 1, 0.25])


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_tensors_and_numpy_agree(name: str):
    weighting = get_weighting(name)
    exact = weighting(LEVELS, SIGMA_DATA)
    assert exact.shape == LEVELS.shape
    np.testing.assert_allclose(weighting(tf.constant(LEVELS, tf.float32), SIGMA_DATA), exact, rtol=1e-6)


def test_add_noise():
    images, noise = np.random.default_rng(0).standard_normal((2, 3, 4, 4, 1)).astype(np.float32)
    sigma = np.array([0.1, 1, 10], np.float32)
    noisy = add_noise(images, noise, sigma)
    assert noisy.dtype == tf.float32
    for i in range(3):
        np.testing.assert_allclose(noisy[i], images[i] + sigma[i] * noise[i], rtol=1e-6)
    np.testing.assert_allclose(add_noise(images, noise, 2.0), images + 2 * noise, rtol=1e-6)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_loss_is_right_in_float32_at_every_level(name: str):
    """The error of a good network is of order sigma; rounding images near 1 to float32 costs 6e-8, which is
    3e-5 of it at sigma = 0.002, and twice that once squared."""
    rng = np.random.default_rng(0)
    shape = (len(LEVELS), 8, 8, 3)
    images = rng.uniform(-1, 1, shape).astype(np.float32)
    errors = np.minimum(LEVELS, 0.5)[:, None, None, None] * rng.standard_normal(shape)
    denoised = (images + errors).astype(np.float32)
    loss = denoising_loss(denoised, images, LEVELS.astype(np.float32), get_weighting(name), SIGMA_DATA)
    expected = WEIGHTINGS[name](LEVELS, SIGMA_DATA) * np.mean(errors**2, axis=(1, 2, 3))
    assert loss.dtype == tf.float32
    assert loss.shape == (len(LEVELS),)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_unknown_weighting_lists_the_known():
    with pytest.raises(ValueError, match=r"weighting='p2' .*edm, uniform, snr, min_snr"):
        get_weighting("p2")
