"""Noise levels: which sigma training draws and which sigma sampling visits.

A schedule is a quantile function: t in [0, 1] to sigma in [sigma_min, sigma_max]. Uniform t gives training
levels; evenly spaced t give a sampler's table. Each is a monotone function sigma(u) of some time u of its
own, cut to the interval of u in which sigma lies between sigma_min and sigma_max: t runs evenly along that
interval.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfdiff.diffusion.random import stateless_uniform
from tfdiff.errors import UsageError


@dataclass(frozen=True)
class NoiseSchedule(ABC):
    """A distribution of noise levels between sigma_min and sigma_max.

    Raises ValueError unless 0 < sigma_min < sigma_max.
    """

    name: ClassVar[str]
    sigma_min: float = 0.002
    sigma_max: float = 80.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma_min < self.sigma_max < math.inf:
            raise UsageError(
                f"sigma_min={self.sigma_min} and sigma_max={self.sigma_max}: give 0 < sigma_min < sigma_max."
            )

    def sigma(self, t: Any) -> Any:
        """The level below which a share t of levels lies.

        t: in [0, 1], any shape: 0 gives sigma_min and 1 gives sigma_max. A float tensor gives a tensor of
            its dtype, anything else NumPy float64.
        """
        first, last = self._time_of(self.sigma_min), self._time_of(self.sigma_max)
        if tf.is_tensor(t):
            # Rounding in float32 may step over an end.
            sigma = self._sigma_at(first + (last - first) * t)
            return tf.clip_by_value(sigma, self.sigma_min, self.sigma_max)
        return self._sigma_at(first + (last - first) * np.asarray(t, np.float64))

    def table(self, num_steps: int) -> np.ndarray:
        """The levels of a sampler: float64 (num_steps + 1,), strictly decreasing, the last exactly 0.

        They run from sigma_max to sigma_min and then to 0; a single step visits sigma_max alone.
        Raises ValueError where num_steps < 1.
        """
        if num_steps < 1:
            raise UsageError(f"num_steps={num_steps} must be at least 1.")
        return np.append(self.sigma(np.linspace(1, 0, num_steps)), 0.0)

    def config(self) -> dict[str, Any]:
        """Name and options, plain numbers: `get_schedule(**schedule.config())` equals schedule."""
        return {"name": self.name, **asdict(self)}

    @abstractmethod
    def _sigma_at(self, time: Any) -> Any:
        """sigma as an increasing function of the schedule's own time, for arrays and tensors."""

    @abstractmethod
    def _time_of(self, sigma: float) -> float:
        """The inverse, for one number: a Python float, so that it takes a tensor's dtype."""


@dataclass(frozen=True)
class Karras(NoiseSchedule):
    """Levels spaced evenly in sigma^(1/rho) (Karras et al. 2022, eq. 5)."""

    name: ClassVar[str] = "karras"
    rho: float = 7.0

    def _sigma_at(self, time: Any) -> Any:
        return time**self.rho

    def _time_of(self, sigma: float) -> float:
        return sigma ** (1 / self.rho)


@dataclass(frozen=True)
class Exponential(NoiseSchedule):
    """Levels spaced evenly in ln(sigma): log-uniform."""

    name: ClassVar[str] = "exponential"

    def _sigma_at(self, time: Any) -> Any:
        return _math(time).exp(time)

    def _time_of(self, sigma: float) -> float:
        return math.log(sigma)


@dataclass(frozen=True)
class Cosine(NoiseSchedule):
    """The cosine schedule (Nichol & Dhariwal 2021, eq. 17).

    alphas_cumprod(u) = cos^2(angle(u)) / cos^2(angle(0)), with angle(u) = (u + s) / (1 + s) * pi / 2.
    s: offset that keeps the first steps from being vanishingly small.
    """

    name: ClassVar[str] = "cosine"
    s: float = 0.008

    def _sigma_at(self, time: Any) -> Any:
        # sigma^2 = 1 / alphas_cumprod - 1 = (cos^2(start) - cos^2(angle)) / cos^2(angle). In float32 that
        # difference would lose small levels; as a product of sines it keeps them.
        start, angle, xp = self._angle(0.0), self._angle(time), _math(time)
        return (xp.sin(angle - start) * xp.sin(angle + start)) ** 0.5 / xp.cos(angle)

    def _time_of(self, sigma: float) -> float:
        angle = math.acos(math.cos(self._angle(0.0)) / math.sqrt(1 + sigma**2))
        return angle / (math.pi / 2) * (1 + self.s) - self.s

    def _angle(self, time: Any) -> Any:
        return (time + self.s) * (math.pi / 2 / (1 + self.s))


