"""`tfdiff evaluate` and `compare` on a run of the smallest size: every figure, again without drawing, and refusals."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.pipelines.conftest import write_tiny
from tfdiff.pipelines.cli import app

pytestmark = pytest.mark.slow

#: Ten groups of ten classes, which intervals need, and too few for FID.
IMAGES = 100


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def make_run(folder: Path, **settings: Any) -> Path:
    settings = {"export.formats": "[float32.tflite, int8.tflite, float32.onnx]", "verify.images": 8, **settings}
    options = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    result = invoke("verify", write_tiny(folder), "--out", folder / "run", *options)
    assert result.exit_code == 0, result.output
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def evaluated(run: Path) -> dict[str, Any]:
    result = invoke("evaluate", run, "-n", IMAGES)
    assert result.exit_code == 0, result.output
    folder = run / "evaluation"
    assert result.stdout.splitlines()[-1] == str(folder / "comparison.html")
    found = json.loads((folder / "comparison.json").read_text())
    for row in found["candidates"]:
        assert any(line.startswith(row["name"]) for line in result.stdout.splitlines())
    return found


@pytest.fixture(scope="module")
def rows(evaluated: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in evaluated["candidates"]}


def test_every_candidate_has_every_figure(run: Path, rows: dict[str, dict[str, Any]]) -> None:
    files = {"sample_float32.tflite", "sample_int8.tflite", "sample_float32.onnx"}
    assert set(rows) == {"Keras, dense", "Keras, pruned"} | files
    for name, row in rows.items():
        assert row["kid"]["low"] < row["kid"]["value"] < row["kid"]["high"]
        assert 0 <= row["recognised"]["low"] <= row["recognised"]["value"] <= row["recognised"]["high"] <= 1
        assert row["ms_per_image"] > 0
        assert row["peak_bytes"] > 0
        assert row["network_calls"] == 2
        assert row["macs_per_image"] == 2 * row["macs"]
        assert (row["bytes"] == (run / "bundle" / name).stat().st_size) if name in files else row["bytes"] is None
        assert row["zero_fraction"] == pytest.approx(0 if name == "Keras, dense" else 0.8, abs=0.05)


def test_float_files_draw_and_denoise_as_the_model_they_came_from(rows: dict[str, dict[str, Any]]) -> None:
    model = rows["Keras, pruned"]
    for name in ("sample_float32.tflite", "sample_float32.onnx"):
        assert rows[name]["kid"]["value"] == pytest.approx(model["kid"]["value"], abs=1e-3)
        assert rows[name]["denoising"]["sigmas"] == pytest.approx(model["denoising"]["sigmas"])
        assert rows[name]["denoising"]["loss"] == pytest.approx(model["denoising"]["loss"], rel=1e-4)
        # The pictures of one seed are told apart from the dense model's as the pruned model's are.
        ours, theirs = (rows[each]["against_baseline"] for each in (name, "Keras, pruned"))
        assert ours["psnr"] == pytest.approx(theirs["psnr"], abs=0.05)
        assert ours["ssim"] == pytest.approx(theirs["ssim"], abs=1e-3)
    assert model["denoising"]["loss"] != pytest.approx(rows["Keras, dense"]["denoising"]["loss"], rel=1e-3)
    assert rows["Keras, dense"]["against_baseline"] is None


def test_too_few_pictures_for_fid_say_so_and_are_compared_by_kid(evaluated: dict[str, Any]) -> None:
    assert evaluated["quality_metric"] == "kid"
    assert all(row["fid"] is None for row in evaluated["candidates"])
    (note,) = [note for note in evaluated["notes"] if "FID" in note]
    assert str(IMAGES) in note
    assert "KID" in note


def test_a_file_is_recommended_that_is_not_significantly_worse(
    evaluated: dict[str, Any], rows: dict[str, dict[str, Any]]
) -> None:
    assert rows[evaluated["recommendation"]["name"]]["kind"] != "keras"
    for cost, front in evaluated["fronts"].items():
        priced = [row for row in rows.values() if row[cost] is not None]
        for figures in ([(row["name"], row[cost]) for row in priced], [(row["name"], row["kid"]) for row in priced]):
            values = {name: figure["value"] if isinstance(figure, dict) else figure for name, figure in figures}
            assert min(values.values()) == min(values[name] for name in front)


@pytest.mark.usefixtures("evaluated")
def test_page_table_and_card(run: Path, rows: dict[str, dict[str, Any]]) -> None:
    page = (run / "evaluation" / "comparison.html").read_text()
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    # 12 pictures of each candidate and of the real ones.
    assert page.count("data:image/png;base64,") == 12 * (1 + len(rows))
    table = list(csv.DictReader((run / "evaluation" / "comparison.csv").read_text().splitlines()))
    assert [line["name"] for line in table] == list(rows)
    assert float(table[0]["kid"]) == rows["Keras, dense"]["kid"]["value"]
    card = (run / "bundle" / "MODEL_CARD.md").read_text()
    assert f"{rows['sample_int8.tflite']['kid']['value']:.4f}" in card


@pytest.mark.usefixtures("evaluated")
def test_evaluated_again_draws_nothing_and_finds_the_same(run: Path, rows: dict[str, dict[str, Any]]) -> None:
    stores = {path: path.stat().st_mtime_ns for path in (run / "evaluation" / "pictures").rglob("*.npz")}
    assert stores
    assert invoke("evaluate", run, "-n", IMAGES).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in stores} == stores
    for row in json.loads((run / "evaluation" / "comparison.json").read_text())["candidates"]:
        for key in ("kid", "recognised", "denoising", "macs", "zero_fraction"):
            assert row[key] == rows[row["name"]][key]


def test_a_files_pictures_are_those_that_generate_draws(run: Path, evaluated: dict[str, Any], tmp_path: Path) -> None:
    assert evaluated["protocol"]["seed"] == 1000
    output = tmp_path / "pictures.npz"
    file = run / "bundle" / "sample_int8.tflite"
    assert invoke("generate", file, "-n", IMAGES, "--seed", 1000, "-o", output).exit_code == 0
    (kept,) = (run / "evaluation" / "pictures").glob("sample_int8-*.npz")
    with np.load(output) as ours, np.load(kept) as theirs:
        np.testing.assert_array_equal(ours["images"], theirs["images"])


@pytest.fixture(scope="module")
def more_steps(tmp_path_factory: pytest.TempPathFactory, run: Path) -> Path:
    """The same run, exported with one step more."""
    copy = shutil.copytree(run, tmp_path_factory.mktemp("more") / "more_steps")
    shutil.rmtree(copy / "evaluation", ignore_errors=True)
    assert invoke("verify", copy, "--set", "sampling.num_steps=3").exit_code == 0
    return copy


def test_step_counts_are_compared_on_purpose_alone(run: Path, more_steps: Path, tmp_path: Path) -> None:
    files = [each / "bundle" / "sample_float32.tflite" for each in (run, more_steps)]
    refused = invoke("compare", *files, "-n", IMAGES, "--out", tmp_path / "out")
    assert refused.exit_code in (1, 2)
    assert "num_steps" in refused.stderr
    assert "--across" in refused.stderr or "across" in refused.stderr
    assert not (tmp_path / "out").exists()
    result = invoke("compare", *files, "--across", "num_steps", "-n", IMAGES, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [row["network_calls"] for row in found["candidates"]] == [2, 3]
    assert [row["name"] for row in found["candidates"]] == [
        "run/sample_float32.tflite",
        "more_steps/sample_float32.tflite",
    ]


def copied(source: str) -> Callable[[Path, Path], list[Any]]:
    """A file outside its run, with its bundle's manifest where it has one."""

    def copy(run: Path, folder: Path) -> list[Any]:
        for path in (run / source, run / source.replace(Path(source).name, "bundle.json")):
            if path.exists():
                shutil.copy(path, folder)
        return [folder / Path(source).name]

    return copy


