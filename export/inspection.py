"""What an exported file really holds: zeros among its weights, and its size when compressed."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff.errors import UsageError


@dataclass(frozen=True)
class WeightCount:
    """Weights of one layer as the file stores them: `zeros` of `size`, in `copies` buffers that are not shared."""

    zeros: int
    size: int
    copies: int


def network_kernels(network: Any) -> dict[str, WeightCount]:
    """Counts of the kernels of a Keras network's convolutions (not depthwise) and Dense layers, by layer name."""
    layers = {layer.name: getattr(layer, "kernel", None) for layer in network.layers}
    kernels = {name: np.asarray(kernel) for name, kernel in layers.items() if kernel is not None}
    return {name: WeightCount(int(np.sum(kernel == 0)), kernel.size, copies=1) for name, kernel in kernels.items()}


def count_zeros(path: str | Path, kernels: Mapping[str, WeightCount]) -> dict[str, WeightCount]:
    """Count the zeros among the weights in a file, by layer, each stored buffer once.

    A weight belongs to the layer whose name stands in the name of the operator that uses it (in TFLite: of its
    output; in ONNX: or of the weight) and whose kernel has its size. A quantized weight is zero where it equals its
    zero point.

    Args:
        path: a .tflite or .onnx file.
        kernels: each layer's kernel (`network_kernels`), of which the size counts here. Layers that are not in the
            file, because they were folded into constants, are left out of the result.

    Raises:
        UsageError: when the file is of another kind.
    """
    path = Path(path)
    readers = {".tflite": _tflite_weights, ".onnx": _onnx_weights}
    if path.suffix not in readers:
        raise UsageError(f"{path} is not a .tflite or .onnx file.")
    found: dict[str, dict[Any, np.ndarray]] = {}
    for operator, buffer, is_zero in readers[path.suffix](path):
        components = set(re.split("[/;:]", operator))
        for name in components & kernels.keys():
            if kernels[name].size == is_zero.size:
                found.setdefault(name, {})[buffer] = is_zero
    return {
        name: WeightCount(
            zeros=sum(int(np.count_nonzero(is_zero)) for is_zero in found[name].values()),
            size=sum(is_zero.size for is_zero in found[name].values()),
            copies=len(found[name]),
        )
        for name in kernels
        if name in found
    }


def lost_zeros(kernels: Mapping[str, WeightCount], counts: Mapping[str, WeightCount], signature: str) -> str | None:
    """One line that names the layers whose zeros a file lost, or that it lacks; None where it has them all.

    Rounding may add zeros, but nothing may take one away. The sampler's constants take in layers that depend on its
    steps alone, so that `sample` files may lack some; `denoise` files hold every layer, except that converters drop
    or merge kernels of nothing but zeros, such as an untrained network's.

    Args:
        kernels: of the network (`network_kernels`).
        counts: of the file (`count_zeros` with the same kernels).
        signature: "denoise" or "sample".
    """
    fewer = [
        f"{name} ({count.zeros} of {count.size} instead of {kernels[name].zeros * count.copies})"
        for name, count in counts.items()
        if count.zeros < kernels[name].zeros * count.copies
    ]
    absent = []
    if signature == "denoise":
        absent = [name for name, kernel in kernels.items() if name not in counts and kernel.zeros < kernel.size]
    reasons = []
    if fewer:
        reasons.append(f"fewer zeros than the network in {', '.join(fewer)}")
    if absent:
        reasons.append(f"no weights of {', '.join(absent)}")
    return " and ".join(reasons) or None


def zero_fraction(counts: Mapping[str, WeightCount]) -> float | None:
    """Share of zeros over all layers counted; None where there are none."""
    size = sum(count.size for count in counts.values())
    return sum(count.zeros for count in counts.values()) / size if size else None


def gzip_bytes(path: str | Path) -> int:
    """Size of the file after gzip, in bytes: what a download or an app package takes."""
    return len(gzip.compress(Path(path).read_bytes(), mtime=0))


def _tflite_weights(path: Path) -> Iterator[tuple[str, Any, np.ndarray]]:
    """(operator's name, buffer, which weights are zero) of each convolution and fully connected operator."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(path.read_bytes())
    graph = model.Subgraphs(0)
    codes = [model.OperatorCodes(i).BuiltinCode() for i in range(model.OperatorCodesLength())]
    kinds = schema.BuiltinOperator
    weighted = {kinds.CONV_2D, kinds.FULLY_CONNECTED, kinds.TRANSPOSE_CONV}
    dtypes = {
        schema.TensorType.FLOAT32: np.float32,
        schema.TensorType.FLOAT16: np.float16,
        schema.TensorType.INT8: np.int8,
    }
    operators = [graph.Operators(i) for i in range(graph.OperatorsLength())]
    # Float16 weights reach their operator through a DEQUANTIZE.
    stored = {op.Outputs(0): op.Inputs(0) for op in operators if codes[op.OpcodeIndex()] == kinds.DEQUANTIZE}
    for op in operators:
        if codes[op.OpcodeIndex()] not in weighted:
            continue
        index = op.Inputs(1)
        tensor = graph.Tensors(stored.get(index, index))
        data = model.Buffers(tensor.Buffer()).DataAsNumpy()
        if isinstance(data, int) or tensor.Type() not in dtypes:  # flatbuffers' 0 for "no data": not a constant
            continue
        values = data.view(dtypes[tensor.Type()])
        quantization = tensor.Quantization()
        zero_points = quantization.ZeroPointAsNumpy() if quantization and quantization.ZeroPointLength() else 0
        name = graph.Tensors(op.Outputs(0)).Name().decode()
        if np.any(zero_points):  # TFLite's specification: INT8 weights are symmetric
            raise UsageError(f"{path}: the weights of {name!r} have a zero point other than 0.")
        yield name, tensor.Buffer(), values == 0


def _onnx_weights(path: Path) -> Iterator[tuple[str, Any, np.ndarray]]:
    """(names of operator and weight, initializer, which weights are zero) of each convolution and matrix product."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    makers = {value: node for node in graph.node for value in node.output}
    for node in graph.node:
        if node.op_type not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
            continue
        for value in node.input[:2]:
            zero_point: Any = 0
            maker = makers.get(value)
            if maker is not None and maker.op_type == "DequantizeLinear" and maker.input[0] in initializers:
                value = maker.input[0]
                if len(maker.input) > 2:
                    zero_point = numpy_helper.to_array(initializers[maker.input[2]])
                    axis = next((a.i for a in maker.attribute if a.name == "axis"), 1)
                    rank = len(initializers[value].dims)
                    if zero_point.ndim == 1 and zero_point.size > 1:
                        zero_point = zero_point.reshape([-1 if i == axis % rank else 1 for i in range(rank)])
            if value in initializers:
                yield f"{node.name};{value}", value, numpy_helper.to_array(initializers[value]) == zero_point
