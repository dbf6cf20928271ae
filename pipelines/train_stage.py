"""Stage train: images → the dense diffusion model."""

from __future__ import annotations

import json

import tf_keras as keras

from tfdiff import networks, training
from tfdiff.pipelines.config import Config, EdgeUNet
from tfdiff.pipelines.pipeline import Result
from tfdiff.pipelines.run_directory import RunDirectory, write_json
from tfdiff.pipelines.training_run import fit, is_conditional, prepare_images


def run(config: Config, directory: RunDirectory) -> Result:
    """Write train/model.keras, with checkpoints, history, TensorBoard logs and sample grids beside it.

    Raises:
        DataError, TrainingError: see `tfdiff.data.prepare` and `tfdiff.training`.
    """
    folder = directory.stage("train")
    keras.utils.set_random_seed(config.seed)
    # A run that goes on must go on with the same images.
    record = folder / "data.json"
    before = json.loads(record.read_text()) if record.exists() else {}
    images = prepare_images(config, before.get("fingerprint"))
    write_json(record, {"fingerprint": images.fingerprint, "class_names": images.class_names})
    network = build_network(config, images.image_shape[-1], images.num_classes)
    train = config.train
    model = training.DiffusionModel(
        network,
        train.parameterization,
        sigma_data=train.sigma_data,
        noise_levels=train.noise_levels,
        weighting=train.weighting,
        label_dropout=train.label_dropout,
        ema_decay=train.ema_decay,
        seed=config.seed,
    )
    figures = fit(model, images, config, train, folder, "train", seed=config.seed, networks=directory.path / "networks")
    return Result(
        {
            "fingerprint": images.fingerprint,
            "class_names": images.class_names,
            "image_shape": images.image_shape,
            **figures,
        },
        ["train/model.keras"],
    )


def build_network(config: Config, channels: int, num_classes: int | None) -> keras.Model:
    """The network of a config, in its precision.

    Args:
        config: its `network`, `data.image_size` and `train.precision`.
        channels: of the images.
        num_classes: of the images; None without labels.
    """
    settings = config.network
    build = networks.edge_unet if isinstance(settings, EdgeUNet) else networks.unet
    classes = num_classes if is_conditional(config, num_classes) else None
    options = settings.model_dump(exclude={"type", "conditional"})
    with training.precision(config.train.precision):
        return build(config.data.image_size, channels, classes, **options)
