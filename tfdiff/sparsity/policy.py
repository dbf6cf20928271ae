"""Which layers of a network are pruned, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras.prune_registry import PruneRegistry

from tfdiff import networks


@dataclass(frozen=True)
class Selection:
    """One layer with weights: pruned, or skipped for a reason.

    Attributes:
        layer: name of the layer.
        weights: entries of its kernel.
        reason: "" when the layer is pruned.
    """

    layer: str
    weights: int
    reason: str

    @property
    def pruned(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class PruningPolicy:
    """Selects the 1×1 and 3×3 convolutions and the Dense layers inside a network.

    Attributes:
        first_and_last: also prune the layers that read the image and that write the output.
        embedding: also prune the layers that embed noise level and class (those that feed the blocks'
            own projections; the projections are inside the network and always selected).
        min_weights: kernels smaller than this are skipped: they save nothing and each one costs accuracy.
        skip: names of layers to leave dense.
    """

    first_and_last: bool = False
    embedding: bool = False
    min_weights: int = 256
    skip: tuple[str, ...] = ()

    def select(self, network: keras.Model) -> list[Selection]:
        """Every layer of `network` that has a kernel, in order, with the decision about it."""
        graph = LayerGraph(network)
        return [
            Selection(networks.unwrapped(layer).name, kernel_size(layer), self._reason(layer, graph))
            for layer in network.layers
            if kernel_size(layer)
        ]

    def _reason(self, layer: keras.layers.Layer, graph: LayerGraph) -> str:
        inner = networks.unwrapped(layer)
        unable = unprunable(layer, graph)
        if unable:
            return unable
        if inner.name in self.skip:
            return "named in skip"
        if isinstance(inner, keras.layers.Conv2D):
            if inner.kernel_size not in ((1, 1), (3, 3)):
                return f"kernel {inner.kernel_size[0]}×{inner.kernel_size[1]} is neither 1×1 nor 3×3"
            if inner.groups != 1:
                return "grouped convolution"
        if not self.embedding and graph.is_embedding(layer):
            return "embeds noise level or class"
        if not self.first_and_last and graph.is_first(layer):
            return "first layer"
        if not self.first_and_last and graph.is_last(layer):
            return "last layer"
        if kernel_size(layer) < self.min_weights:
            return f"fewer than {self.min_weights} weights"
        return ""


def unprunable(layer: keras.layers.Layer, graph: LayerGraph) -> str:
    """Why TF-MOT's wrapper cannot take a layer, wrapped already or not; "" where it can."""
    inner = networks.unwrapped(layer)
    if isinstance(inner, keras.layers.DepthwiseConv2D):
        return "depthwise: few weights, and sparse kernels do not take it"
    if not isinstance(inner, keras.layers.Conv2D | keras.layers.Dense):
        return f"{type(inner).__name__} has no pruning rule"
    if not (hasattr(inner, "get_prunable_weights") or PruneRegistry.supports(inner)):
        return f"{type(inner).__name__} is no layer of Keras and has no get_prunable_weights()"
    if graph.calls(layer) > 1:
        return "called in several places: each call would count as a pruning step"
    return ""


class LayerGraph:
    """What flows into and out of each layer of a functional network."""

    def __init__(self, network: keras.Model) -> None:
        self._inputs: dict[str, set[str]] = {layer.name: set() for layer in network.layers}
        self._outputs: dict[str, set[str]] = {layer.name: set() for layer in network.layers}
        self._calls = dict.fromkeys(self._inputs, 0)
        for depth_nodes in network._nodes_by_depth.values():
            for node in depth_nodes:
                self._calls[node.layer.name] += 1
                for source in _flat(node.inbound_layers):
                    self._inputs[node.layer.name].add(source.name)
                    self._outputs[source.name].add(node.layer.name)
        self._weighted = {layer.name for layer in network.layers if kernel_size(layer)}

    def calls(self, layer: keras.layers.Layer) -> int:
        """In how many places the network calls the layer."""
        return self._calls[layer.name]

    def is_embedding(self, layer: keras.layers.Layer) -> bool:
        """Computed without the image, and read by a further weighted layer that is, too."""
        return not self._sees_image(layer.name) and any(
            name in self._weighted and not self._sees_image(name) for name in self._reach(layer.name, self._outputs)
        )

    def is_first(self, layer: keras.layers.Layer) -> bool:
        """Reads the image before any other weighted layer does."""
        before = self._reach(layer.name, self._inputs)
        return self._sees_image(layer.name) and not any(
            name in self._weighted and self._sees_image(name) for name in before
        )

    def is_last(self, layer: keras.layers.Layer) -> bool:
        """No weighted layer comes after it."""
        return not self._reach(layer.name, self._outputs) & self._weighted

    def _sees_image(self, name: str) -> bool:
        return networks.INPUT_NAMES[0] in self._reach(name, self._inputs)

    def _reach(self, name: str, edges: dict[str, set[str]]) -> set[str]:
        """Every layer that can be reached from `name`, itself excluded."""
        reached: set[str] = set()
        frontier = [name]
        while frontier:
            for following in edges[frontier.pop()] - reached:
                reached.add(following)
                frontier.append(following)
        return reached


def kernel_of(layer: keras.layers.Layer) -> tf.Variable | None:
    """The kernel of a convolution or Dense layer, wrapped or not; None for other layers."""
    inner = networks.unwrapped(layer)
    kernel = getattr(inner, "depthwise_kernel", None)
    return getattr(inner, "kernel", None) if kernel is None else kernel


def kernel_size(layer: keras.layers.Layer) -> int:
    """Entries of the layer's kernel; 0 where it has none."""
    kernel = kernel_of(layer)
    return 0 if kernel is None else int(kernel.shape.num_elements())


def _flat(layers: keras.layers.Layer | list[keras.layers.Layer]) -> Iterator[keras.layers.Layer]:
    yield from layers if isinstance(layers, list | tuple) else [layers]
