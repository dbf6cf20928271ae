"""What the network predicts: four coefficients per parameterization (Karras et al. 2022, section 5).

Everything lives in sigma-space, `x = x0 + sigma * noise`, and the denoised image is

    D(x; sigma) = c_skip(sigma) * x + c_out(sigma) * F(c_in(sigma) * x, c_noise(sigma))

where F is the network. `c_noise` is the same for all of them: see `tfdiff.diffusion.noise_embedding`.
The formulas use operators alone, so that they hold for NumPy (float64 stays float64) and for tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfdiff.errors import UsageError


class Coefficients(NamedTuple):
    """The three factors of D(x; sigma), each of sigma's shape and type."""

    c_skip: Any
    c_out: Any
    c_in: Any


@dataclass(frozen=True)
class Parameterization:
    """A named rule for reading the network's output as a denoised image.

    name: the key in `PARAMETERIZATIONS`.
    fn: maps (sigma, sigma_data) to `Coefficients`.
    """

    name: str
    fn: Callable[[Any, float], Coefficients]

    def coefficients(self, sigma: Any, sigma_data: float) -> Coefficients:
        """The coefficients at noise level sigma (>= 0, any shape); sigma_data is the images' deviation."""
        return self.fn(sigma, sigma_data)


def _edm(sigma: Any, sigma_data: float) -> Coefficients:
    """F has unit variance at input and target for every sigma (Karras et al. 2022, table 1)."""
    variance = sigma**2 + sigma_data**2
    return Coefficients(sigma_data**2 / variance, sigma * sigma_data / variance**0.5, 1 / variance**0.5)


def _eps(sigma: Any, sigma_data: float) -> Coefficients:
    """F is the noise; its input is scaled as in a variance-preserving process (Ho et al. 2020)."""
    return Coefficients(1.0 + 0.0 * sigma, -1.0 * sigma, 1 / (1 + sigma**2) ** 0.5)


def _v(sigma: Any, sigma_data: float) -> Coefficients:
    """F is v = (noise - sigma * x0) / sqrt(1 + sigma^2) (Salimans & Ho 2022)."""
    variance = 1 + sigma**2
    return Coefficients(1 / variance, -sigma / variance**0.5, 1 / variance**0.5)


def _x0(sigma: Any, sigma_data: float) -> Coefficients:
    """F is the clean image."""
    return Coefficients(0.0 * sigma, 1.0 + 0.0 * sigma, 1 / (1 + sigma**2) ** 0.5)


def _flow(sigma: Any, sigma_data: float) -> Coefficients:
    """F is the velocity noise - x0 of rectified flow, at time sigma / (1 + sigma) (Liu et al. 2022)."""
    return Coefficients(1 / (1 + sigma), -sigma / (1 + sigma), 1 / (1 + sigma))


PARAMETERIZATIONS: dict[str, Parameterization] = {
    name: Parameterization(name, fn)
    for name, fn in {"edm": _edm, "eps": _eps, "v": _v, "x0": _x0, "flow": _flow}.items()
}


def get_parameterization(name: str) -> Parameterization:
    """The parameterization called `name`: edm, eps, v, x0 or flow. Raises ValueError for any other name."""
    if name not in PARAMETERIZATIONS:
        raise UsageError(f"parameterization={name!r} is unknown: use one of {', '.join(PARAMETERIZATIONS)}.")
    return PARAMETERIZATIONS[name]
