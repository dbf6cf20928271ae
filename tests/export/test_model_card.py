"""The card says what the bundle's own files say, and more as more is known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tfdiff.errors import UsageError
from tfdiff.export import Bundle, record_quality, verify, write_card
from tfdiff.files import sha256


@pytest.fixture
def copied(exported: Bundle, tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    shutil.copytree(exported.directory, folder)
    (folder / "verify.json").unlink(missing_ok=True)
    return folder


def test_lists_every_file_with_its_bytes_and_hash(copied: Path) -> None:
    card = write_card(copied).read_text()
    for path in Bundle.load(copied).files:
        (line,) = [line for line in card.splitlines() if line.startswith(f"| {path.name} ")]
        assert f"{path.stat().st_size:,}" in line
        assert sha256(path)[:12] in line
    assert sha256(copied / "network.keras") in card
    assert "Not verified yet" in card
    assert "Not measured yet" in card


def test_facts_become_sections(copied: Path) -> None:
    bundle = Bundle.load(copied)
    bundle.manifest["facts"] = {
        "name": "made up",
        "data": {"source": "digits", "train": 1617},
        "lineage": {"dense": "10 steps"},
    }
    bundle.save()
    card = write_card(copied).read_text()
    assert card.startswith("# Model card: made up\n")
    assert "## Training data\n\n- **source**: digits\n- **train**: 1,617" in card
    assert "- **dense**: 10 steps" in card
    assert "## Recipe" not in card


def test_verification_and_quality_are_added(copied: Path) -> None:
    reports = {report.name: report for report in verify(copied, num_images=2, allow_failures=True).files}
    figure = {"value": 0.0123, "low": 0.0100, "high": 0.0150}
    name = Bundle.load(copied).files[0].name
    row = {"name": name, "fid": None, "kid": figure, "recognised": {"value": 0.9, "low": None, "high": None}}
    protocol = {"features": "recogniser", "images": 512, "sampling": {"num_steps": 5}}
    record_quality(copied, {"protocol": protocol, "candidates": [row], "notes": ["ONNX is slower."]})
    card = (copied / "MODEL_CARD.md").read_text()
    assert f"| {name} | – | 0.0123 [0.0100, 0.0150] | – | – | 90.0% |" in card
    assert "features: recogniser; images: 512; sampling: num_steps 5" in card
    assert "- ONNX is slower." in card
    assert "Not verified yet" not in card
    assert f"| {reports[name].gzip_bytes:,} |" in card
    assert json.loads((copied / "quality.json").read_text())["candidates"] == [row]


def test_refuses_what_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a finished bundle"):
        write_card(tmp_path)
