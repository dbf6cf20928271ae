from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import (
    SAMPLERS,
    Denoiser,
    get_sampler,
    get_schedule,
    is_deterministic,
    sampler_options,
    stateless_normal,
)

MU, S = 0.3, 0.5
#: Every sampler, with every kind of randomness that it knows.
SETTINGS = [
    ("euler", {}),
    ("ancestral", {"eta": 0.0}),
    ("ancestral", {"eta": 0.5}),
    ("ancestral", {"eta": 1.0}),
    ("heun", {}),
    ("heun", {"s_churn": 20.0}),
    ("heun", {"s_churn": 20.0, "s_min": 0.05, "s_max": 10.0}),
    ("dpmpp_2m", {}),
]
DETERMINISTIC = [setting for setting in SETTINGS if setting[1] in ({}, {"eta": 0.0})]
TEXTBOOK_LEVELS = get_schedule("karras", sigma_min=0.05, sigma_max=20.0).table(7)
X = np.random.default_rng(0).standard_normal((2, 3, 3, 2)) * TEXTBOOK_LEVELS[0]


def gaussian(x, sigma: float):
    """The exact denoiser of N(MU, S^2): the posterior mean of x0 given x."""
    return (S**2 * x + sigma**2 * MU) / (S**2 + sigma**2)


def curved(x, sigma: float):
    """A denoiser with no closed form, for comparing one way of writing a sampler with another."""
    return tf.tanh(x / (1 + sigma)) + 0.1 * math.sin(sigma)


def draw(seed: int, step: int):
    return stateless_normal(X.shape, [seed, step], tf.float64)


def test_settings_cover_every_sampler():
    assert {name for name, _ in SETTINGS} == set(SAMPLERS)


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_the_gaussian_is_sampled_back(name: str, options: dict):
    """Five standard errors, and 2 per cent for 150 steps; the order of that error is tested below."""
    levels = get_schedule("exponential", sigma_min=0.01, sigma_max=80.0).table(150)
    x = levels[0] * np.random.default_rng(1).standard_normal((4, 64, 64, 1))
    samples = get_sampler(name)(gaussian, tf.constant(x), levels, **options).numpy()
    count = samples.size
    assert samples.mean() == pytest.approx(MU, abs=5 * S / math.sqrt(count) + 0.02 * S)
    assert samples.std() == pytest.approx(S, abs=5 * S / math.sqrt(2 * count) + 0.02 * S)
    skewness = np.mean((samples - samples.mean()) ** 3) / samples.std() ** 3
    assert skewness == pytest.approx(0, abs=5 * math.sqrt(6 / count))


@pytest.mark.parametrize(("name", "options"), DETERMINISTIC)
def test_order_of_convergence(name: str, options: dict):
    """Against the closed form of the ODE, x(0) = MU + (x - MU) S / sqrt(S^2 + sigma^2): halving the step
    divides the error by 2^order. The last step, from 1e-4 to 0, adds 1e-8."""
    order = {"euler": 1, "ancestral": 1, "heun": 2, "dpmpp_2m": 2}[name]
    x = tf.constant([[-90.0], [40.0], [75.0]], tf.float64)
    exact = MU + (x - MU) * S / math.sqrt(S**2 + 80**2)
    errors = []
    for num_steps in (80, 160, 320):
        levels = get_schedule("exponential", sigma_min=1e-4, sigma_max=80.0).table(num_steps)
        samples = get_sampler(name)(gaussian, x, levels, **options)
        errors.append(np.abs(samples - exact).max())
    measured = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(measured, order, atol=0.25)


def test_euler_is_ddim():
    """Song et al. 2021, eq. 12 with sigma_t = 0, in alphas_cumprod and the variance-preserving image."""
    alphas_cumprod = 1 / (1 + TEXTBOOK_LEVELS**2)

    def noise(x_vp, alpha):
        return tf.tanh(x_vp) + alpha

    x_vp = tf.constant(X * math.sqrt(alphas_cumprod[0]))
    for alpha, alpha_next in itertools.pairwise(alphas_cumprod):
        predicted = noise(x_vp, alpha)
        x0 = (x_vp - math.sqrt(1 - alpha) * predicted) / math.sqrt(alpha)
        x_vp = math.sqrt(alpha_next) * x0 + math.sqrt(1 - alpha_next) * predicted

    def denoise(x, sigma):
        return x - sigma * noise(x / math.sqrt(1 + sigma**2), 1 / (1 + sigma**2))

    samples = get_sampler("euler")(denoise, tf.constant(X), TEXTBOOK_LEVELS)
    np.testing.assert_allclose(samples, x_vp, rtol=1e-9)


