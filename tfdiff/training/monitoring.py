"""Callbacks that tell whether a model gets better: denoising loss by noise level, KID, and the best model kept.

The training loss hardly falls once a model is half trained, and its noise hides what still improves. Both measures
here see the same images and the same noise at every epoch. They put their numbers into the logs, where callbacks
after them (`KeepBest`, `History`, `TensorBoard`, Keras's `EarlyStopping`) find them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdiff import diffusion, metrics
from tfdiff.errors import DataError, UsageError
from tfdiff.files import write_text, written_whole
from tfdiff.training.generate import Generator
from tfdiff.training.images import to_uint8


class DenoisingMonitor(keras.callbacks.Callback):
    """Denoising loss of the averaged network on held-out images, by noise level.

    Adds to the logs `val_denoising`, the mean, and `val_denoising_SIGMA` for each level.

    Args:
        images: (N,H,W,C) held-out images, float in [−1, 1]; a few hundred tell models apart.
        labels: (N,) ints, or None for no class.
        sigmas: noise levels; default: those of `metrics.denoising_loss_by_level`.
        every: epochs between two measurements.
        seed: of the noise.
        batch_size: images per network call.

    Raises:
        UsageError: where `every` is not positive.
    """

    def __init__(
        self,
        images: Any,
        labels: Any = None,
        *,
        sigmas: Sequence[float] | np.ndarray | None = None,
        every: int = 1,
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__()
        self.images = images
        self.labels = labels
        self.sigmas = sigmas
        self.every = _checked_every(every)
        self.seed = seed
        self.batch_size = batch_size
        self._denoiser: diffusion.Denoiser | None = None

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        network = model.ema_network
        # Called layer by layer, a small network waits for Python; traced once, it serves every epoch.
        traced = tf.function(lambda inputs: network(inputs, training=False), autograph=False)
        traced.inputs = network.inputs
        self._denoiser = diffusion.Denoiser(traced, model.denoiser().parameterization, model.sigma_data)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is None or (epoch + 1) % self.every:
            return
        assert self._denoiser is not None
        loss = metrics.denoising_loss_by_level(
            self._denoiser,
            self.images,
            self.labels,
            sigmas=self.sigmas,
            seed=self.seed,
            batch_size=self.batch_size,
        )
        logs["val_denoising"] = loss.mean
        logs.update({f"val_denoising_{sigma:.3g}": x for sigma, x in zip(loss.sigmas, loss.by_level, strict=True)})


class KernelDistanceMonitor(keras.callbacks.Callback):
    """KID of pictures that the averaged network draws (Bińkowski et al. 2018), from the same noise every time.

    Adds to the logs `val_kid` and, where the pictures fill groups, `val_kid_error`, its standard error.

    Args:
        features: the feature network.
        real: statistics of the real pictures as `features` sees them.
        images: pictures to draw each time; the classes of a conditional network take turns.
        sampling: how to draw; default `Sampling()`.
        every: epochs between two measurements.
        seed: of the pictures.
        batch_size: images per network call.

    Raises:
        UsageError: where `every` or `images` is out of range.
        DataError: where `real` was measured with another feature network.
    """

    def __init__(
        self,
        features: metrics.FeatureNetwork,
        real: metrics.FeatureStatistics,
        *,
        images: int = 512,
        sampling: diffusion.Sampling | None = None,
        every: int = 1,
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        super().__init__()
        if images < 2:
            raise UsageError(f"images={images}: a kernel distance needs 2 or more, and some hundreds to mean anything.")
        if len(real.mean) != features.dimension:
            raise DataError(
                f"the real pictures have {len(real.mean)} features, {features.name} gives {features.dimension}: "
                "measure them with that network."
            )
        self.features = features
        self.real = real
        self.images = images
        self.sampling = sampling or diffusion.Sampling()
        self.every = _checked_every(every)
        self.seed = seed
        self.batch_size = batch_size
        self._generator: Generator | None = None

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        self._generator = Generator(model.denoiser(), self.sampling, batch_size=self.batch_size)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is None or (epoch + 1) % self.every:
            return
        assert self._generator is not None
        classes = self.model.num_classes
        labels = None if classes is None else np.arange(self.images) % classes
        drawn = metrics.FeatureStatistics(self.features.dimension)
        for batch in self._generator.stream(labels, num_images=self.images, seed=self.seed):
            drawn.update(self.features.features(to_uint8(batch)))
        distance = metrics.kernel_distance(self.real, drawn)
        logs["val_kid"] = distance.value
        if distance.standard_error is not None:
            logs["val_kid_error"] = distance.standard_error


class KeepBest(keras.callbacks.Callback):
    """Keeps the model of the best epoch as a .keras file, whatever happens after it.

    The file has its name only once it is whole, and the record that names it is written after it: a kill at any
    moment leaves a model that goes with its figure. A run that goes on compares with what was best before.

    Args:
        directory: receives best.json and best_STEP.keras.
        monitor: what to compare, a key of the logs: `val_denoising`, `val_loss`, `val_kid`, …
        mode: whether less ("min") or more ("max") is better.
        start_step: epochs that end before this step do not count: a network that is being pruned is best before it
            is sparse.

    Raises:
        UsageError: for an unknown mode; in training, where the logs lack `monitor`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        monitor: str = "val_denoising",
        *,
        mode: Literal["min", "max"] = "min",
        start_step: int = 0,
    ) -> None:
        super().__init__()
        if mode not in ("min", "max"):
            raise UsageError(f"mode={mode!r} is unknown: use min or max.")
        self.directory = Path(directory)
        self.monitor = monitor
        self.mode = mode
        self.start_step = start_step

    @property
    def best(self) -> dict[str, Any] | None:
        """{"step", "monitor", "mode", "value", "file"} of the best epoch so far; None before there is one."""
        record = self.directory / "best.json"
        return json.loads(record.read_text(encoding="utf-8")) if record.exists() else None

    def restore(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Copy the best model to `path`, a .keras file; returns its record.

        Raises:
            UsageError: where no epoch was kept.
        """
        best = self.best
        if best is None:
            raise UsageError(
                f"{self.directory} holds no best model: no epoch ended at or after step {self.start_step}."
            )
        with written_whole(Path(path)) as partial:
            shutil.copyfile(self.directory / best["file"], partial)
        return best

    def on_train_begin(self, logs: Any = None) -> None:
        best = self.best
        if best is not None and (best["monitor"], best["mode"]) != (self.monitor, self.mode):
            raise UsageError(
                f"{self.directory} keeps the best {best['monitor']} ({best['mode']}), not {self.monitor} "
                f"({self.mode}): use another folder, or delete it."
            )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        step = self.model.completed_steps
        if step < self.start_step:
            return
        logs = logs or {}
        if self.monitor not in logs:
            raise UsageError(
                f"monitor={self.monitor!r} is not in the logs, which hold {', '.join(sorted(logs)) or 'nothing'}: put "
                "the callback that measures it before KeepBest, or choose another."
            )
        value, best = float(logs[self.monitor]), self.best
        if not math.isfinite(value) or (best is not None and not self._is_better(value, best["value"])):
            return
        file = f"best_{step:06d}.keras"
        self.directory.mkdir(parents=True, exist_ok=True)
        with written_whole(self.directory / file) as partial:
            self.model.save(str(partial))
        record = {"step": step, "monitor": self.monitor, "mode": self.mode, "value": value, "file": file}
        write_text(self.directory / "best.json", json.dumps(record, indent=1))
        for other in self.directory.glob("best_*.keras"):
            if other.name != file:
                other.unlink()

    def _is_better(self, value: float, best: float) -> bool:
        return value < best if self.mode == "min" else value > best


def _checked_every(every: int) -> int:
    if every < 1:
        raise UsageError(f"every={every}: give 1 epoch or more.")
    return every
