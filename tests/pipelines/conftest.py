"""A config small enough that its stages take seconds, and a command line that runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tfdiff.pipelines.cli import app

#: 8×8 digits, a network of one level, a few steps.
TINY: dict[str, Any] = {
    "name": "tiny",
    "data": {"source": "digits", "image_size": 8, "channels": 1, "limit": 300},
    "network": {"type": "edge_unet", "widths": [16], "blocks": 1, "noise_channels": 8, "embedding_width": 32},
    "train": {"steps": 12, "batch_size": 16, "learning_rate": 0.02, "warmup_steps": 2, "checkpoint_every": 4},
    "sparsify": {"sparsity": 0.8, "steps": 12, "learning_rate": 0.02},
    "sampling": {"num_steps": 2, "sigma_max": 20},
}


def write_tiny(folder: Path) -> Path:
    """Write the tiny config into `folder`; returns its path."""
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Path of the tiny config."""
    return write_tiny(tmp_path)


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """`invoke("run", "digits", ...)` as typed in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: Any) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke
