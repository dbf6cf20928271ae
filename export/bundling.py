"""`bundle`: a trained model becomes a directory of files for TFLite and ONNX, each checked in its runtime."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tf_keras as keras

from tfdiff import networks
from tfdiff.diffusion import PARAMETERIZATIONS, Denoiser, Sampling, initial_noise, noise_embedding, one_hot_labels
from tfdiff.errors import ExportError, ModelError, UsageError
from tfdiff.export.calibration import calibration_labels, record_trajectory
from tfdiff.export.conversion import Conversion, Job, Progress, convert
from tfdiff.export.graph import write_graphs
from tfdiff.export.manifest import (
    FORMATS,
    MANIFEST,
    NETWORK,
    SIGNATURES,
    VERIFICATION,
    Bundle,
    describe,
    file_entry,
)
from tfdiff.export.model_card import CARD, QUALITY, write_card
from tfdiff.export.verification import verify
from tfdiff.files import written_whole

#: Largest relative difference between the model and its folded float32 network, by the model's compute dtype.
_FOLDING_TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def bundle(
    model: Any,
    directory: str | Path,
    *,
    sampling: Sampling | None = None,
    steps: int | None = None,
    calibration: Any = None,
    formats: Sequence[str] | None = None,
    batch_size: int = 1,
    calibration_size: int = 32,
    class_names: Sequence[str] | None = None,
    facts: Mapping[str, Any] | None = None,
    reduce_range: bool = True,
    seed: int = 0,
    check: bool = True,
    allow_failures: bool = False,
    progress: Progress | None = None,
) -> Bundle:
    """Export a model: for each format a `denoise` file (one network call) and a `sample` file (noise to image).

    Args:
        model: a `DiffusionModel` (its averaged network is exported) or a `diffusion.Denoiser`.
        directory: made if need be; the files of an earlier bundle in it are replaced.
        sampling: the sampler of the `sample` files, default `Sampling()`. It must be deterministic.
        steps: number of steps, in place of that of `sampling`.
        calibration: tf.data (or any iterable) of (image, label) whose labels become the conditions that INT8 is
            calibrated on; None draws them uniformly. The ranges come from the sampler's own trajectory.
        formats: some of `FORMATS`, such as ("float32.tflite", "int8.onnx"); default: all.
        batch_size: images per call of every file.
        calibration_size: images that are drawn for calibration.
        class_names: names for the manifest, one per class.
        facts: what the model card tells that the model does not know: `name`, and `data`, `recipe` and `lineage`, each
            a mapping of plain values.
        reduce_range: 7-bit weights in ONNX INT8, for x86 without VNNI. False is more exact on Arm and newer x86.
        seed: of the calibration's noise and labels.
        check: run `verify` on the bundle, and count a file below its threshold as failed.
        allow_failures: return the bundle although files failed (see `Bundle.failures` and verify.json).
        progress: called with (file, files done, files in all); with `check`, once more from 0.

    Raises:
        UsageError, ModelError: for a stochastic sampler, an unknown format, a model that cannot be exported, a
            directory that cannot be written.
        ExportError: naming the files that failed, after all others were written.
    """
    denoiser = _denoiser(model)
    sampling = sampling or Sampling()
    if steps is not None:
        sampling = replace(sampling, num_steps=steps)
    _check_arguments(denoiser, sampling, formats, batch_size, calibration_size, class_names)
    network = networks.folded(denoiser.network)
    folded = Denoiser(network, denoiser.parameterization, denoiser.sigma_data)
    _check_folding(denoiser, network)

    try:
        json.dumps(facts)
    except TypeError as error:
        raise UsageError(f"facts: {error}: give plain values, as JSON holds them.") from error

    directory = Path(directory)
    _prepare(directory, network)
    files = [f"{signature}_{fmt}" for fmt in formats or FORMATS for signature in SIGNATURES]
    results = _convert(
        folded, sampling, directory, files, batch_size, calibration, calibration_size, seed, reduce_range, progress
    )
    exported = Bundle(directory, describe(folded, sampling, batch_size, class_names))
    exported.manifest["files"] = [
        file_entry(directory / result.file, result.seconds) for result in results if result.error is None
    ]
    exported.manifest["failures"] = {result.file: result.error for result in results if result.error is not None}
    exported.manifest["facts"] = dict(facts or {})
    exported.save()
    write_card(directory)
    failed = dict(exported.failures)
    if check:
        failed |= verify(directory, allow_failures=True, progress=progress).failed
    if failed and not allow_failures:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise ExportError(f"{len(failed)} of {len(files)} files failed: {reasons}")
    return exported


def _prepare(directory: Path, network: keras.Model) -> None:
    """Make the directory, clear it of an earlier bundle and save the network in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # An interrupted export must not pass for a bundle, nor leave old files beside new ones.
        for name in (
            MANIFEST,
            VERIFICATION,
            CARD,
            QUALITY,
            *(f"{signature}_{fmt}" for fmt in FORMATS for signature in SIGNATURES),
        ):
            (directory / name).unlink(missing_ok=True)
        with written_whole(directory / NETWORK) as partial:
            network.save(partial)
    except OSError as error:
        raise UsageError(
            f"directory={str(directory)!r} cannot be written ({error.strerror or error}): give a folder that you may "
            "write to, with space left."
        ) from error


