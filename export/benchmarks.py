"""`benchmark`: files timed side by side, so that a busy moment of the machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff.errors import UsageError
from tfdiff.export.runtimes import Runner, load


@dataclass(frozen=True)
class Timing:
    """Median milliseconds of one call over all rounds, and per image."""

    median_ms: float
    images_per_call: int

    @property
    def ms_per_image(self) -> float:
        return self.median_ms / self.images_per_call


def benchmark(
    files: Sequence[str | Path] | Mapping[str, str | Path],
    *,
    callables: Mapping[str, Callable[[], Any]] | None = None,
    rounds: int = 20,
    warmup: int = 3,
    num_threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Timing]:
    """Time files in turns: each round calls every file once.

    Args:
        files: .tflite and .onnx files, in any mix; of a mapping, the keys are the names.
        callables: other things to time in the same rounds, such as the Keras model, by name. Each returns an array
            of images or a tensor, the batch first.
        rounds: timed rounds.
        warmup: rounds before these that do not count.
        num_threads: of the runtimes; callables use what they use.
        progress: called with (rounds done, rounds in all).

    Returns:
        A timing per name (of a sequence: the file's name, or its path where two share a name) and per callable.

    Raises:
        UsageError: when a file cannot be loaded, a count is below 1 or there is nothing to time.
    """
    if rounds < 1 or warmup < 1:
        raise UsageError(f"rounds={rounds}, warmup={warmup}: both must be >= 1.")
    named = files if isinstance(files, Mapping) else _named([Path(file) for file in files])
    calls = {name: _call(load(path, num_threads=num_threads)) for name, path in named.items()}
    calls.update(callables or {})
    if not calls:
        raise UsageError("files is empty: give .tflite or .onnx files, or callables.")
    images = {name: len(call()) for name, call in calls.items()}
    elapsed: dict[str, list[float]] = {name: [] for name in calls}
    for done in range(warmup + rounds):
        if progress:
            progress(done, warmup + rounds)
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if done >= warmup:
                elapsed[name].append((time.perf_counter() - began) * 1e3)
    if progress:
        progress(warmup + rounds, warmup + rounds)
    return {name: Timing(float(np.median(times)), images[name]) for name, times in elapsed.items()}


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    unique = len({path.name for path in paths}) == len(paths)
    return {path.name if unique else str(path): path for path in paths}


def _call(runner: Runner) -> Callable[[], np.ndarray]:
    """A call of the file with unit normal inputs and, where it takes a label, class 0."""
    generator = np.random.default_rng(0)
    feeds = {name: generator.standard_normal(shape, np.float32) for name, shape in runner.input_shapes.items()}
    if "label" in feeds:
        feeds["label"] = np.zeros_like(feeds["label"])
        feeds["label"][:, 0] = 1
    return lambda: runner.run(feeds)[runner.output_names[0]]
