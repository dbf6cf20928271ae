"""The bundle directory: names of its files, and `bundle.json`, which tells a client all that it needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdiff.errors import UsageError
from tfdiff.files import sha256, write_text

if TYPE_CHECKING:
    from tfdiff.diffusion import Denoiser, Sampling

MANIFEST, NETWORK, VERIFICATION = "bundle.json", "network.keras", "verify.json"

#: Number of the manifest's format: raised when a client that read the last one would misread this one.
VERSION = 1

#: What a file computes: one network call, or the whole sampler.
SIGNATURES = ("denoise", "sample")

#: Precision and runtime of a file; each comes as `denoise_...` and `sample_...`.
FORMATS = ("float32.tflite", "float16.tflite", "dynamic.tflite", "int8.tflite", "float32.onnx", "int8.onnx")

_TOOLS = ("tensorflow", "tf_keras", "tf2onnx", "onnx", "onnxruntime", "ai-edge-litert", "numpy")

_FORMULA = (
    "x starts as sigma[0] * noise, noise unit normal. Each step calls denoise with image = c_in * x, its "
    "noise_embedding and the one-hot label (all zeros: no class); then denoised = c_skip * x + c_out * output. "
    "With guidance, denoised = u + guidance_scale * (c - u), where u is without and c with the label. "
)
_UPDATE = {
    "euler": "Then x = r * x + (1 - r) * denoised with r = sigma_next / sigma.",
    "dpmpp_2m": (
        "Then x = r * x + (1 - r) * target with r = sigma_next / sigma and target = (1 + e) * denoised - e * "
        "denoised_before with e = 0.5 * ln(sigma / sigma_next) / ln(sigma_before / sigma), except that target = "
        "denoised in the first step and in the last."
    ),
    "heun": (
        "Then p = r * x + (1 - r) * denoised with r = sigma_next / sigma; in the last step x = p; before it, with "
        "denoised_next from a second call at p and sigma_next, x = x + (sigma_next - sigma) / 2 * ((x - denoised) "
        "/ sigma + (p - denoised_next) / sigma_next)."
    ),
}
_UPDATE["ancestral"] = _UPDATE["euler"]  # exported at eta = 0 alone, where the two are one
_END = " The image is x after the last step, clipped to [-1, 1]."


@dataclass(frozen=True)
class FileName:
    """`<signature>_<precision>.<runtime>`, such as sample_int8.tflite."""

    signature: str
    precision: str
    runtime: str

    @classmethod
    def parse(cls, name: str) -> FileName:
        stem, _, runtime = name.partition(".")
        signature, _, precision = stem.partition("_")
        if signature not in SIGNATURES or f"{precision}.{runtime}" not in FORMATS:
            raise UsageError(f"{name!r} is no file of a bundle: use denoise_ or sample_ with {', '.join(FORMATS)}.")
        return cls(signature, precision, runtime)


@dataclass
class Bundle:
    """A bundle directory.

    Attributes:
        directory: where it is.
        manifest: the content of bundle.json.
    """

    directory: Path
    manifest: dict[str, Any]

    @classmethod
    def load(cls, directory: str | Path) -> Bundle:
        """Read a bundle's manifest.

        Raises:
            UsageError: when the directory holds no bundle, or one of another format version.
        """
        path = Path(directory) / MANIFEST
        try:
            manifest = json.loads(path.read_text())
            version = manifest["version"]
        except FileNotFoundError:
            raise UsageError(f"{directory} is not a finished bundle: it has no {MANIFEST}.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is damaged: export again.") from error
        if version != VERSION:
            raise UsageError(f"{path} has format version {version}, this tfdiff reads {VERSION}: export again.")
        return cls(Path(directory), manifest)

    def save(self) -> None:
        """Write bundle.json."""
        write_text(self.directory / MANIFEST, json.dumps(self.manifest, indent=1) + "\n")

    @property
    def files(self) -> list[Path]:
        """The exported files, in the order of export."""
        return [self.directory / file["name"] for file in self.manifest["files"]]

    @property
    def failures(self) -> dict[str, str]:
        """Reason by name of the files that could not be converted."""
        return self.manifest["failures"]

    def path(self, name: str) -> Path:
        """Path of one file of the bundle, such as "sample_int8.tflite"."""
        if name not in [path.name for path in self.files]:
            names = ", ".join(path.name for path in self.files)
            raise UsageError(f"{name!r} is not in the bundle {self.directory}, which has {names}.")
        return self.directory / name

    def damaged(self) -> list[str]:
        """Names of files that are missing or differ from what was exported (SHA-256)."""
        return [
            file["name"]
            for file in self.manifest["files"]
            if not (self.directory / file["name"]).is_file() or sha256(self.directory / file["name"]) != file["sha256"]
        ]

    def sampling(self) -> Sampling:
        """The sampler that the `sample` files unroll."""
        from tfdiff.diffusion import Sampling

        return Sampling(**self.manifest["sampling"])

    def denoiser(self) -> Denoiser:
        """The float32 Keras network that the files were made from, as a denoiser.

        Raises:
            UsageError: when it is missing or damaged.
        """
        import tf_keras as keras

        import tfdiff.networks  # noqa: F401  registers the layers that the network may have
        from tfdiff.diffusion import Denoiser

        path = self.directory / NETWORK
        try:
            network = keras.models.load_model(path, compile=False)
        except Exception as error:  # Keras raises whatever its reader met: OSError, KeyError, zipfile and h5py errors
            raise UsageError(f"{path} cannot be loaded (missing or damaged): export again.") from error
        return Denoiser(network, self.manifest["parameterization"], self.manifest["sigma_data"])


def describe(
    denoiser: Denoiser, sampling: Sampling, batch_size: int, class_names: Sequence[str] | None
) -> dict[str, Any]:
    """The manifest without its files: the model, the sampler and the numbers of each step."""
    from tfdiff import __version__
    from tfdiff.diffusion import noise_embedding

    height, width, channels = denoiser.image_shape
    sigmas = sampling.sigmas().tolist()
    steps = []
    for sigma, sigma_next in pairwise(sigmas):
        coefficients = denoiser.parameterization.coefficients(sigma, denoiser.sigma_data)
        embedding = noise_embedding(sigma, denoiser.noise_channels).tolist()
        numbers = {key: float(value) for key, value in coefficients._asdict().items()}
        steps.append({"sigma": sigma, "sigma_next": sigma_next, **numbers, "noise_embedding": embedding})
    return {
        "version": VERSION,
        "image": {"height": height, "width": width, "channels": channels, "layout": "NHWC", "range": [-1, 1]},
        "batch_size": batch_size,
        "num_classes": denoiser.num_classes,
        "class_names": list(class_names) if class_names else None,
        "parameterization": denoiser.parameterization.name,
        "sigma_data": denoiser.sigma_data,
        "sampling": sampling.config(),
        "formula": _FORMULA + _UPDATE[sampling.sampler] + _END,
        "steps": steps,
        "tools": {"tfdiff": __version__, **{tool: metadata.version(tool) for tool in _TOOLS}},
    }


def file_entry(path: Path, seconds: float) -> dict[str, Any]:
    """What the manifest says about one file; `seconds` is how long its conversion took."""
    return {
        "name": path.name,
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
        "conversion_seconds": round(seconds, 2),
    }
