"""Time a bundle's files, and the Keras model that they came from, in turns."""

from __future__ import annotations

from pathlib import Path

from tfdiff import diffusion, export, training
from tfdiff.pipelines.drawing import labels_in_turn
from tfdiff.pipelines.progress import rounds_bar

#: What the Keras model is called among the files.
KERAS = "Keras"


def time_files(
    bundle: Path, model: training.DiffusionModel, sampling: diffusion.Sampling, rounds: int, threads: int
) -> dict[str, float]:
    """Median milliseconds by name: per picture of `KERAS` and of sample files, per network call of denoise files.

    Args:
        bundle: directory of the files.
        model: drawn from with `sampling` one picture at a time; TensorFlow uses all cores.
        sampling: as the sample files unroll it.
        rounds: calls of each.
        threads: of the files' runtimes.

    Raises:
        UsageError: when there is no bundle, or a file is damaged.
    """
    generator = training.Generator(model.denoiser(), sampling, batch_size=1)
    label = labels_in_turn(1, model.num_classes)
    with rounds_bar("benchmark") as progress:
        timings = export.benchmark(
            export.Bundle.load(bundle).files,
            callables={KERAS: lambda: generator.draw(label, num_images=1)},
            rounds=rounds,
            num_threads=threads,
            progress=progress,
        )
    return {name: timing.ms_per_image for name, timing in timings.items()}
