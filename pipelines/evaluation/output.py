"""A comparison as files: comparison.json (everything), comparison.csv (a row per candidate), comparison.html."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff.files import write_text
from tfdiff.pipelines.page import data_url, render_page
from tfdiff.pipelines.plots import Point, level_plot, pareto_plot


def write_comparison(
    folder: Path, title: str, comparison: Mapping[str, Any], pictures: Mapping[str, np.ndarray]
) -> Path:
    """Write all three files.

    Args:
        folder: receives them; exists.
        title: of the page.
        comparison: what `compare` found, as JSON holds it.
        pictures: name → the first pictures of each candidate, uint8 (n,H,W,C).

    Returns:
        The path of the page.
    """
    write_text(folder / "comparison.json", json.dumps(comparison, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(folder / "comparison.csv", table_csv(comparison["candidates"]))
    write_text(folder / "comparison.html", render(title, comparison, pictures))
    return folder / "comparison.html"


def table_csv(rows: list[Mapping[str, Any]]) -> str:
    """A line per candidate; a figure with an interval takes the columns `x`, `x_low` and `x_high`."""
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def table_text(comparison: Mapping[str, Any]) -> str:
    """The figures that matter most, aligned for a terminal."""
    header = ("", "FID", "KID", "recall", "recognised", "kB", "ms", "MB peak")
    lines = [header]
    for row in comparison["candidates"]:
        lines.append(
            (
                row["name"],
                _spread(row["fid"], 2),
                _spread(row["kid"], 4),
                _spread(row["recall"], 3),
                "–" if row["recognised"] is None else f"{row['recognised']['value']:.1%}",
                "–" if row["bytes"] is None else f"{row['bytes'] / 1000:,.0f}",
                f"{row['ms_per_image']:.2f}",
                "–" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.1f}",
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    table = ["  ".join(map(_aligned, line, widths, [True, *[False] * (len(line) - 1)])).rstrip() for line in lines]
    if comparison["recommendation"]:
        table += ["", f"ship {comparison['recommendation']['name']}: {comparison['recommendation']['reason']}"]
    return "\n".join(table)


def render(title: str, comparison: Mapping[str, Any], pictures: Mapping[str, np.ndarray]) -> str:
    """The page (see `write_comparison`)."""
    metric = comparison["quality_metric"]
    series = {
        row["name"]: (row["denoising"]["sigmas"], row["denoising"]["loss"])
        for row in comparison["candidates"]
        if row["denoising"]
    }
    shipped = comparison["recommendation"]
    return render_page(
        "comparison.html",
        title=title,
        comparison=comparison,
        protocol=comparison["protocol"],
        chosen=shipped["name"] if shipped else None,
        classes=any(row["recognised"] for row in comparison["candidates"]),
        rows={name: [data_url(image) for image in images] for name, images in pictures.items()},
        plots=[
            pareto_plot(_points(comparison, cost, metric, divisor), comparison["fronts"][cost], axis, metric.upper())
            for cost, divisor, axis in (("ms_per_image", 1, "ms a picture"), ("bytes", 1000, "size, kB"))
            if comparison["fronts"][cost]
        ],
        levels=level_plot(series, "weighted loss") if series else None,
        quality_digits=4 if metric == "kid" else 2,
    )


def first_pictures(batches: Any, count: int) -> np.ndarray:
    """The first `count` of an iterable of uint8 batches."""
    kept: list[np.ndarray] = []
    for batch in batches:
        kept.append(batch[: count - sum(map(len, kept))])
        if sum(map(len, kept)) >= count:
            break
    return np.concatenate(kept)


def _points(comparison: Mapping[str, Any], cost: str, metric: str, divisor: float) -> list[Point]:
    points = []
    for row in comparison["candidates"]:
        quality = row[metric]
        if quality is None or row[cost] is None:
            continue
        points.append(Point(row["name"], row[cost] / divisor, quality["value"], quality["low"], quality["high"]))
    return points


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested figures by joined names; lists, which a table cannot show, are left to the JSON."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            joined = _flat(value, f"{prefix}{key}_")
            if "value" in value:
                joined[f"{prefix}{key}"] = joined.pop(f"{prefix}{key}_value")
            flat.update(sorted(joined.items()))
        elif not isinstance(value, list | tuple):
            flat[f"{prefix}{key}"] = "" if value is None else value
    return flat


def _spread(figure: Mapping[str, Any] | None, digits: int) -> str:
    """Value and half the width of its interval."""
    if figure is None:
        return "–"
    text = f"{figure['value']:.{digits}f}"
    if figure["low"] is None:
        return text
    return f"{text} ± {(figure['high'] - figure['low']) / 2:.{digits}f}"


def _aligned(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)
