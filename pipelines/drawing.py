"""Draw pictures with an exported sampler file, as `training.Generator` does with a Keras model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfdiff import export, training
from tfdiff.errors import UsageError

#: Pictures between two reports of progress; files take them in batches of their own.
_CHUNK = 8


class FileDrawer(training.Drawer):
    """Draws with a `sample` file: network and sampler lie in the file.

    Image i of a seed starts from the same noise as with any drawer: pictures can be laid side by side.

    Args:
        path: .tflite or .onnx.
        num_threads: of the runtime.

    Raises:
        UsageError: when the file is missing, damaged or not a sampler.
    """

    def __init__(self, path: Path, num_threads: int = 1) -> None:
        self._runner = export.load(path, num_threads=num_threads)
        shapes = self._runner.input_shapes
        if "noise" not in shapes:
            raise UsageError(f"{path} takes {', '.join(shapes)}: give a sample_* file, which draws from noise alone.")
        super().__init__(tuple(shapes["noise"][1:]), shapes["label"][-1] if "label" in shapes else None, _CHUNK)

    def draw_batch(self, noise: np.ndarray, label: np.ndarray | None, seeds: np.ndarray) -> np.ndarray:
        """One batch; exported samplers draw no noise that `seeds` could determine."""
        feeds = {"noise": noise} if label is None else {"noise": noise, "label": label}
        return self._runner.run(feeds)["image"]


def labels_in_turn(count: int, num_classes: int | None) -> np.ndarray | None:
    """0, 1, … K − 1, 0, 1, …: (count,) ints, or None where there are no classes."""
    return None if num_classes is None else np.arange(count) % num_classes
