"""Stage export: the final model → a bundle of TFLite and ONNX files."""

from __future__ import annotations

from typing import Any

from tfdiff import data, export
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.pipeline import Result
from tfdiff.pipelines.progress import files_bar
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.sparsify_stage import final_model
from tfdiff.pipelines.training_run import prepare_images, sampling_of


def run(config: Config, directory: RunDirectory) -> Result:
    """Write bundle/ with its manifest; every file is converted in a child process.

    Raises:
        ExportError: naming the files that could not be converted.
    """
    settings = config.export
    train = directory.require("train")
    model = final_model(config, directory)
    images = prepare_images(config, train["fingerprint"])
    with files_bar("export") as progress:
        bundle = export.bundle(
            model,
            directory.bundle,
            sampling=sampling_of(config),
            calibration=data.batches(images, settings.calibration_images, seed=config.seed),
            calibration_size=settings.calibration_images,
            formats=settings.formats,
            batch_size=settings.batch_size,
            class_names=train["class_names"] if model.num_classes else None,
            facts=_facts(config, train, directory.require("sparsify"), images),
            check=False,  # the next stage's work
            progress=progress,
        )
    names = [path.name for path in bundle.files]
    return Result({"files": bundle.manifest["files"]}, [f"bundle/{name}" for name in ("bundle.json", *names)])


def _facts(config: Config, train: dict[str, Any], sparse: dict[str, Any], images: data.ImageSet) -> dict[str, Any]:
    """What the model card tells of the run: data, recipe and lineage."""
    keys = ("steps", "batch_size", "learning_rate", "precision", "parameterization", "noise_levels", "label_dropout")
    lineage = {"dense": f"{train['steps']:,} steps, validation loss {train['val_loss']:.4f}"}
    recipe = {"network": config.network.model_dump(mode="json"), **config.train.model_dump(include=set(keys))}
    if config.sparsify.method != "none":
        recipe["sparsity"] = config.sparsify.model_dump(include={"method", "sparsity", "steps", "learning_rate"})
        lineage["pruned"] = (
            f"{sparse['fraction']:.1%} of the prunable weights zero after {sparse['steps']:,} more steps, validation "
            f"loss {sparse['val_loss']:.4f}"
        )
    return {
        "name": config.name,
        "data": {
            "source": config.data.source,
            **train["images"],
            "augmentation": list(config.data.augment) or "none",
            "fingerprint": images.fingerprint,
        },
        "recipe": recipe,
        "lineage": lineage,
    }
