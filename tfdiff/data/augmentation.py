"""Random augmentation with keras-cv's layers, made a function of (seed, step).

An augmentation is written as names, or as a mapping from names to the parameters of the keras-cv layer:

    augment={"flip": {}, "translate": {"height_factor": 0.1, "width_factor": 0.1}}

It is applied in the order written. Images are in [0, 1] while it lasts, so `fill_value` 0 is black and 1 white. A
generator learns to draw what it is shown: offered is only what yields plausible images (no cut-outs, no mixing).

keras-cv 0.9 draws from two places: `tf.random.Generator`, through the `_random_generator` that its base class
documents for subclasses, and `tf.random.uniform`, through factor samplers. Both keep hidden state, so that what
happens to batch k would depend on how many batches came before. Here both are replaced by `_Draws`, which derives the
j-th draw of a batch from (seed, step, j). The layers, and the distributions they draw from, stay keras-cv's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfdiff.errors import DataError

if TYPE_CHECKING:
    from tf_keras.layers import Layer

Augment = Mapping[str, Mapping[str, Any] | None] | Iterable[str]

#: Name → keras-cv layer and the parameters it has unless told otherwise.
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "flip": ("RandomFlip", {"mode": "horizontal"}),
    "translate": ("RandomTranslation", {"height_factor": 0.125, "width_factor": 0.125, "fill_mode": "nearest"}),
    "rotate": ("RandomRotation", {"factor": 0.03, "fill_mode": "nearest"}),
    "zoom": ("RandomZoom", {"height_factor": 0.1, "fill_mode": "nearest"}),
    "brightness": ("RandomBrightness", {"factor": 0.1}),
    "contrast": ("RandomContrast", {"factor": 0.1}),
    "saturation": ("RandomSaturation", {"factor": (0.4, 0.6)}),
    "hue": ("RandomHue", {"factor": 0.05}),
}

_COLOUR_ONLY = ("saturation", "hue")

#: Parameters that are not the user's: the range is [0, 1] here, and randomness comes from (seed, step).
_FIXED = ("value_range", "seed", "bounding_box_format", "segmentation_classes", "self", "kwargs")


class Augmentation:
    """A chain of keras-cv layers whose randomness is a function of (seed, step).

    Raises:
      DataError: for a name that does not exist, a parameter that its layer does not take or refuses, or a colour
        augmentation of grey images.
    """

    def __init__(self, augment: Augment, channels: int, seed: int) -> None:
        names = [augment] if isinstance(augment, str) else augment
        spec = names if isinstance(names, Mapping) else dict.fromkeys(names)
        self._draws = _Draws(seed)
        self._layers = [_layer(name, parameters or {}, channels, self._draws) for name, parameters in spec.items()]

    def __call__(self, image: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Augment `image` (B, H, W, C) float32 in [0, 1] as belongs to batch `step` (scalar int64)."""
        self._draws.begin(step)
        for layer in self._layers:
            image = layer(image)
        # Bicubic fills and rounding may step over the edge.
        return tf.clip_by_value(image, 0.0, 1.0)


class _Draws:
    """Does for keras-cv what a `tf.random.Generator` does, drawing from (seed, step) instead of a state."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def begin(self, step: tf.Tensor) -> None:
        """Start the draws of one batch; called while the function that maps it is traced."""
        self._key = tf.stack([tf.constant(self._seed, tf.int64), step])
        self._count = 0

    def uniform(self, shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = tf.float32) -> tf.Tensor:
        self._count += 1
        key = tf.random.fold_in(self._key, self._count)
        return tf.random.stateless_uniform(shape, key, minval, maxval, dtype)


def _layer(name: str, parameters: Mapping[str, Any], channels: int, draws: _Draws) -> Layer:
    if name not in LAYERS:
        raise DataError(f"augment: no augmentation called {name!r}: choose from {', '.join(LAYERS)}.")
    if name in _COLOUR_ONLY and channels != 3:
        raise DataError(f"augment: {name!r} needs colour images (3 channels), found {channels}: leave it out.")
    import keras_cv  # takes seconds, and most runs do not augment

    class_name, defaults = LAYERS[name]
    layer_class = getattr(keras_cv.layers, class_name)
    accepted = inspect.signature(layer_class.__init__).parameters
    offered = [parameter for parameter in accepted if parameter not in _FIXED]
    for parameter in parameters:
        if parameter not in offered:
            raise DataError(f"augment: {name!r} takes no {parameter!r}: choose from {', '.join(offered)}.")
    fixed = {"value_range": (0.0, 1.0)} if "value_range" in accepted else {}
    try:
        # float32 whatever the global policy: rounding to half precision is the network's business.
        layer = layer_class(**{**defaults, **parameters, **fixed}, dtype="float32")
    except (TypeError, ValueError) as error:
        raise DataError(f"augment: {name!r} refuses {dict(parameters)}: {error}") from error
    layer._random_generator = draws
    if isinstance(getattr(layer, "factor", None), keras_cv.core.UniformFactorSampler):
        low, high = layer.factor.lower, layer.factor.upper
        layer.factor = lambda shape=(), dtype="float32": draws.uniform(shape, low, high, dtype)
    return layer
