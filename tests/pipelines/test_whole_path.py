"""`tfdiff run` from config to report, at the smallest size, and the commands that look at its results."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from tests.pipelines.conftest import write_tiny
from tfdiff.pipelines.cli import app

pytestmark = pytest.mark.slow


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    settings = ["--set", "report.images=40", "--set", "report.timed=2", "--set", "verify.images=8"]
    result = invoke("run", write_tiny(folder), "--out", folder / "run", *settings)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(folder / "run" / "report.html")
    return folder / "run"


@pytest.fixture(scope="module")
def report(finished: Path) -> dict[str, Any]:
    return json.loads((finished / "report.json").read_text())


def test_report_has_every_figure(report: dict[str, Any]) -> None:
    from tfdiff.export import FORMATS

    assert {"train", "sparsity", "keras", "files"} <= set(report)
    assert {"steps", "loss", "val_loss", "history"} <= set(report["train"])
    assert {"fraction", "layers"} <= set(report["sparsity"])
    assert set(report["keras"]) == {"recognised", "ms_per_image", "fid", "kid", "precision", "recall"}
    assert {file["name"] for file in report["files"]} == {
        f"{part}_{fmt}" for part in ("denoise", "sample") for fmt in FORMATS
    }
    for file in report["files"]:
        assert {
            "name",
            "runtime",
            "bytes",
            "gzip_bytes",
            "snr_db",
            "partitions",
            "zero_fraction",
            "ms_per_image",
        } <= set(file)
        assert file["ms_per_image"] > 0
        scored = file["name"] in ("sample_float32.tflite", "sample_int8.tflite")
        assert (file["recognised"] is not None) == (file["kid"] is not None) == scored


def test_zeros_are_those_of_the_files(finished: Path, report: dict[str, Any]) -> None:
    """The fraction in the report is that of the pruned layers, in Keras and in each file."""
    pruned = [layer for layer in report["sparsity"]["layers"] if layer["pruned"]]
    expected = sum(layer["zeros"] for layer in pruned) / sum(layer["weights"] for layer in pruned)
    assert report["sparsity"]["fraction"] == pytest.approx(expected)
    for file in report["files"]:
        # Rounding to 8 bits may add zeros, never remove them.
        assert file["zero_fraction"] >= expected - 1e-9, file["name"]
        assert file["bytes"] == (finished / "bundle" / file["name"]).stat().st_size


def test_the_network_that_scored_is_kept(finished: Path, report: dict[str, Any]) -> None:
    from tfdiff import metrics

    kept = metrics.Recogniser.load(finished / "networks" / "recogniser")
    assert kept.fingerprint == report["recogniser"]["fingerprint"] == report["protocol"]["features_hash"]


def test_card_tells_the_quality(finished: Path, report: dict[str, Any]) -> None:
    card = (finished / "bundle" / "MODEL_CARD.md").read_text()
    assert f"| Keras | {report['keras']['recognised']:.1%}" in re.sub(r"(\| Keras \|).*\| ", r"\1 ", card)
    assert "- **source**: digits" in card
    assert "validation loss" in card
    assert report["protocol"]["features_hash"] in card


def test_page_is_self_contained_and_shows_the_figures(finished: Path, report: dict[str, Any]) -> None:
    page = (finished / "report.html").read_text()
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "url(http" not in page
    for file in report["files"]:
        assert file["name"] in page
    for note in report["notes"]:
        assert note.split(":")[0] in page
    # Real pictures, the dense and the sparse model, and the six samplers.
    assert page.count("data:image/png;base64,") == 9


def test_a_finished_run_is_left_alone(finished: Path) -> None:
    before = {
        path: path.stat().st_mtime_ns
        for path in finished.rglob("*")
        if path.suffix in (".keras", ".tflite", ".onnx", ".html")
    }
    result = invoke("run", finished)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("finished already") == 5
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.parametrize("file", [None, "bundle/sample_int8.tflite", "bundle/sample_float32.onnx", "train/model.keras"])
def test_sample_draws_a_grid(finished: Path, tmp_path: Path, file: str | None) -> None:
    output = tmp_path / "grid.png"
    options = [] if file is None else ["--file", file]
    result = invoke("sample", finished, *options, "-n", 10, "--label", 3, "-o", output)
    assert result.exit_code == 0, result.output
    with Image.open(output) as grid:
        assert grid.size == (2 * (8 * 9 - 1), 2 * (2 * 9 - 1))


def test_files_draw_what_the_model_draws(finished: Path, tmp_path: Path) -> None:
    grids = []
    for name, options in {"keras": [], "file": ["--file", "bundle/sample_float32.tflite"]}.items():
        output = tmp_path / f"{name}.png"
        assert invoke("sample", finished, *options, "-n", 12, "--seed", 5, "-o", output).exit_code == 0
        with Image.open(output) as grid:
            grids.append(np.asarray(grid, np.int32))
    assert abs(grids[0] - grids[1]).max() <= 1
    assert grids[0].std() > 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--label", "10"], "--label 10 is not a class: give 0 to 9"),
        (["--file", "bundle/nothing.tflite"], "does not exist"),
        (["--file", "bundle/denoise_int8.tflite"], "give a sample_* file"),
        (["-o", "no/such/folder.png"], "cannot write no/such/folder.png"),
    ],
)
def test_sample_refuses(finished: Path, options: list[str], expected: str) -> None:
    result = invoke("sample", finished, "-n", 2, *options)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_bench_times_every_file_and_keras(finished: Path) -> None:
    result = invoke("bench", finished, "-n", 2)
    assert result.exit_code == 0, result.output
    names = {line.split()[0] for line in result.stdout.splitlines()}
    assert names == {"Keras"} | {
        path.name for path in (finished / "bundle").iterdir() if path.suffix in (".tflite", ".onnx")
    }


def test_bench_samples_as_the_files_do(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that were changed after the export do not reach files that were not exported again."""
    from tfdiff import training

    assert invoke("train", copy, "--set", "sampling.num_steps=3").exit_code == 0
    assert "num_steps: 3" in (copy / "config.yaml").read_text()
    steps = []

    class Recorded(training.Generator):
        def __init__(self, denoiser: Any, sampling: Any, **options: Any) -> None:
            steps.append(sampling.num_steps)
            super().__init__(denoiser, sampling, **options)

    monkeypatch.setattr(training, "Generator", Recorded)
    assert invoke("bench", copy, "-n", 2).exit_code == 0
    assert steps == [2]


