"""Draw pictures with an exported sampler file, as `training.Generator` does with a Keras model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tfdiff import diffusion, export
from tfdiff.errors import UsageError

#: Pictures between two reports of progress; files take them in batches of their own.
_CHUNK = 8


class FileDrawer:
    """Draws with a `sample` file.

    Image i of a seed starts from the same noise as with `training.Generator`: pictures can be laid side by side.

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
        self.image_shape = shapes["noise"][1:]
        self.num_classes = shapes["label"][-1] if "label" in shapes else None

    def draw(
        self,
        labels: np.ndarray | None = None,
        *,
        num_images: int | None = None,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """Draw images 0, 1, … of `seed`; arguments and result are those of `training.Generator.draw`."""
        if labels is not None and self.num_classes is None:
            raise UsageError("labels were given, but the file is unconditional.")
        count = num_images if labels is None else len(labels)
        if count is None:
            raise UsageError("give labels (one per image) or num_images.")
        feeds = {"noise": diffusion.initial_noise(count, self.image_shape, seed)}
        if self.num_classes is not None:
            chosen = np.full(count, -1) if labels is None else np.asarray(labels)
            feeds["label"] = np.asarray(diffusion.one_hot_labels(chosen, self.num_classes))
        images = np.empty_like(feeds["noise"])
        for begin in range(0, count, _CHUNK):
            part = {name: rows[begin : begin + _CHUNK] for name, rows in feeds.items()}
            drawn = self._runner.run(part)["image"]
            images[begin : begin + _CHUNK] = drawn
            if progress:
                progress(len(drawn))
        return images


def labels_in_turn(count: int, num_classes: int | None) -> np.ndarray | None:
    """0, 1, … K − 1, 0, 1, …: (count,) ints, or None where there are no classes."""
    return None if num_classes is None else np.arange(count) % num_classes