def test_ancestral_is_ddpm():
    """Ho et al. 2020, eq. 7: mean and variance of q(x_{t-1} | x_t, x0) in alphas_cumprod."""
    alphas_cumprod = 1 / (1 + TEXTBOOK_LEVELS**2)
    x_vp = tf.constant(X * math.sqrt(alphas_cumprod[0]))
    for step in range(len(TEXTBOOK_LEVELS) - 1):
        now, before = alphas_cumprod[step], alphas_cumprod[step + 1]
        alpha = now / before
        beta = 1 - alpha
        x0 = curved(x_vp / math.sqrt(now), TEXTBOOK_LEVELS[step])
        mean = math.sqrt(before) * beta / (1 - now) * x0 + math.sqrt(alpha) * (1 - before) / (1 - now) * x_vp
        variance = (1 - before) / (1 - now) * beta
        x_vp = mean + math.sqrt(variance) * draw(5, step)
    samples = get_sampler("ancestral")(curved, tf.constant(X), TEXTBOOK_LEVELS, seed=5)
    np.testing.assert_allclose(samples, x_vp, rtol=1e-9)


@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_ancestral_is_ddim_with_eta(eta: float):
    """Song et al. 2021, eqs. 12 and 16."""
    alphas_cumprod = 1 / (1 + TEXTBOOK_LEVELS**2)
    x_vp = tf.constant(X * math.sqrt(alphas_cumprod[0]))
    for step in range(len(TEXTBOOK_LEVELS) - 1):
        now, before = alphas_cumprod[step], alphas_cumprod[step + 1]
        x0 = curved(x_vp / math.sqrt(now), TEXTBOOK_LEVELS[step])
        noise = (x_vp - math.sqrt(now) * x0) / math.sqrt(1 - now)
        deviation = eta * math.sqrt((1 - before) / (1 - now)) * math.sqrt(1 - now / before)
        direction = math.sqrt(max(1 - before - deviation**2, 0))
        x_vp = math.sqrt(before) * x0 + direction * noise + deviation * draw(5, step)
    samples = get_sampler("ancestral")(curved, tf.constant(X), TEXTBOOK_LEVELS, eta=eta, seed=5)
    np.testing.assert_allclose(samples, x_vp, rtol=1e-9)


@pytest.mark.parametrize("s_churn", [0.0, 1.0, 100.0])
def test_heun_is_edms_algorithm_2(s_churn: float):
    """Transcribed line by line, S_tmin, S_tmax and S_noise in play; 100 meets the cap of sqrt(2) - 1."""
    s_min, s_max, s_noise, num_steps = 0.1, 10.0, 1.01, len(TEXTBOOK_LEVELS) - 1
    x = tf.constant(X)
    for i in range(num_steps):
        t, t_next = TEXTBOOK_LEVELS[i : i + 2]
        gamma = min(s_churn / num_steps, math.sqrt(2) - 1) if s_min <= t <= s_max else 0
        t_hat = t + gamma * t
        x_hat = x + math.sqrt(t_hat**2 - t**2) * s_noise * draw(5, i)
        d = (x_hat - curved(x_hat, t_hat)) / t_hat
        x = x_hat + (t_next - t_hat) * d
        if t_next != 0:
            d_next = (x - curved(x, t_next)) / t_next
            x = x_hat + (t_next - t_hat) * (d / 2 + d_next / 2)
    options = {"s_churn": s_churn, "s_min": s_min, "s_max": s_max, "s_noise": s_noise}
    samples = get_sampler("heun")(curved, tf.constant(X), TEXTBOOK_LEVELS, **options, seed=5)
    np.testing.assert_allclose(samples, x, rtol=1e-9)


