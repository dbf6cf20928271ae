"""`verify`: every file of a bundle against its Keras network, in its real runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff.diffusion import Denoiser
from tfdiff.errors import ExportError, UsageError
from tfdiff.export.calibration import Trajectory, record_trajectory
from tfdiff.export.conversion import Progress
from tfdiff.export.inspection import WeightCount, count_zeros, gzip_bytes, lost_zeros, network_kernels, zero_fraction
from tfdiff.export.manifest import VERIFICATION, Bundle, FileName
from tfdiff.export.model_card import write_card
from tfdiff.export.runtimes import Runner, load
from tfdiff.files import write_text
from tfdiff.metrics import snr_db

#: Largest relative error of float32 files, and smallest SNR in dB of the others, by signature and precision.
#: Edge networks trained on digits (8 steps, and 6 with guidance 2) gave at least 64, 60, 43, 37, 22 and 22 dB.
THRESHOLDS: dict[str, float] = {
    "denoise_float32": 1e-4,
    "sample_float32": 1e-3,
    "denoise_float16": 50.0,
    "sample_float16": 40.0,
    "denoise_dynamic": 30.0,
    "sample_dynamic": 25.0,
    "denoise_int8": 15.0,
    "sample_int8": 18.0,
}


@dataclass(frozen=True)
class FileReport:
    """What was measured on one file; SNR in dB against the float32 Keras network.

    bytes, gzip_bytes: size as it lies there, and compressed.
    snr_db: of the images (sample), or of the denoised image at the network call where it is lowest (denoise).
    snr_per_step: denoise alone: SNR of the denoised image c_skip·x + c_out·output at each network call.
    output_snr_per_step: denoise alone: SNR of the network's output, which counts less the smaller c_out is.
    relative_error: max |difference| / max |reference|, of images (sample) or network outputs (denoise).
    partitions: delegate partitions; None for ONNX.
    undelegated_ops: operators outside the delegate, by kind; None for ONNX.
    zero_fraction: share of zeros in the file among the weights that count and are in it (`count_zeros`).
    zeros_per_layer: the same by layer.
    threshold: what the file was held to.
    error: None, or one line that says why the file failed.
    """

    name: str
    bytes: int
    gzip_bytes: int
    snr_db: float
    snr_per_step: list[float] | None
    output_snr_per_step: list[float] | None
    relative_error: float
    partitions: int | None
    undelegated_ops: dict[str, int] | None
    zero_fraction: float | None
    zeros_per_layer: dict[str, float]
    threshold: float
    error: str | None


@dataclass(frozen=True)
class Verification:
    """Reports of all files of a bundle, and the errors of those that could not be converted or run."""

    files: list[FileReport]
    errors: dict[str, str]

    @property
    def failed(self) -> dict[str, str]:
        """Reason by name of every file that failed."""
        return {**self.errors, **{report.name: report.error for report in self.files if report.error is not None}}


def verify(
    directory: str | Path,
    *,
    num_images: int = 32,
    seed: int = 1_000_000,
    layers: Sequence[str] | None = None,
    thresholds: Mapping[str, float] | None = None,
    num_threads: int = 1,
    allow_failures: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Run every file of a bundle, compare it with Keras and write verify.json.

    A file fails where its numbers miss their threshold, where it lost zeros of a layer (`inspection.lost_zeros`) or
    where it is not as it was exported, if it was at all.

    The images start from other noise than calibration's, and go through all classes and the null class.

    Args:
        directory: a bundle.
        num_images: images drawn with each `sample` file; `denoise` files run all network calls of these.
        seed: of the starting noise.
        layers: names of the layers whose zeros count, such as the pruned ones; default: every convolution (not
            depthwise) and Dense layer.
        thresholds: in place of `THRESHOLDS`, by file ("sample_int8.tflite") or kind ("sample_int8").
        num_threads: of the runtimes.
        allow_failures: return the result although files failed.
        progress: called with (file, files done, files in all).

    Raises:
        UsageError: when the directory holds no bundle, or a name is unknown.
        ExportError: naming every file that failed, after all were measured and verify.json was written.
    """
    exported = Bundle.load(directory)
    limits = {**THRESHOLDS, **(thresholds or {})}
    names = [path.name for path in exported.files]
    for name in thresholds or {}:
        if name not in THRESHOLDS and name not in names:
            raise UsageError(f"thresholds: {name!r} is unknown, use a file of the bundle or {', '.join(THRESHOLDS)}.")
    denoiser = exported.denoiser()
    kernels = network_kernels(denoiser.network)
    for layer in layers or ():
        if layer not in kernels:
            raise UsageError(f"layers: {layer!r} is no convolution or Dense layer of the network.")
    if layers is not None:
        kernels = {name: kernel for name, kernel in kernels.items() if name in layers}
    labels = None if denoiser.num_classes is None else np.arange(num_images) % (denoiser.num_classes + 1)
    if labels is not None:
        labels = np.where(labels == denoiser.num_classes, -1, labels)
    trajectory, images = record_trajectory(denoiser, exported.sampling(), labels, num_images, seed)
    reference = _Reference(denoiser, trajectory, images)

    damaged = exported.damaged()
    reports: list[FileReport] = []
    errors = dict(exported.failures)
    for done, path in enumerate(exported.files):
        if progress:
            progress(path.name, done, len(names))
        if path.name in damaged:
            errors[path.name] = "missing, or not as it was exported (SHA-256): export again"
            continue
        name = FileName.parse(path.name)
        limit = limits.get(path.name, limits[f"{name.signature}_{name.precision}"])
        try:
            reports.append(_examine(path, reference, kernels, limit, num_threads))
        except UsageError as error:  # another version of the runtime may refuse a file that is as it was exported
            errors[path.name] = str(error)
    if progress:
        progress("", len(names), len(names))
    result = Verification(reports, errors)
    summary = {"files": {report.name: asdict(report) for report in reports}, "failed": result.failed}
    write_text(exported.directory / VERIFICATION, json.dumps(_finite(summary), indent=1, allow_nan=False) + "\n")
    write_card(exported.directory)
    if result.failed and not allow_failures:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in result.failed.items())
        total = len(names) + len(exported.failures)
        raise ExportError(f"{len(result.failed)} of {total} files failed verification: {reasons}")
    return result


