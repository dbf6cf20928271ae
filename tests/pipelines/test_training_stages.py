"""The stages that train: what they write, and that a killed run ends with the weights of an unbroken one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.conftest import write_tiny
from tfdiff.errors import DataError
from tfdiff.pipelines import load_config, run

pytestmark = pytest.mark.slow

#: Long enough to be killed between two checkpoints.
LONGER = {"train.steps": 60, "train.checkpoint_every": 20, "sparsify.steps": 60}


def weights(path: Path) -> list[np.ndarray]:
    from tfdiff.training import load_model

    model = load_model(str(path))
    return [*model.network.get_weights(), *model.ema_network.get_weights()]


def assert_equal(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    config = load_config(write_tiny(folder), LONGER)
    return run(config, folder / "run", until="sparsify").path


def test_training_learns_and_is_recorded(unbroken: Path) -> None:
    summary = json.loads((unbroken / "train" / "summary.json").read_text())
    history = summary["history"]
    assert [row["step"] for row in history] == [20, 40, 60]
    assert history[-1]["loss"] < history[0]["loss"]
    assert summary["images"] == {"train": 270, "validation": 30, "skipped": 0}
    assert sorted(path.name for path in (unbroken / "train" / "samples").iterdir()) == [
        f"samples_{step:06d}.png" for step in (20, 40, 60)
    ]


def test_sparsity_is_reached_and_reported(unbroken: Path) -> None:
    from tfdiff.training import load_model

    summary = json.loads((unbroken / "sparsify" / "summary.json").read_text())
    assert summary["fraction"] == pytest.approx(0.8, abs=0.005)
    model = load_model(str(unbroken / "sparsify" / "model.keras"))
    for layer in summary["layers"]:
        kernel = model.ema_network.get_layer(layer["layer"]).get_weights()[0]
        assert layer["weights"] == kernel.size
        assert layer["zeros"] == int((kernel == 0).sum())


def test_layers_are_left_dense_for_the_policys_reasons(tmp_path: Path) -> None:
    skipped = "down0_block0_expand"
    config = load_config(write_tiny(tmp_path), {"sparsify.policy.skip": [skipped]})
    layers = run(config, tmp_path / "run", until="sparsify").require("sparsify")["layers"]
    reasons = {layer["layer"]: layer["reason"] for layer in layers}
    assert reasons[skipped] == "named in skip"
    assert "" in reasons.values()


def test_stages_see_the_training_images_in_orders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfdiff import data

    firsts, held_out = [], []
    batches, validation_batches = data.batches, data.validation_batches

    def record_batches(*arguments: Any, **options: Any) -> Any:
        stream = batches(*arguments, **options)
        firsts.append(next(iter(stream))[0].numpy())
        return stream

    def record_validation(images: data.ImageSet, batch_size: int) -> Any:
        held_out.append(images.fingerprint)
        return validation_batches(images, batch_size)

    monkeypatch.setattr(data, "batches", record_batches)
    monkeypatch.setattr(data, "validation_batches", record_validation)
    run(load_config(write_tiny(tmp_path)), tmp_path / "run", until="sparsify")
    train, sparsify = firsts
    assert not np.array_equal(train, sparsify)
    assert held_out[0] == held_out[1]


@pytest.mark.parametrize("stage", ["train", "sparsify"])
def test_killed_and_resumed_equals_unbroken(unbroken: Path, tmp_path: Path, stage: str) -> None:
    source, out = write_tiny(tmp_path), tmp_path / "run"
    settings = [text for key, value in LONGER.items() for text in ("--set", f"{key}={value}")]
    command = [
        sys.executable,
        "-c",
        "from tfdiff.pipelines.cli import main; main()",
        "sparsify",
        str(source),
        "--out",
        str(out),
    ]
    with subprocess.Popen([*command, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (out / stage / "checkpoints" / "ckpt-20.index").exists():
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (out / stage / "summary.json").exists()
    lines: list[str] = []
    run(load_config(source, LONGER), out, until="sparsify", log=lines.append)
    assert f"{stage}: goes on" in lines
    assert_equal(weights(out / "sparsify" / "model.keras"), weights(unbroken / "sparsify" / "model.keras"))
    rows = [json.loads((path / stage / "history.json").read_text()) for path in (out, unbroken)]
    assert [row["step"] for row in rows[0]] == [20, 40, 60]
    assert [row["loss"] for row in rows[0]] == pytest.approx([row["loss"] for row in rows[1]], rel=1e-6)


@pytest.mark.parametrize(
    "overrides",
    [
        {"train.precision": "mixed_float16"},
        {"train.precision": "mixed_bfloat16"},
        {"train.jit_compile": True},
        {"train.steps_per_execution": 2},
        {
            "network.type": "unet",
            "network.widths": [8, 16],
            "network.blocks": 1,
            "network.attention": [4],
            "network.groups": 4,
            "train.jit_compile": False,
        },
        {"network.conditional": False},
        {"data.augment": {"translate": None}},
    ],
    ids=lambda overrides: "-".join(str(value) for value in overrides.values()),
)
def test_variants_train_and_prune(tmp_path: Path, overrides: dict[str, Any]) -> None:
    directory = run(load_config(write_tiny(tmp_path), overrides), tmp_path / "run", until="sparsify")
    assert np.isfinite(directory.require("sparsify")["val_loss"])
    assert directory.require("sparsify")["fraction"] == pytest.approx(0.8, abs=0.005)


def test_checkpoints_are_measured_and_the_best_is_kept(tmp_path: Path) -> None:
    """By the distance of drawn pictures; of a pruned one, once it is sparse."""
    from tfdiff.training import load_model

    settings = {"train.keep": "best", "train.monitor": "val_kid", "train.kid_images": 20, "sparsify.steps": 24}
    config = load_config(write_tiny(tmp_path), settings)
    directory = run(config, tmp_path / "run", until="sparsify")
    for stage in ("train", "sparsify"):
        summary = directory.require(stage)
        rows = [row for row in summary["history"] if stage == "train" or row["step"] >= 16]
        best = min(rows, key=lambda row: row["val_kid"])
        kept = summary["kept"]
        assert (kept["step"], kept["value"], kept["monitor"]) == (best["step"], best["val_kid"], "val_kid")
        assert (summary["loss"], summary["val_loss"]) == (best["loss"], best["val_loss"])
        model = load_model(str(directory.stage(stage) / "model.keras"))
        assert model.completed_steps == best["step"]
        assert all("val_denoising" in row for row in summary["history"])
    assert directory.require("sparsify")["fraction"] == pytest.approx(0.8, abs=0.005)
    rows = json.loads((directory.stage("sparsify") / "sparsity.json").read_text())
    assert [row["step"] for row in rows] == [4, 8, 12, 16, 20, 24]
    assert rows[-1]["sparsity"] == pytest.approx(0.8, abs=0.005)
    for stage, kinds in {"train": ["samples", "train", "validation"], "sparsify": ["sparsity"]}.items():
        for kind in kinds:
            assert list((directory.stage(stage) / "tensorboard" / kind).glob("events*")), (stage, kind)


def test_no_pruning(tmp_path: Path) -> None:
    directory = run(load_config(write_tiny(tmp_path), {"sparsify.method": "none"}), tmp_path / "run", until="sparsify")
    assert directory.require("sparsify")["method"] == "none"
    assert not (directory.stage("sparsify") / "model.keras").exists()


def test_other_images_are_refused(tmp_path: Path) -> None:
    """A run goes on with the images that it began with, or not at all."""
    source = write_tiny(tmp_path)
    images = np.random.default_rng(0).integers(0, 255, (40, 8, 8), np.uint8)
    path = tmp_path / "images.npz"
    settings = {"data.source": str(path), "data.limit": None, "report.recognise": False}
    np.savez(path, images=images)
    run(load_config(source, settings), tmp_path / "run", until="train")
    np.savez(path, images=255 - images)
    with pytest.raises(DataError, match="holds other images than this run began with"):
        run(load_config(source, settings), tmp_path / "run", until="sparsify")
