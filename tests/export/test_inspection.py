"""Zeros are counted in the file: they equal the masks that were put in, and steps share their weights."""

from __future__ import annotations

import numpy as np
import pytest

from tests.export.conftest import PRUNED, SPARSITY
from tfdiff import networks
from tfdiff.diffusion import Denoiser
from tfdiff.export import FORMATS, Bundle
from tfdiff.export.inspection import WeightCount, count_zeros, lost_zeros, network_kernels, zero_fraction

#: Depends on the step alone, so that it is a constant in `sample` files.
FOLDED_AWAY = {"embed_noise"}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("signature", ["denoise", "sample"])
def test_zeros_in_the_file_are_the_masks(exported: Bundle, denoiser: Denoiser, signature: str, fmt: str) -> None:
    kernels = network_kernels(denoiser.network)
    counts = count_zeros(exported.path(f"{signature}_{fmt}"), kernels)

    assert kernels.keys() - counts.keys() <= (FOLDED_AWAY if signature == "sample" else set())
    for name, count in counts.items():
        expected = round(SPARSITY * kernels[name].size) if name in PRUNED else 0
        assert count == WeightCount(expected, kernels[name].size, copies=1), name
    assert lost_zeros(kernels, counts, signature) is None
    assert zero_fraction({name: counts[name] for name in PRUNED}) == pytest.approx(SPARSITY, abs=0.01)


def test_kernels_are_those_of_convolutions_and_dense_layers(denoiser: Denoiser) -> None:
    folded = networks.folded(denoiser.network)
    kernels = network_kernels(folded)
    assert "down0_block0_depthwise" not in kernels
    expected = {layer.name for layer in folded.layers if type(layer).__name__ in ("Conv2D", "Dense")}
    assert kernels.keys() == expected
    for name, count in kernels.items():
        size = int(np.prod(folded.get_layer(name).kernel.shape))
        assert count == WeightCount(round(SPARSITY * size) if name in PRUNED else 0, size, copies=1), name


def test_lost_zeros_are_told_from_zeros_gained_and_layers_folded_away() -> None:
    kernels = {"a": WeightCount(8, 10, 1), "b": WeightCount(0, 10, 1)}
    assert lost_zeros(kernels, {"a": WeightCount(9, 10, 1), "b": WeightCount(1, 10, 1)}, "denoise") is None
    one_less = {"a": WeightCount(15, 20, 2), "b": WeightCount(0, 10, 1)}
    assert lost_zeros(kernels, one_less, "sample") == "fewer zeros than the network in a (15 of 20 instead of 16)"
    without_b = {"a": WeightCount(8, 10, 1)}
    assert lost_zeros(kernels, without_b, "denoise") == "no weights of b"
    assert lost_zeros(kernels, without_b, "sample") is None
    # A converter may drop what multiplies by zero alone.
    assert lost_zeros({**kernels, "b": WeightCount(10, 10, 1)}, without_b, "denoise") is None


def test_nothing_counted_gives_no_fraction() -> None:
    assert zero_fraction({}) is None
