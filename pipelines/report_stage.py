"""Stage report: pictures from every model and file, scores, times, and the page that shows them."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

import tfdiff
from tfdiff import data, export, metrics, training
from tfdiff.export.model_card import CARD
from tfdiff.files import write_text
from tfdiff.pipelines.benchmarking import KERAS, time_files
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import dump
from tfdiff.pipelines.drawing import FileDrawer, labels_in_turn
from tfdiff.pipelines.evaluation.scoring import Scores, protocol_of, score
from tfdiff.pipelines.evaluation.yardstick import OWN, Yardstick, make_yardstick
from tfdiff.pipelines.findings import findings
from tfdiff.pipelines.machine import processor
from tfdiff.pipelines.pipeline import Result
from tfdiff.pipelines.progress import counting_bar
from tfdiff.pipelines.report_page import render
from tfdiff.pipelines.run_directory import RunDirectory, write_json
from tfdiff.pipelines.sparsify_stage import final_model
from tfdiff.pipelines.training_run import prepare_images

#: Pictures side by side in a grid; with ten classes, each column is one.
COLUMNS = 10

#: Not the seed of previews or calibration: these pictures were not looked at before.
_SEED_OFFSET = 1000

#: What the model before pruning is called.
DENSE = "Keras, dense"


def run(config: Config, directory: RunDirectory) -> Result:
    """Write report.html and report.json, the grids as PNG files in report/, and the quality into the bundle's card.

    Raises:
        DataError: when the images are not those that the run began with.
    """
    model = final_model(config, directory)
    images = prepare_images(config, directory.require("train")["fingerprint"])
    judged = config.report.recognise is not False and model.num_classes is not None
    yardstick = make_yardstick(
        *images.split(config.data.validation, config.seed), OWN, directory.path / "networks", recognise=judged
    )
    pictures, scores = _draw(config, directory, model, yardstick)
    times = time_files(directory.bundle, model, config.report.timed, config.report.threads)
    report = _figures(config, directory, model, yardstick, scores, times)
    folder = directory.stage("report")
    grids = {"real pictures": _real(images, config.report.grid), **pictures}
    for caption, shown in grids.items():
        training.save_png(
            training.image_grid(shown, COLUMNS), folder / f"{re.sub(r'[^a-z0-9.]+', '_', caption.lower())}.png", scale=2
        )
    write_json(directory.path / "report.json", report)
    write_text(directory.path / "report.html", render(report, grids, COLUMNS, dump(config)))
    rows = [{"name": name, "ms_per_image": times.get(name), **found.rows()} for name, found in scores.items()]
    quality = {"protocol": report["protocol"], "candidates": rows, "notes": report["notes"]}
    export.record_quality(directory.bundle, quality)
    return Result({"quality": rows}, ["report.html", "report.json", f"bundle/{CARD}"])


def _draw(
    config: Config, directory: RunDirectory, model: training.DiffusionModel, yardstick: Yardstick
) -> tuple[dict[str, np.ndarray], dict[str, Scores]]:
    """Pictures for the grids by caption, and scores by the name of what drew them."""
    settings = config.report
    bundle = export.Bundle.load(directory.bundle)
    sampling, seed = bundle.sampling(), config.seed + _SEED_OFFSET
    protocol = protocol_of(yardstick, settings.images, sampling, seed)
    drawers: dict[str, tuple[training.Drawer, bool]] = {}
    if config.sparsify.method != "none":
        dense = training.load_model(str(directory.stage("train") / "model.keras"))
        drawers[DENSE] = (training.Generator(dense.denoiser(), sampling), True)
    drawers[KERAS] = (training.Generator(model.denoiser(), sampling), True)
    for path in bundle.files:
        if path.name.startswith("sample_"):
            scored = path.name.removeprefix("sample_") in settings.score
            drawers[path.name] = (FileDrawer(path, settings.threads), scored)
    pictures, scores = {}, {}
    counts = {name: settings.images if scored else settings.grid for name, (_, scored) in drawers.items()}
    with counting_bar("draw", sum(counts.values())) as progress:
        for name, (drawer, scored) in drawers.items():
            labels = labels_in_turn(counts[name], model.num_classes)
            drawn = drawer.draw(labels, num_images=counts[name], seed=seed, progress=progress)
            pictures[name] = drawn[: settings.grid]
            if scored:
                scores[name] = score([training.to_uint8(drawn)], labels, yardstick, protocol)
    return pictures, scores


def _figures(
    config: Config,
    directory: RunDirectory,
    model: training.DiffusionModel,
    yardstick: Yardstick,
    scores: dict[str, Scores],
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
        {**file, "ms_per_image": times[file["name"]], **_quality(scores.get(file["name"]))}
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
        "dense": _quality(scores.get(DENSE)),
        "keras": {"ms_per_image": times[KERAS], **_quality(scores[KERAS])},
        "files": files,
        "protocol": next(iter(scores[KERAS].distances.values())).protocol.to_json(),
        "recogniser": yardstick.recogniser
        and {
            "accuracy": yardstick.recogniser.accuracy,
            "fingerprint": yardstick.recogniser.fingerprint,
            "images": config.report.images,
        },
        "environment": {
            "tfdiff": tfdiff.__version__,
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": config.report.threads,
        },
    }  # fmt: skip
    return {**report, "notes": findings(report)}


def _quality(scores: Scores | None) -> dict[str, Any]:
    """What the report tells of a candidate's pictures; None throughout where they were not scored."""
    if scores is None:
        return dict.fromkeys(("fid", "kid", "precision", "recall", "recognised"))
    rows = scores.rows()
    recognised = rows["recognised"] and rows["recognised"]["value"]
    return {**{key: rows[key] for key in ("fid", "kid", "precision", "recall")}, "recognised": recognised}


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
