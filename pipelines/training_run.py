"""What the two training stages share: data, optimizer, and a `fit` that goes on from its last checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tf_keras as keras

from tfdiff import data, diffusion, training
from tfdiff.errors import DataError
from tfdiff.files import written_whole
from tfdiff.pipelines.config import Config, Sparsify, Train
from tfdiff.pipelines.evaluation.yardstick import OWN, feature_network, measure, real_batches, recognition_obstacle
from tfdiff.pipelines.progress import counting_bar


def prepare_images(config: Config, expected: str | None = None) -> data.ImageSet:
    """The images of a config, prepared.

    Args:
        config: its `data` and `network.conditional`.
        expected: fingerprint that they must have; None: any.

    Raises:
        DataError: when they cannot be used, are not what they were, or lack the labels of a conditional model or
            what `report.recognise` needs.
    """
    settings = config.data
    images = data.prepare(
        settings.source,
        image_size=settings.image_size,
        channels=settings.channels,
        resize=settings.resize,
        strict=settings.strict,
        cache_dir=settings.cache_dir,
        limit=settings.limit,
    )
    check_labels(config, images.num_classes)
    obstacle = recognition_obstacle(images)
    if config.report.recognise is True and obstacle:
        raise DataError(
            f"report.recognise=true, but data.source={settings.source!r} {obstacle}: add images, or set it to auto."
        )
    if expected is not None and images.fingerprint != expected:
        raise DataError(
            f"data.source={settings.source!r} holds other images than this run began with: restore them, or start "
            "another run with --out."
        )
    return images


def check_labels(config: Config, num_classes: int | None) -> None:
    """Refuse settings that need labels on images without."""
    if num_classes is not None:
        return
    needs = {
        "network.conditional=true": config.network.conditional is True,
        f"sampling.guidance_scale={config.sampling.guidance_scale:g}": config.sampling.guidance_scale != 1,
        "report.recognise=true": config.report.recognise is True,
    }
    for setting, asked in needs.items():
        if asked:
            raise DataError(
                f"{setting}, but data.source={config.data.source!r} has no labels: give a sub-folder per class (or "
                "labels in the .npz), or change the setting."
            )


def is_conditional(config: Config, num_classes: int | None) -> bool:
    """Whether the network receives labels: as the config says, else if there are any."""
    return num_classes is not None if config.network.conditional is None else config.network.conditional


def sampling_of(config: Config) -> diffusion.Sampling:
    """`config.sampling` as the library's."""
    return diffusion.Sampling(**config.sampling.model_dump())


def fit(
    model: training.DiffusionModel,
    images: data.ImageSet,
    config: Config,
    settings: Train | Sparsify,
    folder: Path,
    description: str,
    *,
    seed: int,
    networks: Path,
    monitors: Sequence[keras.callbacks.Callback] = (),
    settled: int = 0,
) -> dict[str, Any]:
    """Train `model` for `settings.steps` steps, from the last checkpoint in `folder` if there is one, and save it.

    Batch k and the randomness of step k depend on the seeds and k alone, so a run that was killed ends with the
    weights of an unbroken one.

    Args:
        model: compiled here.
        images: divided into training and validation images by `config.seed`, in every stage alike.
        config: its `data`, `train` and `sampling`.
        settings: of this training.
        folder: receives model.keras, checkpoints, history, logs and sample grids.
        description: what the progress bar says.
        seed: of the order of the images and their augmentation; each stage has its own.
        networks: keeps the feature network of `train.kid_images`.
        monitors: more callbacks that put numbers into the logs.
        settled: the step from which a checkpoint may be the best one.

    Returns:
        `steps`, `parameters`, `loss` and `val_loss` of the kept weights, `images` (how many train and validate),
        `history` and, for `train.keep` best, `kept`: the record of the checkpoint that model.keras is.
    """
    train_images, held_out = images.split(config.data.validation, config.seed)
    train = config.train
    epoch = config.epoch(settings.steps)
    model.compile(
        optimizer=_optimizer(settings, train.clip_norm),
        jit_compile=training.resolve_jit_compile(train.jit_compile, model.network),
        steps_per_execution=train.steps_per_execution,
    )
    keep_best = training.KeepBest(folder / "best", train.monitor, start_step=settled) if train.keep == "best" else None
    checkpoint, callbacks = training.standard_callbacks(
        folder,
        settings.steps,
        sampling=sampling_of(config),
        sample_every=train.sample_every,
        description=description,
        monitors=[
            *monitors,
            *_quality_monitors(config, train_images, held_out, networks),
            *([keep_best] if keep_best else []),
        ],
    )
    taken = checkpoint.restore(model)
    if taken < settings.steps:
        stream = data.batches(
            train_images,
            train.batch_size,
            seed=seed,
            start_step=taken,
            augment=config.data.augment or None,
        )
        try:
            model.fit(
                stream,
                steps_per_epoch=epoch,
                initial_epoch=taken // epoch,
                epochs=settings.steps // epoch,
                validation_data=data.validation_batches(held_out, train.batch_size),
                callbacks=callbacks,
                verbose=0,
            )
        finally:
            # Keras ends no callback when training is interrupted; the bar must leave the line to the message.
            for callback in callbacks:
                if isinstance(callback, training.Progress):
                    callback.on_train_end()
    history = json.loads((folder / "history.json").read_text())
    target = folder / "model.keras"
    kept = keep_best.restore(target) if keep_best else None
    if kept is None:
        with written_whole(target) as partial:
            model.save(str(partial))
    row = next(row for row in history if row["step"] == kept["step"]) if kept else history[-1]
    return {
        "steps": settings.steps,
        "parameters": int(model.ema_network.count_params()),
        "loss": row["loss"],
        "val_loss": row["val_loss"],
        "history": history,
        "images": {"train": len(train_images), "validation": len(held_out), "skipped": len(images.skipped)},
        **({"kept": kept} if kept else {}),
    }


def _quality_monitors(
    config: Config, images: data.ImageSet, held_out: data.ImageSet, networks: Path
) -> list[keras.callbacks.Callback]:
    """The callbacks of `train.denoising_images` and `train.kid_images`."""
    train = config.train
    monitors: list[keras.callbacks.Callback] = []
    if train.denoising_images:
        count = min(train.denoising_images, len(held_out))
        monitors.append(
            training.DenoisingMonitor(
                np.asarray(held_out.images[:count], np.float32) / 127.5 - 1,
                None if held_out.labels is None else held_out.labels[:count],
                batch_size=train.batch_size,
            )
        )
    if train.kid_images:
        network = feature_network(OWN, images, held_out, networks)
        with counting_bar("real pictures", len(images)) as progress:
            real = measure(network, real_batches(images), progress)
        monitors.append(
            training.KernelDistanceMonitor(
                network, real, images=train.kid_images, sampling=sampling_of(config), batch_size=train.batch_size
            )
        )
    return monitors


def _optimizer(settings: Train | Sparsify, clip_norm: float | None) -> keras.optimizers.Optimizer:
    """Adam under a cosine from `learning_rate` to 0, after a linear warm-up."""
    warmup = settings.warmup_steps
    rate = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else settings.learning_rate,
        decay_steps=settings.steps - warmup,
        warmup_target=settings.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    return keras.optimizers.Adam(rate, global_clipnorm=clip_norm)
