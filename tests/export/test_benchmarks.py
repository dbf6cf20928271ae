"""Files and callables are timed in turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdiff.errors import UsageError
from tfdiff.export import Bundle, benchmark
from tfdiff.export.benchmarks import Timing


def test_every_file_and_callable_is_called_each_round(exported: Bundle) -> None:
    calls: list[str] = []

    def model(name: str, images: int) -> np.ndarray:
        calls.append(name)
        return np.zeros((images, 8, 8, 1))

    rounds: list[tuple[int, int]] = []
    timings = benchmark(
        [exported.path("sample_int8.tflite"), exported.path("denoise_float32.onnx")],
        callables={"a": lambda: model("a", 4), "b": lambda: model("b", 1)},
        rounds=3,
        warmup=2,
        progress=lambda *event: rounds.append(event),
    )
    assert timings.keys() == {"sample_int8.tflite", "denoise_float32.onnx", "a", "b"}
    # One call more tells how many images come back. In turns: never the same twice in a row.
    assert calls == ["a", "b"] * 6
    assert rounds == [(done, 5) for done in range(6)]
    assert timings["a"].images_per_call == 4
    assert timings["sample_int8.tflite"].images_per_call == 1
    for timing in timings.values():
        assert timing.median_ms > 0


def test_time_per_image() -> None:
    assert Timing(median_ms=6.0, images_per_call=4).ms_per_image == 1.5


def test_nothing_to_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="files"):
        benchmark([])
    with pytest.raises(UsageError, match="rounds=0"):
        benchmark([], rounds=0)
    with pytest.raises(UsageError, match=r"absent\.onnx"):
        benchmark([tmp_path / "absent.onnx"])
