"""From noise to image: each sampler is a pure function of a denoiser and a table of noise levels.

All have one signature, `sampler(denoise, x, sigmas, *, callback=None, ...) -> x`:

denoise: denoise(x, sigma) -> denoised image, sigma a Python float.
x: start, (batch, height, width, channels), already scaled: sigmas[0] times unit noise (plus any image).
sigmas: NumPy, shape (num_steps + 1,), strictly decreasing, the last entry 0.
callback: called once a step as callback(step, sigma, x, denoised) with what the step starts from; while a
    graph is traced it receives symbolic tensors.

They return images of x's shape and dtype, not clipped, and raise ValueError where sigmas is not such a table.
The loop is a Python loop: unrolled, every level is a constant, so that one compiled or exported graph holds
the whole sampler. Stochastic samplers draw `stateless_normal` noise with seed (seed, step).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.diffusion.random import stateless_normal
from tfdiff.errors import UsageError

Denoise = Callable[[Any, float], Any]
Callback = Callable[[int, float, Any, Any], None]


def euler(denoise: Denoise, x: Any, sigmas: np.ndarray, *, callback: Callback | None = None) -> Any:
    """Euler's method on the probability-flow ODE; equals DDIM with eta = 0 (Song et al. 2021)."""
    for step, sigma, sigma_next in _steps(sigmas):
        denoised = denoise(x, sigma)
        if callback:
            callback(step, sigma, x, denoised)
        x = _move(x, denoised, sigma, sigma_next)
    return x


def ancestral(
    denoise: Denoise,
    x: Any,
    sigmas: np.ndarray,
    *,
    callback: Callback | None = None,
    eta: float = 1.0,
    seed: Any = 0,
) -> Any:
    """Ancestral sampling: DDPM's posterior at eta = 1 (Ho et al. 2020), DDIM's eta in between, Euler at 0.

    eta: share of the posterior's standard deviation that is drawn, 0 to 1 (Song et al. 2021, eq. 16).
    seed: int, or one per image (batch,): then an image does not depend on the others.
    """
    if not 0 <= eta <= 1:
        raise UsageError(f"eta={eta} must lie between 0 (deterministic) and 1 (DDPM).")
    for step, sigma, sigma_next in _steps(sigmas):
        denoised = denoise(x, sigma)
        if callback:
            callback(step, sigma, x, denoised)
        drawn = eta * sigma_next * (1 - (sigma_next / sigma) ** 2) ** 0.5
        x = _move(x, denoised, sigma, (sigma_next**2 - drawn**2) ** 0.5)
        if drawn > 0:
            x = x + drawn * _normal(x, seed, step)
    return x


def heun(
    denoise: Denoise,
    x: Any,
    sigmas: np.ndarray,
    *,
    callback: Callback | None = None,
    s_churn: float = 0.0,
    s_min: float = 0.0,
    s_max: float = math.inf,
    s_noise: float = 1.0,
    seed: Any = 0,
) -> Any:
    """Heun's method, second order, two network calls a step; churn (Karras et al. 2022, algorithm 2).

    s_churn: total noise added back over all steps, >= 0; 0 is deterministic.
    s_min, s_max: churn only at levels between these.
    s_noise: standard deviation of the noise that is added back.
    seed: int, or one per image (batch,): then an image does not depend on the others.
    """
    if s_churn < 0:
        raise UsageError(f"s_churn={s_churn} must be >= 0.")
    num_steps = len(sigmas) - 1
    for step, sigma, sigma_next in _steps(sigmas):
        if s_churn > 0 and s_min <= sigma <= s_max:
            raised = sigma * (1 + min(s_churn / num_steps, 2**0.5 - 1))
            x = x + s_noise * (raised**2 - sigma**2) ** 0.5 * _normal(x, seed, step)
            sigma = raised
        denoised = denoise(x, sigma)
        if callback:
            callback(step, sigma, x, denoised)
        x_next = _move(x, denoised, sigma, sigma_next)
        if sigma_next > 0:
            slope = (x - denoised) / sigma
            slope_next = (x_next - denoise(x_next, sigma_next)) / sigma_next
            x_next = x + (0.5 * (sigma_next - sigma)) * (slope + slope_next)
        x = x_next
    return x