def test_info_of_models_and_files(finished: Path) -> None:
    model = invoke("info", finished / "sparsify" / "model.keras")
    assert model.exit_code == 0, model.output
    assert "12 steps" in model.stdout
    assert "80.0% zeros" in model.stdout
    file = invoke("info", finished / "bundle" / "sample_int8.tflite")
    assert "input       noise (1, 8, 8, 1)" in file.stdout
    assert "signature   sample" in file.stdout
    run = invoke("info", finished)
    assert "report         finished" in run.stdout


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """The finished run, to be spoilt."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "spoil"),
    [
        (["--set", "verify.thresholds={sample_int8.tflite: 90}"], None),
        ([], lambda path: path.write_bytes(path.read_bytes()[:-100])),
    ],
    ids=["below its threshold", "damaged"],
)
def test_verify_names_the_file_that_fails(copy: Path, settings: list[str], spoil: Callable[[Path], Any] | None) -> None:
    if spoil:
        spoil(copy / "bundle" / "sample_int8.tflite")
    result = invoke("verify", copy, *settings)
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert "1 of 12 files" in line
    assert "sample_int8.tflite" in line
    assert not (copy / "verify" / "summary.json").exists()


def test_changing_the_sampler_exports_again_without_training(copy: Path) -> None:
    result = invoke("verify", copy, "--set", "sampling.num_steps=3", "--set", "export.formats=[float32.tflite]")
    assert result.exit_code == 0, result.output
    assert "train: finished already" in result.stdout
    assert "export: begins anew (sampling.num_steps 2 → 3, export.formats [" in result.stdout
    assert sorted(path.name for path in (copy / "bundle").glob("*.tflite")) == [
        "denoise_float32.tflite",
        "sample_float32.tflite",
    ]
    assert len(json.loads((copy / "bundle" / "bundle.json").read_text())["steps"]) == 3


def test_dense_unconditional_run(tmp_path: Path) -> None:
    settings = {
        "network.conditional": "false",
        "sparsify.method": "none",
        "export.formats": "[float32.tflite]",
        "report.grid": "10",
        "report.timed": "2",
    }
    options = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    result = invoke("run", write_tiny(tmp_path), "--out", tmp_path / "run", *options)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["sparsity"] == {"fraction": 0.0, "layers": []}
    assert report["recogniser"] is None
    assert report["keras"]["recognised"] is None
