"""ONNX files from the inference graph: tf2onnx for the network, the sampler unrolled around it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import tensorflow as tf
from onnx import helper, numpy_helper
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tfdiff.export.graph import NETWORK_OP, SAMPLER_OUTLINE, SAVED_MODEL
from tfdiff.networks import INPUT_NAMES

OPSET = 17


def denoise_model(graphs: Path) -> onnx.ModelProto:
    """The network as ONNX: (image, noise_embedding, label?) -> output.

    graphs: what `graph.write_graphs` wrote.
    """
    loaded = tf.saved_model.load(str(graphs / SAVED_MODEL))  # owns the variables that its functions refer to weakly
    frozen = convert_variables_to_constants_v2(loaded.signatures["denoise"])
    (output,) = frozen.outputs
    inputs = {tensor.name: tensor.name.split(":")[0].removeprefix("denoise_") for tensor in frozen.inputs}
    return _from_graph_def(frozen.graph.as_graph_def(), inputs, {output.name: "output"})


def sample_model(graphs: Path, network: onnx.ModelProto) -> onnx.ModelProto:
    """The whole sampler as ONNX: (noise, label?) -> image, its steps sharing the network's initializers.

    graphs: what `graph.write_graphs` wrote.
    network: `denoise_model(graphs)`.
    """
    outline = tf.compat.v1.GraphDef.FromString((graphs / SAMPLER_OUTLINE).read_bytes())
    inputs = {f"{node.name}:0": node.name for node in outline.node if node.op == "Placeholder"}
    sampler = _from_graph_def(outline, inputs, {"image:0": "image"}, custom_ops={NETWORK_OP: "tfdiff"})
    return _fold_constants(_inline(sampler, network))


def read(path: Path) -> onnx.ModelProto:
    """An ONNX file as a message."""
    return onnx.load(path)


def save_checked(model: onnx.ModelProto, path: Path) -> None:
    """Write `model`; raises where the checker or ONNX Runtime refuses it (tf2onnx can write broken files)."""
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def _from_graph_def(
    graph_def: Any, inputs: dict[str, str], outputs: dict[str, str], custom_ops: dict[str, str] | None = None
) -> onnx.ModelProto:
    """tf2onnx with inputs and outputs renamed; the maps go from tensor name to ONNX name."""
    import tf2onnx  # seconds to import, and of no use to readers of ONNX files

    model, _ = tf2onnx.convert.from_graph_def(
        graph_def,
        name="tfdiff",
        input_names=list(inputs),
        output_names=list(outputs),
        opset=OPSET,
        custom_ops=custom_ops,
        tensors_to_rename={**inputs, **outputs},
    )
    for node in model.graph.node:
        node.name = _short(node.name)
        node.input[:] = map(_short, node.input)
        node.output[:] = map(_short, node.output)
    for tensor in model.graph.initializer:
        tensor.name = _short(tensor.name)
    del model.graph.value_info[:]
    return model


def _short(name: str) -> str:
    """A name without the functions that TensorFlow inlined; the layer's name stays in it."""
    return name.replace("StatefulPartitionedCall/", "")


def _inline(sampler: onnx.ModelProto, network: onnx.ModelProto) -> onnx.ModelProto:
    """Replace every network call of the sampler with the network's nodes; all calls share its initializers."""
    nodes: list[onnx.NodeProto] = []
    calls = 0
    for node in sampler.graph.node:
        if node.op_type == NETWORK_OP:
            nodes.extend(_called(network, node, calls))
            calls += 1
        else:
            nodes.append(node)
    graph = helper.make_graph(
        nodes,
        "tfdiff",
        list(sampler.graph.input),
        list(sampler.graph.output),
        [*network.graph.initializer, *sampler.graph.initializer],
    )
    return helper.make_model(
        graph, opset_imports=network.opset_import, ir_version=network.ir_version, producer_name="tfdiff"
    )


def _called(network: onnx.ModelProto, call: onnx.NodeProto, index: int) -> Iterable[onnx.NodeProto]:
    """The network's nodes with the arguments and the result of `call` put in."""
    renamed = {tensor.name: tensor.name for tensor in network.graph.initializer}
    # The call has the library's order of arguments, the converted network one of its own.
    renamed.update(zip(INPUT_NAMES, call.input, strict=False))
    renamed[network.graph.output[0].name] = call.output[0]
    for node in network.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"call{index}/{node.name}"
        copy.input[:] = [renamed[value] if value else "" for value in node.input]
        for value in node.output:
            # Short names: three mentions of a value times thousands of values would be a quarter of the file.
            renamed.setdefault(value, f"{index}_{len(renamed)}")
        copy.output[:] = [renamed[value] for value in node.output]
        yield copy


def _fold_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Compute what depends on initializers alone, such as the embedding of each step's noise level."""
    constants = {tensor.name for tensor in model.graph.initializer}
    folded, kept = [], []
    for node in model.graph.node:
        if all(value in constants for value in node.input if value):
            constants.update(node.output)
            folded.append(node)
        else:
            kept.append(node)
    used = {value for node in kept for value in node.input}
    wanted = [value for node in folded for value in node.output if value in used]
    if wanted:
        outputs = [helper.make_tensor_value_info(value, onnx.TensorProto.UNDEFINED, None) for value in wanted]
        part = helper.make_model(
            helper.make_graph(folded, "constants", [], outputs, list(model.graph.initializer)),
            opset_imports=model.opset_import,
            ir_version=model.ir_version,
        )
        part = onnx.shape_inference.infer_shapes(part)
        session = ort.InferenceSession(part.SerializeToString(), providers=["CPUExecutionProvider"])
        results: list[np.ndarray] = session.run(wanted, {})
        model.graph.initializer.extend(
            numpy_helper.from_array(value, name) for name, value in zip(wanted, results, strict=True)
        )
    del model.graph.node[:]
    model.graph.node.extend(kept)
    unused = [tensor for tensor in model.graph.initializer if tensor.name not in used]
    for tensor in unused:
        model.graph.initializer.remove(tensor)
    return model
