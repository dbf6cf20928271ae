"""TFLite files from the inference graph: float32, float16, dynamic-range INT8 and full INT8."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from tfdiff.export.calibration import Trajectory
from tfdiff.export.graph import SAVED_MODEL


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
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    elif precision == "int8":
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]

        # Rows by name: a list would be matched by position, which swaps inputs of one shape silently.
        def representative() -> Iterator[tuple[str, dict[str, object]]]:
            for feeds in calibration.batches(signature):
                yield signature, feeds

        converter.representative_dataset = representative
    return converter.convert()
