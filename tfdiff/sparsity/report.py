"""How sparse a network is, layer by layer, counted in its weights rather than in its masks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import tf_keras as keras

from tfdiff import networks
from tfdiff.sparsity.policy import Selection, kernel_of


@dataclass(frozen=True)
class LayerSparsity:
    """Zeros of one layer's kernel.

    Attributes:
        layer: its name.
        weights: entries of the kernel.
        zeros: entries that are exactly 0.
        pruned: whether the policy selected it.
        reason: why not, or "".
    """

    layer: str
    weights: int
    zeros: int
    pruned: bool
    reason: str

    @property
    def fraction(self) -> float:
        """Zeros over weights, in [0, 1]."""
        return self.zeros / self.weights


def layer_sparsity(network: keras.Model, selections: Iterable[Selection]) -> list[LayerSparsity]:
    """Count the zeros of every layer in `selections` in `network`, wrapped or not."""
    kernels = {}
    for layer in network.layers:
        kernel = kernel_of(layer)
        if kernel is not None:
            kernels[networks.unwrapped(layer).name] = keras.backend.get_value(kernel)
    return [
        LayerSparsity(s.layer, s.weights, int(np.sum(kernels[s.layer] == 0)), s.pruned, s.reason) for s in selections
    ]


def pruned_fraction(layers: Iterable[LayerSparsity]) -> float:
    """Zeros over weights of the pruned layers together; 0 where there are none."""
    pruned = [layer for layer in layers if layer.pruned]
    weights = sum(layer.weights for layer in pruned)
    return sum(layer.zeros for layer in pruned) / weights if weights else 0.0
