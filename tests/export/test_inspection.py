"""Zeros are counted in the file: they equal the masks that were put in, and steps share their weights."""

from __future__ import annotations

import numpy as np
import pytest

from tests.export.conftest import PRUNED, SPARSITY
from tfdiff import networks
from tfdiff.diffusion import Denoiser
from tfdiff.export import FORMATS, Bundle
from tfdiff.export.inspection import count_zeros, network_kernels, zero_fraction

#: Depends on the step alone, so that it is a constant in `sample` files.
FOLDED_AWAY = {"embed_noise"}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("signature", ["denoise", "sample"])
def test_zeros_in_the_file_are_the_masks(exported: Bundle, denoiser: Denoiser, signature: str, fmt: str) -> None:
    kernels = network_kernels(denoiser.network)
    counts = count_zeros(exported.path(f"{signature}_{fmt}"), kernels)

    assert kernels.keys() - counts.keys() <= (FOLDED_AWAY if signature == "sample" else set())
    for name, count in counts.items():
        expected = round(SPARSITY * kernels[name]) if name in PRUNED else 0
        assert (count.zeros, count.size, count.copies) == (expected, kernels[name], 1), name
    assert zero_fraction({name: counts[name] for name in PRUNED}) == pytest.approx(SPARSITY, abs=0.01)


def test_kernels_are_those_of_convolutions_and_dense_layers(denoiser: Denoiser) -> None:
    folded = networks.folded(denoiser.network)
    kernels = network_kernels(folded)
    assert "down0_block0_depthwise" not in kernels
    expected = {layer.name for layer in folded.layers if type(layer).__name__ in ("Conv2D", "Dense")}
    assert kernels.keys() == expected
    assert all(size == np.prod(folded.get_layer(name).kernel.shape) for name, size in kernels.items())


def test_nothing_counted_gives_no_fraction() -> None:
    assert zero_fraction({}) is None
