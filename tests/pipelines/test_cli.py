"""The command line: exit codes, errors of one line, and what a dry run leaves alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from typer.testing import Result

from tests.pipelines.conftest import TINY
from tfdiff.errors import ExportError
from tfdiff.pipelines import cli, load_config
from tfdiff.pipelines.config_file import dump

Invoke = Callable[..., Result]


def refused(result: Result, *expected: str, code: int = 2) -> None:
    """Exit code, and a single line on stderr that says `expected`."""
    assert result.exit_code == code, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "Traceback" not in result.output
    for text in expected:
        assert text in lines[0]


class TestBadInput:
    def test_unknown_key(self, invoke: Invoke) -> None:
        result = invoke("run", "digits", "--set", "train.stepz=5")
        refused(result, "unknown key 'train.stepz': did you mean 'train.steps'?")

    def test_image_size(self, invoke: Invoke) -> None:
        refused(invoke("run", "digits", "--set", "data.image_size=18"), "data.image_size=18 does not divide by 4")

    def test_unreachable_target(self, invoke: Invoke) -> None:
        result = invoke("run", "digits", "--set", "sparsify.steps=250", "--set", "sparsify.frequency=200")
        refused(result, "sparsify.sparsity=0.8 cannot be reached in sparsify.steps=250")

    def test_missing_source(self, invoke: Invoke) -> None:
        refused(invoke("run", "folder"), "data.source is missing")

    def test_empty_folder(self, invoke: Invoke, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        refused(invoke("run", "folder", "--set", "data.source=photos"), "photos")

    def test_one_broken_jpeg(self, invoke: Invoke, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        Image.fromarray(np.full((64, 64, 3), 90, np.uint8)).save(tmp_path / "whole.jpg")
        (tmp_path / "photos" / "broken.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:200])
        refused(invoke("run", "folder", "--set", "data.source=photos"), "broken.jpg")

    @pytest.mark.parametrize(
        "setting", ["network.conditional=true", "sampling.guidance_scale=2", "report.recognise=true"]
    )
    def test_no_labels_for_a_conditional_model(self, invoke: Invoke, tiny: Path, tmp_path: Path, setting: str) -> None:
        np.savez(tmp_path / "grey.npz", images=np.zeros((40, 8, 8), np.uint8))
        result = invoke("run", tiny, "--set", "data.source=grey.npz", "--set", setting)
        refused(result, setting, "grey.npz", "has no labels")

    def test_keras_3_model(self, invoke: Invoke, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
            archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        expected = ("model.keras was saved by Keras 3.15.1", "tf_keras")
        refused(invoke("info", "model.keras"), *expected)
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.yaml").write_text(dump(load_config("digits")))
        refused(invoke("sample", "run", "--file", "model.keras"), *expected)
        assert not (tmp_path / "samples.png").exists()

    @pytest.mark.parametrize(
        ("classes", "expected"),
        [([30, 9], "has 9 images of class '1', fewer than 10"), ([40], "has one class, '0'")],
    )
    def test_too_few_images_to_recognise(
        self, invoke: Invoke, tiny: Path, tmp_path: Path, classes: list[int], expected: str
    ) -> None:
        labels = np.repeat(np.arange(len(classes)), classes)
        np.savez(tmp_path / "grey.npz", images=np.zeros((len(labels), 8, 8), np.uint8), labels=labels)
        result = invoke("run", tiny, "--set", "data.source=grey.npz", "--set", "report.recognise=true")
        refused(result, "report.recognise=true", "grey.npz", expected)
        assert not (tmp_path / "runs" / "tiny" / "train" / "checkpoints").exists()

    def test_unwritable_folder(self, invoke: Invoke, tiny: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        refused(invoke("run", tiny, "--out", "file/run"), "cannot write to file/run", "--out")

    def test_no_such_config(self, invoke: Invoke) -> None:
        refused(invoke("train", "cifar"), "no config 'cifar'")

    def test_sample_of_a_run_that_has_not_begun(self, invoke: Invoke, tiny: Path) -> None:
        refused(invoke("sample", tiny), "runs/tiny is no run: make it with `tfdiff run`")

    @pytest.mark.parametrize(
        "arguments", [["paint"], ["run"], ["run", "digits", "--colour"], ["sample", "x", "-n", "0"]]
    )
    def test_wrong_arguments(self, invoke: Invoke, arguments: list[str]) -> None:
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


class TestFailures:
    """Stages that raise: the exit code follows the kind of error."""

    @pytest.fixture
    def failing(self, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, tiny: Path) -> Callable[..., Result]:
        def failing(error: BaseException, *options: str) -> Result:
            def run(*_: Any, **__: Any) -> None:
                raise error

            monkeypatch.setattr(cli, "run", run)
            return invoke("run", tiny, *options)

        return failing

    def test_expected_failure(self, failing: Callable[..., Result]) -> None:
        refused(failing(ExportError("sample_int8.tflite: 12.1 dB is below 18 dB.")), "sample_int8.tflite", code=1)

    def test_unexpected_failure(self, failing: Callable[..., Result]) -> None:
        refused(failing(RuntimeError("boom\nmore")), "unexpected RuntimeError: boom", "--debug", code=1)

    def test_debug_shows_the_traceback(self, failing: Callable[..., Result]) -> None:
        result = failing(RuntimeError("boom"), "--debug")
        assert result.exit_code == 1
        assert "Traceback" in result.stderr

    def test_interruption_says_how_to_go_on(self, failing: Callable[..., Result], tiny: Path) -> None:
        result = failing(KeyboardInterrupt(), "--out", "elsewhere")
        assert result.exit_code == 130
        assert f"`tfdiff run {tiny} --out elsewhere` goes on" in result.stderr


@pytest.mark.parametrize("command", ["run", "train", "sparsify", "export", "verify"])
def test_dry_run_prints_the_plan_and_touches_nothing(invoke: Invoke, tiny: Path, tmp_path: Path, command: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = invoke(command, tiny, "--set", "train.steps=8", "--dry-run")
    assert result.exit_code == 0, result.output
    assert sorted(tmp_path.rglob("*")) == before
    assert "steps: 8" in result.stdout
    assert "10 classes" in result.stdout
    stages = ["train", "sparsify", "export", "verify", "report"]
    planned = [stage for stage in stages if f"{stage:<14} to do" in result.stdout]
    assert planned == (stages if command == "run" else stages[: stages.index(command) + 1])


@pytest.mark.parametrize("command", [["run", "--dry-run"], ["info"]])
def test_plan_downloads_nothing(
    invoke: Invoke, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    import tensorflow_datasets as tfds

    def builder(name: str) -> Any:
        assert name == "far_away"
        features = {"image": tfds.features.Image(shape=(8, 8, 1)), "label": tfds.features.ClassLabel(num_classes=7)}
        info = SimpleNamespace(features=features, splits={}, full_name="far_away/1.0.0")
        return SimpleNamespace(name=name, info=info)  # without download_and_prepare

    monkeypatch.setattr(tfds, "builder", builder)
    values = {**TINY, "data": {**TINY["data"], "source": "tfds:far_away"}}
    tiny.write_text(yaml.safe_dump(values))
    before = sorted(tmp_path.rglob("*"))
    result = invoke(command[0], tiny, *command[1:])
    assert result.exit_code == 0, result.output
    assert "far_away, not downloaded yet, 7 classes" in result.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_counts_parameters_and_multiply_adds(invoke: Invoke, tiny: Path) -> None:
    from tfdiff import metrics
    from tfdiff.pipelines import load_config
    from tfdiff.pipelines.train_stage import build_network

    counts = metrics.count(build_network(load_config(tiny), channels=1, num_classes=10))
    result = invoke("info", tiny)
    assert f"{counts.parameters:,} parameters, {counts.macs / 1e6:,.1f} M multiply-adds a call" in result.stdout
    assert f"2 network calls (dpmpp_2m, 2 steps), {2 * counts.macs / 1e6:,.1f} M multiply-adds" in result.stdout


def test_interrupted_hint_keeps_settings(invoke: Invoke, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", run)
    result = invoke("train", tiny, "--set", "train.steps=8")
    assert f"`tfdiff train {tiny} --set train.steps=8` goes on" in result.stderr
