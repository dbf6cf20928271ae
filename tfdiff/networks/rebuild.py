"""One way to make a variant of a functional network: clone it layer by layer and carry the weights over.

Wrapping for pruning, stripping wrappers, going to another precision and folding for inference are all
`rebuild` with another `replace`. A plain `clone_model` keeps each layer's dtype policy and new random weights.
"""

from __future__ import annotations

from collections.abc import Callable

import tf_keras as keras


def rebuild(
    network: keras.Model,
    replace: Callable[[keras.layers.Layer], keras.layers.Layer | None] | None = None,
    *,
    dtype: str | None = None,
    batch_size: int | None = None,
) -> keras.Model:
    """Return a copy of `network` with its weights, some layers replaced.

    Args:
        network: a functional model.
        replace: layer → its new layer (unbuilt), or None to copy the layer as it is. A replacement gets the
            weights of the layer: directly, through the wrapper on either side, or by `folded_weights`.
        dtype: policy name for every layer; default: each keeps its own.
        batch_size: fix the batch in the inputs; default: as in `network`.
    """
    pairs: list[tuple[keras.layers.Layer, keras.layers.Layer]] = []

    def clone(layer: keras.layers.Layer) -> keras.layers.Layer:
        new = replace(layer) if replace else None
        if new is None:
            new = copy_layer(layer, dtype)
        pairs.append((layer, new))
        return new

    inputs = None
    if batch_size is not None or dtype is not None:
        inputs = [
            keras.Input(
                shape=tensor.shape[1:],
                batch_size=batch_size or tensor.shape[0],
                name=tensor.name,
                dtype="float32" if dtype else tensor.dtype,
            )
            for tensor in network.inputs
        ]
    result = keras.models.clone_model(network, input_tensors=inputs, clone_function=clone)
    for old, new in pairs:
        _copy_weights(old, new)
    return result


def copy_layer(layer: keras.layers.Layer, dtype: str | None = None) -> keras.layers.Layer:
    """A new, unbuilt layer of the same configuration, under the policy `dtype` if given."""
    config = layer.get_config()
    if dtype is not None:
        config["dtype"] = dtype
    return layer.__class__.from_config(config)


def unwrapped(layer: keras.layers.Layer) -> keras.layers.Layer:
    """The layer inside a wrapper, or the layer itself."""
    return layer.layer if isinstance(layer, keras.layers.Wrapper) else layer


def folded(network: keras.Model, *, batch_size: int | None = None) -> keras.Model:
    """The float32 network for inference: no wrappers, training-only reparameterizations folded into kernels.

    Layers that know their inference form offer `folded_layer()` and `folded_weights()`; others are copied.
    """

    def replace(layer: keras.layers.Layer) -> keras.layers.Layer:
        inner = unwrapped(layer)
        return copy_layer(inner.folded_layer() if hasattr(inner, "folded_layer") else inner, "float32")

    return rebuild(network, replace, dtype="float32", batch_size=batch_size)


def _copy_weights(old: keras.layers.Layer, new: keras.layers.Layer) -> None:
    source, target = unwrapped(old), unwrapped(new)
    if hasattr(source, "folded_weights") and not hasattr(target, "folded_weights"):
        target.set_weights(source.folded_weights())
    else:
        target.set_weights(source.get_weights())
