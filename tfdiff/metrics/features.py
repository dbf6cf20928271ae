"""Feature networks: what distances between sets of pictures are measured with.

A distance means something for one feature network alone, so each carries a name and a hash of all that shapes its
features: weights, preprocessing and the layer that is read.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdiff.errors import DataError, ModelError, UsageError
from tfdiff.metrics.recognition import Recogniser

_BATCH = 128


class FeatureNetwork:
    """Pictures → features.

    Attributes:
        name: what reports call it.
        fingerprint: sha256 (hex) over weights and preprocessing.
        dimension: D, features per picture.
        num_classes: K, where it also classifies; else None.
        image_shape: (H, W, C) that it takes; H and W are None where any size does.
    """

    def __init__(
        self,
        name: str,
        network: Callable[[tf.Tensor], list[tf.Tensor]],
        fingerprint: str,
        *,
        dimension: int,
        num_classes: int | None,
        image_shape: tuple[int | None, int | None, int],
    ) -> None:
        """Wrap a function.

        Args:
            name, fingerprint, dimension, num_classes, image_shape: the attributes.
            network: uint8 pictures as float32 0 … 255 (n,H,W,C) → [features (n,D), probabilities (n,K) where
                `num_classes` is given, activations (n,h,w,c) …].
        """
        self.name = name
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.num_classes = num_classes
        self.image_shape = image_shape
        # No autograph: the functions are plain calls of layers.
        self._network = tf.function(network, autograph=False, reduce_retracing=True)

    def features(self, images: Any) -> np.ndarray:
        """(n,D) float32 of uint8 pictures (n,H,W,C).

        Raises:
            DataError: for other dtypes or shapes: grey pictures for a network that takes colour, other sizes.
        """
        return self.features_and_probabilities(images)[0]

    def features_and_probabilities(self, images: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Features (n,D), and class probabilities (n,K) or None, in one pass. Raises as `features`."""
        outputs = self._run(images, 1 if self.num_classes is None else 2)
        return outputs[0], None if self.num_classes is None else outputs[1]

    def maps(self, images: Any) -> list[np.ndarray]:
        """Activations (n,h,w,c), for a distance between pairs of pictures. Raises as `features`."""
        return self._run(images, None)[1 if self.num_classes is None else 2 :]

    def _run(self, images: Any, outputs: int | None) -> list[np.ndarray]:
        images = self._checked(images)
        parts = []
        for begin in range(0, len(images), _BATCH):
            batch = images[begin : begin + _BATCH]
            # Padded: a smaller last batch is not traced anew.
            padded = np.concatenate([batch, np.repeat(batch[-1:], _BATCH - len(batch), axis=0)])
            found = self._network(tf.constant(padded, tf.float32))[:outputs]
            parts.append([value.numpy()[: len(batch)] for value in found])
        return [np.concatenate(values) for values in zip(*parts, strict=True)]

    def _checked(self, images: Any) -> np.ndarray:
        images = np.asarray(images)
        if images.dtype != np.uint8 or images.ndim != 4 or not len(images):
            hint = "" if images.dtype == np.uint8 else ": floats in [-1, 1] become pictures with training.to_uint8"
            raise DataError(f"pictures are {images.dtype} {images.shape}: give uint8 (n, H, W, C), n >= 1{hint}.")
        *size, channels = self.image_shape
        if images.shape[-1] != channels:
            if channels == 3 and images.shape[-1] == 1:
                return np.repeat(images, 3, axis=-1)  # as published scores of grey pictures do
            kinds = {1: "grey", 3: "colour"}
            raise DataError(
                f"the pictures are {kinds.get(images.shape[-1], images.shape[-1])}, but {self.name} takes "
                f"{kinds.get(channels, channels)}: use a feature network for such pictures."
            )
        if None not in size and list(images.shape[1:3]) != size:
            raise DataError(
                f"the pictures are {images.shape[1]}×{images.shape[2]}, but {self.name} takes {size[0]}×{size[1]}: use "
                "a feature network for that size."
            )
        return images


def recogniser_features(recogniser: Recogniser, name: str = "a classifier of the real pictures") -> FeatureNetwork:
    """The features before the last layer of a classifier that was trained on the user's own pictures.

    Args:
        recogniser: trained.
        name: what reports call it.
    """
    network = recogniser.network
    convolutions = [layer.output for layer in network.layers if isinstance(layer, keras.layers.Conv2D)]
    outputs = [network.get_layer("features").output, tf.nn.softmax(network.output), *convolutions]
    model = keras.Model(network.input, outputs)

    def run(pixels: tf.Tensor) -> list[tf.Tensor]:
        return model(pixels / 127.5 - 1, training=False)

    return FeatureNetwork(
        name,
        run,
        recogniser.fingerprint,
        dimension=network.get_layer("features").output.shape[-1],
        num_classes=len(recogniser.class_names),
        image_shape=recogniser.image_shape,
    )


