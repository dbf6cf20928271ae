"""report.html: the whole run on one page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdiff.pipelines.page import data_url, render_page
from tfdiff.pipelines.plots import loss_curve
from tfdiff.training import image_grid


def render(report: Mapping[str, Any], grids: Mapping[str, np.ndarray], columns: int, config: str) -> str:
    """The page.

    Args:
        report: what report.json holds.
        grids: caption → pictures (N,H,W,C) in [−1, 1].
        columns: of the grids.
        config: the resolved config as YAML.
    """
    histories = {"train": report["train"]["history"]}
    if report["sparsity"]["layers"]:
        histories["sparsify"] = report["sparsity"]["history"]
    return render_page(
        "report.html",
        report=report,
        grids={caption: data_url(image_grid(images, columns)) for caption, images in grids.items()},
        curve=loss_curve(histories),
        config=config,
    )