@pytest.mark.parametrize(
    ("sources", "options", "expected"),
    [
        (copied("bundle/sample_float32.tflite"), [], "give --data"),
        (copied("train/model.keras"), ["--data", "nowhere.npz"], "nowhere.npz"),
        (lambda run, folder: [run], ["--features", "nowhere.keras"], "'nowhere.keras' does not exist"),
        (lambda run, folder: [run], ["--features", "inception:nowhere.pth"], "nowhere.pth"),
        (lambda run, folder: [run / "bundle" / "denoise_int8.tflite"], [], "denoise_int8.tflite"),
    ],
    ids=["no training data", "no such data", "no such features", "no such weights", "not a sampler"],
)
def test_refused_before_anything_is_drawn(
    run: Path, tmp_path: Path, sources: Callable[[Path, Path], list[Any]], options: list[str], expected: str
) -> None:
    result = invoke("evaluate", *sources(run, tmp_path), *options, "--out", tmp_path / "out")
    assert result.exit_code in (1, 2)
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert expected in errors[0]
    assert not (tmp_path / "out" / "pictures").exists()


def test_other_sizes_are_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "larger").mkdir()
    settings = {
        "data.image_size": 10,
        "export.formats": "[float32.tflite]",
        "train.steps": 4,
        "sparsify.method": "none",
    }
    larger = make_run(tmp_path / "larger", **settings)
    result = invoke("compare", run, larger, "--out", tmp_path / "out")
    assert result.exit_code in (1, 2)
    assert "(8, 8, 1)" in result.stderr
    assert "(10, 10, 1)" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_alone_is_measured_against_named_pictures_by_a_named_network(run: Path, tmp_path: Path) -> None:
    import tf_keras as keras

    features = keras.Sequential([keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(6, 3, activation="relu")])
    features.save(tmp_path / "features.keras")
    (file,) = copied("bundle/sample_float32.tflite")(run, tmp_path)
    options = ["--data", "digits", "--features", tmp_path / "features.keras", "-n", IMAGES, "--out", tmp_path / "out"]
    result = invoke("evaluate", file, *options)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert found["protocol"]["features"] == "features.keras"
    assert found["quality_metric"] == "fid"
    assert found["candidates"][0]["fid"]["value"] > 0
    # A file outside its run has its network in the bundle's folder or not at all; it is not guessed.
    assert found["candidates"][0]["macs"] is None
