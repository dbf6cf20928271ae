"""Runs and files become candidates with names that tell them apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdiff.errors import UsageError
from tfdiff.files import sha256
from tfdiff.pipelines import load_config
from tfdiff.pipelines.config_file import dump
from tfdiff.pipelines.evaluation.candidates import find_candidates


def make_run(folder: Path, *, pruned: bool = True) -> Path:
    """A run directory with the files that a run writes; their content does not matter here."""
    stages = ("train", "sparsify") if pruned else ("train",)
    for stage in stages:
        (folder / stage).mkdir(parents=True)
        (folder / stage / "model.keras").write_text(stage + folder.name)
    (folder / "config.yaml").write_text(dump(load_config("digits", {"sampling.num_steps": 3})))
    names = ("denoise_int8.tflite", "sample_int8.tflite", "sample_float32.onnx")
    (folder / "bundle").mkdir()
    for name in names:
        (folder / "bundle" / name).write_text(name)
    sampling = {"sampler": "euler", "num_steps": 4, "schedule": "karras", "sigma_min": 0.1, "sigma_max": 10.0}
    manifest = {"version": 1, "sampling": sampling, "files": [{"name": name} for name in names], "failures": {}}
    (folder / "bundle" / "bundle.json").write_text(json.dumps(manifest))
    return folder


def test_a_run_stands_for_its_models_and_sampler_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    found = find_candidates([str(run)])
    assert [c.name for c in found] == ["Keras, dense", "Keras, pruned", "sample_int8.tflite", "sample_float32.onnx"]
    assert [c.kind for c in found] == ["keras", "keras", "tflite", "onnx"]
    # A Keras model samples as its run's config says, a file as its bundle does.
    assert [c.sampling.num_steps for c in found] == [3, 3, 4, 4]
    assert found[2].sha256 == sha256(run / "bundle" / "sample_int8.tflite")
    assert all(c.run is not None and c.run.path.resolve() == run.resolve() for c in found)


def test_an_unpruned_run_has_one_model(tmp_path: Path) -> None:
    assert find_candidates([str(make_run(tmp_path / "a", pruned=False))])[0].name == "Keras"


def test_names_of_several_runs_say_which(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    files = [str(run / "bundle" / "sample_int8.tflite") for run in (a, b)]
    assert [c.name for c in find_candidates(files)] == ["a/sample_int8.tflite", "b/sample_int8.tflite"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("nowhere", "neither a run nor a .keras"),
        ("nowhere/sample_int8.tflite", "does not exist"),
        ("alone/sample_int8.tflite", "has no bundle.json beside it"),
        ("empty", "has no trained model yet"),
    ],
)
def test_refuses_what_draws_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "sample_int8.tflite").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.yaml").write_text(dump(load_config("digits")))
    with pytest.raises(UsageError, match=expected):
        find_candidates([source])


def test_refuses_a_file_named_twice(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    with pytest.raises(UsageError, match="named twice"):
        find_candidates([str(run), str(run / "bundle" / "sample_int8.tflite")])
