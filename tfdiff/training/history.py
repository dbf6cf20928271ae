"""What a training was at each epoch, in JSON files that survive a restart."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import tf_keras as keras

from tfdiff.files import write_text


class StepRows:
    """Rows with a "step", kept in a JSON file that is whole at any moment.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.rows: list[dict[str, Any]] = []

    def begin(self, step: int) -> None:
        """Go on from `step`: rows after it are dropped, since their epochs run again."""
        if self.path.exists():
            self.rows = [row for row in json.loads(self.path.read_text(encoding="utf-8")) if row["step"] <= step]

    def append(self, row: dict[str, Any]) -> None:
        """Add a row and write the file."""
        self.rows.append(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps(self.rows, indent=1))


class History(keras.callbacks.Callback):
    """Keeps the logs of every epoch in a JSON file that survives a restart.

    The file holds a list of {"step", "learning_rate", "loss", "val_loss", …}: whatever callbacks before this one have
    put into the logs is there too. Rows after the step that training resumes from are dropped, since those epochs
    run again.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._rows = StepRows(path)

    def on_train_begin(self, logs: Any = None) -> None:
        self._rows.begin(self.model.completed_steps)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        numbers = {key: float(value) for key, value in (logs or {}).items()}
        self._rows.append({"step": self.model.completed_steps, **optimizer_state(self.model.optimizer), **numbers})


def optimizer_state(optimizer: keras.optimizers.Optimizer) -> dict[str, float]:
    """`learning_rate` at this step and, under mixed_float16, `loss_scale`."""
    rate = getattr(optimizer, "inner_optimizer", optimizer).learning_rate
    state = {"learning_rate": float(rate(optimizer.iterations) if callable(rate) else rate)}
    if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        state["loss_scale"] = float(optimizer.loss_scale)
    return state
