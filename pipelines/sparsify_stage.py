"""Stage sparsify: the dense model → the same with most weights zero."""

from __future__ import annotations

from dataclasses import asdict

import tf_keras as keras

from tfdiff import sparsity, training
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.pipeline import Result
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.training_run import fit, prepare_images


def run(config: Config, directory: RunDirectory) -> Result:
    """Write sparsify/model.keras, wrappers and all; nothing where `sparsify.method` is none.

    Raises:
        DataError, ModelError, TrainingError: see `tfdiff.sparsity.sparsify`.
    """
    settings = config.sparsify
    if settings.method == "none":
        return Result({"method": "none"}, [])
    folder = directory.stage("sparsify")
    keras.utils.set_random_seed(config.seed)
    images = prepare_images(config, directory.require("train")["fingerprint"])
    dense = training.load_model(str(directory.stage("train") / "model.keras"))
    policy = sparsity.PruningPolicy(**settings.policy.model_dump())
    method = sparsity.MagnitudePruning.polynomial(
        settings.sparsity,
        settings.steps,
        initial_sparsity=settings.initial_sparsity,
        end=settings.end,
        frequency=settings.frequency,
        policy=policy,
    )
    model = sparsity.sparsify(dense, method)
    # Steps count from 0 again: with the seed of training, they would see its batches again in the same order.
    figures = fit(
        model,
        images,
        config,
        settings,
        folder,
        "sparsify",
        seed=config.seed + 1,
        networks=directory.path / "networks",
        monitors=[sparsity.SparsityMonitor(folder / "sparsity.json", folder / "tensorboard" / "sparsity")],
        settled=method.schedule.end_step,
    )
    kept = training.load_model(str(folder / "model.keras"))
    layers = sparsity.layer_sparsity(kept.ema_network, sparsity.selections(kept, policy))
    return Result(
        {
            "method": settings.method,
            "fraction": sparsity.pruned_fraction(layers),
            "layers": [{**asdict(layer), "fraction": layer.fraction} for layer in layers],
            **figures,
        },
        ["sparsify/model.keras"],
    )


def final_model(config: Config, directory: RunDirectory) -> training.DiffusionModel:
    """The model that is exported: the sparse one, or the dense one where `sparsify.method` is none."""
    stage = "train" if config.sparsify.method == "none" else "sparsify"
    directory.require(stage)
    return training.load_model(str(directory.stage(stage) / "model.keras"))