@dataclass(frozen=True)
class LinearBeta(NoiseSchedule):
    """DDPM's linear beta in continuous time: the variance-preserving SDE (Song et al. 2021, eq. 33).

    alphas_cumprod(u) = exp(-beta_min u - (beta_max - beta_min) u^2 / 2), with rates per unit time: 1000 times
    DDPM's 1e-4 and 0.02 (Ho et al. 2020), whose 1000 discrete levels it meets within 5 per cent.
    """

    name: ClassVar[str] = "linear_beta"
    beta_min: float = 0.1
    beta_max: float = 20.0

    def _sigma_at(self, time: Any) -> Any:
        integral = self.beta_min * time + 0.5 * (self.beta_max - self.beta_min) * time**2
        return _math(time).expm1(integral) ** 0.5

    def _time_of(self, sigma: float) -> float:
        slope = self.beta_max - self.beta_min
        root = math.sqrt(self.beta_min**2 + 2 * slope * math.log1p(sigma**2))
        return (root - self.beta_min) / slope


@dataclass(frozen=True)
class Uniform(NoiseSchedule):
    """Rectified flow's even times: sigma = u / (1 - u) (Liu et al. 2022)."""

    name: ClassVar[str] = "uniform"

    def _sigma_at(self, time: Any) -> Any:
        return time / (1 - time)

    def _time_of(self, sigma: float) -> float:
        return sigma / (1 + sigma)


@dataclass(frozen=True)
class LogNormal(NoiseSchedule):
    """ln(sigma) is normal and cut off at both ends: EDM's training levels (Karras et al. 2022, table 1).

    p_mean, p_std: mean and standard deviation of ln(sigma).
    """

    name: ClassVar[str] = "lognormal"
    p_mean: float = -1.2
    p_std: float = 1.2

    def _sigma_at(self, time: Any) -> Any:
        normal_quantile = tf.math.ndtri if tf.is_tensor(time) else np.vectorize(NormalDist().inv_cdf, [float])
        return _math(time).exp(self.p_mean + self.p_std * normal_quantile(time))

    def _time_of(self, sigma: float) -> float:
        return NormalDist(self.p_mean, self.p_std).cdf(math.log(sigma))


SCHEDULES: dict[str, type[NoiseSchedule]] = {
    schedule.name: schedule for schedule in (Karras, Exponential, Cosine, LinearBeta, Uniform, LogNormal)
}


def get_schedule(name: str, **options: float) -> NoiseSchedule:
    """The schedule called `name`: karras, exponential, cosine, linear_beta, uniform or lognormal.

    options: its fields, such as sigma_min, sigma_max, rho.
    Raises ValueError for an unknown name or option.
    """
    if name not in SCHEDULES:
        raise UsageError(f"schedule={name!r} is unknown: use one of {', '.join(SCHEDULES)}.")
    known = [field.name for field in fields(SCHEDULES[name])]
    for option in options:
        if option not in known:
            raise UsageError(f"option {option!r} is unknown to schedule {name!r}: use {', '.join(known)}.")
    return SCHEDULES[name](**options)


def stratified_levels(schedule: NoiseSchedule, batch: Any, seed: Any) -> Any:
    """Training levels for one batch that cover the schedule evenly: float32 (batch,).

    t_i = (u + i / batch) mod 1 with a single uniform u (Kingma et al. 2021, low-discrepancy sampler): every
    batch holds one level from each of `batch` equal shares, so that the loss varies less between steps. u
    spans the whole circle, hence every position of the batch meets every level equally often and nothing
    needs shuffling.

    batch: int or scalar int tensor. seed: int tensor of shape (2,), as for `stateless_uniform`.
    """
    offset = stateless_uniform([], seed)
    t = tf.math.floormod(offset + tf.range(batch, dtype=tf.float32) / tf.cast(batch, tf.float32), 1.0)
    return schedule.sigma(t)


def _math(x: Any) -> Any:
    """The module whose elementary functions fit x."""
    return tf.math if tf.is_tensor(x) else np
