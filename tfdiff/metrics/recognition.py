"""Is the requested class recognised? A small classifier of the real pictures judges the drawn ones.

The share of drawn pictures that a classifier of the real ones takes for the class that was asked for is a
proxy (Ravuri & Vinyals 2019, arXiv 1905.10887, train on drawn pictures and test on real ones). It shows
whether a conditional model obeys its label, and whether pruning, distillation or INT8 cost it that. It does
not show diversity: one perfect picture per class scores 100 %. It does not show fidelity: a blurred or
exaggerated picture may be easier to recognise than a real one. Read it beside `Recogniser.accuracy`, the same
classifier's score on real pictures that it has not seen, and compare only scores of one recogniser
(`fingerprint`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdiff import data
from tfdiff.errors import DataError, UsageError
from tfdiff.files import write_text, written_whole

#: Fewer images of a class teach nothing, and leave none to hold out.
MIN_IMAGES_PER_CLASS = 10

_WIDTHS = (32, 64, 64)
#: Few enough that a Fréchet distance over them needs no more than a few hundred pictures.
_FEATURES = 128
_DROPOUT = 0.3
_LEARNING_RATE = 2e-3
_TRAIN_BATCH, _PREDICT_BATCH = 64, 256
_NETWORK_FILE, METADATA_FILE = "recogniser.keras", "recogniser.json"


@dataclass(frozen=True, eq=False)
class Recogniser:
    """A trained classifier of the classes that a conditional model draws.

    Attributes:
        network: image (B,H,W,C) float32 in [−1, 1] → logits (B,K).
        class_names: K names, by class number.
        accuracy: share of held-out real images that it classifies correctly, in [0, 1].
    """

    network: keras.Model
    class_names: tuple[str, ...]
    accuracy: float

    @classmethod
    def train(
        cls,
        images: data.image_set.ImageArray,
        labels: Any,
        *,
        class_names: Sequence[str] | None = None,
        held_out: tuple[data.image_set.ImageArray, Any] | None = None,
        validation_fraction: float = 0.1,
        epochs: int = 12,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> Recogniser:
        """Train on real pictures: three convolutions of stride 2, 128 features, random translation, dropout, Adam.

        Every random number is a function of `seed`: Keras's and TensorFlow's global generators are neither
        read nor moved on. On a CPU the same arguments give the same weights.

        Args:
            images: (N,H,W,C) uint8, as `ImageSet.images`.
            labels: (N,) ints 0 … K − 1.
            class_names: K names; default: the numbers.
            held_out: images and labels that measure `accuracy`, such as a validation set. Default: part of
                `images`, which is then not trained on.
            validation_fraction: that part, in (0, 1), of every class.
            epochs: passes over the images, ≥ 1.
            seed: of weights, order, augmentation and dropout, 0 ≤ seed < 2³².
            progress: called with 1 after every epoch.

        Raises:
            DataError: for images or labels of another kind or shape, a single class, or a class of fewer than
                `MIN_IMAGES_PER_CLASS` images.
            UsageError: when `epochs` is out of range.
        """
        if epochs < 1:
            raise UsageError(f"epochs={epochs}: train the recogniser for at least one.")
        train = _labelled_set(images, labels, class_names, "images")
        names = _checked_class_names(train)
        if held_out is None:
            train, validation = train.split(validation_fraction, seed)
        else:
            validation = _labelled_set(*held_out, names, "held_out")
            if validation.image_shape != train.image_shape:
                raise DataError(
                    f"held_out: images are {validation.image_shape}, those to train on {train.image_shape}: "
                    "give both in one shape."
                )
        network = _classifier(train.image_shape, len(names), seed)
        _fit(network, train, epochs, seed, progress)
        correct = [
            _classify(network, image) == label.numpy()
            for image, label in data.validation_batches(validation, _PREDICT_BATCH)
        ]
        return cls(network, names, float(np.mean(np.concatenate(correct))))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images that it takes."""
        return tuple(self.network.inputs[0].shape[1:])

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over the weights: scores are comparable where fingerprints are equal."""
        digest = hashlib.sha256(json.dumps(self.class_names).encode())
        for weight in self.network.get_weights():
            digest.update(str(weight.shape).encode() + weight.astype("<f4").tobytes())
        return digest.hexdigest()

    def predict(self, images: Any) -> np.ndarray:
        """The class of each picture.

        Args:
            images: (N,H,W,C) float in [−1, 1], N ≥ 1, as the samplers' clipped results.

        Returns:
            (N,) int64 class numbers.

        Raises:
            DataError: for another shape or dtype, values that are not finite, or values outside [−1, 1].
        """
        images = np.asarray(images)
        if images.ndim != 4 or len(images) == 0 or images.shape[1:] != self.image_shape:
            height, width, channels = self.image_shape
            raise DataError(
                f"images have shape {images.shape}: give (N, {height}, {width}, {channels}), N >= 1, "
                "as the recogniser was trained on."
            )
        if images.dtype.kind != "f":
            raise DataError(f"images have dtype {images.dtype}: give floats in [-1, 1].")
        broken = np.flatnonzero(~np.isfinite(images).all(axis=(1, 2, 3)))
        if len(broken):
            raise DataError(f"images: {len(broken)} hold NaN or infinity, first in image {broken[0]}: check the model.")
        low, high = float(images.min()), float(images.max())
        if low < -1 or high > 1:
            raise DataError(f"images lie in [{low:.4g}, {high:.4g}]: scale or clip them to [-1, 1].")
        return np.concatenate(
            [
                _classify(self.network, images[start : start + _PREDICT_BATCH])
                for start in range(0, len(images), _PREDICT_BATCH)
            ]
        )

    def recognised(self, images: Any, labels: Any) -> float:
        """Share of pictures whose predicted class is the one that was asked for, in [0, 1].

        Args:
            images: (N,H,W,C) float in [−1, 1].
            labels: (N,) ints 0 … K − 1, the classes asked for.

        Raises:
            DataError: as `predict`, or where labels are not N class numbers (−1, no class, cannot be judged).
        """
        predicted = self.predict(images)
        labels = np.asarray(labels)
        if labels.shape != predicted.shape or labels.dtype.kind not in "iu":
            raise DataError(
                f"labels are {labels.dtype} {labels.shape}: give {len(predicted)} ints, one for each image."
            )
        outside = labels[(labels < 0) | (labels >= len(self.class_names))]
        if outside.size:
            raise DataError(f"labels contain {outside[0]}: give 0 to {len(self.class_names) - 1}.")
        return float(np.mean(predicted == labels))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network (.keras) and its metadata (.json) into the folder `path`, made if need be."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(folder / _NETWORK_FILE) as partial:
            self.network.save(partial)
        metadata = {
            "class_names": self.class_names,
            "accuracy": self.accuracy,
            "fingerprint": self.fingerprint,
        }
        write_text(folder / METADATA_FILE, json.dumps(metadata, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recogniser:
        """Read what `save` wrote.

        Raises:
            DataError: when a file is missing, or the two do not belong together.
        """
        folder = Path(path)
        for name in (_NETWORK_FILE, METADATA_FILE):
            if not (folder / name).is_file():
                raise DataError(f"path={str(path)!r} has no {name}: give a folder written by save.")
        metadata = json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))
        network = keras.models.load_model(folder / _NETWORK_FILE, compile=False)
        recogniser = cls(network, tuple(metadata["class_names"]), metadata["accuracy"])
        if recogniser.fingerprint != metadata["fingerprint"]:
            raise DataError(
                f"path={str(path)!r}: {_NETWORK_FILE} is not what {METADATA_FILE} describes; train it again."
            )
        return recogniser


def orientation_set(images: data.ImageSet) -> data.ImageSet:
    """Every picture in its four orientations, labelled with the quarter turns: what any pictures can be learnt from.

    Telling which way up a picture is needs no labels, and teaches a network what such pictures show (Gidaris et al.
    2018). For feature networks of pictures without classes.

    Args:
        images: square pictures; their labels are not used.

    Raises:
        DataError: where they are not square.
    """
    height, width, _ = images.image_shape
    if height != width:
        raise DataError(f"{images.name}: pictures of {height}×{width} are not square, so they cannot be turned.")
    upright = np.asarray(images.images)
    turned = np.concatenate([np.rot90(upright, turns, axes=(1, 2)) for turns in range(4)])
    labels = np.repeat(np.arange(4, dtype=np.int32), len(images))
    return data.ImageSet(turned, labels, tuple(f"{90 * turns}°" for turns in range(4)), name=f"{images.name}, turned")


def _labelled_set(images: Any, labels: Any, class_names: Sequence[str] | None, name: str) -> data.ImageSet:
    if labels is None:
        raise DataError(f"{name}: there are no labels; a recogniser needs one for each image.")
    names = None if class_names is None else tuple(class_names)
    return data.ImageSet(images=images, labels=labels, class_names=names, name=name)


def _checked_class_names(image_set: data.ImageSet) -> tuple[str, ...]:
    """The class names of a labelled set; refuses a single class, and classes of too few images."""
    names, labels = image_set.class_names, image_set.labels
    assert names is not None  # a labelled set has them
    assert labels is not None
    if len(names) < 2:
        raise DataError(f"labels: there is one class, {names[0]!r}; recognition needs two or more.")
    sizes = np.bincount(labels, minlength=len(names))
    smallest = int(np.argmin(sizes))
    if sizes[smallest] < MIN_IMAGES_PER_CLASS:
        raise DataError(
            f"labels: class {names[smallest]!r} has {sizes[smallest]} images, "
            f"a recogniser needs {MIN_IMAGES_PER_CLASS} of each: add images or merge classes."
        )
    return names


def _classifier(image_shape: tuple[int, int, int], num_classes: int, seed: int) -> keras.Model:
    """The untrained network. Float32 whatever the policy; names and seeds are given, so none is drawn."""
    seeds = iter(np.random.SeedSequence(seed).generate_state(len(_WIDTHS) + 2).tolist())
    x = image = keras.Input(image_shape, name="image", dtype="float32")
    for index, width in enumerate(_WIDTHS):
        x = keras.layers.Conv2D(
            width,
            3,
            strides=2,
            padding="same",
            activation="relu",
            kernel_initializer=keras.initializers.HeNormal(seed=next(seeds)),
            dtype="float32",
            name=f"conv{index}",
        )(x)
    x = keras.layers.Flatten(dtype="float32", name="flat")(x)
    x = keras.layers.Dense(
        _FEATURES,
        activation="relu",
        kernel_initializer=keras.initializers.HeNormal(seed=next(seeds)),
        dtype="float32",
        name="features",
    )(x)
    initializer = keras.initializers.GlorotUniform(seed=next(seeds))
    head = keras.layers.Dense(num_classes, kernel_initializer=initializer, dtype="float32", name="logits")
    return keras.Model(image, head(x), name="recogniser")


def _fit(
    network: keras.Model, train: data.ImageSet, epochs: int, seed: int, progress: Callable[[int], None] | None
) -> None:
    """Minimise cross-entropy, in a loop of its own: Keras's Dropout draws from a global generator."""
    features = keras.Model(network.input, network.get_layer("features").output, name="recogniser_features")
    head = network.get_layer("logits")
    steps_per_epoch = -(-len(train) // _TRAIN_BATCH)
    rate = keras.optimizers.schedules.CosineDecay(_LEARNING_RATE, epochs * steps_per_epoch)
    optimizer = keras.optimizers.Adam(rate)
    optimizer.build(network.trainable_variables)

    @tf.function(autograph=False)
    def step(image: tf.Tensor, label: tf.Tensor, number: tf.Tensor) -> None:
        key = tf.stack([tf.constant(seed, tf.int64), number])
        with tf.GradientTape() as tape:
            dropped = tf.nn.experimental.stateless_dropout(features(image, training=True), _DROPOUT, seed=key)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, head(dropped))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))

    stream = data.batches(train, _TRAIN_BATCH, seed=seed, augment={"translate": {}})
    for number, (image, label) in enumerate(stream.take(epochs * steps_per_epoch), start=1):
        step(image, label, tf.constant(number, tf.int64))
        if progress and number % steps_per_epoch == 0:
            progress(1)


def _classify(network: keras.Model, images: Any) -> np.ndarray:
    """(B,) int64: the class of the largest logit."""
    return np.argmax(network(tf.cast(images, tf.float32), training=False), axis=-1)
