"""Table, CSV and page from a comparison made up here."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdiff.pipelines.evaluation.output import first_pictures, table_csv, table_text, write_comparison


def figure(value: float, spread: float | None = 0.1) -> dict[str, float | None]:
    low, high = (None, None) if spread is None else (value - spread, value + spread)
    return {"value": value, "low": low, "high": high}


def candidate(name: str, fid: float, milliseconds: float, size: int | None, **more: Any) -> dict[str, Any]:
    scores = dict.fromkeys(("precision", "recall", "density", "coverage"), figure(0.5))
    return {
        "name": name,
        "kind": "keras" if size is None else "tflite",
        "sampling": {"num_steps": 5},
        "fid": figure(fid),
        "kid": figure(fid / 1000, None),
        **scores,
        "inception_score": None,
        "recognised": figure(0.9),
        "against_baseline": None,
        "bytes": size,
        "gzip_bytes": size,
        "zero_fraction": 0.8,
        "parameters": 1000,
        "macs_per_image": 2_000_000,
        "ms_per_image": milliseconds,
        "peak_bytes": 3_000_000,
        "denoising": {"sigmas": [10.0, 0.1], "loss": [0.2, 0.4]},
        **more,
    }


@pytest.fixture
def comparison() -> dict[str, Any]:
    against = {"difference": figure(0.4), "psnr": 21.5, "ssim": 0.87, "feature_distance": 0.031}
    return {
        "baseline": "Keras <dense>",
        "quality_metric": "fid",
        "protocol": {
            "features": "recogniser",
            "features_hash": "abcdef0123456789",
            "reference_images": 4500,
            "images": 512,
            "seed": 1000,
        },
        "candidates": [
            candidate("Keras <dense>", 3.1, 60.0, None),
            candidate("sample_int8.tflite", 3.5, 4.6, 2_000_000, against_baseline=against),
        ],
        "real": {"images": 500, "kid": figure(0.0001)},
        "fronts": {"ms_per_image": ["sample_int8.tflite", "Keras <dense>"], "bytes": ["sample_int8.tflite"]},
        "recommendation": {
            "name": "sample_int8.tflite",
            "best": "sample_int8.tflite",
            "reason": "It is the only file.",
        },
        "denoising_images": 256,
        "notes": ["zeros < ones"],
        "environment": {"tfdiff": "0", "processor": "a processor", "cores": 2, "threads": 1},
    }


def test_page_holds_everything_it_shows(comparison: dict[str, Any], tmp_path: Path) -> None:
    pictures = {row["name"]: np.zeros((12, 8, 8, 1), np.uint8) for row in comparison["candidates"]}
    page = write_comparison(tmp_path, "made <up>", comparison, pictures).read_text()
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "made &lt;up&gt;" in page
    assert "Keras <dense>" not in page.replace("Keras &lt;dense&gt;", "")
    assert page.count("data:image/png;base64,") == 24
    assert page.count("<svg") == 3
    assert "Ship <strong>sample_int8.tflite</strong>" in page
    for text in (
        "3.50",
        "[3.40, 3.60]",
        "21.5",
        "0.870",
        "0.0310",
        "zeros &lt; ones",
        "4.60",
        "3,000 kB",
        "abcdef012345",
    ):
        assert text in page, text
    assert json.loads((tmp_path / "comparison.json").read_text()) == comparison


def test_csv_has_a_row_per_candidate_and_a_column_per_figure(comparison: dict[str, Any]) -> None:
    first, second = csv.DictReader(io.StringIO(table_csv(comparison["candidates"])))
    assert first["name"] == "Keras <dense>"
    assert first["bytes"] == ""
    assert float(second["fid"]) == 3.5
    assert float(second["fid_low"]) == pytest.approx(3.4)
    assert float(second["against_baseline_psnr"]) == 21.5
    assert float(second["sampling_num_steps"]) == 5
    assert float(second["ms_per_image"]) == 4.6


def test_table_names_the_file_to_ship(comparison: dict[str, Any]) -> None:
    lines = table_text(comparison).splitlines()
    assert len({line.index("±") for line in lines[1:3]}) == 1
    assert "3.50 ± 0.10" in lines[2]
    assert lines[-1] == "ship sample_int8.tflite: It is the only file."


def test_first_pictures_reads_no_more_than_it_needs() -> None:
    def batches() -> Any:
        for begin in (0, 3):
            yield np.arange(begin, begin + 3, dtype=np.uint8).reshape(3, 1, 1, 1)
        raise AssertionError("a third batch was asked for")

    assert first_pictures(batches(), 5).ravel().tolist() == [0, 1, 2, 3, 4]
