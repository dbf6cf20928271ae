"""Packing a TFLite file anew changes its size and alignment, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

from tfdiff.export import Bundle, load
from tfdiff.export.flatbuffer import ALIGNMENT, compact


def buffer_offsets(content: bytes) -> list[int]:
    """Where the data of each buffer begins in a TFLite file."""
    model = schema.Model.GetRootAs(content)
    buffers = [model.Buffers(i) for i in range(model.BuffersLength())]
    data_field = 4  # the first field of a table, in flatbuffers' numbering
    return [b._tab.Vector(b._tab.Offset(data_field)) for b in buffers if b.DataLength()]


def test_same_function_in_fewer_bytes(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    kernels = [tf.constant(generator.standard_normal((16, 16)), tf.float32) for _ in range(4)]

    @tf.function(input_signature=[tf.TensorSpec((1, 16), tf.float32, "x")])
    def network(x: tf.Tensor) -> dict[str, tf.Tensor]:
        for kernel in kernels:
            x = tf.nn.relu(tf.matmul(x, kernel))
        return {"y": x}

    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=network)
    content = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved")).convert()
    (tmp_path / "plain.tflite").write_bytes(content)
    (tmp_path / "compact.tflite").write_bytes(compact(content))

    x = generator.standard_normal((3, 16)).astype(np.float32)
    plain, packed = (load(tmp_path / f"{name}.tflite") for name in ("plain", "compact"))
    np.testing.assert_array_equal(packed.run({"x": x})["y"], plain.run({"x": x})["y"])
    assert packed.signature == plain.signature
    assert len(compact(content)) < len(content)
    assert compact(compact(content)) == compact(content)


@pytest.mark.parametrize("precision", ["float32", "float16", "dynamic", "int8"])
def test_weights_are_aligned(exported: Bundle, precision: str) -> None:
    offsets = buffer_offsets(exported.path(f"sample_{precision}.tflite").read_bytes())
    assert len(offsets) > 20
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
