"""What a candidate costs: bytes, zeros, multiply-adds, milliseconds and memory, each measured on the file itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfdiff import export, metrics, sparsity, training
from tfdiff.export.inspection import count_zeros, gzip_bytes, network_kernels, zero_fraction
from tfdiff.export.manifest import NETWORK
from tfdiff.pipelines.drawing import labels_in_turn
from tfdiff.pipelines.evaluation.candidates import Candidate
from tfdiff.pipelines.evaluation.peak_memory import peak_memory


def sizes(candidate: Candidate, model: training.DiffusionModel | None) -> dict[str, Any]:
    """Bytes, zeros, parameters and multiply-adds.

    Args:
        candidate: whose file is read.
        model: the loaded model of a Keras candidate, None of a file.

    Returns:
        `bytes` and `gzip_bytes` (of exported files; a .keras file holds training state and is not shipped),
        `zero_fraction` of the prunable weights, `parameters`, `macs` (a network call), `network_calls` and
        `macs_per_image`. What cannot be told, without the network that a file came from, is None.
    """
    figures: dict[str, Any] = dict.fromkeys(
        ("bytes", "gzip_bytes", "zero_fraction", "parameters", "macs", "network_calls", "macs_per_image")
    )
    network = None
    if model is not None:
        network = model.network
        layers = sparsity.layer_sparsity(model.ema_network, sparsity.selections(model))
        # A dense model has no pruned layers: its zeros are counted over all that could be pruned.
        figures["zero_fraction"] = sparsity.pruned_fraction(layers)
    else:
        figures.update(bytes=candidate.path.stat().st_size, gzip_bytes=gzip_bytes(candidate.path))
        bundle = candidate.bundle
        if bundle is not None and (bundle.directory / NETWORK).exists():
            network = bundle.denoiser().network
            kernels = network_kernels(network)
            pruned = _pruned_layers(candidate)
            chosen = {name: kernel for name, kernel in kernels.items() if pruned is None or name in pruned}
            figures["zero_fraction"] = zero_fraction(count_zeros(candidate.path, chosen))
    if network is not None:
        counts = metrics.count(network)
        figures.update(
            parameters=counts.parameters,
            macs=counts.macs,
            network_calls=metrics.network_calls(candidate.sampling),
            macs_per_image=metrics.per_image(counts, candidate.sampling),
        )
    return figures


def times(
    candidates: Sequence[Candidate],
    models: dict[str, training.DiffusionModel],
    *,
    rounds: int,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Median milliseconds of one picture by name, all candidates taking turns.

    Args:
        candidates: files run on `threads` threads; Keras models on all cores.
        models: the loaded models of the Keras candidates, by name.
        rounds: pictures that each draws.
        threads: of the files' runtimes.
        progress: called with (rounds done, rounds in all).
    """

    def drawing(candidate: Candidate) -> Callable[[], Any]:
        model = models[candidate.name]
        generator = training.Generator(model.denoiser(), candidate.sampling, batch_size=1)
        label = labels_in_turn(1, model.num_classes)
        return lambda: generator.draw(label, num_images=1)

    timings = export.benchmark(
        {candidate.name: candidate.path for candidate in candidates if candidate.exported},
        callables={candidate.name: drawing(candidate) for candidate in candidates if not candidate.exported},
        rounds=rounds,
        num_threads=threads,
        progress=progress,
    )
    return {name: timing.ms_per_image for name, timing in timings.items()}


def memory(
    candidates: Sequence[Candidate], threads: int, progress: Callable[[int], None] | None = None
) -> dict[str, int | None]:
    """Peak bytes above the idle runtime by name, each measured in a process of its own (see `peak_memory`)."""
    peaks = {}
    for candidate in candidates:
        peaks[candidate.name] = peak_memory(candidate.path, candidate.sampling.config(), threads)
        if progress:
            progress(1)
    return peaks


def _pruned_layers(candidate: Candidate) -> set[str] | None:
    """Names of the layers that the candidate's run pruned; None where it pruned none, or is not known."""
    summary = candidate.run.summary("sparsify") if candidate.run else None
    layers = (summary or {}).get("layers", ())
    return {layer["layer"] for layer in layers if layer["pruned"]} or None
