"""Checks that every network passes before any long work: shapes, inputs and the Keras that it was made with."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdiff.errors import ModelError, UsageError

#: The inputs of a denoising network, in call order; `label` only where it is class-conditional.
INPUT_NAMES = ("image", "noise_embedding", "label")


def check_image_shape(image_size: int, channels: int, factor: int, network: str) -> None:
    """Refuse an image shape that `network` cannot take.

    Args:
        image_size: height and width in pixels.
        channels: 1 (grey) or 3 (RGB).
        factor: what the network's down-sampling divides sizes by.
        network: its name, for the message.

    Raises:
        UsageError: naming the argument, the value and the nearest values that work.
    """
    if channels not in (1, 3):
        raise UsageError(f"channels={channels}: {network} draws images of 1 (grey) or 3 (RGB) channels.")
    if image_size < factor or image_size % factor:
        lower = max(factor, image_size // factor * factor)
        upper = (image_size // factor + 1) * factor
        nearest = f"{lower} or {upper}" if lower != upper else f"{lower}"
        raise UsageError(
            f"image_size={image_size} does not divide by {factor}, the down-sampling of {network}: "
            f"use {nearest}, or fewer levels (widths)."
        )


def check_network(network: Any) -> keras.Model:
    """Return `network` if it is a denoising network that tfdiff can train, wrap and export.

    Raises:
        ModelError: for a Keras 3 model, a subclassed model, or inputs or outputs of the wrong names or shapes.
    """
    if not isinstance(network, keras.Model):
        modules = {base.__module__.split(".")[0] for base in type(network).__mro__}
        if "keras" in modules:
            raise ModelError(
                f"network {getattr(network, 'name', network)!r} is a Keras 3 model; tfdiff and TF-MOT work on "
                "Keras 2: build it with `import tf_keras as keras` (or TF_USE_LEGACY_KERAS=1)."
            )
        raise ModelError(f"network must be a tf_keras functional model, got {type(network).__name__}.")
    if not getattr(network, "_is_graph_network", False):
        raise ModelError(
            f"network {network.name!r} is a subclassed model; wrapping and export need a functional one: "
            "build it as keras.Model(inputs, outputs)."
        )
    names = tuple(tensor.name for tensor in network.inputs)
    if names not in (INPUT_NAMES[:2], INPUT_NAMES):
        raise ModelError(
            f"network {network.name!r} has inputs {list(names)}; they must be {list(INPUT_NAMES[:2])}, "
            f"with {INPUT_NAMES[2]!r} third where it is class-conditional."
        )
    image, output = network.inputs[0].shape, network.outputs[0].shape
    if len(network.outputs) != 1 or output[1:] != image[1:]:
        raise ModelError(
            f"network {network.name!r} maps images {tuple(image)} to {[tuple(o.shape) for o in network.outputs]}; "
            "it must have one output of the image's shape."
        )
    for layer in network.layers:
        if isinstance(layer, keras.Model):
            raise ModelError(
                f"network {network.name!r} holds the model {layer.name!r} as a layer; wrappers inside it would not "
                "be found: call its layers directly."
            )
    return network
