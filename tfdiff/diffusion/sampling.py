"""Everything that turns a denoiser into pictures, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.diffusion.denoiser import Denoiser
from tfdiff.diffusion.samplers import (
    Callback,
    Denoise,
    get_sampler,
    is_deterministic,
    sampler_options,
    takes_seed,
)
from tfdiff.diffusion.schedules import get_schedule
from tfdiff.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """How pictures are drawn.

    sampler: euler, ancestral, heun or dpmpp_2m.
    num_steps: steps, >= 1; each is one network call, or two for heun and for guidance.
    schedule: karras, exponential, cosine, linear_beta, uniform or lognormal.
    sigma_min, sigma_max: last level before 0, and first level.
    guidance_scale: 1 for none; see `Denoiser.guided`.
    options: the sampler's own, such as {"eta": 0.5} for ancestral or {"s_churn": 40} for heun.

    Raises ValueError where a name, an option or a number does not fit.
    """

    sampler: str = "dpmpp_2m"
    num_steps: int = 8
    schedule: str = "karras"
    sigma_min: float = 0.02
    sigma_max: float = 80.0
    guidance_scale: float = 1.0
    options: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        known = sampler_options(self.sampler)
        for option in self.options:
            if option not in known:
                offer = f"use {', '.join(known)}" if known else "it has none"
                raise UsageError(f"option {option!r} is unknown to sampler {self.sampler!r}: {offer}.")
        self.sigmas()

    def sigmas(self) -> np.ndarray:
        """The levels visited: float64 (num_steps + 1,), strictly decreasing, the last 0."""
        schedule = get_schedule(self.schedule, sigma_min=self.sigma_min, sigma_max=self.sigma_max)
        return schedule.table(self.num_steps)

    @property
    def deterministic(self) -> bool:
        """Whether the same noise always gives the same picture: what an exported sampler must be."""
        return is_deterministic(self.sampler, **self.options)

    def __call__(
        self,
        denoiser: Denoiser,
        noise: Any,
        label: Any = None,
        *,
        seed: Any = 0,
        callback: Callback | None = None,
    ) -> Any:
        """Draw pictures: float32 (batch, H, W, C), nominally in [-1, 1] and not clipped.

        denoiser: a `Denoiser`.
        noise: unit normal, (batch, H, W, C), as `initial_noise` draws it.
        label: one-hot rows (batch, K), or None.
        seed: for stochastic samplers alone: an int, or one per image (batch,). Give each batch or image its
            own, or all of them draw the same.
        callback: called once a step as callback(step, sigma, x, denoised).
        """
        return self.run(denoiser.guided(label, self.guidance_scale), noise, seed=seed, callback=callback)

    def run(self, denoise: Denoise, noise: Any, *, seed: Any = 0, callback: Callback | None = None) -> Any:
        """Draw pictures with a function denoise(x, sigma), label and guidance settled; else as a call."""
        sigmas = self.sigmas()
        options = {**self.options, "seed": seed} if takes_seed(self.sampler) else dict(self.options)
        x = float(sigmas[0]) * tf.cast(noise, tf.float32)
        return get_sampler(self.sampler)(denoise, x, sigmas, callback=callback, **options)

    def config(self) -> dict[str, Any]:
        """Plain values: `Sampling(**sampling.config())` equals sampling."""
        return asdict(self)


def initial_noise(count: int, image_shape: Sequence[int], seed: int, start: int = 0) -> np.ndarray:
    """Unit normal noise for images start .. start + count - 1: float32 (count, *image_shape).

    Each image has a generator of its own, seeded with (seed, index), so that it is the same picture
    whatever the batch size. seed and start are ints >= 0.
    """
    noise = np.empty((count, *image_shape), np.float32)
    for i in range(count):
        noise[i] = np.random.default_rng([seed, start + i]).standard_normal(image_shape, np.float32)
    return noise
