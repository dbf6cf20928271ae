"""One tiny sparse network and its bundle of all formats, converted once for all tests."""

from __future__ import annotations

import numpy as np
import pytest
import tf_keras as keras

from tfdiff import networks
from tfdiff.diffusion import Denoiser, Sampling
from tfdiff.export import Bundle, bundle

#: As many classes as noise channels: label and noise_embedding have one shape, so that a swap would go unnoticed
#: by everything but the numbers.
NUM_CLASSES = NOISE_CHANNELS = 4

SAMPLING = Sampling(num_steps=3, sigma_min=0.1, sigma_max=10.0)

#: Layers that the network below is pruned in, and the share of zeros.
PRUNED = ("down0_block0_expand", "down1_block0_project", "up0_block0_project", "down1_block0_modulation")
SPARSITY = 0.8


def tiny_edge_unet(num_classes: int | None = NUM_CLASSES, channels: int = 1) -> keras.Model:
    """8×8 pixels, two levels; `PRUNED` layers have `SPARSITY` zeros and no other weight near zero."""
    keras.utils.set_random_seed(1)
    network = networks.edge_unet(
        8,
        channels,
        num_classes,
        widths=(8, 16),
        blocks=1,
        expansion=2,
        noise_channels=NOISE_CHANNELS,
        embedding_width=16,
    )
    return with_weights(network, PRUNED)


def with_weights(network: keras.Model, pruned: tuple[str, ...] = ()) -> keras.Model:
    """Random weights in place of the zeros that networks start from, and masks on the kernels of `pruned`."""
    generator = np.random.default_rng(2)
    for weight in network.weights:
        if "kernel" in weight.name:
            # Magnitudes between 0.5 and 1: INT8 rounds none of them to zero.
            values = generator.uniform(0.5, 1.0, weight.shape) * generator.choice([-1.0, 1.0], weight.shape)
            weight.assign(values * float(np.prod(weight.shape[:-1])) ** -0.5)
        elif "gain" in weight.name or "gamma" in weight.name:
            weight.assign(np.ones(weight.shape))
        else:
            weight.assign(generator.uniform(-0.1, 0.1, weight.shape))
    for name in pruned:
        kernel = network.get_layer(name).kernel
        mask = np.ones(kernel.shape.num_elements())
        mask[: round(SPARSITY * mask.size)] = 0
        kernel.assign(kernel * generator.permutation(mask).reshape(kernel.shape))
    return network


@pytest.fixture(scope="session")
def denoiser() -> Denoiser:
    return Denoiser(tiny_edge_unet(), "edm", sigma_data=0.5)


@pytest.fixture(scope="session")
def exported(denoiser: Denoiser, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """All twelve files."""
    directory = tmp_path_factory.mktemp("export") / "bundle"
    return bundle(denoiser, directory, sampling=SAMPLING, calibration_size=16, check=False)
