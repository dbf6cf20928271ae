"""Time a bundle's files, and the Keras model that they came from, in turns."""

from __future__ import annotations

from pathlib import Path

from tfdiff import export, training
from tfdiff.pipelines.drawing import labels_in_turn
from tfdiff.pipelines.progress import rounds_bar

#: What the Keras model is called among the files.
KERAS = "Keras"


def time_files(bundle: Path, model: training.DiffusionModel, rounds: int, threads: int) -> dict[str, float]:
    """Median milliseconds by name: per picture of `KERAS` and of sample files, per network call of denoise files.

    Args:
        bundle: directory of the files.
        model: drawn from one picture at a time, with the sampler that the bundle's files unroll; TensorFlow uses all
            cores.
        rounds: calls of each.
        threads: of the files' runtimes.

    Raises:
        UsageError: when there is no bundle, or a file is damaged.
    """
    exported = export.Bundle.load(bundle)
    generator = training.Generator(model.denoiser(), exported.sampling(), batch_size=1)
    label = labels_in_turn(1, model.num_classes)
    with rounds_bar("benchmark") as progress:
        timings = export.benchmark(
            exported.files,
            callables={KERAS: lambda: generator.draw(label, num_images=1)},
            rounds=rounds,
            num_threads=threads,
            progress=progress,
        )
    return {name: timing.ms_per_image for name, timing in timings.items()}
