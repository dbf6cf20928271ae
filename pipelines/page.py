"""Pages of one file that hold all they show: templates, their filters, and pictures as data."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image


def render_page(template: str, **values: Any) -> str:
    """A page from a template of the package, with `values`."""
    environment = Environment(
        loader=PackageLoader("tfdiff.pipelines"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=_percent, kilobytes=_kilobytes, number=_number, million=_million, spread=_spread)
    return environment.get_template(template).render(**values)


def data_url(pixels: np.ndarray) -> str:
    """uint8 pixels (H,W,1 or 3) as the address of a PNG that holds them."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _kilobytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 1000:,.0f} kB"


def _million(value: int | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.1f}"


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _spread(figure: dict[str, float | None] | None, digits: int = 2) -> str:
    """A value and half the width of its interval."""
    if figure is None or figure["value"] is None:
        return "–"
    text = f"{figure['value']:,.{digits}f}"
    low, high = figure["low"], figure["high"]
    return text if low is None or high is None else f"{text} ± {(high - low) / 2:.{digits}f}"
