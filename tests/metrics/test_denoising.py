"""Denoising loss of the analytic denoiser of a Gaussian, whose error is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import Denoiser
from tfdiff.errors import DataError, ModelError, UsageError
from tfdiff.metrics import denoising_loss_by_level

MEAN, SPREAD = 0.2, 0.3
IMAGES = (MEAN + SPREAD * np.random.default_rng(0).standard_normal((300, 8, 8, 1))).astype(np.float32)


class Gaussian(Denoiser):
    """The best denoiser of pixels N(μ, s²): μ + s²/(s² + σ²)·(x − μ)."""

    def __init__(self, shrink: float = 1.0) -> None:
        shapes = [SimpleNamespace(shape=(None, 8, 8, 1)), SimpleNamespace(shape=(None, 8))]
        network: Any = SimpleNamespace(inputs=shapes, call=None)
        network.__dict__["call"] = lambda inputs: inputs
        super().__init__(network, "edm", 0.5)
        self.shrink = shrink

    def __call__(self, x: Any, sigma: Any, label: Any = None, *, training: bool = False) -> Any:
        sigma = tf.reshape(sigma, (-1, 1, 1, 1))
        return MEAN + self.shrink * SPREAD**2 / (SPREAD**2 + sigma**2) * (x - MEAN)


def test_error_of_the_best_denoiser() -> None:
    levels = [5.0, 0.5, 0.05]
    loss = denoising_loss_by_level(Gaussian(), IMAGES, sigmas=levels, weighting="uniform")
    expected = [SPREAD**2 * s**2 / (SPREAD**2 + s**2) for s in levels]
    np.testing.assert_allclose(loss.by_level, expected, rtol=0.03)
    weighted = denoising_loss_by_level(Gaussian(), IMAGES, sigmas=levels)
    weights = [(s**2 + 0.25) / (s * 0.5) ** 2 for s in levels]
    np.testing.assert_allclose(weighted.by_level, loss.by_level * weights, rtol=1e-6)


def test_batches_change_nothing_and_the_same_noise_pairs_models() -> None:
    a = denoising_loss_by_level(Gaussian(), IMAGES, batch_size=64)
    b = denoising_loss_by_level(Gaussian(), IMAGES, batch_size=77)
    np.testing.assert_allclose(a.errors, b.errors, rtol=1e-5)
    worse = denoising_loss_by_level(Gaussian(0.9), IMAGES)
    gap, error = worse.difference(a)
    assert error is not None
    assert a.standard_error is not None
    assert gap > 5 * error
    assert error < a.standard_error


def test_json_holds_plain_values() -> None:
    values = denoising_loss_by_level(Gaussian(), IMAGES[:4], sigmas=[1.0, 0.1]).to_json()
    assert set(values) == {"sigmas", "loss", "standard_error", "mean", "images", "seed"}
    assert values["mean"] == pytest.approx(np.mean(values["loss"]))


def test_refuses_to_compare_what_was_measured_otherwise() -> None:
    loss = denoising_loss_by_level(Gaussian(), IMAGES[:8])
    for other, expected in (
        (denoising_loss_by_level(Gaussian(), IMAGES[:8], seed=1), "seed"),
        (denoising_loss_by_level(Gaussian(), IMAGES[8:16]), "images"),
        (denoising_loss_by_level(Gaussian(), IMAGES[:8], sigmas=[1.0]), "noise levels"),
    ):
        with pytest.raises(UsageError, match=expected):
            loss.difference(other)


def test_bad_input() -> None:
    with pytest.raises(DataError, match="give floats"):
        denoising_loss_by_level(Gaussian(), IMAGES[:, :4])
    with pytest.raises(ModelError, match="not finite"):
        denoising_loss_by_level(Gaussian(float("nan")), IMAGES[:2])
