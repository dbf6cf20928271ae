from __future__ import annotations

import json
import math
from statistics import NormalDist

import numpy as np
import pytest
import tensorflow as tf

from tfdiff.diffusion import SCHEDULES, get_schedule, stratified_levels

SHARES = np.linspace(0, 1, 101)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("sigma_min", "sigma_max"), [(0.002, 80.0), (0.02, 10.0)])
@pytest.mark.parametrize("num_steps", [1, 2, 8, 50])
def test_table_falls_from_max_to_zero(name: str, sigma_min: float, sigma_max: float, num_steps: int):
    table = get_schedule(name, sigma_min=sigma_min, sigma_max=sigma_max).table(num_steps)
    assert table.shape == (num_steps + 1,)
    assert table.dtype == np.float64
    assert np.all(np.diff(table) < 0)
    assert table[0] == pytest.approx(sigma_max, rel=1e-9)
    assert table[-1] == 0
    if num_steps > 1:
        assert table[-2] == pytest.approx(sigma_min, rel=1e-9)


@pytest.mark.parametrize("name", SCHEDULES)
def test_float32_tensors_follow_the_float64_quantiles(name: str):
    """In float32 the last quantiles of a normal crowd together below 1, where half a unit in the last place
    moves sigma by half a per cent; hence the tolerance at the top."""
    schedule = get_schedule(name)
    exact = schedule.sigma(SHARES)
    levels = schedule.sigma(tf.constant(SHARES, tf.float32)).numpy()
    assert levels.dtype == np.float32
    assert levels.min() >= np.float32(schedule.sigma_min)
    assert levels.max() <= np.float32(schedule.sigma_max)
    np.testing.assert_allclose(levels[:-1], exact[:-1], rtol=5e-5)
    np.testing.assert_allclose(levels[-1], exact[-1], rtol=1e-2)


def test_karras_is_edm_equation_5():
    sigma_min, sigma_max, rho, num_steps = 0.002, 80, 7, 18
    i = np.arange(num_steps)
    expected = (sigma_max ** (1 / rho) + i / (num_steps - 1) * (sigma_min ** (1 / rho) - sigma_max ** (1 / rho))) ** rho
    np.testing.assert_allclose(get_schedule("karras").table(num_steps)[:-1], expected, rtol=1e-12)


def test_exponential_is_even_in_the_logarithm():
    steps = np.diff(np.log(get_schedule("exponential").table(20)[:-1]))
    np.testing.assert_allclose(steps, -math.log(80 / 0.002) / 19, rtol=1e-9)


def test_uniform_is_even_in_flow_time():
    table = get_schedule("uniform").table(20)[:-1]
    first, last = 80 / 81, 0.002 / 1.002
    np.testing.assert_allclose(table / (1 + table), np.linspace(first, last, 20), rtol=1e-12)


def test_cosine_is_nichol_and_dhariwals():
    def textbook(time: np.ndarray) -> np.ndarray:
        f = np.cos((time + 0.008) / 1.008 * np.pi / 2) ** 2
        alphas_cumprod = f / np.cos(0.008 / 1.008 * np.pi / 2) ** 2
        return np.sqrt((1 - alphas_cumprod) / alphas_cumprod)

    expected = textbook(np.linspace(0.05, 0.98, 100))
    schedule = get_schedule("cosine", sigma_min=expected[0], sigma_max=expected[-1])
    np.testing.assert_allclose(schedule.sigma(np.linspace(0, 1, 100)), expected, rtol=1e-9)


def test_linear_beta_meets_ddpms_thousand_levels():
    """At the top the sum of -ln(1 - beta) exceeds the integral of beta by the sum of beta^2 / 2 = 0.068: 3.4
    per cent of sigma. At the bottom the integral over the first step is 1.1e-4, not 1e-4: 4.9 per cent."""
    alphas_cumprod = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
    expected = np.sqrt((1 - alphas_cumprod) / alphas_cumprod)
    # The continuous levels at times 1/1000 .. 1000/1000, in closed form; the schedule is cut to just these.
    ends = [math.sqrt(math.expm1(0.1 * time + 9.95 * time**2)) for time in (0.001, 1)]
    levels = get_schedule("linear_beta", sigma_min=ends[0], sigma_max=ends[1]).sigma(np.linspace(0, 1, 1000))
    np.testing.assert_allclose(levels, expected, rtol=0.05)


