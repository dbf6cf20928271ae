"""How fast pictures become statistics, and that memory does not grow with their number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from tfdiff import metrics
from tfdiff.pipelines.evaluation.peak_memory import Peak
from tfdiff.pipelines.evaluation.yardstick import measure

_FEW, _MANY = 1_000, 50_000
_BATCH = 256


def throughput_text(
    network: metrics.FeatureNetwork, image_shape: tuple[int, int, int], progress: Callable[[int], None] | None = None
) -> str:
    """Statistics of 1,000 and of 50,000 pictures of noise: pictures a second, and the peak growth of memory.

    Args:
        network: sees the pictures.
        image_shape: (H, W, C).
        progress: called with the pictures seen since the last call.
    """
    measure(network, _noise(_BATCH, image_shape), progress)  # traced before anything is measured
    lines, found = [], {}
    for count in (_FEW, _MANY):
        peak = Peak()
        began = time.perf_counter()
        found[count] = measure(network, _noise(count, image_shape), progress)
        seconds = time.perf_counter() - began
        lines.append(
            f"statistics of {count:>6,} pictures, {network.dimension} features: {count / seconds:8,.0f} pictures/s, "
            f"memory grew by {peak.bytes() / 1e6:,.0f} MB at most"
        )
    for name, function in (("FID", metrics.frechet_distance), ("KID", metrics.kernel_distance)):
        began = time.perf_counter()
        function(found[_MANY], found[_FEW])
        lines.append(f"{name} of {_FEW:,} against {_MANY:,} pictures: {1e3 * (time.perf_counter() - began):,.0f} ms")
    return "\n".join(lines)


def pictures_to_measure() -> int:
    """Pictures that `throughput_text` reports progress of."""
    return _BATCH + _FEW + _MANY


def _noise(count: int, image_shape: tuple[int, int, int]) -> Iterator[np.ndarray]:
    """uint8 noise in batches; the same batch again and again, since making it is not what is measured."""
    batch = np.random.default_rng(0).integers(0, 256, (_BATCH, *image_shape), np.uint8)
    for begin in range(0, count, _BATCH):
        yield batch[: count - begin]
