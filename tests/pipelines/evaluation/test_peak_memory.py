"""Memory is measured against allocations of known size; streams of pictures need the same, however long."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfdiff import diffusion, metrics
from tfdiff.pipelines.evaluation import throughput
from tfdiff.pipelines.evaluation.peak_memory import Peak, peak_memory

MEGABYTE = 1_000_000


def test_peak_sees_what_was_freed_before_it_was_asked() -> None:
    peak = Peak()
    np.ones(100 * MEGABYTE, np.uint8)
    found = peak.bytes()
    assert 90 * MEGABYTE < found < 130 * MEGABYTE
    # An earlier peak is no part of a later one.
    assert Peak().bytes() < 20 * MEGABYTE


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_has_no_figure(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"TFL3")
    assert peak_memory(tmp_path / "model.tflite", diffusion.Sampling().config(), 1) is None


def test_throughput_reports_both_numbers_of_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "_FEW", 300)
    monkeypatch.setattr(throughput, "_MANY", 20_000)
    network = metrics.FeatureNetwork(
        "rows",
        lambda pixels: [tf.reduce_mean(pixels, axis=(2, 3))],
        "0" * 64,
        dimension=8,
        num_classes=None,
        image_shape=(8, 8, 1),
    )
    seen: list[int] = []
    text = throughput.throughput_text(network, (8, 8, 1), seen.append)
    assert sum(seen) == 256 + 300 + 20_000
    found = re.findall(r"statistics of +([\d,]+) pictures, 8 features: +([\d,]+) pictures/s.* ([\d,]+) MB", text)
    assert [count for count, _, _ in found] == ["300", "20,000"]
    assert all(int(rate.replace(",", "")) > 0 for _, rate, _ in found)
    # The pictures themselves are 1.3 MB in 300 and 82 MB in 20,000 as float32 pixels.
    assert int(found[1][2]) < 20
    assert "FID of 300 against 20,000 pictures" in text
    assert "KID of 300 against 20,000 pictures" in text