class _Reference:
    """What Keras computes, and how far a file is from it."""

    def __init__(self, denoiser: Denoiser, trajectory: Trajectory, images: np.ndarray) -> None:
        self._trajectory = trajectory
        self._images = images
        self._outputs = [np.asarray(denoiser.network(list(call.values()))) for call in trajectory.calls]
        self._coefficients = [
            denoiser.parameterization.coefficients(sigma, denoiser.sigma_data) for sigma in trajectory.sigmas
        ]

    def compare(self, runner: Runner, signature: str) -> dict[str, Any]:
        """The figures of `FileReport` that come from running the file."""
        if signature == "sample":
            images = runner.run(self._trajectory.starts)["image"]
            return {
                "snr_db": snr_db(self._images, images),
                "snr_per_step": None,
                "output_snr_per_step": None,
                "relative_error": relative_error(self._images, images),
            }
        outputs = [runner.run(call)["output"] for call in self._trajectory.calls]
        pairs = list(zip(self._outputs, outputs, strict=True))
        denoised = []
        for call, (c_skip, c_out, c_in), pair in zip(self._trajectory.calls, self._coefficients, pairs, strict=True):
            reference, found = (c_skip * (call["image"] / c_in) + c_out * output for output in pair)
            denoised.append(snr_db(reference, found))
        return {
            "snr_db": float(np.min(denoised)),  # unlike Python's, NumPy's min and max keep a NaN
            "snr_per_step": denoised,
            "output_snr_per_step": [snr_db(*pair) for pair in pairs],
            "relative_error": float(np.max([relative_error(*pair) for pair in pairs])),
        }


def _examine(
    path: Path, reference: _Reference, kernels: Mapping[str, WeightCount], threshold: float, num_threads: int
) -> FileReport:
    name = FileName.parse(path.name)
    runner = load(path, num_threads=num_threads)
    figures = reference.compare(runner, name.signature)
    counts = count_zeros(path, kernels)
    reasons = (
        _inaccurate(name.precision, figures["snr_db"], figures["relative_error"], threshold),
        lost_zeros(kernels, counts, name.signature),
    )
    return FileReport(
        name=path.name,
        bytes=path.stat().st_size,
        gzip_bytes=gzip_bytes(path),
        **figures,
        partitions=runner.partitions(),
        undelegated_ops=runner.undelegated_ops(),
        zero_fraction=zero_fraction(counts),
        zeros_per_layer={layer: count.zeros / count.size for layer, count in counts.items()},
        threshold=threshold,
        error=", ".join(reason for reason in reasons if reason) or None,
    )


def _inaccurate(precision: str, snr: float, error: float, threshold: float) -> str | None:
    """One line where the file misses its threshold; a NaN misses it."""
    if precision == "float32":
        return None if error <= threshold else f"relative error {error:.1e} is over {threshold:.1e}"
    return None if snr >= threshold else f"SNR {snr:.1f} dB is under {threshold:.1f} dB"


def _finite(value: Any) -> Any:
    """`value` with None for numbers that JSON lacks: the SNR of a file that is equal to the bit."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def relative_error(reference: np.ndarray, found: np.ndarray) -> float:
    """max |found − reference| / max |reference|."""
    return float(np.abs(np.float64(found) - reference).max() / max(float(np.abs(reference).max()), 1e-12))
