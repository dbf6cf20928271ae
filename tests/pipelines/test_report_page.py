"""The report's words and page, from figures made up here."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tfdiff.pipelines.findings import findings
from tfdiff.pipelines.plots import loss_curve
from tfdiff.pipelines.report_page import render

HISTORY = [{"step": step, "loss": 1 / step, "val_loss": 1.1 / step, "learning_rate": 0.1} for step in (10, 20, 30)]


def file(name: str, milliseconds: float, **figures: Any) -> dict[str, Any]:
    common = {
        "runtime": "LiteRT",
        "bytes": 1000,
        "gzip_bytes": 300,
        "snr_db": 20.0,
        "partitions": 1,
        "zero_fraction": 0.8,
    }
    scores = {"recognised": None, "fid": None, "kid": {"value": 0.0123, "low": 0.0113, "high": 0.0133}}
    return {"name": name, "ms_per_image": milliseconds, **scores, **common, **figures}


@pytest.fixture
def report() -> dict[str, Any]:
    layer = {"layer": "a", "weights": 1000, "zeros": 800, "fraction": 0.8, "pruned": True, "reason": ""}
    return {
        "name": "made <up>",
        "data": {"source": "digits", "image_size": 8, "train": 270, "validation": 30, "skipped": 0},
        "counts": {"parameters": 356_000, "macs": 16, "macs_per_image": 128},
        "sampling": {"sampler": "dpmpp_2m", "network_calls": 8},
        "train": {"steps": 30, "loss": 0.1, "val_loss": 0.2, "history": HISTORY},
        "sparsity": {"fraction": 0.8, "layers": [layer], "steps": 30, "val_loss": 0.3, "history": HISTORY},
        "dense": {"recognised": 0.96, "fid": {"value": 3.0, "low": None, "high": None}, "kid": None},
        "keras": {
            "recognised": 0.95,
            "ms_per_image": 40.0,
            "fid": {"value": 3.2, "low": 3.0, "high": 3.4},
            "kid": None,
        },
        "protocol": {"features": "a network", "features_hash": "ab" * 32, "reference_images": 270, "images": 512},
        "files": [
            file("sample_float32.tflite", 30.0),
            file("sample_int8.tflite", 20.0, bytes=400, recognised=0.91),
            file("sample_float32.onnx", 25.0, partitions=None, snr_db=None),
            file("sample_int8.onnx", 50.0, partitions=None),
        ],
        "recogniser": {"accuracy": 0.97, "fingerprint": "", "images": 512},
        "environment": {"tfdiff": "0", "processor": "a processor", "cores": 2, "threads": 1},
        "notes": ["zeros < ones"],
    }


def test_findings_say_what_was_measured(report: dict[str, Any]) -> None:
    zeros, tflite, onnx, fastest = findings(report)
    assert "80% of the prunable weights" in zeros
    assert "not smaller or faster" in zeros
    assert "40% of the bytes of sample_float32.tflite and here is 1.5× as fast as it" in tflite
    assert "here is 2.0× slower than it (50 against 25 ms a picture)" in onnx
    assert "sample_int8.tflite: 20 ms a picture on 1 thread, against 40 ms" in fastest
    assert "Keras model, which uses all cores" in fastest


def test_findings_claim_nothing_about_what_was_not_measured(report: dict[str, Any]) -> None:
    report["files"] = [file("denoise_float32.tflite", 3.0)]
    assert findings(report) == []
    report["files"] = [file("sample_float32.tflite", 30.0, zero_fraction=0.0)]
    assert len(findings(report)) == 1


def test_equal_speed_is_called_equal(report: dict[str, Any]) -> None:
    report["files"][1]["ms_per_image"] = 29.5
    assert "no faster than it" in findings(report)[1]


def test_page(report: dict[str, Any]) -> None:
    picture = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 8, 8, 1)
    page = render(report, {"Keras": np.repeat(picture, 4, axis=0)}, 2, "name: made <up>")
    assert "made &lt;up&gt;" in page
    assert "made <up>" not in page
    assert "zeros &lt; ones" in page
    assert "91.0 %" in page
    assert len(re.findall(r'src="data:image/png;base64,', page)) == 1
    assert not re.search("https?://", page.replace("http://www.w3.org", ""))


def test_page_without_classes_or_pruning(report: dict[str, Any]) -> None:
    report.update(
        recogniser=None, sparsity={"fraction": 0.0, "layers": []}, keras={**report["keras"], "recognised": None}
    )
    page = render(report, {}, 2, "")
    assert "classifier" not in page
    assert "Sparsity by layer" not in page


def test_curve_is_one_svg_in_the_pages_colour() -> None:
    svg = loss_curve({"train": HISTORY, "sparsify": HISTORY})
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "currentColor" in svg
    assert "sparsify: training" in svg
    assert svg == loss_curve({"train": HISTORY, "sparsify": HISTORY})
