"""Curves as SVG that takes the page's text colour, so that it reads on light and on dark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

#: Stands for "the colour of the text around" in what matplotlib writes.
_INK = "#010203"
_COLOURS = {"train": "#4c78d8", "sparsify": "#e08020"}


def loss_curve(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Training (line) and validation loss (dots) by step, one stage after another, as an SVG element.

    Args:
        histories: stage → rows of {"step", "loss", "val_loss"}; steps count from the stage's beginning.
    """
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "tfdiff",  # the same ids every time
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    }
    with rc_context(style):
        figure = Figure(figsize=(7.5, 2.8), layout="constrained")
        axes = figure.add_subplot()
        start = 0
        for stage, rows in histories.items():
            steps = [start + row["step"] for row in rows]
            colour = _COLOURS[stage]
            axes.plot(steps, [row["loss"] for row in rows], color=colour, label=f"{stage}: training")
            axes.plot(
                steps,
                [row["val_loss"] for row in rows],
                "o",
                markersize=3.5,
                color=colour,
                label=f"{stage}: validation (average)",
            )
            start = steps[-1]
        axes.set(xlabel="step", ylabel="loss", yscale="log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = svg.replace(_INK, "currentColor")
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
