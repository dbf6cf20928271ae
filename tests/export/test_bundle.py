"""A bundle holds what a client needs, and refuses what it cannot hold."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.export.conftest import NUM_CLASSES, SAMPLING, tiny_edge_unet
from tfdiff.diffusion import Denoiser, Parameterization, Sampling, initial_noise, one_hot_labels
from tfdiff.errors import ModelError, UsageError
from tfdiff.export import FORMATS, Bundle, Runner, bundle, load

LABELS = one_hot_labels(np.asarray([0, 1, 2, 3, -1]), NUM_CLASSES)
NOISE = initial_noise(len(LABELS), (8, 8, 1), seed=5)


def client_images(manifest: dict[str, Any], runner: Runner) -> np.ndarray:
    """DPM-Solver++(2M) as bundle.json words it, with nothing but a `denoise` file and NumPy."""
    x = manifest["steps"][0]["sigma"] * NOISE
    before: tuple[float, np.ndarray] | None = None
    for step in manifest["steps"]:
        embedding = np.tile(step["noise_embedding"], (len(x), 1))
        output = runner.run({"image": step["c_in"] * x, "noise_embedding": embedding, "label": LABELS})["output"]
        denoised = step["c_skip"] * x + step["c_out"] * output
        r, target = step["sigma_next"] / step["sigma"], denoised
        if before is not None and step["sigma_next"] > 0:
            e = 0.5 * math.log(step["sigma"] / step["sigma_next"]) / math.log(before[0] / step["sigma"])
            target = (1 + e) * denoised - e * before[1]
        x = r * x + (1 - r) * target
        before = step["sigma"], denoised
    return np.clip(x, -1, 1)


@pytest.mark.parametrize("runtime", ["tflite", "onnx"])
def test_client_drives_denoise_to_the_image_of_sample(exported: Bundle, denoiser: Denoiser, runtime: str) -> None:
    expected = np.clip(SAMPLING(denoiser, NOISE, LABELS), -1, 1)
    sample = load(exported.path(f"sample_float32.{runtime}")).run({"noise": NOISE, "label": LABELS})["image"]
    by_client = client_images(exported.manifest, load(exported.path(f"denoise_float32.{runtime}")))

    np.testing.assert_allclose(sample, expected, atol=1e-4)
    np.testing.assert_allclose(by_client, expected, atol=1e-4)
    # The oracle would be blind if labels did not matter or everything were clipped.
    assert np.abs(np.diff(SAMPLING(denoiser, NOISE[:1].repeat(5, 0), LABELS), axis=0)).max(axis=(1, 2, 3)).min() > 0.01
    assert np.mean(np.abs(expected) < 0.99) > 0.2


def test_all_files_are_there_and_in_the_manifest(exported: Bundle) -> None:
    assert {path.name for path in exported.files} == {f"{s}_{f}" for s in ("denoise", "sample") for f in FORMATS}
    assert exported.failures == {}
    reloaded = Bundle.load(exported.directory)
    assert reloaded.manifest == json.loads(json.dumps(exported.manifest))
    assert reloaded.damaged() == []
    assert reloaded.sampling() == SAMPLING
    # Nothing but the bundle: no partial or temporary file is left.
    extra = {path.name for path in exported.directory.iterdir()} - {path.name for path in exported.files}
    assert extra == {"bundle.json", "network.keras", "MODEL_CARD.md"}


def test_network_in_the_bundle_is_the_denoisers(exported: Bundle, denoiser: Denoiser) -> None:
    sigma = np.geomspace(0.1, 10, len(NOISE)).astype(np.float32)
    np.testing.assert_allclose(
        exported.denoiser()(NOISE, sigma, LABELS), denoiser(NOISE, sigma, LABELS), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("sampling", "named"),
    [
        (Sampling("ancestral"), "ancestral"),
        (Sampling("heun", options={"s_churn": 5.0}), "heun"),
        (Sampling(guidance_scale=0.0), "guidance_scale=0"),
    ],
)
def test_refuses_samplers_that_a_file_cannot_hold(
    denoiser: Denoiser, tmp_path: Path, sampling: Sampling, named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        bundle(denoiser, tmp_path / "bundle", sampling=sampling)
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"formats": ["int4.tflite"]}, "int4.tflite"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 8, "calibration_size": 4}, "batch_size=8"),
        ({"class_names": ["one"]}, "class_names"),
        ({"steps": 0}, "num_steps"),
    ],
)
def test_wrong_arguments_are_named(denoiser: Denoiser, tmp_path: Path, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        bundle(denoiser, tmp_path / "bundle", **options)


@pytest.mark.parametrize("directory", ["file", "file/bundle", "/proc/self"])
def test_directories_that_cannot_be_written_are_named_before_conversion(
    denoiser: Denoiser, tmp_path: Path, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfdiff.export.bundling._convert", lambda *_: pytest.fail("conversion began"))
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / directory  # an absolute path stays what it is
    if directory == "/proc/self" and not path.exists():
        pytest.skip("needs Linux's /proc, which nobody may write to, root included")
    with pytest.raises(UsageError, match=f"directory='{path}' cannot be written"):
        bundle(denoiser, path, sampling=SAMPLING)


def test_interrupted_writes_leave_the_file_as_it_was(
    exported: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[: len(text) // 2].encode(encoding))
        raise OSError("No space left on device")

    copy = Bundle(tmp_path, dict(exported.manifest))
    copy.save()
    before = (tmp_path / "bundle.json").read_bytes()
    monkeypatch.setattr(Path, "write_text", disk_full)
    with pytest.raises(OSError, match="No space left"):
        copy.save()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"bundle.json": before}


def test_refuses_what_is_no_model(tmp_path: Path, denoiser: Denoiser) -> None:
    with pytest.raises(ModelError, match="ndarray"):
        bundle(np.zeros(3), tmp_path)
    own = Parameterization("mine", denoiser.parameterization.fn)
    with pytest.raises(ModelError, match="'mine'"):
        bundle(Denoiser(denoiser.network, own), tmp_path)
    with pytest.raises(UsageError, match="guidance_scale=2"):
        bundle(Denoiser(tiny_edge_unet(num_classes=None)), tmp_path, sampling=replace(SAMPLING, guidance_scale=2.0))


def test_refuses_a_network_that_folds_to_another_function(tmp_path: Path, denoiser: Denoiser) -> None:
    network = tiny_edge_unet()
    network.get_layer("stem").folded_weights = lambda: [
        np.zeros_like(weight) for weight in network.get_layer("stem").get_weights()
    ]
    with pytest.raises(ModelError, match="edge_unet"):
        bundle(Denoiser(network), tmp_path)


def test_directories_without_a_bundle_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no bundle\.json"):
        Bundle.load(tmp_path)
    (tmp_path / "bundle.json").write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        Bundle.load(tmp_path)
    (tmp_path / "bundle.json").write_text('{"version": 99}')
    with pytest.raises(UsageError, match="version 99"):
        Bundle.load(tmp_path)


def test_damaged_network_is_named(exported: Bundle, tmp_path: Path) -> None:
    content = (exported.directory / "network.keras").read_bytes()
    (tmp_path / "network.keras").write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match=r"network\.keras"):
        Bundle(tmp_path, exported.manifest).denoiser()
