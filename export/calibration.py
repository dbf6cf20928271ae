"""What INT8 activation ranges are taken from: the deployed sampler's own trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff.diffusion import Denoiser, Sampling, initial_noise, one_hot_labels
from tfdiff.networks import INPUT_NAMES


@dataclass(frozen=True)
class Trajectory:
    """Inputs of both signatures along the sampler's path, as float32 arrays of N rows.

    starts: `sample`'s inputs: noise (N,H,W,C) and, if conditional, label (N,K).
    calls: `denoise`'s inputs, one dict per network call of the sampler, in its order. Guidance calls twice a step,
        first without the label.
    sigmas: noise level of each call.
    batch_size: rows that a file takes at once.
    """

    starts: dict[str, np.ndarray]
    calls: list[dict[str, np.ndarray]]
    sigmas: list[float]
    batch_size: int = 1

    def batches(self, signature: str) -> Iterator[dict[str, np.ndarray]]:
        """Whole batches of the inputs of `signature`; rows that fill none are left out."""
        for feeds in [self.starts] if signature == "sample" else self.calls:
            count = len(next(iter(feeds.values())))
            for begin in range(0, count - self.batch_size + 1, self.batch_size):
                yield {name: rows[begin : begin + self.batch_size] for name, rows in feeds.items()}

    def save(self, path: Path) -> None:
        arrays: dict[str, Any] = {f"start/{name}": rows for name, rows in self.starts.items()}
        arrays |= {f"{index}/{name}": rows for index, call in enumerate(self.calls) for name, rows in call.items()}
        np.savez(path, batch_size=self.batch_size, sigmas=self.sigmas, **arrays)

    @classmethod
    def load(cls, path: Path) -> Trajectory:
        with np.load(path) as arrays:
            groups: dict[str, dict[str, np.ndarray]] = {}
            for key in arrays.files:
                group, _, name = key.partition("/")
                if name:
                    groups.setdefault(group, {})[name] = arrays[key]
            sigmas = arrays["sigmas"].tolist()
            return cls(groups["start"], [groups[str(i)] for i in range(len(sigmas))], sigmas, int(arrays["batch_size"]))


def record_trajectory(
    denoiser: Denoiser, sampling: Sampling, labels: np.ndarray | None, count: int, seed: int, batch_size: int = 1
) -> tuple[Trajectory, np.ndarray]:
    """Draw `count` images and keep what the network was given on the way.

    Args:
        denoiser: of the float32 network.
        sampling: the sampler that is deployed.
        labels: (count,) ints, -1 for the null class; None where the network is unconditional.
        count: images.
        seed: of the starting noise (`diffusion.initial_noise`).
        batch_size: rows that a file takes at once.

    Returns:
        The trajectory, and the images (count,H,W,C), clipped to [-1, 1].
    """
    starts = {"noise": initial_noise(count, denoiser.image_shape, seed)}
    if denoiser.num_classes is not None:
        starts["label"] = one_hot_labels(labels, denoiser.num_classes)
    recording = _Recording(denoiser)
    images = sampling(recording, starts["noise"], starts.get("label"))
    trajectory = Trajectory(starts, recording.calls, recording.sigmas, batch_size)
    return trajectory, np.clip(np.asarray(images), -1.0, 1.0)


class _Recording(Denoiser):
    """A denoiser that keeps what its network is given."""

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__(denoiser.network, denoiser.parameterization, denoiser.sigma_data)
        self.calls: list[dict[str, np.ndarray]] = []
        self.sigmas: list[float] = []
        self.network = self._keep
        self._recorded = denoiser.network

    def __call__(self, x: Any, sigma: Any, label: Any = None, *, training: bool = False) -> Any:
        self.sigmas.append(float(sigma))
        return super().__call__(x, sigma, label, training=training)

    def _keep(self, inputs: list[Any], **options: Any) -> Any:
        self.calls.append(dict(zip(INPUT_NAMES, [np.asarray(value) for value in inputs], strict=False)))
        return self._recorded(inputs, **options)


def calibration_labels(data: Any, num_classes: int | None, count: int, seed: int) -> np.ndarray | None:
    """Classes to calibrate on: those of the data, or drawn uniformly, and one in eight the null class.

    Args:
        data: an iterable (such as tf.data) of (image, label) or of images, batched or not; or None. Its images are
            not used: the ranges that count are those of the sampler's own noisy images.
        num_classes: of the network; None where it is unconditional, which gives None.
        count: number of labels.
        seed: of the uniform draw.

    Returns:
        (count,) ints, -1 for the null class.
    """
    if num_classes is None:
        return None
    found: list[int] = []
    for element in data if data is not None else ():
        if len(found) >= count or not isinstance(element, tuple | list) or len(element) < 2:
            break
        found.extend(np.atleast_1d(np.asarray(element[1])).tolist())
    # Resizing repeats a set that is too small.
    labels = np.resize(found, count) if found else np.random.default_rng(seed).integers(num_classes, size=count)
    labels[::8] = -1
    return labels
