"""One interface for both runtimes, and clear words for files and inputs that do not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.export.conftest import NUM_CLASSES
from tfdiff.diffusion import initial_noise, one_hot_labels
from tfdiff.errors import UsageError
from tfdiff.export import Bundle, load


@pytest.mark.parametrize("name", ["sample_float32.tflite", "sample_float32.onnx"])
def test_interface(exported: Bundle, name: str) -> None:
    runner = load(exported.path(name))
    assert runner.signature == "sample"
    assert runner.input_shapes == {"noise": (1, 8, 8, 1), "label": (1, NUM_CLASSES)}
    assert runner.output_names == ["image"]
    noise, label = initial_noise(3, (8, 8, 1), seed=0), one_hot_labels(np.arange(3), NUM_CLASSES)
    together = runner.run({"label": label, "noise": noise})["image"]
    alone = runner.run({"noise": noise[2:], "label": label[2:]})["image"]
    np.testing.assert_allclose(together[2:], alone, atol=1e-6)
    assert np.abs(together).max() <= 1


@pytest.mark.parametrize("runtime", ["tflite", "onnx"])
def test_inputs_that_do_not_fit_are_named(exported: Bundle, runtime: str) -> None:
    runner = load(exported.path(f"sample_float32.{runtime}"))
    noise, label = initial_noise(2, (8, 8, 1), seed=0), one_hot_labels(np.arange(2), NUM_CLASSES)
    with pytest.raises(UsageError, match=r"\['label', 'noise'\]"):
        runner.run({"noise": noise})
    with pytest.raises(UsageError, match="'noise'"):
        runner.run({"noise": noise[:, :4], "label": label})
    with pytest.raises(UsageError, match="one N"):
        runner.run({"noise": noise, "label": label[:1]})


@pytest.mark.parametrize("runtime", ["tflite", "onnx"])
@pytest.mark.parametrize("kept", [0, 3, 4000])
def test_damaged_files_are_named(exported: Bundle, tmp_path: Path, runtime: str, kept: int) -> None:
    path = tmp_path / f"short.{runtime}"
    path.write_bytes(exported.path(f"sample_float32.{runtime}").read_bytes()[:kept])
    with pytest.raises(UsageError, match=r"short\."):
        load(path)


@pytest.mark.parametrize("name", ["missing.tflite", "notes.txt", "notes.tflite", "notes.onnx"])
def test_missing_and_foreign_files_are_named(tmp_path: Path, name: str) -> None:
    if not name.startswith("missing"):
        (tmp_path / name).write_text("Not a model, but longer than any identifier. " * 9)
    with pytest.raises(UsageError, match=name):
        load(tmp_path / name)


def test_running_a_file_needs_no_tensorflow(exported: Bundle) -> None:
    script = (
        "import sys, tfdiff.export as export\n"
        "for path in sys.argv[1:]: export.load(path)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    files = [str(exported.path(name)) for name in ("sample_int8.tflite", "sample_int8.onnx")]
    subprocess.run([sys.executable, "-c", script, *files], check=True)
