"""Denoising loss by noise level of Keras models, and of exported files through their denoise_* twins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff import data, diffusion, export, metrics, training
from tfdiff.pipelines.evaluation.candidates import Candidate

#: Noise levels, spread evenly in log σ over those that the sampler visits.
_LEVELS = 8


def denoising_loss(
    candidate: Candidate, model: training.DiffusionModel | None, held_out: data.ImageSet, images: int, threads: int
) -> metrics.DenoisingLoss | None:
    """The loss of a candidate on held-out pictures, with noise that is the same for all candidates.

    Args:
        candidate: a Keras model or a sampler file.
        model: the loaded model of a Keras candidate.
        held_out: real pictures that were not trained on.
        images: how many of them, at most.
        threads: of a file's runtime.

    Returns:
        None where a sampler file has no denoise file beside it.
    """
    denoiser = model.denoiser() if model is not None else _file_denoiser(candidate, threads)
    if denoiser is None:
        return None
    count = min(images, len(held_out))
    pictures = np.asarray(held_out.images[:count], np.float32) / 127.5 - 1
    labels = held_out.labels[:count] if held_out.labels is not None and denoiser.num_classes else None
    levels = np.geomspace(candidate.sampling.sigma_max, candidate.sampling.sigma_min, _LEVELS)
    return metrics.denoising_loss_by_level(denoiser, pictures, labels, sigmas=levels)


def _file_denoiser(candidate: Candidate, threads: int) -> diffusion.Denoiser | None:
    """The network in the `denoise` file of the same precision and runtime, as a denoiser."""
    twin = candidate.path.with_name(candidate.path.name.replace("sample_", "denoise_", 1))
    bundle = candidate.bundle
    if bundle is None or twin == candidate.path or not twin.exists():
        return None
    network: Any = _FileNetwork(twin, threads)
    return diffusion.Denoiser(network, bundle.manifest["parameterization"], bundle.manifest["sigma_data"])


class _FileNetwork:
    """A `denoise` file as a network: a list of inputs → F."""

    def __init__(self, path: Path, threads: int) -> None:
        self._runner = export.load(path, num_threads=threads)
        names = [name for name in ("image", "noise_embedding", "label") if name in self._runner.input_shapes]
        self._names = names
        self.inputs = [SimpleNamespace(shape=self._runner.input_shapes[name]) for name in names]

    def __call__(self, inputs: list[Any]) -> tf.Tensor:
        feeds = {name: np.asarray(value, np.float32) for name, value in zip(self._names, inputs, strict=True)}
        return tf.constant(self._runner.run(feeds)["output"])
