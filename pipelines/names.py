"""Names that a config may use, without the TensorFlow that their owners need; a test holds them equal."""

from __future__ import annotations

from typing import Literal, get_args

Parameterization = Literal["edm", "eps", "v", "x0", "flow"]
Weighting = Literal["edm", "uniform", "snr", "min_snr"]
Precision = Literal["float32", "mixed_float16", "mixed_bfloat16"]
Resize = Literal["crop", "pad", "stretch"]
Sampler = Literal["euler", "ancestral", "heun", "dpmpp_2m"]
Schedule = Literal["karras", "exponential", "cosine", "linear_beta", "uniform", "lognormal"]
Augmentation = Literal["flip", "translate", "rotate", "zoom", "brightness", "contrast", "saturation", "hue"]
Format = Literal["float32.tflite", "float16.tflite", "dynamic.tflite", "int8.tflite", "float32.onnx", "int8.onnx"]

#: Sampler → its options and their defaults.
SAMPLER_OPTIONS: dict[str, dict[str, float]] = {
    "euler": {},
    "ancestral": {"eta": 1.0},
    "heun": {"s_churn": 0.0, "s_min": 0.0, "s_max": float("inf"), "s_noise": 1.0},
    "dpmpp_2m": {},
}

#: The option of a stochastic sampler that, at zero, makes it deterministic.
NOISE_OPTION = {"ancestral": "eta", "heun": "s_churn"}

#: Kinds of exported files, which verification has a threshold for.
FILE_KINDS = tuple(
    f"{signature}_{precision}"
    for signature in ("denoise", "sample")
    for precision in dict.fromkeys(file_format.partition(".")[0] for file_format in get_args(Format))
)

#: Noise-level schedule → its options besides sigma_min and sigma_max.
SCHEDULE_OPTIONS: dict[str, tuple[str, ...]] = {
    "karras": ("rho",),
    "exponential": (),
    "cosine": ("s",),
    "linear_beta": ("beta_min", "beta_max"),
    "uniform": (),
    "lognormal": ("p_mean", "p_std"),
}

#: Options of schedules that must be above 0; sigma_min and sigma_max are, too.
POSITIVE_SCHEDULE_OPTIONS = ("sigma_min", "sigma_max", "rho", "beta_min", "beta_max", "p_std")
