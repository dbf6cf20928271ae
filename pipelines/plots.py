"""Plots as SVG that take the page's text colour, and that read in black and white as well as in colour."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

#: Stands for "the colour of the text around" in what matplotlib writes.
_INK = "#010203"
#: Of the series of a plot in turn. No two share a marker or a dash: print and colour-blind eyes need no colour.
_COLOURS = ("#4c78d8", "#e08020", "#3a9a5b", "#b04fc0", "#c0392b", "#6b7a8f", "#8c6d31", "#2aa6b8")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 2)), (0, (8, 3)))


@dataclass(frozen=True)
class Point:
    """One candidate in a plot of two figures; `low` and `high` are the ends of y's interval, or None."""

    name: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


def loss_curve(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Training (line) and validation loss (markers) by step, one stage after another, as an SVG element.

    Args:
        histories: stage → rows of {"step", "loss", "val_loss"}; steps count from the stage's beginning.
    """
    with _plot(7.5, 2.8) as (axes, svg):
        start = 0
        for index, (stage, rows) in enumerate(histories.items()):
            steps = [start + row["step"] for row in rows]
            look: dict[str, Any] = {"color": _COLOURS[index]}
            axes.plot(
                steps, [row["loss"] for row in rows], linestyle=_DASHES[index], label=f"{stage}: training", **look
            )
            axes.plot(
                steps,
                [row["val_loss"] for row in rows],
                _MARKERS[index],
                markersize=3.5,
                label=f"{stage}: validation (average)",
                **look,
            )
            start = steps[-1]
        axes.set(xlabel="step", ylabel="loss", yscale="log")
        _plain_numbers(axes, "y")
        axes.legend(frameon=False)
    return svg[0]


def pareto_plot(points: Sequence[Point], front: Sequence[str], xlabel: str, ylabel: str) -> str:
    """Candidates by cost and distance, the Pareto front as a line through its members, as an SVG element.

    Args:
        points: one per candidate; lower is better on both axes.
        front: names of those that no other beats on both.
        xlabel, ylabel: of the axes.
    """
    with _plot(5.6, 3.6) as (axes, svg):
        members = sorted((point for point in points if point.name in front), key=lambda point: point.x)
        axes.step(
            [point.x for point in members],
            [point.y for point in members],
            where="post",
            linestyle="--",
            linewidth=1,
            color=_INK,
            zorder=1,
        )
        for index, point in enumerate(points):
            look = _look(index)
            spread = None
            if point.low is not None and point.high is not None:
                spread = [[max(point.y - point.low, 0)], [max(point.high - point.y, 0)]]
            # Filled where it lies on the front: the eye needs no legend for that.
            axes.errorbar(
                point.x,
                point.y,
                yerr=spread,
                fmt=look["marker"],
                markersize=8,
                color=look["color"],
                markerfacecolor=look["color"] if point.name in front else "none",
                capsize=2,
                linewidth=1,
                label=point.name,
            )
        axes.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        _plain_numbers(axes, "x")
        axes.margins(x=0.15, y=0.12)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return svg[0]


def level_plot(series: Mapping[str, tuple[Sequence[float], Sequence[float]]], ylabel: str) -> str:
    """A figure by noise level, one line per candidate, as an SVG element.

    Args:
        series: name → (sigmas, values).
        ylabel: what the values are.
    """
    with _plot(7.5, 3.2) as (axes, svg):
        for index, (name, (sigmas, values)) in enumerate(series.items()):
            axes.plot(sigmas, values, label=name, linestyle=_DASHES[index % len(_DASHES)], markersize=4, **_look(index))
        axes.set(xlabel="noise level σ", ylabel=ylabel, xscale="log", yscale="log")
        _plain_numbers(axes, "xy")
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return svg[0]


def _look(index: int) -> dict[str, Any]:
    return {"color": _COLOURS[index % len(_COLOURS)], "marker": _MARKERS[index % len(_MARKERS)]}


def _plain_numbers(axes: Axes, which: str) -> None:
    """1, 2, 5, 10 … rather than powers of ten on logarithmic axes, whose ranges here are short."""
    for letter in which:
        axis = axes.xaxis if letter == "x" else axes.yaxis
        low, high = sorted(axis.get_view_interval())
        # Within one decade 1, 2, 5 would leave a tick or none.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 6 * low else (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


@contextlib.contextmanager
def _plot(width: float, height: float) -> Iterator[tuple[Axes, list[str]]]:
    """Axes of a new figure, and a list that holds its SVG at the end of the block."""
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "tfdiff",  # the same ids every time
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    }
    with rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        svg: list[str] = []
        yield axes, svg
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace(_INK, "currentColor")
    svg.append(re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", text, count=1))
