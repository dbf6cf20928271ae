"""What the diffusion tests share: a network small enough to read, and the ops of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

IMAGE_SHAPE = (4, 4, 3)
NOISE_CHANNELS = 8
NUM_CLASSES = 5


class ToyNetwork:
    """F = tanh(image) * (1 + mean of the embedding's cosines) + a shift by class; remembers its calls."""

    def __init__(self, num_classes: int | None) -> None:
        self.inputs = [tf.TensorSpec([None, *IMAGE_SHAPE]), tf.TensorSpec([None, NOISE_CHANNELS])]
        if num_classes is not None:
            self.inputs.append(tf.TensorSpec([None, num_classes]))
        self.calls: list[list[Any]] = []

    def __call__(self, inputs: list[Any]) -> Any:
        self.calls.append(inputs)
        image, embedding, *label = inputs
        gain = 1 + tf.reduce_mean(embedding[:, : NOISE_CHANNELS // 2], axis=1)
        result = tf.tanh(image) * gain[:, None, None, None]
        for rows in label:
            result += tf.reduce_sum(rows * tf.range(1.0, rows.shape[1] + 1), axis=1)[:, None, None, None]
        return result


@pytest.fixture
def unconditional() -> ToyNetwork:
    return ToyNetwork(None)


@pytest.fixture
def conditional() -> ToyNetwork:
    return ToyNetwork(NUM_CLASSES)


@pytest.fixture
def op_types() -> Callable[..., set[str]]:
    """The types of the ops that tracing a function leaves in its graph."""

    def trace(function: Callable[..., Any], *specs: tf.TensorSpec) -> set[str]:
        graph = tf.function(function).get_concrete_function(*specs).graph
        return {op.type for op in graph.get_operations()}

    return trace