def keras_features(
    model: keras.Model | str | Path,
    *,
    layer: str | None = None,
    value_range: tuple[float, float] = (-1.0, 1.0),
    name: str | None = None,
) -> FeatureNetwork:
    """Any Keras 2 model or SavedModel as a feature network.

    Pictures are resized (bilinear, with antialiasing) to the size that the model takes, where it fixes one. An output
    (n,h,w,c) is averaged over its places. Grey pictures are repeated for a model that takes colour.

    Args:
        model: a model; or the path of a .keras or .h5 file or of a SavedModel folder.
        layer: name of the layer that is read; default: the model's output. SavedModels have none to choose.
        value_range: what 0 and 255 become.
        name: what reports call it; default: the model's.

    Raises:
        UsageError: for a path that does not exist, or an unknown layer.
        ModelError: for a file that cannot be loaded, or a model that does not map one image to one vector.
    """
    if isinstance(model, str | Path):
        path = Path(model)
        if not path.exists():
            raise UsageError(f"feature network {str(path)!r} does not exist: give a .keras, .h5 file or a SavedModel.")
        name = name or path.name
        if (path / "saved_model.pb").exists():
            return _saved_model_features(path, value_range, name)
        model = _load(path)
    if not isinstance(model, keras.Model) or len(model.inputs or ()) != 1:
        raise ModelError(
            f"feature network is a {type(model).__module__}.{type(model).__name__}: give a Keras 2 (tf_keras) model of "
            "one input."
        )
    if layer is not None:
        if layer not in [each.name for each in model.layers]:
            raise UsageError(f"layer={layer!r} is not in {model.name!r}: use one of {_names(model)}.")
        model = keras.Model(model.inputs, model.get_layer(layer).output)
    network = model
    maps = [each.output for each in network.layers if isinstance(each, keras.layers.Conv2D)][-1:]
    digest = hashlib.sha256(json.dumps([layer, value_range]).encode())
    for weight in network.get_weights():
        digest.update(str(weight.shape).encode() + np.ascontiguousarray(weight, "<f4").tobytes())
    whole = keras.Model(network.inputs, [network.output, *maps])
    return _wrap(
        lambda pixels: whole(pixels, training=False),
        tuple(network.inputs[0].shape[1:]),
        tuple(network.output.shape),
        digest.hexdigest(),
        value_range,
        name or network.name,
    )


def _saved_model_features(path: Path, value_range: tuple[float, float], name: str) -> FeatureNetwork:
    try:
        loaded = tf.saved_model.load(str(path))
        signature = loaded.signatures["serving_default"]
    except (OSError, KeyError, ValueError) as error:
        raise ModelError(f"{path} is no SavedModel with a signature serving_default ({_line(error)}).") from None
    inputs = signature.structured_input_signature[1]
    if len(inputs) != 1 or len(signature.structured_outputs) != 1:
        raise ModelError(f"{path} has {len(inputs)} inputs and {len(signature.structured_outputs)} outputs: one each.")
    ((key, spec),) = inputs.items()
    ((out, shape),) = signature.structured_outputs.items()
    digest = hashlib.sha256(json.dumps(value_range).encode())
    for file in sorted(path.rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())

    def run(pixels: tf.Tensor) -> list[tf.Tensor]:
        keep = loaded  # the signature holds its variables weakly
        del keep
        return [signature(**{key: pixels})[out]]

    return _wrap(run, tuple(spec.shape[1:]), tuple(shape.shape), digest.hexdigest(), value_range, name)


def _wrap(
    run: Callable[[tf.Tensor], Any],
    input_shape: tuple[Any, ...],
    output_shape: tuple[Any, ...],
    fingerprint: str,
    value_range: tuple[float, float],
    name: str,
) -> FeatureNetwork:
    if len(input_shape) != 3 or input_shape[-1] not in (1, 3) or len(output_shape) not in (2, 4):
        raise ModelError(
            f"feature network {name!r} maps {input_shape} to {output_shape}: it must take images (H, W, 1 or 3) and "
            "give one vector (n, D) or map (n, h, w, D) for each."
        )
    low, high = value_range
    height, width, channels = input_shape

    def features(pixels: tf.Tensor) -> list[tf.Tensor]:
        if height is not None:
            pixels = tf.image.resize(pixels, (height, width), antialias=True)
        outputs = run(low + (high - low) / 255 * pixels)
        first, *maps = outputs if isinstance(outputs, list | tuple) else [outputs]
        return [tf.reduce_mean(first, axis=(1, 2)) if len(output_shape) == 4 else first, *maps]

    return FeatureNetwork(
        name, features, fingerprint, dimension=output_shape[-1], num_classes=None, image_shape=(None, None, channels)
    )


def _load(path: Path) -> keras.Model:
    version = "2"
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "metadata.json" in archive.namelist():
                version = json.loads(archive.read("metadata.json")).get("keras_version", "2")
    if not version.startswith("2"):
        raise ModelError(f"{path} was saved by Keras {version}; tfdiff reads Keras 2 models: save it with tf_keras.")
    try:
        return keras.models.load_model(path, compile=False)
    except Exception as error:  # Keras raises whatever its reader met
        raise ModelError(f"{path} cannot be loaded as a Keras model ({_line(error)}).") from None


def _names(model: keras.Model) -> str:
    names = [layer.name for layer in model.layers]
    return ", ".join(names[-8:])


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
