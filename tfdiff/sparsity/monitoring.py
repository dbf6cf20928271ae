"""`SparsityMonitor`: how sparse each layer is while it trains, and how many mask entries still change."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdiff.sparsity.model import SparseDiffusionModel
from tfdiff.training import StepRows


class SparsityMonitor(keras.callbacks.Callback):
    """Records, after each epoch and for each pruned layer, the sparsity of its mask and the mask-flip rate.

    The flip rate is the share of mask entries that differ from those at the end of the epoch before (SR-STE,
    arXiv 2102.04010, section 3.2, calls their number SAD): masks that keep flipping late in training cost quality,
    masks that never flip were chosen once and for all.
    Adds to the logs `sparsity`, zeros over weights of the pruned layers, and `mask_flips`, flips over weights.

    Args:
        path: JSON file, a list of {"step", "sparsity", "mask_flips", "layers": {NAME: {"sparsity", "mask_flips"}}};
            rows after the step that training resumes from are dropped.
        log_dir: also write both to TensorBoard here, in charts by layer.
    """

    def __init__(self, path: str | os.PathLike[str], log_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._rows = StepRows(path)
        self._writer = tf.summary.create_file_writer(str(log_dir)) if log_dir else None
        self._masks: dict[str, np.ndarray] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        self._rows.begin(self.model.completed_steps)
        # A restored model has the masks of the epoch that it goes on from, so that no flip is lost or counted twice.
        self._masks = _masks(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        masks, before = _masks(self.model), self._masks
        self._masks = masks
        layers = {
            name: {"sparsity": float(np.mean(~mask)), "mask_flips": float(np.mean(mask != before[name]))}
            for name, mask in masks.items()
        }
        sizes = np.array([mask.size for mask in masks.values()])
        total = {
            key: float(np.average([layer[key] for layer in layers.values()], weights=sizes))
            for key in ("sparsity", "mask_flips")
        }
        step = self.model.completed_steps
        self._rows.append({"step": step, **total, "layers": layers})
        if logs is not None:
            logs.update(total)
        if self._writer is not None:
            with self._writer.as_default(step=step):
                for name, layer in layers.items():
                    for key, value in layer.items():
                        tf.summary.scalar(f"{key}/{name}", value)
            self._writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        if self._writer is not None:
            self._writer.close()


def _masks(model: SparseDiffusionModel) -> dict[str, np.ndarray]:
    """Layer → bool mask of its kernel, True where weights live."""
    return {layer.layer.name: keras.backend.get_value(layer.mask) != 0 for layer in model.pruned_layers}
