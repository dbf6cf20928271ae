"""Parameters and multiply-accumulates of a denoising network, layer by layer, as it is deployed.

A multiply-accumulate (MAC) is one product added to a sum; papers that count FLOPs mean twice as many, or the
same number by another name. Counted are convolutions, Dense layers and attention's two products: kernel size
times the positions that it is applied to. Padding counts, and so do zeros in the kernel: what a runtime skips
is for a benchmark of the file to say. Normalization, activations, biases and sums are left out, as in the
literature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tf_keras as keras

from tfdiff.diffusion import Sampling
from tfdiff.errors import ModelError
from tfdiff.networks import check_network, unwrapped
from tfdiff.networks.layers import DotProductAttention

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerCount:
    """One layer's share.

    Attributes:
        name: of the layer, without its pruning wrapper.
        type: its class, such as "MPConv2D".
        parameters: weights in the deployed network.
        macs: multiply-accumulates in one network call for one image.
    """

    name: str
    type: str
    parameters: int
    macs: int


@dataclass(frozen=True)
class Counts:
    """A network's counts; `dataclasses.asdict` of it can be written as JSON.

    Attributes:
        layers: the layers that have parameters or MACs, in the network's order.
        parameters: their sum.
        macs: their sum: one network call for one image.
        uncounted: names of layers that hold a matrix or kernel but are of a type without a rule here. They
            add no MACs: where there are any, `macs` is a lower bound.
    """

    layers: tuple[LayerCount, ...]
    parameters: int
    macs: int
    uncounted: tuple[str, ...] = ()


def count(network: keras.Model) -> Counts:
    """Count the parameters and MACs of `network`, per image and network call.

    What exists for training alone is left out: pruning wrappers with their masks, and the gains that
    magnitude-preserving layers fold into their kernels. So `parameters` is that of
    `networks.folded(network)`. A layer that is called twice has its parameters once and its MACs twice.

    Raises:
        ModelError: when `network` is not a functional denoising network, or its image size is not fixed.
    """
    check_network(network)
    image_shape = tuple(network.inputs[0].shape[1:])
    if None in image_shape:
        raise ModelError(f"network {network.name!r} takes images of shape {image_shape}: fix the size to count MACs.")
    macs = dict.fromkeys((layer.name for layer in network.layers), 0)
    # The network's own nodes: a layer also carries those of other models that share it.
    for nodes in network._nodes_by_depth.values():
        for node in nodes:
            rule = _rule(unwrapped(node.layer))
            if rule is not None:
                macs[node.layer.name] += rule(unwrapped(node.layer), node.input_shapes, node.output_shapes)

    layers, uncounted = [], []
    for outer in network.layers:
        layer = unwrapped(outer)
        shapes = _deployed_shapes(layer)
        parameters = sum(prod(shape) for shape in shapes)
        if parameters or macs[outer.name]:
            layers.append(LayerCount(layer.name, type(layer).__name__, parameters, macs[outer.name]))
        if _rule(layer) is None and any(len(shape) > 1 for shape in shapes):
            uncounted.append(layer.name)
    return Counts(
        layers=tuple(layers),
        parameters=sum(layer.parameters for layer in layers),
        macs=sum(layer.macs for layer in layers),
        uncounted=tuple(uncounted),
    )


def network_calls(sampling: Sampling) -> int:
    """Network calls that draw one picture, guidance included; two calls of half a batch each count as two.

    Found by running the sampler on a single number, so that it holds for every sampler and its options.
    """
    calls = 0

    def denoise(x: Any, sigma: float) -> Any:
        nonlocal calls
        calls += 1
        return x

    sampling.run(denoise, np.float32(0))
    # `Denoiser.guided`: at 0 and 1 one of the two estimates is enough.
    return calls if sampling.guidance_scale in (0, 1) else 2 * calls


def per_image(counts: Counts, sampling: Sampling) -> int:
    """MACs that draw one picture: those of a network call times the calls that `sampling` makes."""
    return counts.macs * network_calls(sampling)


def _deployed_shapes(layer: keras.layers.Layer) -> list[Shape]:
    """Shapes of the weights that a layer keeps for inference."""
    weights = layer.folded_weights() if hasattr(layer, "folded_weights") else layer.weights
    return [tuple(weight.shape) for weight in weights]


def _convolution(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """The kernel (h, w, in/groups, out) at every output position."""
    return prod(layer.kernel.shape) * _positions(layer, outputs)


def _depthwise(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """The kernel (h, w, in, multiplier) at every output position."""
    return prod(layer.depthwise_kernel.shape) * _positions(layer, outputs)


def _transposed(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """The kernel (h, w, out, in) spread from every input position."""
    return prod(layer.kernel.shape) * _positions(layer, inputs)


def _dense(layer: Any, inputs: Shape, outputs: Shape) -> int:
    """The kernel (in, out) at every position between batch and channels."""
    return prod(layer.kernel.shape) * prod(outputs[1:-1])


def _attention(layer: Any, inputs: list[Shape], outputs: Shape) -> int:
    """queries·keysᵀ and weights·values: each queries × keys × width, whatever the number of heads."""
    (_, queries, width), (_, keys, _), (_, _, value_width) = inputs
    return queries * keys * (width + value_width)


def _positions(layer: Any, shape: Shape) -> int:
    return prod(shape[1:-1] if layer.data_format == "channels_last" else shape[2:])


_Rule = Callable[[Any, Any, Shape], int]

#: First match wins: a transposed or depthwise convolution may be a subclass of the plain one.
_RULES: tuple[tuple[type, _Rule], ...] = (
    (keras.layers.Conv2DTranspose, _transposed),
    (keras.layers.DepthwiseConv2D, _depthwise),
    (keras.layers.Conv2D, _convolution),
    (keras.layers.Dense, _dense),
    (DotProductAttention, _attention),
)


def _rule(layer: keras.layers.Layer) -> _Rule | None:
    return next((rule for layer_type, rule in _RULES if isinstance(layer, layer_type)), None)
