"""Every format equals Keras within its tolerance, and a file that does not is named."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.export.conftest import PRUNED, SAMPLING
from tfdiff.errors import ExportError, UsageError
from tfdiff.export import FORMATS, Bundle, Verification, verify
from tfdiff.export.manifest import file_entry
from tfdiff.export.verification import relative_error


@pytest.fixture(scope="module")
def verification(exported: Bundle) -> Verification:
    result = verify(exported.directory, num_images=10, layers=PRUNED, allow_failures=True)
    (exported.directory / "verify.json").unlink()  # other tests look at the directory
    return result


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("signature", ["denoise", "sample"])
def test_parity(verification: Verification, signature: str, fmt: str) -> None:
    (report,) = [report for report in verification.files if report.name == f"{signature}_{fmt}"]
    floor = {"float32": 100.0, "float16": 50.0, "dynamic": 25.0, "int8": 18.0}[fmt.split(".")[0]]
    assert report.error is None
    assert report.snr_db > floor
    if fmt.startswith("float32"):
        assert report.relative_error < (1e-4 if signature == "denoise" else 1e-3)
    if signature == "denoise":
        assert report.snr_per_step is not None
        assert len(report.snr_per_step) == SAMPLING.num_steps
        assert report.snr_db == min(report.snr_per_step)
    if fmt in ("float32.tflite", "int8.tflite"):
        assert (report.partitions, report.undelegated_ops) == (1, {})
    if fmt.endswith("onnx"):
        assert report.partitions is None
    assert report.zero_fraction == pytest.approx(0.8, abs=0.01)
    assert set(report.zeros_per_layer) == set(PRUNED)
    assert 0 < report.gzip_bytes < report.bytes


@pytest.fixture
def two_files(exported: Bundle, tmp_path: Path) -> Bundle:
    """A copy of the bundle with two files, to be spoilt."""
    copy = Bundle(tmp_path, dict(exported.manifest))
    names = ("sample_int8.tflite", "denoise_float32.onnx")
    copy.manifest["files"] = [file for file in exported.manifest["files"] if file["name"] in names]
    for name in (*names, "network.keras"):
        shutil.copy(exported.directory / name, tmp_path / name)
    copy.save()
    return copy


def test_file_below_its_threshold_is_named_after_all_were_measured(two_files: Bundle) -> None:
    with pytest.raises(ExportError, match=r"1 of 2 files failed.*sample_int8\.tflite: SNR .* under 90\.0 dB") as error:
        verify(two_files.directory, num_images=5, thresholds={"sample_int8": 90.0})
    assert "denoise_float32" not in str(error.value)
    written = json.loads((two_files.directory / "verify.json").read_text())
    assert set(written["files"]) == {"sample_int8.tflite", "denoise_float32.onnx"}
    assert set(written["failed"]) == {"sample_int8.tflite"}
    # A threshold of the file itself goes before that of its kind.
    limits = {"sample_int8": 90.0, "sample_int8.tflite": 1.0}
    assert verify(two_files.directory, num_images=5, thresholds=limits).failed == {}


def test_damaged_and_missing_files_are_named(two_files: Bundle) -> None:
    path = two_files.path("denoise_float32.onnx")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    two_files.path("sample_int8.tflite").unlink()
    result = verify(two_files.directory, num_images=5, allow_failures=True)
    assert set(result.failed) == {"denoise_float32.onnx", "sample_int8.tflite"}
    assert result.files == []


def spoil_onnx(path: Path, layer: str) -> None:
    """Put numbers too small to be seen in the outputs where the layer's weights are zero."""
    model = onnx.load(path)
    (tensor,) = [t for t in model.graph.initializer if f"{layer}/" in t.name and len(t.dims) > 1]
    values = onnx.numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.where(values == 0, np.float32(1e-12), values), tensor.name))
    onnx.save(model, path)


