"""TFLite files from the inference graph: float32, float16, dynamic-range INT8 and full INT8."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorflow.lite.python.convert import mlir_quantize

from tfdiff.export.calibration import Trajectory
from tfdiff.export.flatbuffer import compact
from tfdiff.export.graph import SAVED_MODEL
from tfdiff.export.runtimes import TFLiteRunner


def convert_tflite(graphs: Path, signature: str, precision: str, calibration: Trajectory) -> bytes:
    """Convert one signature of the SavedModel that `graph.write_graphs` wrote.

    Args:
        graphs: the directory of the SavedModel.
        signature: "denoise" or "sample"; the file keeps it, so that `get_signature_runner` finds it.
        precision: "float32"; "float16" weights; "dynamic": INT8 weights, float activations; "int8": INT8 weights
            and activations, with float32 inputs and outputs.
        calibration: what "int8" takes the activations' ranges from: min and max over the whole set.

    Raises:
        Exception: whatever the converter raises. It can also abort the process: call this in a child.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(str(graphs / SAVED_MODEL), signature_keys=[signature])
    if precision == "int8":
        return compact(_quantized(converter, signature, calibration))
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return compact(converter.convert())


def _quantized(converter: tf.lite.TFLiteConverter, signature: str, calibration: Trajectory) -> bytes:
    """Full INT8, but for operators that the delegate takes in float32 alone.

    Normalization and attention have such operators (RSQRT, SQUARED_DIFFERENCE, SOFTMAX, BATCH_MATMUL and others).
    In INT8 each would end a partition, and a GroupNorm U-Net comes out slower than in float32; left in float32
    they cost a pair of delegated conversions. Which they are is not a list here but what the delegate says.
    """

    # Rows by name: a list would be matched by position, which swaps inputs of one shape silently.
    def representative() -> Iterator[tuple[str, dict[str, object]]]:
        for feeds in calibration.batches(signature):
            yield signature, dict(feeds)

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.representative_dataset = representative
    # As `tf.lite.experimental.QuantizationDebugger` does it: calibrate once, then quantize with exceptions.
    converter._experimental_calibrate_only = True
    calibrated = converter.convert()
    content = mlir_quantize(calibrated)
    refused = _refused(content)
    return mlir_quantize(calibrated, denylisted_nodes=refused) if refused else content


def _refused(content: bytes) -> list[str]:
    """Names of the operators that the delegate leaves to the interpreter."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "quantized.tflite"
        path.write_bytes(content)
        return [name for names in TFLiteRunner(path, num_threads=1).undelegated().values() for name in names]