def test_dpmpp_2m_is_algorithm_2():
    """Lu et al. 2022 in lambda = -ln(sigma), with alpha = 1; the first and last step are of first order."""
    x, previous, h_last = tf.constant(X), None, None
    for i in range(len(TEXTBOOK_LEVELS) - 1):
        sigma, sigma_next = TEXTBOOK_LEVELS[i : i + 2]
        denoised = curved(x, sigma)
        if sigma_next == 0:
            x = denoised
            break
        h = math.log(sigma) - math.log(sigma_next)
        target = denoised
        if previous is not None:
            r = h_last / h
            target = (1 + 1 / (2 * r)) * denoised - 1 / (2 * r) * previous
        x = sigma_next / sigma * x - math.expm1(-h) * target
        previous, h_last = denoised, h
    samples = get_sampler("dpmpp_2m")(curved, tf.constant(X), TEXTBOOK_LEVELS)
    np.testing.assert_allclose(samples, x, rtol=1e-9)


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_xla_changes_nothing(unconditional, name: str, options: dict):
    denoiser, sampler = Denoiser(unconditional), get_sampler(name)
    levels = get_schedule("karras").table(4)
    x = tf.constant(levels[0] * np.random.default_rng(0).standard_normal((2, 4, 4, 3)), tf.float32)
    compiled = tf.function(lambda x: sampler(denoiser, x, levels, **options), jit_compile=True)
    np.testing.assert_allclose(compiled(x), sampler(denoiser, x, levels, **options), atol=1e-4)


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_seed_decides_all_randomness(name: str, options: dict):
    sampler, takes_seed = get_sampler(name), name in ("ancestral", "heun")

    def sample(seed):
        seeding = {"seed": seed} if takes_seed else {}
        return sampler(gaussian, tf.constant(X), TEXTBOOK_LEVELS, **options, **seeding).numpy()

    np.testing.assert_array_equal(sample(1), sample(tf.constant(1)))
    differs = not np.array_equal(sample(1), sample(2))
    assert differs == (not is_deterministic(name, **options))
    assert differs == ((name, options) not in DETERMINISTIC)


@pytest.mark.parametrize(("name", "calls"), [("euler", 4), ("ancestral", 4), ("heun", 7), ("dpmpp_2m", 4)])
def test_callback_sees_every_step(name: str, calls: int):
    levels = get_schedule("karras").table(4)
    seen, evaluated = [], []

    def denoise(x, sigma):
        evaluated.append(sigma)
        return gaussian(x, sigma)

    x = tf.constant(X)
    get_sampler(name)(denoise, x, levels, callback=lambda *step: seen.append(step))
    assert [step for step, *_ in seen] == [0, 1, 2, 3]
    assert [sigma for _, sigma, _, _ in seen] == levels[:-1].tolist()
    assert all(type(sigma) is float for sigma in evaluated)
    assert len(evaluated) == calls
    for _, sigma, x_seen, denoised in seen:
        np.testing.assert_array_equal(denoised, gaussian(x_seen, sigma))


def test_defaults():
    assert sampler_options("euler") == {}
    assert sampler_options("ancestral") == {"eta": 1.0}
    assert not is_deterministic("ancestral")
    assert is_deterministic("heun")


@pytest.mark.parametrize("levels", [[1.0, 0.5], [1.0, 1.0, 0.0], [0.5, 1.0, 0.0], [0.0], [[1.0, 0.0]], [math.nan, 0.0]])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_table_that_does_not_fall_to_zero_is_refused(name: str, levels: list):
    with pytest.raises(ValueError, match="sigmas="):
        get_sampler(name)(gaussian, X, np.array(levels))


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"sampler='lms' .*euler, ancestral, heun, dpmpp_2m"):
        get_sampler("lms")
    with pytest.raises(ValueError, match=r"eta=1\.5"):
        get_sampler("ancestral")(gaussian, X, TEXTBOOK_LEVELS, eta=1.5)
    with pytest.raises(ValueError, match="s_churn=-1"):
        get_sampler("heun")(gaussian, X, TEXTBOOK_LEVELS, s_churn=-1)
