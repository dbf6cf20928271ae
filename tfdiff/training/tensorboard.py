"""TensorBoard logs of a training: every number of the logs against the training step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdiff.training.history import optimizer_state

_VALIDATION = "val_"


class TensorBoard(keras.callbacks.Callback):
    """Writes the logs of each epoch, the learning rate and the loss scale as scalars.

    Keras's own callback counts epochs, whose length a user may change; here the axis is the training step, as it is
    for sample grids and sparsity. `loss` and `val_loss` share a chart: training values are in the run `train`,
    those named `val_…` in `validation`.

    Args:
        log_dir: receives the two runs.
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        super().__init__()
        self.log_dir = Path(log_dir)
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        for name, value in {**optimizer_state(self.model.optimizer), **(logs or {})}.items():
            run = "validation" if name.startswith(_VALIDATION) else "train"
            with self._writer(run).as_default(step=self.model.completed_steps):
                tf.summary.scalar(name.removeprefix(_VALIDATION), float(value))
        # A run that is killed should have shown all that it did.
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, run: str) -> tf.summary.SummaryWriter:
        if run not in self._writers:
            self._writers[run] = tf.summary.create_file_writer(str(self.log_dir / run))
        return self._writers[run]
