from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff import networks
from tfdiff.diffusion import SAMPLERS, Denoiser, Sampling
from tfdiff.metrics import count, network_calls, per_image
from tfdiff.networks.layers import DotProductAttention
from tfdiff.networks.magnitude_preserving import MPConv2D, MPDense, MPDepthwiseConv2D

SIZE = 8


def network_around(body: Callable[[Any, Any], Any]) -> keras.Model:
    """A denoising network of (8, 8, 4) images whose output is the image plus 0 times what `body` computes."""
    image = keras.Input((SIZE, SIZE, 4), name="image")
    noise = keras.Input((6,), name="noise_embedding")
    result = keras.layers.Flatten()(body(image, noise))
    scalar = keras.layers.Lambda(lambda x: tf.reduce_sum(x, axis=1)[:, None, None, None])(result)
    return keras.Model([image, noise], keras.layers.Add(name="sum")([image, scalar]))


@pytest.mark.parametrize(
    ("layer", "parameters", "macs"),
    [
        (keras.layers.Conv2D(5, 3, padding="same"), 3 * 3 * 4 * 5 + 5, 8 * 8 * 3 * 3 * 4 * 5),
        (keras.layers.Conv2D(5, 3), 3 * 3 * 4 * 5 + 5, 6 * 6 * 3 * 3 * 4 * 5),
        (keras.layers.Conv2D(5, 3, strides=2, padding="same", use_bias=False), 180, 4 * 4 * 3 * 3 * 4 * 5),
        (keras.layers.Conv2D(6, (1, 3), groups=2, padding="same"), 3 * 2 * 6 + 6, 8 * 8 * 3 * 2 * 6),
        (keras.layers.Conv2D(5, 3, dilation_rate=2), 3 * 3 * 4 * 5 + 5, 4 * 4 * 3 * 3 * 4 * 5),
        (keras.layers.DepthwiseConv2D(3, strides=2, padding="same"), 3 * 3 * 4 + 4, 4 * 4 * 3 * 3 * 4),
        (keras.layers.DepthwiseConv2D(3, depth_multiplier=2), 3 * 3 * 8 + 8, 6 * 6 * 3 * 3 * 8),
        (keras.layers.Conv2DTranspose(5, 3, strides=2, padding="same"), 180 + 5, 8 * 8 * 3 * 3 * 5 * 4),
        (keras.layers.Dense(7), 4 * 7 + 7, 8 * 8 * 4 * 7),
        (MPConv2D(5, 3, padding="same", learned_gain=True, use_bias=True), 180 + 5, 8 * 8 * 3 * 3 * 4 * 5),
        (MPDepthwiseConv2D(3, padding="same", learned_gain=True), 3 * 3 * 4, 8 * 8 * 3 * 3 * 4),
        (keras.layers.Activation("relu"), 0, 0),
        (networks.layers.GroupNormalization(2), 4 + 4, 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, keras.layers.Layer) else None,
)
def test_layers_by_hand(layer: keras.layers.Layer, parameters: int, macs: int):
    counts = count(network_around(lambda image, noise: layer(image)))
    assert (counts.parameters, counts.macs, counts.uncounted) == (parameters, macs, ())
    named = [(one.name, one.type) for one in counts.layers]
    assert named == ([(layer.name, type(layer).__name__)] if parameters else [])


def test_dense_of_a_vector_and_of_positions():
    counts = count(network_around(lambda image, noise: MPDense(7, learned_gain=True)(noise)))
    assert (counts.parameters, counts.macs) == (6 * 7, 6 * 7)

    def positions(image: Any, noise: Any) -> Any:
        return keras.layers.Dense(7)(keras.layers.Reshape((SIZE * SIZE, 4))(image))

    assert count(network_around(positions)).macs == SIZE * SIZE * 4 * 7


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_products(heads: int):
    def attend(image: Any, noise: Any) -> Any:
        x = keras.layers.Reshape((64, 4))(image)
        return DotProductAttention(heads)([x, x, x])

    counts = count(network_around(attend))
    scores = weighted = 64 * 64 * 4
    assert (counts.parameters, counts.macs) == (0, scores + weighted)


def test_a_layer_called_twice_computes_twice():
    layer = keras.layers.Conv2D(4, 1, use_bias=False)
    counts = count(network_around(lambda image, noise: layer(layer(image))))
    assert (counts.parameters, counts.macs) == (4 * 4, 2 * 64 * 4 * 4)


def test_calls_in_another_model_do_not_count():
    layer = keras.layers.Conv2D(4, 1, use_bias=False)
    network = network_around(lambda image, noise: layer(image))
    network_around(lambda image, noise: layer(layer(image)))
    assert count(network).macs == 64 * 4 * 4


@pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated")  # TF-MOT's import
def test_pruning_wrappers_do_not_count():
    from tfdiff.sparsity import ConstantSparsity, PruneLowMagnitude

    def wrap(layer: keras.layers.Layer) -> keras.layers.Layer | None:
        if not isinstance(layer, MPConv2D) or layer.kernel_size != (1, 1):
            return None
        return PruneLowMagnitude(networks.copy_layer(layer), pruning_schedule=ConstantSparsity(0.5, 0))

    dense = networks.edge_unet(8, 3, widths=(8, 16), blocks=1)
    pruned = networks.rebuild(dense, wrap)
    assert pruned.count_params() > dense.count_params()
    assert count(pruned) == count(dense)


@pytest.mark.parametrize(
    "network",
    [
        lambda: networks.edge_unet(8, 3, 10, widths=(8, 16), blocks=1),
        lambda: networks.unet(8, 1, 10, widths=(8, 16), blocks=1, attention=(4,), heads=2),
    ],
    ids=["edge_unet", "unet"],
)
def test_whole_networks_agree_with_the_graph(network: Callable[[], keras.Model]):
    """Independent of layers: parameters of the folded network, MACs of the ops in its TensorFlow graph."""
    model = network()
    counts = count(model)
    assert counts.parameters == networks.folded(model).count_params()
    assert counts.macs == graph_macs(model)
    assert counts.uncounted == ()
    assert json.loads(json.dumps(asdict(counts)))["macs"] == sum(layer.macs for layer in counts.layers)


def graph_macs(network: keras.Model) -> int:
    """Multiply-accumulates of the products and convolutions that tracing the network at batch 1 leaves."""
    specs = [tf.TensorSpec([1, *tensor.shape[1:]]) for tensor in network.inputs]
    graph = tf.function(lambda *inputs: network(list(inputs))).get_concrete_function(*specs).graph
    total = 0
    for op in graph.get_operations():
        if op.type in ("Conv2D", "DepthwiseConv2dNative"):
            _, height, width, _ = op.outputs[0].shape
            total += op.inputs[1].shape.num_elements() * height * width
        elif op.type in ("MatMul", "BatchMatMulV2"):
            assert not op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
            total += op.outputs[0].shape.num_elements() * op.inputs[0].shape[-1]
    return total


def test_a_kernel_without_a_rule_is_named():
    layer = keras.layers.SeparableConv2D(5, 3)
    assert count(network_around(lambda image, noise: layer(image))).uncounted == (layer.name,)


def test_an_image_of_no_fixed_size_is_refused():
    image, noise = keras.Input((None, None, 3), name="image"), keras.Input((6,), name="noise_embedding")
    with pytest.raises(ValueError, match=r"images of shape \(None, None, 3\): fix the size"):
        count(keras.Model([image, noise], keras.layers.Conv2D(3, 1)(image)))


class CountingNetwork:
    """A conditional network of nothing that counts its calls."""

    inputs = (tf.TensorSpec([None, 2, 2, 1]), tf.TensorSpec([None, 4]), tf.TensorSpec([None, 3]))
    calls = 0

    def __call__(self, inputs: list[Any]) -> Any:
        self.calls += 1
        return tf.zeros_like(inputs[0])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("guidance_scale", [0.0, 1.0, 2.5])
def test_network_calls_are_those_that_sampling_makes(sampler: str, guidance_scale: float):
    network = CountingNetwork()
    sampling = Sampling(sampler, num_steps=3, guidance_scale=guidance_scale)
    sampling(Denoiser(network), np.zeros((1, 2, 2, 1), np.float32), tf.one_hot([1], 3))
    assert network_calls(sampling) == network.calls


def test_calls_and_macs_by_hand():
    counts = count(network_around(lambda image, noise: keras.layers.Dense(1)(noise)))
    assert per_image(counts, Sampling("dpmpp_2m", 4)) == 4 * 6
    assert per_image(counts, Sampling("heun", 4)) == 7 * 6
    assert per_image(counts, Sampling("euler", 4, guidance_scale=2.0)) == 8 * 6