def spoil_tflite(path: Path, layer: str) -> None:
    """Set one zero of the layer's INT8 weights to 1."""
    content = bytearray(path.read_bytes())
    model = schema.Model.GetRootAs(content)
    graph = model.Subgraphs(0)
    convolutions = [graph.Operators(i) for i in range(graph.OperatorsLength())]
    (buffer, *_) = [
        graph.Tensors(op.Inputs(1)).Buffer()
        for op in convolutions
        if f"{layer}/" in graph.Tensors(op.Outputs(0)).Name().decode() and op.InputsLength() == 3
    ]
    weights = model.Buffers(buffer).DataAsNumpy()  # a view of `content`
    weights[np.flatnonzero(weights == 0)[0]] = 1
    path.write_bytes(content)


def record(bundle: Bundle, name: str) -> None:
    """Take the spoilt file for what was exported."""
    others = [file for file in bundle.manifest["files"] if file["name"] != name]
    bundle.manifest["files"] = [*others, file_entry(bundle.directory / name, 0.0)]
    bundle.save()


@pytest.mark.parametrize(
    ("name", "spoil", "zeros"),
    [("denoise_float32.onnx", spoil_onnx, 0), ("sample_int8.tflite", spoil_tflite, 101)],
)
def test_file_that_lost_zeros_is_named_though_its_numbers_are_right(
    two_files: Bundle, name: str, spoil: Callable[[Path, str], None], zeros: int
) -> None:
    layer = "down0_block0_expand"  # 8×16 weights, 102 of them zero
    spoil(two_files.path(name), layer)
    record(two_files, name)
    result = verify(two_files.directory, num_images=5, layers=PRUNED, allow_failures=True)
    assert result.failed == {name: f"fewer zeros than the network in {layer} ({zeros} of 128 instead of 102)"}
    # Where that layer does not count, the file is as good as it was.
    assert verify(two_files.directory, num_images=5, layers=PRUNED[1:]).failed == {}


def test_denoise_file_without_a_layer_is_named(two_files: Bundle) -> None:
    path = two_files.path("denoise_float32.onnx")
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = node.name.replace("down0_block0_expand", "renamed")
        node.input[:] = [value.replace("down0_block0_expand", "renamed") for value in node.input]
        node.output[:] = [value.replace("down0_block0_expand", "renamed") for value in node.output]
    for tensor in model.graph.initializer:
        tensor.name = tensor.name.replace("down0_block0_expand", "renamed")
    onnx.save(model, path)
    record(two_files, path.name)
    result = verify(two_files.directory, num_images=5, allow_failures=True)
    assert result.failed == {path.name: "no weights of down0_block0_expand"}


def test_files_that_were_never_converted_are_errors(two_files: Bundle) -> None:
    two_files.manifest["failures"] = {"denoise_int8.onnx": "ValueError: no such op"}
    two_files.save()
    with pytest.raises(ExportError, match=r"1 of 3 files failed.*denoise_int8\.onnx: ValueError: no such op"):
        verify(two_files.directory, num_images=5)
    result = verify(two_files.directory, num_images=5, allow_failures=True)
    assert result.errors == {"denoise_int8.onnx": "ValueError: no such op"}
    assert len(result.files) == 2


def test_report_is_strict_json(two_files: Bundle) -> None:
    verify(two_files.directory, num_images=5, thresholds={"sample_int8": -math.inf})
    written = json.loads((two_files.directory / "verify.json").read_text(), parse_constant=pytest.fail)
    assert written["files"]["sample_int8.tflite"]["threshold"] is None


def test_unknown_names_are_refused(two_files: Bundle) -> None:
    with pytest.raises(UsageError, match="sample_int7"):
        verify(two_files.directory, thresholds={"sample_int7": 1.0})
    with pytest.raises(UsageError, match="nowhere"):
        verify(two_files.directory, layers=["nowhere"])


def test_relative_error_of_a_known_signal() -> None:
    reference = np.asarray([3.0, -4.0])
    assert relative_error(reference, reference + np.asarray([0.0, 1.0])) == pytest.approx(0.25)
