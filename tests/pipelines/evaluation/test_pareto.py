"""The front by its definition, and the file that is recommended."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tfdiff.pipelines.evaluation.pareto import front, recommend


def test_front_holds_exactly_those_that_nothing_beats() -> None:
    costs = {str(i): tuple(pair) for i, pair in enumerate(np.random.default_rng(0).integers(0, 8, (40, 2)).tolist())}

    def beats(a: Any, b: Any) -> bool:
        return a[0] <= b[0] and a[1] <= b[1] and a != b

    expected = {name for name, cost in costs.items() if not any(beats(other, cost) for other in costs.values())}
    assert set(front(costs)) == expected
    members = [costs[name][0] for name in front(costs)]
    assert all(a <= b for a, b in itertools.pairwise(members))


def test_equal_candidates_are_both_on_the_front() -> None:
    assert front({"a": (1, 2), "b": (1, 2), "c": (1, 3)}) == ["a", "b"]


def row(name: str, quality: float | None, milliseconds: float, size: int) -> dict[str, Any]:
    return {"name": name, "quality": quality, "ms_per_image": milliseconds, "bytes": size}


def test_the_fastest_of_those_that_draw_as_well() -> None:
    files = [row("float", 10.0, 8.0, 4000), row("int8", 10.3, 4.0, 1000), row("tiny", 15.0, 1.0, 100)]
    shipped = recommend(files, {"float": False, "int8": True, "tiny": True})
    # 3 % worse is none that counts, 50 % is.
    assert shipped is not None
    assert (shipped["name"], shipped["best"]) == ("int8", "float")
    assert "Measurably worse: tiny" in shipped["reason"]


def test_a_difference_that_was_not_shown_does_not_exclude() -> None:
    files = [row("float", 10.0, 8.0, 4000), row("int8", 12.0, 4.0, 1000)]
    assert recommend(files, {"int8": False})["name"] == "int8"  # type: ignore[index]
    assert recommend(files, {"int8": True})["name"] == "float"  # type: ignore[index]


def test_of_equally_fast_files_the_smaller() -> None:
    files = [row("big", 10.0, 4.0, 4000), row("small", 10.0, 4.1, 1000)]
    assert recommend(files, {"big": False, "small": False})["name"] == "small"  # type: ignore[index]


def test_nothing_to_ship_without_a_score() -> None:
    assert recommend([], {}) is None
    assert recommend([row("a", None, 1.0, 1)], {}) is None
