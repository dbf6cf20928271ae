"""Whether the pictures of a run can be scored by a classifier, and that classifier."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfdiff import data, metrics
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.progress import counting_bar

_EPOCHS = 12


def recognition_obstacle(images: data.ImageSet) -> str | None:
    """Why no recogniser can be trained on `images`, as the end of a sentence about them; None where one can."""
    if images.labels is None or images.class_names is None:
        return "has no labels"
    if len(images.class_names) < 2:
        return f"has one class, {images.class_names[0]!r}"
    sizes = np.bincount(images.labels, minlength=len(images.class_names))
    smallest, least = int(np.argmin(sizes)), metrics.recognition.MIN_IMAGES_PER_CLASS
    if sizes[smallest] < least:
        return f"has {sizes[smallest]} images of class {images.class_names[smallest]!r}, fewer than {least}"
    return None


def recogniser_for(
    config: Config, images: data.ImageSet, num_classes: int | None, folder: Path
) -> metrics.Recogniser | None:
    """A classifier of the real pictures; None where the config wants none, or where `auto` finds an obstacle.

    Args:
        config: its `report.recognise`, `seed` and `data.validation`.
        images: the real pictures.
        num_classes: of the model; None: it draws no classes that could be recognised.
        folder: keeps it, so that the scores can be checked with the very network that gave them; one that lies there
            already, from a report that was cut short, is used again.
    """
    if config.report.recognise is False or num_classes is None or recognition_obstacle(images):
        return None
    assert images.labels is not None  # else there were an obstacle
    if (folder / metrics.recognition.METADATA_FILE).exists():
        return metrics.Recogniser.load(folder)
    with counting_bar("recogniser", _EPOCHS, "epoch") as progress:
        recogniser = metrics.Recogniser.train(
            images.images,
            images.labels,
            class_names=images.class_names,
            epochs=_EPOCHS,
            seed=config.seed,
            validation_fraction=config.data.validation,
            progress=progress,
        )
    recogniser.save(folder)
    return recogniser
