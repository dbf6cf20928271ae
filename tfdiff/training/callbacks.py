"""Keras callbacks for diffusion training: exact checkpoints, sample grids, a stop on NaN, progress, and a run's set."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tqdm import tqdm

from tfdiff import diffusion
from tfdiff.errors import TrainingError
from tfdiff.training.generate import Generator
from tfdiff.training.history import History, optimizer_state
from tfdiff.training.images import image_grid, save_png
from tfdiff.training.model import DiffusionModel
from tfdiff.training.tensorboard import TensorBoard


class Checkpoint(keras.callbacks.Callback):
    """Saves the whole training state at the end of an epoch, and restores it.

    Weights, averages, optimizer, loss scale, step counter and pruning masks: a run that is killed and restored
    goes on to the weights of an unbroken one, given data that is a function of the step (`tfdiff.data.batches`
    with `start_step=int(model.step)`).

    Args:
        directory: of the checkpoints.
        keep: how many to keep.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 2) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.keep = keep
        self._manager: tf.train.CheckpointManager | None = None

    def restore(self, model: DiffusionModel) -> int:
        """Bring a compiled `model` to the last checkpoint; returns the steps it had taken, 0 without one.

        Raises:
            TrainingError: when the checkpoint does not fit the model or is damaged.
        """
        manager = self._open(model)
        if manager.latest_checkpoint is None:
            return 0
        model.optimizer.build(model.network.trainable_variables)
        try:
            manager.checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()
        except (tf.errors.OpError, AssertionError, ValueError) as error:
            raise TrainingError(
                f"checkpoint {manager.latest_checkpoint} does not fit this model or is damaged "
                f"({str(error).splitlines()[0]}): delete {self.directory} to begin anew, or restore the settings that "
                "it was made with."
            ) from error
        return model.completed_steps

    def on_train_begin(self, logs: Any = None) -> None:
        self._open(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        assert self._manager is not None
        self._manager.save(checkpoint_number=self.model.completed_steps)

    def _open(self, model: DiffusionModel) -> tf.train.CheckpointManager:
        if self._manager is None:
            self._manager = tf.train.CheckpointManager(
                tf.train.Checkpoint(model=model, optimizer=model.optimizer), str(self.directory), max_to_keep=self.keep
            )
        return self._manager


class SampleGrid(keras.callbacks.Callback):
    """Draws the same noise and labels with the averaged network every few epochs: look at the pictures.

    Args:
        directory: receives samples_STEP.png.
        sampling: how to draw.
        columns, rows: of the grid; a conditional network draws class (column mod K) in each column.
        every: epochs between grids.
        log_dir: also write the grids to TensorBoard here.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        sampling: diffusion.Sampling | None = None,
        *,
        columns: int = 10,
        rows: int = 4,
        every: int = 1,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.sampling = sampling or diffusion.Sampling()
        self.columns = columns
        self.rows = rows
        self.every = every
        self._writer = tf.summary.create_file_writer(str(log_dir)) if log_dir else None
        self._generator: Generator | None = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (epoch + 1) % self.every:
            return
        count = self.columns * self.rows
        if self._generator is None:
            self._generator = Generator(self.model.denoiser(), self.sampling, batch_size=count)
        labels = None
        if self.model.num_classes is not None:
            labels = np.arange(count) % self.columns % self.model.num_classes
        grid = image_grid(self._generator.draw(labels, num_images=count), columns=self.columns)
        self.directory.mkdir(parents=True, exist_ok=True)
        save_png(grid, self.directory / f"samples_{self.model.completed_steps:06d}.png")
        if self._writer is not None:
            with self._writer.as_default(step=self.model.completed_steps):
                tf.summary.image("samples", grid[np.newaxis])

    def on_train_end(self, logs: Any = None) -> None:
        if self._writer is not None:
            self._writer.close()


class StopOnNaN(keras.callbacks.Callback):
    """Ends training with a `TrainingError` when a loss is not finite, saying what usually helps.

    Put it before `Checkpoint`: then the last checkpoint is from before the fault.

    Args:
        every: batches between two looks; each look waits for the device.
    """

    _supports_tf_logs = True

    def __init__(self, every: int = 20) -> None:
        super().__init__()
        self.every = every
        self._batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._batches % self.every == 0:
            self._check(logs)
        self._batches += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._check(logs)

    def _check(self, logs: Any) -> None:
        # `val_loss` is of the weights after the last step, `loss` of those before it.
        for name in ("loss", "val_loss"):
            loss = float((logs or {}).get(name, 0.0))
            if math.isfinite(loss):
                continue
            policy = self.model.dtype_policy.name
            rate = optimizer_state(self.model.optimizer)["learning_rate"]
            advice = "lower the learning rate, lengthen the warm-up or clip gradients (global_clipnorm=1)"
            if policy == "mixed_float16":
                advice += ", or use mixed_bfloat16, whose range is float32's"
            raise TrainingError(
                f"{name} became {loss} at step {self.model.completed_steps} (learning rate {rate:.3g}, {policy}): "
                f"{advice}; the last checkpoint is from before."
            )


def refresh_seconds() -> float:
    """How often a progress bar is drawn anew: in a log file, where every refresh is a line, less often."""
    return 0.5 if sys.stderr.isatty() else 15.0


class Progress(keras.callbacks.Callback):
    """A progress bar over all training steps with rate, time left and the losses.

    Args:
        total: steps of the whole training, those before a restart included.
        description: what is being trained.
    """

    _supports_tf_logs = True

    def __init__(self, total: int, description: str = "train") -> None:
        super().__init__()
        self.total = total
        self.description = description
        self._bar: tqdm | None = None
        self._shown: dict[str, str] = {}
        self._looked = 0.0

    def on_train_begin(self, logs: Any = None) -> None:
        self._bar = tqdm(
            total=self.total,
            initial=self.model.completed_steps,
            desc=self.description,
            unit="step",
            mininterval=refresh_seconds(),
            dynamic_ncols=True,
        )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # Step and loss live on the device: waiting for them at every step would slow it down.
        if time.monotonic() - self._looked > 0.2:
            self._show(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._show(logs)

    def on_train_end(self, logs: Any = None) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self, logs: Any) -> None:
        assert self._bar is not None
        self._looked = time.monotonic()
        self._shown.update({key: f"{float(value):.4f}" for key, value in (logs or {}).items() if "loss" in key})
        self._bar.set_postfix(self._shown, refresh=False)
        self._bar.update(self.model.completed_steps - self._bar.n)


def standard_callbacks(
    directory: str | os.PathLike[str],
    total_steps: int,
    *,
    sampling: diffusion.Sampling | None = None,
    sample_every: int = 1,
    description: str = "train",
    monitors: Sequence[keras.callbacks.Callback] = (),
) -> tuple[Checkpoint, Sequence[keras.callbacks.Callback]]:
    """The callbacks of a run in `directory`: (the checkpoint, to restore from; all of them, for `fit`).

    Args:
        directory: receives checkpoints/, history.json, tensorboard/ and samples/.
        total_steps: of the whole training, those before a restart included.
        sampling: how grids are drawn.
        sample_every: epochs between two grids.
        description: what the progress bar says.
        monitors: callbacks that put numbers into the logs, or keep what the logs say is best.
    """
    directory = Path(directory)
    checkpoint = Checkpoint(directory / "checkpoints")
    log_dir = directory / "tensorboard"
    return checkpoint, [
        StopOnNaN(),
        *monitors,
        History(directory / "history.json"),
        TensorBoard(log_dir),
        SampleGrid(directory / "samples", sampling, every=sample_every, log_dir=log_dir / "samples"),
        checkpoint,
        Progress(total_steps, description),
    ]