def _convert(
    denoiser: Denoiser,
    sampling: Sampling,
    directory: Path,
    files: Sequence[str],
    batch_size: int,
    calibration: Any,
    calibration_size: int,
    seed: int,
    reduce_range: bool,
    progress: Progress | None,
) -> list[Conversion]:
    """Calibrate here, convert in a child."""
    labels = calibration_labels(calibration, denoiser.num_classes, calibration_size, seed)
    recorded, _ = record_trajectory(denoiser, sampling, labels, calibration_size, seed, batch_size)
    with tempfile.TemporaryDirectory(prefix="tfdiff_export_") as work:
        job = Job(Path(work), Path(work) / "calibration.npz", directory.resolve(), reduce_range)
        recorded.save(job.calibration)
        write_graphs(denoiser, sampling, batch_size, job.graphs)
        return convert(job, files, progress=progress)


def _denoiser(model: Any) -> Denoiser:
    """The denoiser to export, its network checked."""
    # A DiffusionModel, which this package does not import, gives the denoiser of its averaged network.
    denoiser = model.denoiser() if hasattr(model, "denoiser") else model
    if not isinstance(denoiser, Denoiser):
        raise ModelError(f"model is a {type(model).__name__}: give a tfdiff.DiffusionModel or a diffusion.Denoiser.")
    networks.check_network(denoiser.network)
    name = denoiser.parameterization.name
    if PARAMETERIZATIONS.get(name) != denoiser.parameterization:
        known = ", ".join(PARAMETERIZATIONS)
        raise ModelError(f"parameterization {name!r} is not tfdiff's: a bundle names it, so use one of {known}.")
    return denoiser


def _check_arguments(
    denoiser: Denoiser,
    sampling: Sampling,
    formats: Sequence[str] | None,
    batch_size: int,
    calibration_size: int,
    class_names: Sequence[str] | None,
) -> None:
    if not sampling.deterministic:
        raise UsageError(
            f"sampler {sampling.sampler!r} with options {dict(sampling.options)} draws noise at every step, which an "
            "exported file cannot: use euler, heun or dpmpp_2m (or ancestral with eta=0)."
        )
    if sampling.guidance_scale == 0:
        raise UsageError("guidance_scale=0 ignores the label: export with 1, and give rows of zeros for no class.")
    if sampling.guidance_scale != 1 and denoiser.num_classes is None:
        raise UsageError(f"guidance_scale={sampling.guidance_scale}: leave it at 1, the network is unconditional.")
    for fmt in formats or ():
        if fmt not in FORMATS:
            raise UsageError(f"formats: {fmt!r} is unknown, use some of {', '.join(FORMATS)}.")
    if batch_size < 1 or calibration_size < batch_size:
        raise UsageError(
            f"batch_size={batch_size} must be >= 1 and at most calibration_size={calibration_size}: calibration fills "
            "whole batches."
        )
    if class_names and len(class_names) != denoiser.num_classes:
        raise UsageError(f"class_names has {len(class_names)} names, the network {denoiser.num_classes} classes.")


def _check_folding(denoiser: Denoiser, folded: keras.Model) -> None:
    """Refuse a folded network that computes something else than the model's network."""
    network: Any = denoiser.network
    noise = initial_noise(4, denoiser.image_shape, seed=0)
    inputs = [noise, noise_embedding(np.geomspace(0.05, 20.0, 4), denoiser.noise_channels)]
    if denoiser.num_classes is not None:
        inputs.append(one_hot_labels(np.arange(4) % denoiser.num_classes, denoiser.num_classes))
    expected, found = np.asarray(network(inputs), np.float32), np.asarray(folded(inputs))
    error = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-6)
    tolerance = max(_FOLDING_TOLERANCE.get(layer.compute_dtype, 0.0) for layer in network.layers)
    if not error <= tolerance:  # a NaN is no match either
        raise ModelError(
            f"network {network.name!r} changes by {error:.1e} (relative) when its layers are folded to float32, more "
            f"than {tolerance:.0e}: a layer's folded_layer() or a weight that is not finite is at fault."
        )
