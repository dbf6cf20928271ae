"""What `bench`, `sample` and `info` do with finished work."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfdiff import export, metrics, sparsity, training
from tfdiff.errors import UsageError
from tfdiff.pipelines.benchmarking import time_files
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import load_config
from tfdiff.pipelines.drawing import FileDrawer, labels_in_turn
from tfdiff.pipelines.evaluation.candidates import find_candidates
from tfdiff.pipelines.evaluation.throughput import pictures_to_measure, throughput_text
from tfdiff.pipelines.evaluation.yardstick import OWN, feature_network
from tfdiff.pipelines.generation import Source, generate
from tfdiff.pipelines.progress import counting_bar
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.sparsify_stage import final_model
from tfdiff.pipelines.training_run import prepare_images, sampling_of

_COLUMNS = 8


def benchmark_text(directory: RunDirectory, images: int, threads: int) -> str:
    """Times of a run's files and of its Keras model, as a table.

    Raises:
        UsageError: when the run has no finished export.
    """
    config = _config_of(directory)
    directory.require("export")
    times = time_files(directory.bundle, final_model(config, directory), images, threads)
    width = max(map(len, times))
    lines = []
    for name, milliseconds in times.items():
        call = "calls" if name.startswith("denoise_") else "pictures"
        lines.append(f"{name:<{width}}  {milliseconds:9.2f} ms  {1e3 / milliseconds:7.1f} {call}/s")
    return "\n".join(lines)


def statistics_text(directory: RunDirectory) -> str:
    """How fast pictures like the run's become statistics, and what memory that takes.

    Raises:
        UsageError: when the run is not trained.
    """
    config = _config_of(directory)
    images = prepare_images(config, directory.require("train")["fingerprint"])
    train, held_out = images.split(config.data.validation, config.seed)
    network = feature_network(OWN, train, held_out, directory.path / "networks")
    with counting_bar("statistics", pictures_to_measure()) as progress:
        return throughput_text(network, images.image_shape, progress)


def draw_grid(
    directory: RunDirectory, file: str | None, images: int, label: int | None, seed: int, output: Path
) -> Path:
    """Draw a grid with a run's final model, or with `file`: a sampler file or .keras model.

    Args:
        directory: of the run; its config says how Keras models sample.
        file: path in the run, or from here; None: the final model.
        images: how many.
        label: class of all of them; None: each in turn.
        seed: of the starting noise.
        output: PNG to write.

    Returns:
        `output`.

    Raises:
        UsageError: when the file does not exist or is of another kind, or the class does not.
    """
    config = _config_of(directory)
    drawer: FileDrawer | training.Generator
    if file is None or file.endswith(".keras"):
        model = final_model(config, directory) if file is None else training.load_model(str(_locate(directory, file)))
        drawer, num_classes = training.Generator(model.denoiser(), sampling_of(config)), model.num_classes
    else:
        drawer = FileDrawer(_locate(directory, file))
        num_classes = drawer.num_classes
    labels = labels_in_turn(images, num_classes)
    if label is not None:
        if num_classes is None or label >= num_classes:
            offer = "the model has no classes" if num_classes is None else f"give 0 to {num_classes - 1}"
            raise UsageError(f"--label {label} is not a class: {offer}.")
        labels = np.full(images, label)
    with counting_bar("draw", images) as progress:
        drawn = drawer.draw(labels, num_images=images, seed=seed, progress=progress)
    try:
        training.save_png(training.image_grid(drawn, min(images, _COLUMNS)), output, scale=2)
    except OSError as error:
        raise UsageError(f"cannot write {output} ({error.strerror}): choose another path with -o.") from error
    return output


def generate_pictures(
    source: str, file: str | None, images: int, label: int | None, seed: int, workers: int, threads: int, output: Path
) -> Path:
    """Draw pictures with a run's final model, one of its files, or a file alone (see `generation.generate`).

    Raises:
        UsageError: when `source` is no run and no file that draws.
    """
    path = Path(source)
    if file is not None:
        path = _locate(RunDirectory(path), file)
    elif path.is_dir():
        final = [path / stage / "model.keras" for stage in ("sparsify", "train")]
        path = next((model for model in final if model.exists()), path)
    (candidate,) = find_candidates([str(path)])
    bundle = candidate.bundle
    names = bundle.manifest["class_names"] if bundle else None
    drawing = Source(candidate.path, candidate.sampling.config(), threads)
    with counting_bar("draw", images) as progress:
        return generate(
            drawing,
            output,
            num_images=images,
            seed=seed,
            label=label,
            workers=workers,
            class_names=names,
            progress=progress,
        )


def file_text(path: Path) -> str:
    """What a .keras, .tflite or .onnx file holds.

    Raises:
        UsageError: when it cannot be read.
    """
    if path.suffix == ".keras":
        return _model_text(training.load_model(str(path)))
    runner = export.load(path)
    partitions = runner.partitions()
    lines = [
        f"{path}  {path.stat().st_size:,} bytes",
        f"signature   {runner.signature or 'none of tfdiff'}",
        *(f"input       {name} {shape}" for name, shape in runner.input_shapes.items()),
        *(f"output      {name}" for name in runner.output_names),
    ]
    if partitions is not None:
        outside = ", ".join(f"{count} {name}" for name, count in (runner.undelegated_ops() or {}).items())
        lines.append(
            f"delegate    {partitions} partitions" + (f"; outside: {outside}" if outside else "; nothing outside")
        )
    return "\n".join(lines)


def _model_text(model: training.DiffusionModel) -> str:
    counts = metrics.count(model.network)
    lines = [
        f"{type(model).__name__}, {int(model.step):,} steps, images {model.image_shape}, "
        + (f"{model.num_classes} classes" if model.num_classes else "unconditional"),
        f"{counts.parameters:,} parameters, {counts.macs / 1e6:,.1f} M multiply-adds a call",
    ]
    layers = sparsity.layer_sparsity(model.ema_network, sparsity.selections(model))
    width = max(len(layer.layer) for layer in layers)
    for layer in layers:
        note = "" if layer.pruned else f"  not prunable: {layer.reason}"
        lines.append(f"  {layer.layer:<{width}}  {layer.weights:>9,} weights  {layer.fraction:6.1%} zeros{note}")
    return "\n".join(lines)


def _config_of(directory: RunDirectory) -> Config:
    """The config that a run was made with; UsageError where there is no run."""
    if not directory.config_path.exists():
        raise UsageError(f"{directory.path} is no run: make it with `tfdiff run`, or name another.")
    return load_config(directory.path)


def _locate(directory: RunDirectory, file: str) -> Path:
    """`file` inside the run if it is there, else as a path of its own."""
    inside = directory.path / file
    return inside if inside.exists() else Path(file)
