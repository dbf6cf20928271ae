"""What pictures are measured against: the real ones, as a feature network sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff import data, metrics
from tfdiff.errors import DataError, UsageError
from tfdiff.files import write_text
from tfdiff.pipelines.progress import counting_bar

#: The feature network that tfdiff trains on the real pictures.
OWN = "own"
_INCEPTION = "inception:"
_EPOCHS = 12
_SEED = 0


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Real pictures and the network that compares.

    Attributes:
        images: those that distances are measured to (the training part).
        held_out: real pictures that no model was trained on.
        features: the feature network.
        recogniser: a classifier of the real pictures that judges classes; None where there are none.
        statistics: of `images` as `features` sees them.
    """

    images: data.ImageSet
    held_out: data.ImageSet
    features: metrics.FeatureNetwork
    recogniser: metrics.Recogniser | None
    statistics: metrics.FeatureStatistics


def make_yardstick(
    images: data.ImageSet, held_out: data.ImageSet, features: str, folder: Path, *, recognise: bool = True
) -> Yardstick:
    """Load or train the networks that judge, and measure the real pictures with them.

    Args:
        images: that distances are measured to.
        held_out: the other real pictures.
        features: "own", "inception:PATH" (the published FID weights, .pth) or the path of a Keras model or SavedModel.
        folder: keeps the networks that are trained here, so that scores can be checked with the very ones that gave
            them; those that lie there already are used again if they were trained on these images.
        recognise: whether classes are judged where there are any.

    Raises:
        DataError, ModelError, UsageError: when a network cannot be had, or does not take these images.
    """
    network = feature_network(features, images, held_out, folder)
    recogniser = recogniser_for(images, held_out, folder) if recognise else None
    with counting_bar("real pictures", len(images)) as progress:
        statistics = measure(network, real_batches(images), progress)
    return Yardstick(images, held_out, network, recogniser, statistics)


def feature_network(
    features: str, images: data.ImageSet, held_out: data.ImageSet, folder: Path
) -> metrics.FeatureNetwork:
    """The network that `features` names (see `make_yardstick`)."""
    if features.startswith(_INCEPTION):
        return metrics.inception_fid(features.removeprefix(_INCEPTION))
    if features != OWN:
        if not Path(features).exists():
            raise UsageError(
                f"--features {features!r} does not exist: give own, inception:PATH of the FID weights, or the path of "
                "a Keras model or SavedModel."
            )
        return metrics.keras_features(features)
    recogniser = recogniser_for(images, held_out, folder)
    if recogniser is None:
        # Which way up a picture was turned needs no labels, and teaches what pictures of this kind look like.
        turned, turned_held_out = metrics.orientation_set(images), metrics.orientation_set(held_out)
        recogniser = _recogniser(turned, turned_held_out, folder / "orientation", "orientation network")
    return metrics.recogniser_features(recogniser)


def recogniser_for(images: data.ImageSet, held_out: data.ImageSet, folder: Path) -> metrics.Recogniser | None:
    """A classifier of the real pictures, kept in `folder`; None where there is an obstacle."""
    if recognition_obstacle(images):
        return None
    return _recogniser(images, held_out, folder / "recogniser", "recogniser")


def recognition_obstacle(images: data.ImageSet) -> str | None:
    """Why no classifier can be trained on `images`, None where it can: no labels, one class, a class too small."""
    if images.labels is None:
        return "has no labels"
    names = images.class_names or ()
    if len(names) < 2:
        return f"has one class, {names[0]!r}"
    for name, found in zip(names, np.bincount(images.labels, minlength=len(names)), strict=True):
        if found < metrics.recognition.MIN_IMAGES_PER_CLASS:
            return f"has {found} images of class {name!r}, fewer than {metrics.recognition.MIN_IMAGES_PER_CLASS}"
    return None


def measure(
    network: metrics.FeatureNetwork, batches: Iterable[np.ndarray], progress: Any = None
) -> metrics.FeatureStatistics:
    """Statistics of uint8 batches (n,H,W,C), in constant memory.

    Args:
        network: sees the pictures.
        batches: of pictures.
        progress: called with the pictures seen since the last call.
    """
    statistics = metrics.FeatureStatistics(network.dimension, num_classes=network.num_classes)
    for batch in batches:
        statistics.update(*network.features_and_probabilities(batch))
        if progress:
            progress(len(batch))
    return statistics


def real_batches(images: data.ImageSet, size: int = 256) -> Iterator[np.ndarray]:
    """The pictures of a set, uint8, read piece by piece."""
    for start in range(0, len(images), size):
        yield np.asarray(images.images[start : start + size])


def _recogniser(images: data.ImageSet, held_out: data.ImageSet, folder: Path, name: str) -> metrics.Recogniser:
    """The classifier in `folder` where it was trained on these images, else a new one, kept there."""
    record = folder / "data.json"
    if record.exists() and json.loads(record.read_text(encoding="utf-8")) == {"fingerprint": images.fingerprint}:
        return metrics.Recogniser.load(folder)
    assert images.labels is not None
    if held_out.labels is None:
        raise DataError(f"{held_out.name} has no labels, unlike {images.name}: give both of one kind.")
    record.unlink(missing_ok=True)
    with counting_bar(name, _EPOCHS, "epoch") as progress:
        recogniser = metrics.Recogniser.train(
            images.images,
            images.labels,
            class_names=images.class_names,
            held_out=(held_out.images, held_out.labels),
            epochs=_EPOCHS,
            seed=_SEED,
            progress=progress,
        )
    recogniser.save(folder)
    write_text(record, json.dumps({"fingerprint": images.fingerprint}))
    return recogniser
