from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import (
    SAMPLERS,
    Denoiser,
    Sampling,
    get_sampler,
    get_schedule,
    initial_noise,
    one_hot_labels,
)

NOISE = initial_noise(3, (4, 4, 3), seed=7)
LABEL = one_hot_labels([0, 4, 2], 5)


def test_it_is_the_sum_of_its_parts(conditional):
    denoiser = Denoiser(conditional, "v")
    sampling = Sampling("heun", 3, "cosine", 0.05, 20.0, guidance_scale=2.0, options={"s_churn": 1.0})
    levels = get_schedule("cosine", sigma_min=0.05, sigma_max=20.0).table(3)
    np.testing.assert_array_equal(sampling.sigmas(), levels)
    x = tf.constant(np.float32(levels[0]) * NOISE)
    expected = get_sampler("heun")(denoiser.guided(LABEL, 2.0), x, levels, s_churn=1.0, seed=9)
    np.testing.assert_array_equal(sampling(denoiser, NOISE, LABEL, seed=9), expected)
    np.testing.assert_array_equal(sampling.run(denoiser.guided(LABEL, 2.0), NOISE, seed=9), expected)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_network_that_knows_nothing_draws_the_prior(unconditional, sampler: str):
    """F = 0 under EDM is the exact denoiser of N(0, sigma_data^2). Mean and deviation within five standard
    errors and 2 per cent for 100 steps."""
    zero = lambda inputs: tf.zeros_like(inputs[0])  # noqa: E731
    zero.inputs = unconditional.inputs
    noise = initial_noise(200, (4, 4, 3), seed=0)
    images = Sampling(sampler, 100, "exponential")(Denoiser(zero, "edm", sigma_data=0.4), noise).numpy()
    assert images.dtype == np.float32
    assert images.mean() == pytest.approx(0, abs=5 * 0.4 / math.sqrt(images.size))
    assert images.std() == pytest.approx(0.4, abs=5 * 0.4 / math.sqrt(2 * images.size) + 0.02 * 0.4)


def test_callback_is_passed_on(unconditional):
    seen = []
    sampling = Sampling(num_steps=5)
    sampling(Denoiser(unconditional), NOISE, callback=lambda step, sigma, x, denoised: seen.append(sigma))
    assert seen == sampling.sigmas()[:-1].tolist()


def test_the_whole_sampler_compiles(conditional):
    denoiser, sampling = Denoiser(conditional), Sampling(num_steps=4, guidance_scale=1.5)
    compiled = tf.function(lambda noise, label: sampling(denoiser, noise, label), jit_compile=True)
    np.testing.assert_allclose(compiled(NOISE, LABEL), sampling(denoiser, NOISE, LABEL), atol=1e-4)


def test_an_unrolled_sampler_holds_no_conditioning_ops(unconditional, op_types):
    """Time conditioning is constants, and a fixed batch needs no shapes: what delegates can run is left."""
    denoiser, sampling = Denoiser(unconditional), Sampling(num_steps=4)
    types = op_types(lambda noise: sampling(denoiser, noise), tf.TensorSpec([1, 4, 4, 3]))
    assert not types & {"Sin", "Cos", "Log", "Pow", "Exp", "Shape", "BroadcastTo", "Tile", "Fill", "Cast"}


@pytest.mark.parametrize(
    ("sampling", "deterministic"),
    [
        (Sampling(), True),
        (Sampling("euler"), True),
        (Sampling("heun"), True),
        (Sampling("heun", options={"s_churn": 1.0}), False),
        (Sampling("ancestral"), False),
        (Sampling("ancestral", options={"eta": 0.0}), True),
    ],
)
def test_deterministic_and_config(sampling: Sampling, deterministic: bool):
    assert sampling.deterministic == deterministic
    copy = Sampling(**json.loads(json.dumps(sampling.config())))
    assert copy == sampling
    assert hash(copy) == hash(sampling)


def test_each_image_has_its_own_noise():
    """The same picture whatever the batch: noise depends on seed and index alone."""
    whole = initial_noise(6, (4, 4, 3), seed=7)
    assert whole.dtype == np.float32
    parts = [initial_noise(2, (4, 4, 3), seed=7, start=start) for start in (0, 2, 4)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert len(np.unique(whole)) > 0.99 * whole.size
    assert not np.array_equal(initial_noise(6, (4, 4, 3), seed=8), whole)


def test_initial_noise_is_unit_normal():
    noise = initial_noise(500, (4, 4, 3), seed=0)
    assert noise.mean() == pytest.approx(0, abs=5 / math.sqrt(noise.size))
    assert noise.std() == pytest.approx(1, abs=5 / math.sqrt(2 * noise.size))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"sampler": "plms"}, "sampler='plms'"),
        ({"schedule": "sigmoid"}, "schedule='sigmoid'"),
        ({"num_steps": 0}, "num_steps=0"),
        ({"sigma_min": 90.0}, "sigma_min=90.0"),
        ({"sampler": "heun", "options": {"eta": 1.0}}, "'eta' is unknown to sampler 'heun': use s_churn"),
        ({"options": {"eta": 1.0}}, "'eta' is unknown to sampler 'dpmpp_2m': it has none"),
    ],
)
def test_a_sampling_that_cannot_be_is_refused(arguments: dict, found: str):
    with pytest.raises(ValueError, match=found):
        Sampling(**arguments)