def dpmpp_2m(denoise: Denoise, x: Any, sigmas: np.ndarray, *, callback: Callback | None = None) -> Any:
    """DPM-Solver++(2M): second order with one network call a step (Lu et al. 2022, algorithm 2).

    In t = -ln(sigma) the ODE's linear part is solved exactly; the denoised image is extrapolated to the
    middle of the step from this step's and the last one's.
    """
    previous: tuple[float, Any] | None = None
    for step, sigma, sigma_next in _steps(sigmas):
        denoised = denoise(x, sigma)
        if callback:
            callback(step, sigma, x, denoised)
        target = denoised
        if previous is not None and sigma_next > 0:
            sigma_before, denoised_before = previous
            extrapolation = 0.5 * math.log(sigma / sigma_next) / math.log(sigma_before / sigma)
            target = (1 + extrapolation) * denoised - extrapolation * denoised_before
        x = _move(x, target, sigma, sigma_next)
        previous = sigma, denoised
    return x


def _steps(sigmas: np.ndarray) -> Iterator[tuple[int, float, float]]:
    """The table as (step, sigma, sigma_next), in Python floats."""
    levels = np.asarray(sigmas, np.float64)
    if levels.ndim != 1 or len(levels) < 2 or levels[-1] != 0 or not np.all(np.diff(levels) < 0):
        raise UsageError(f"sigmas={levels.tolist()} must be strictly decreasing levels that end with 0.")
    values = levels.tolist()
    return ((step, sigma, values[step + 1]) for step, sigma in enumerate(values[:-1]))


def _move(x: Any, denoised: Any, sigma: float, sigma_next: float) -> Any:
    """Along the straight line from x to the denoised image, down to sigma_next."""
    if sigma_next == 0:
        return denoised  # the same number; an exported file is spared a multiplication by zero
    ratio = sigma_next / sigma
    return ratio * x + (1 - ratio) * denoised


def _normal(x: Any, seed: Any, step: int) -> Any:
    """Unit normal noise of x's shape and dtype, a function of (seed, step); of (seed[i], step) for image i."""
    seed = tf.cast(seed, tf.int64)

    def draw(own: Any, shape: Any) -> Any:
        return stateless_normal(shape, tf.stack([own, tf.cast(step, tf.int64)]), x.dtype)

    if seed.shape.rank == 0:
        return draw(seed, tf.shape(x))
    return tf.map_fn(lambda own: draw(own, tf.shape(x)[1:]), seed, fn_output_signature=x.dtype)


SAMPLERS: dict[str, Callable[..., Any]] = {
    "euler": euler,
    "ancestral": ancestral,
    "heun": heun,
    "dpmpp_2m": dpmpp_2m,
}

#: The option of a stochastic sampler that, at zero, makes it deterministic.
_NOISE_OPTION = {"ancestral": "eta", "heun": "s_churn"}


def get_sampler(name: str) -> Callable[..., Any]:
    """The sampler called `name`: euler, ancestral, heun or dpmpp_2m. Raises ValueError for any other name."""
    if name not in SAMPLERS:
        raise UsageError(f"sampler={name!r} is unknown: use one of {', '.join(SAMPLERS)}.")
    return SAMPLERS[name]


def sampler_options(name: str) -> dict[str, float]:
    """The options of a sampler and their defaults, such as {"eta": 1.0}; ValueError for an unknown name."""
    parameters = inspect.signature(get_sampler(name)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in ("callback", "seed")}


def takes_seed(name: str) -> bool:
    """Whether a sampler has randomness of its own, to be seeded; ValueError for an unknown name."""
    return "seed" in inspect.signature(get_sampler(name)).parameters


def is_deterministic(name: str, **options: float) -> bool:
    """Whether a sampler with these options draws no noise after the start, and so can be exported.

    Raises ValueError for an unknown name.
    """
    settings = {**sampler_options(name), **options}
    return name not in _NOISE_OPTION or settings[_NOISE_OPTION[name]] == 0
