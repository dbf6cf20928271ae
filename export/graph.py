"""The inference graph that every file is converted from: float32, wrapper-free, of fixed batch, two signatures.

`denoise(image, noise_embedding, label?) -> output` is the network alone. A client scales: the network reads
c_in·x, and the denoised image is c_skip·x + c_out·output. Inside an INT8 file these products would share 8 bits
between numbers of very different size; outside they are exact.

`sample(noise, label?) -> image` is the whole sampler, unrolled: unit normal noise (B,H,W,C) to images (B,H,W,C)
clipped to [-1, 1]. Noise levels, embeddings and coefficients are constants; the steps share the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdiff import networks
from tfdiff.diffusion import Denoiser, Sampling

#: What `write_graphs` leaves in its directory.
SAVED_MODEL, SAMPLER_OUTLINE = "saved_model", "sample.pb"

#: The op that stands for the network in the sampler's outline. Any op that no optimizer folds would do.
NETWORK_OP = "PyFunc"


def write_graphs(denoiser: Denoiser, sampling: Sampling, batch_size: int, directory: Path) -> None:
    """Write what the converters read: a SavedModel of both signatures, and the sampler's outline.

    The outline is the sampler's GraphDef with one opaque op per network call, for formats whose converter would
    take quadratic time over the unrolled network.

    Args:
        denoiser: its network is folded (`networks.folded`) at the fixed batch size.
        sampling: a deterministic sampler.
        batch_size: B of every input.
        directory: an existing folder.
    """
    network = networks.folded(denoiser.network, batch_size=batch_size)
    call = _NetworkCall(network.inputs, tf.function(lambda inputs: network(inputs), autograph=False))
    denoiser = Denoiser(call, denoiser.parameterization, denoiser.sigma_data)

    def denoise(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"output": call([inputs[name] for name in network.input_names])}

    def sample(noise: tf.Tensor, label: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        return {"image": tf.clip_by_value(sampling(denoiser, noise, label), -1.0, 1.0)}

    specs = {tensor.name: tf.TensorSpec(tensor.shape, tf.float32, tensor.name) for tensor in network.inputs}
    starts = {"noise": tf.TensorSpec(specs["image"].shape, tf.float32, "noise")}
    if "label" in specs:
        starts["label"] = specs["label"]
    module = tf.Module(name="tfdiff")
    # The weights alone are tracked: a tracked Keras model is saved with the traces of all its layers.
    module.weights = network.weights
    signatures = {
        "denoise": tf.function(denoise, autograph=False).get_concrete_function(**specs),
        "sample": tf.function(sample, autograph=False).get_concrete_function(**starts),
    }
    tf.saved_model.save(module, str(directory / SAVED_MODEL), signatures=signatures)
    outline = _sampler_outline(network.inputs, denoiser, sampling, starts)
    (directory / SAMPLER_OUTLINE).write_bytes(outline.SerializeToString())


class _NetworkCall:
    """A network as one graph function, which the steps of a sampler call: it is traced once, not once a step."""

    def __init__(self, inputs: list[Any], function: Callable[[list[tf.Tensor]], tf.Tensor]) -> None:
        self.inputs = inputs
        self._function = function

    def __call__(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        return self._function(inputs)


def _sampler_outline(
    network_inputs: list[Any], denoiser: Denoiser, sampling: Sampling, starts: dict[str, tf.TensorSpec]
) -> Any:
    """GraphDef from placeholders named as `starts` to the node `image`, each network call one `NETWORK_OP`."""

    def opaque(inputs: list[tf.Tensor]) -> tf.Tensor:
        output = tf.numpy_function(lambda *_: None, inputs, tf.float32)
        return tf.ensure_shape(output, inputs[0].shape)

    outlined = Denoiser(_NetworkCall(network_inputs, opaque), denoiser.parameterization, denoiser.sigma_data)
    with tf.Graph().as_default() as graph:
        inputs = {name: tf.compat.v1.placeholder(tf.float32, spec.shape, name) for name, spec in starts.items()}
        image = sampling(outlined, inputs["noise"], inputs.get("label"))
        tf.identity(tf.clip_by_value(image, -1.0, 1.0), name="image")
    return graph.as_graph_def()