def test_lognormal_is_edms_training_distribution():
    """Cut so wide that nothing is missing: the quantiles are those of exp(N(-1.2, 1.2^2))."""
    schedule = get_schedule("lognormal", sigma_min=1e-4, sigma_max=1e4)
    shares = [NormalDist().cdf(z) for z in (-2, -1, 0, 1, 2)]
    np.testing.assert_allclose(np.log(schedule.sigma(shares)), -1.2 + 1.2 * np.arange(-2, 3), atol=1e-6)


def test_lognormal_is_cut_not_clipped():
    """No level piles up at the ends: the share below the median of the cut distribution is one half."""
    schedule = get_schedule("lognormal", sigma_min=0.1, sigma_max=0.5)
    normal = NormalDist(-1.2, 1.2)
    low, median, high = (normal.cdf(math.log(sigma)) for sigma in (0.1, schedule.sigma(0.5), 0.5))
    assert median == pytest.approx((low + high) / 2, rel=1e-9)


@pytest.mark.parametrize("name", SCHEDULES)
def test_config_round_trip(name: str):
    schedule = get_schedule(name, sigma_min=0.01, sigma_max=50.0)
    assert get_schedule(**json.loads(json.dumps(schedule.config()))) == schedule


def test_options_are_kept():
    assert get_schedule("karras", rho=3.0).config() == {
        "name": "karras",
        "sigma_min": 0.002,
        "sigma_max": 80.0,
        "rho": 3.0,
    }


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_batch_holds_one_level_of_every_share(name: str, jit_compile: bool):
    batch, schedule = 16, get_schedule(name)
    draw = tf.function(lambda seed: stratified_levels(schedule, batch, seed), jit_compile=jit_compile)
    levels = draw(tf.constant([3, 4])).numpy()
    assert levels.shape == (batch,)
    assert levels.dtype == np.float32
    # Between any two neighbouring quantiles of a 16-fold division, shifted by the same u, lies one level.
    grid = schedule.sigma(np.linspace(0, 1, 20001))
    shares = np.sort(np.interp(levels, grid, np.linspace(0, 1, 20001)))
    np.testing.assert_allclose(np.diff(shares), 1 / batch, atol=2e-3)


def test_every_position_meets_every_level():
    """Kolmogorov-Smirnov at one position: below 1.95 / sqrt(n), which chance exceeds once in a thousand."""
    schedule, count = get_schedule("exponential"), 2000
    draw = tf.function(lambda seed: stratified_levels(schedule, 4, seed)[1])
    seeds = tf.stack([tf.zeros(count, tf.int32), tf.range(count)], axis=1)
    levels = tf.map_fn(draw, seeds, fn_output_signature=tf.float32).numpy()
    shares = np.sort(np.log(levels / 0.002) / math.log(80 / 0.002))
    distance = np.max(np.abs(shares - (np.arange(count) + 0.5) / count))
    assert distance < 1.95 / math.sqrt(count)


def test_batch_may_be_a_tensor():
    schedule, seed = get_schedule("karras"), tf.constant([1, 2])
    np.testing.assert_array_equal(
        stratified_levels(schedule, tf.constant(6), seed), stratified_levels(schedule, 6, seed)
    )


@pytest.mark.parametrize(
    ("sigma_min", "sigma_max"), [(0.0, 80.0), (-1.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, math.inf)]
)
def test_impossible_range_is_refused(sigma_min: float, sigma_max: float):
    with pytest.raises(ValueError, match=f"sigma_min={sigma_min} and sigma_max={sigma_max}"):
        get_schedule("karras", sigma_min=sigma_min, sigma_max=sigma_max)


def test_other_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"schedule='quadratic' .*karras"):
        get_schedule("quadratic")
    with pytest.raises(ValueError, match=r"'rho' is unknown to schedule 'cosine'.*sigma_min, sigma_max, s"):
        get_schedule("cosine", rho=7)
    with pytest.raises(ValueError, match="num_steps=0"):
        get_schedule("karras").table(0)
