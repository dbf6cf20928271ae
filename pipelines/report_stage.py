"""Stage report: pictures from every model and file, scores, times, and the page that shows them."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

import tfdiff
from tfdiff import data, export, metrics, training
from tfdiff.files import write_text
from tfdiff.pipelines.benchmarking import KERAS, time_files
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import dump
from tfdiff.pipelines.drawing import FileDrawer, labels_in_turn
from tfdiff.pipelines.findings import findings
from tfdiff.pipelines.pipeline import Result
from tfdiff.pipelines.progress import counting_bar
from tfdiff.pipelines.recognition import recogniser_for
from tfdiff.pipelines.report_page import render
from tfdiff.pipelines.run_directory import RunDirectory, write_json
from tfdiff.pipelines.sparsify_stage import final_model
from tfdiff.pipelines.training_run import prepare_images

#: Pictures side by side in a grid; with ten classes, each column is one.
COLUMNS = 10

#: Not the seed of previews or calibration: these pictures were not looked at before.
_SEED_OFFSET = 1000


def run(config: Config, directory: RunDirectory) -> Result:
    """Write report.html and report.json, and the grids as PNG files in report/.

    Raises:
        DataError: when the images are not those that the run began with.
    """
    model = final_model(config, directory)
    images = prepare_images(config, directory.require("train")["fingerprint"])
    recogniser = recogniser_for(config, images, model.num_classes, directory.stage("report") / "recogniser")
    pictures, scores = _draw(config, directory, model, recogniser)
    times = time_files(directory.bundle, model, config.report.timed, config.report.threads)
    report = _figures(config, directory, model, recogniser, scores, times)
    folder = directory.stage("report")
    grids = {"real pictures": _real(images, config.report.grid), **pictures}
    for caption, shown in grids.items():
        training.save_png(
            training.image_grid(shown, COLUMNS), folder / f"{re.sub(r'[^a-z0-9.]+', '_', caption.lower())}.png", scale=2
        )
    write_json(directory.path / "report.json", report)
    write_text(directory.path / "report.html", render(report, grids, COLUMNS, dump(config)))
    recognised = {
        "keras": report["keras"]["recognised"],
        **{file["name"]: file["recognised"] for file in report["files"]},
    }
    return Result({"recognised": recognised}, ["report.html", "report.json"])


def _draw(
    config: Config, directory: RunDirectory, model: training.DiffusionModel, recogniser: metrics.Recogniser | None
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Pictures for the grids by caption, and the share recognised by the name of what drew them."""
    settings = config.report
    bundle = export.Bundle.load(directory.bundle)
    sampling, seed = bundle.sampling(), config.seed + _SEED_OFFSET
    dense = training.load_model(str(directory.stage("train") / "model.keras"))
    drawers: dict[str, tuple[Any, int]] = {
        "Keras, dense": (training.Generator(dense.denoiser(), sampling), settings.grid)
    }
    drawers[KERAS] = (training.Generator(model.denoiser(), sampling), settings.images)
    for path in bundle.files:
        if path.name.startswith("sample_"):
            scored = path.name.removeprefix("sample_") in settings.score
            drawers[path.name] = (FileDrawer(path, settings.threads), settings.images if scored else settings.grid)
    pictures, scores = {}, {}
    with counting_bar("draw", sum(count for _, count in drawers.values())) as progress:
        for name, (drawer, count) in drawers.items():
            labels = labels_in_turn(count, model.num_classes)
            drawn = drawer.draw(labels, num_images=count, seed=seed, progress=progress)
            pictures[name] = drawn[: settings.grid]
            if recogniser is not None and count == settings.images:
                scores[name] = recogniser.recognised(drawn, labels)
    return pictures, scores


def _figures(
    config: Config,
    directory: RunDirectory,
    model: training.DiffusionModel,
    recogniser: metrics.Recogniser | None,
    scores: dict[str, float],
    times: dict[str, float],
) -> dict[str, Any]:
    """What report.json holds."""
    train, sparse, verified = (directory.require(stage) for stage in ("train", "sparsify", "verify"))
    sampling = export.Bundle.load(directory.bundle).sampling()
    counts = metrics.count(model.network)
    keys = ("steps", "seconds", "parameters", "loss", "val_loss", "history")
    sparsity = {"fraction": 0.0, "layers": []}
    if sparse["method"] != "none":
        sparsity = {
            key: sparse[key] for key in ("fraction", "layers", "steps", "seconds", "loss", "val_loss", "history")
        }
    files = [
        {**file, "ms_per_image": times[file["name"]], "recognised": scores.get(file["name"])}
        for file in verified["files"]
    ]
    report = {
        "name": config.name,
        "data": {"source": config.data.source, "image_size": config.data.image_size, **train["images"]},
        "counts": {
            "parameters": counts.parameters, "macs": counts.macs, "macs_per_image": metrics.per_image(counts, sampling),
        },
        "sampling": {**sampling.config(), "network_calls": metrics.network_calls(sampling)},
        "train": {key: train[key] for key in keys},
        "sparsity": sparsity,
        "keras": {"recognised": scores.get(KERAS), "ms_per_image": times[KERAS]},
        "files": files,
        "recogniser": recogniser
        and {"accuracy": recogniser.accuracy, "fingerprint": recogniser.fingerprint, "images": config.report.images},
        "environment": {
            "tfdiff": tfdiff.__version__,
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": config.report.threads,
        },
    }  # fmt: skip
    return {**report, "notes": findings(report)}


def _real(images: data.ImageSet, count: int) -> np.ndarray:
    """Real pictures, each class in turn where there are classes: (count,H,W,C) in [−1, 1]."""
    rows = np.arange(count) % len(images)
    if images.labels is not None:
        by_class = [np.flatnonzero(images.labels == label) for label in range(images.num_classes or 0)]
        by_class = [members for members in by_class if len(members)]
        rows = np.array(
            [by_class[i % len(by_class)][i // len(by_class) % len(by_class[i % len(by_class)])] for i in range(count)]
        )
    return np.asarray(images.images[rows], np.float32) / 127.5 - 1


def _processor() -> str:
    """The processor's name, where the system tells."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
