"""Static INT8 for ONNX files: quantize and dequantize (QDQ) around convolutions and matrix products."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

from tfdiff.export.calibration import Trajectory

#: Operators whose inputs and weights become INT8. All else stays float32: ONNX Runtime gains nothing from it there.
QUANTIZED_OPS = ["Conv", "MatMul", "Gemm"]


def quantize_onnx(
    source: Path, target: Path, signature: str, calibration: Trajectory, *, reduce_range: bool = True
) -> None:
    """Write the INT8 version of a float32 ONNX file.

    Weights are symmetric INT8 per output channel, activations INT8 with the min and max of the calibration set.

    Args:
        source: float32 file.
        target: INT8 file.
        signature: "denoise" or "sample": which of the calibration's inputs the file takes.
        calibration: what the ranges are taken from.
        reduce_range: 7-bit weights. x86 without VNNI adds pairs of products in 16 bits, which 8-bit weights overflow;
            Arm and newer x86 do not need it.
    """
    with tempfile.TemporaryDirectory() as directory:
        quantized = Path(directory) / "quantized.onnx"  # quantize_static leaves other files beside its output
        quantize_static(
            source,
            quantized,
            _Reader(calibration.batches(signature)),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=QUANTIZED_OPS,
            nodes_to_exclude=_matrix_biases(source),
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        target.write_bytes(quantized.read_bytes())


def _matrix_biases(path: Path) -> list[str]:
    """Names of the Gemm nodes that add a constant matrix, which the quantizer takes for a vector and fails on.

    Such is the label's embedding plus that of a step's noise level: a few thousand products, left in float32.
    """
    graph = onnx.load(path).graph
    matrices = {tensor.name for tensor in graph.initializer if len(tensor.dims) > 1}
    return [node.name for node in graph.node if node.op_type == "Gemm" and matrices.intersection(node.input[2:])]


class _Reader(CalibrationDataReader):
    def __init__(self, batches: Iterator[dict[str, np.ndarray]]) -> None:
        self._batches = batches

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._batches, None)
