"""report.html: one file that holds everything it shows."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from tfdiff.pipelines.curves import loss_curve
from tfdiff.training import image_grid


def render(report: Mapping[str, Any], grids: Mapping[str, np.ndarray], columns: int, config: str) -> str:
    """The page.

    Args:
        report: what report.json holds.
        grids: caption → pictures (N,H,W,C) in [−1, 1].
        columns: of the grids.
        config: the resolved config as YAML.
    """
    environment = Environment(
        loader=PackageLoader("tfdiff.pipelines"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=_percent, kilobytes=_kilobytes, number=_number)
    histories = {"train": report["train"]["history"]}
    if report["sparsity"]["layers"]:
        histories["sparsify"] = report["sparsity"]["history"]
    return environment.get_template("report.html").render(
        report=report,
        grids={caption: _data_url(image_grid(images, columns)) for caption, images in grids.items()},
        curve=loss_curve(histories),
        config=config,
    )


def _data_url(pixels: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _kilobytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 1000:,.0f} kB"


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
