"""The networks that every check in this folder runs on, small, and inputs for them."""

from __future__ import annotations

import numpy as np

from tfdiff import networks

BUILDERS = {
    "edge_unet": lambda size=16, channels=3, classes=5, **kwargs: networks.edge_unet(
        size, channels, classes, widths=(8, 16), blocks=1, embedding_width=16, noise_channels=8, **kwargs
    ),
    "unet": lambda size=16, channels=3, classes=5, **kwargs: networks.unet(
        size,
        channels,
        classes,
        widths=(8, 16),
        blocks=1,
        attention=(8,),
        heads=2,
        groups=4,
        embedding_width=16,
        noise_channels=8,
        **kwargs,
    ),
}


def example_inputs(network, batch=2, seed=0):
    """Random inputs of the right shapes: image, noise embedding and, if there is one, one-hot label."""
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal((batch, *tensor.shape[1:])).astype("float32") for tensor in network.inputs]
    if len(inputs) == 3:
        inputs[2] = np.eye(inputs[2].shape[1], dtype="float32")[rng.integers(0, inputs[2].shape[1], batch)]
    return inputs


def randomize(network, seed=0):
    """Give every weight that starts at zero a value, so that outputs depend on everything."""
    rng = np.random.default_rng(seed)
    for weight in network.weights:
        if not np.any(weight.numpy()):
            weight.assign(0.3 * rng.standard_normal(weight.shape))
    return network
