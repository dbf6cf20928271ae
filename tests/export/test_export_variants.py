"""Networks, samplers and batches beyond the tiny default: each converts, runs and equals Keras."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.export.conftest import tiny_edge_unet, with_weights
from tfdiff import networks
from tfdiff.diffusion import Denoiser, Sampling
from tfdiff.export import FORMATS, bundle, load, verify

pytestmark = pytest.mark.slow


def test_group_normalization_and_attention(tmp_path: Path) -> None:
    network = networks.unet(
        8, 3, 3, widths=(8, 16), blocks=1, attention=(4,), heads=2, groups=4, noise_channels=8, embedding_width=16
    )
    pruned = ("down1_block0_attention_query", "down0_block0_conv0")
    denoiser = Denoiser(with_weights(network, pruned), "eps")
    sampling = Sampling("euler", num_steps=2, sigma_min=0.2, sigma_max=10.0)
    bundle(denoiser, tmp_path, sampling=sampling, calibration_size=16, check=False)
    # Random weights ask for more than 8 bits; a wrong graph would be near 0 dB.
    result = verify(tmp_path, num_images=8, layers=pruned, thresholds={"denoise_int8": 8.0, "sample_int8": 8.0})
    assert len(result.files) == 2 * len(FORMATS)
    for report in result.files:
        assert report.zero_fraction == pytest.approx(0.8, abs=0.01), report.name
        if report.name.endswith("int8.tflite"):
            # Normalization and attention stay in float32: in INT8 the delegate would refuse them, in 47 pieces.
            assert (report.partitions, report.undelegated_ops) == (1, {}), report.name


def test_guided_heun_in_batches(tmp_path: Path) -> None:
    """Two network calls for guidance, twice a step for Heun; batches of two, with an odd number of images."""
    denoiser = Denoiser(tiny_edge_unet(), "v")
    sampling = Sampling("heun", num_steps=2, sigma_min=0.2, sigma_max=10.0, guidance_scale=1.5)
    formats = ("float32.tflite", "int8.tflite", "float32.onnx", "int8.onnx")
    exported = bundle(
        denoiser, tmp_path, sampling=sampling, formats=formats, batch_size=2, calibration_size=16, check=False
    )
    assert {load(path).batch_size for path in exported.files} == {2}
    result = verify(tmp_path, num_images=5, thresholds={"denoise_int8": 8.0, "sample_int8": 8.0})
    (report,) = [report for report in result.files if report.name == "denoise_float32.tflite"]
    assert report.snr_per_step is not None
    assert len(report.snr_per_step) == 2 * 3


def test_unconditional_colour_network(tmp_path: Path) -> None:
    denoiser = Denoiser(tiny_edge_unet(num_classes=None, channels=3), "flow")
    """Checked by `bundle` itself, with its own thresholds."""
    exported = bundle(
        denoiser, tmp_path, sampling=Sampling(sigma_max=10.0), steps=2, formats=("int8.tflite", "int8.onnx")
    )
    assert (tmp_path / "verify.json").exists()
    assert len(exported.manifest["steps"]) == 2
    assert exported.manifest["num_classes"] is None
    noise = np.zeros((1, 8, 8, 3), np.float32)
    for runtime in ("tflite", "onnx"):
        assert load(exported.path(f"sample_int8.{runtime}")).run({"noise": noise})["image"].shape == noise.shape
