from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import PARAMETERIZATIONS, get_parameterization

SIGMA_DATA = 0.5
LEVELS = np.geomspace(0.002, 80, 9)

#: What each network is trained to output, written from its paper.
TARGETS = {
    "edm": lambda x0, noise, sigma: (
        (sigma * x0 - SIGMA_DATA**2 * noise) / (SIGMA_DATA * np.sqrt(sigma**2 + SIGMA_DATA**2))
    ),
    "eps": lambda x0, noise, sigma: noise,
    "v": lambda x0, noise, sigma: (noise - sigma * x0) / np.sqrt(1 + sigma**2),
    "x0": lambda x0, noise, sigma: x0,
    "flow": lambda x0, noise, sigma: noise - x0,
}


def test_every_parameterization_has_a_target():
    assert set(TARGETS) == set(PARAMETERIZATIONS)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("sigma", LEVELS)
def test_the_exact_network_recovers_the_image(name: str, sigma: float):
    x0, noise = np.random.default_rng(0).standard_normal((2, 100))
    c_skip, c_out, _ = get_parameterization(name).coefficients(sigma, SIGMA_DATA)
    denoised = c_skip * (x0 + sigma * noise) + c_out * TARGETS[name](x0, noise, sigma)
    np.testing.assert_allclose(denoised, x0, atol=1e-12)


@pytest.mark.parametrize(("name", "data"), [("edm", SIGMA_DATA), ("eps", 1.0), ("v", 1.0), ("x0", 1.0)])
def test_network_input_has_unit_variance(name: str, data: float):
    """For images of deviation sigma_data (EDM), or 1 (the variance-preserving ones)."""
    _, _, c_in = get_parameterization(name).coefficients(LEVELS, SIGMA_DATA)
    np.testing.assert_allclose(c_in**2 * (data**2 + LEVELS**2), 1, rtol=1e-12)


def test_flow_input_is_the_straight_interpolation():
    """x / (1 + sigma) = (1 - time) x0 + time noise, with time = sigma / (1 + sigma)."""
    _, _, c_in = get_parameterization("flow").coefficients(LEVELS, SIGMA_DATA)
    time = LEVELS / (1 + LEVELS)
    np.testing.assert_allclose([c_in, c_in * LEVELS], [1 - time, time], rtol=1e-12)


@pytest.mark.parametrize("name", ["edm", "eps", "v", "flow"])
def test_without_noise_the_image_is_kept(name: str):
    c_skip, c_out, _ = get_parameterization(name).coefficients(1e-9, SIGMA_DATA)
    assert c_skip == pytest.approx(1)
    assert c_out == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(("name", "c_out_limit"), [("edm", SIGMA_DATA), ("v", -1), ("x0", 1), ("flow", -1)])
def test_with_all_noise_the_network_decides(name: str, c_out_limit: float):
    c_skip, c_out, _ = get_parameterization(name).coefficients(1e9, SIGMA_DATA)
    assert c_skip == pytest.approx(0, abs=1e-8)
    assert c_out == pytest.approx(c_out_limit)


@pytest.mark.parametrize("name", TARGETS)
def test_numpy_keeps_float64_and_tensors_agree(name: str):
    parameterization = get_parameterization(name)
    exact = parameterization.coefficients(LEVELS, SIGMA_DATA)
    tensors = parameterization.coefficients(tf.constant(LEVELS, tf.float32), SIGMA_DATA)
    for reference, tensor in zip(exact, tensors, strict=True):
        assert reference.dtype == np.float64
        assert reference.shape == LEVELS.shape
        assert tensor.dtype == tf.float32
        np.testing.assert_allclose(tensor, reference, rtol=1e-6)


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"parameterization='epsilon' .*edm, eps, v, x0, flow"):
        get_parameterization("epsilon")
