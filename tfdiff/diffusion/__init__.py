"""The mathematics of diffusion: noise levels, parameterizations, losses, samplers and guidance.

Everything lives in sigma-space, x = x0 + sigma * noise (Karras et al. 2022). A `Denoiser` reads a network
as D(x; sigma); schedules say which sigma to train on and to visit; samplers walk from noise to image and
never ask what the network predicts. `Sampling` puts these together.
"""

from tfdiff.diffusion.denoiser import Denoiser, one_hot_labels
from tfdiff.diffusion.embedding import noise_embedding
from tfdiff.diffusion.losses import add_noise, denoising_loss
from tfdiff.diffusion.parameterizations import (
    PARAMETERIZATIONS,
    Coefficients,
    Parameterization,
    get_parameterization,
)
from tfdiff.diffusion.random import stateless_normal, stateless_uniform
from tfdiff.diffusion.samplers import SAMPLERS, get_sampler, is_deterministic, sampler_options
from tfdiff.diffusion.sampling import Sampling, initial_noise
from tfdiff.diffusion.schedules import SCHEDULES, NoiseSchedule, get_schedule, stratified_levels
from tfdiff.diffusion.weightings import WEIGHTINGS, Weighting, get_weighting

__all__ = [
    "PARAMETERIZATIONS",
    "SAMPLERS",
    "SCHEDULES",
    "WEIGHTINGS",
    "Coefficients",
    "Denoiser",
    "NoiseSchedule",
    "Parameterization",
    "Sampling",
    "Weighting",
    "add_noise",
    "denoising_loss",
    "get_parameterization",
    "get_sampler",
    "get_schedule",
    "get_weighting",
    "initial_noise",
    "is_deterministic",
    "noise_embedding",
    "one_hot_labels",
    "sampler_options",
    "stateless_normal",
    "stateless_uniform",
    "stratified_levels",
]
