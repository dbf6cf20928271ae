"""`DiffusionModel`: a Keras model that trains a denoising network with `fit`."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdiff import diffusion, networks
from tfdiff.errors import DataError, ModelError, UsageError
from tfdiff.training.generate import Generator


@keras.saving.register_keras_serializable("tfdiff")
class DiffusionModel(keras.Model):
    """A denoising network, its moving average and the loss that trains it (Karras et al. 2022, eq. 8).

    `compile`, `fit`, `evaluate` and `save` are Keras's. A batch is `images` or `(images, labels)`: images
    (B,H,W,C) float in [−1, 1], labels (B,) int, needed where the network is conditional. Every random number of
    a training step is a function of (`seed`, `step`), so that a restored model goes on exactly as it would have.

    Attributes:
        network: the network that trains.
        ema_network: the same network, without wrappers, with the moving average of the weights; it draws the
            pictures, it is what `evaluate` scores and what is exported.
        step: int64 variable, the number of training steps taken.
    """

    def __init__(
        self,
        network: keras.Model,
        parameterization: str = "edm",
        *,
        sigma_data: float = 0.5,
        noise_levels: str | dict[str, Any] = "lognormal",
        weighting: str = "edm",
        label_dropout: float = 0.1,
        ema_decay: float = 0.999,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        """Wrap `network` for training.

        Args:
            network: functional model with inputs `image`, `noise_embedding` and perhaps `label`.
            parameterization: what the network predicts: "edm", "eps", "v", "x0" or "flow".
            sigma_data: standard deviation of the images in [−1, 1].
            noise_levels: name, or name and options, of the schedule that training noise levels are drawn from.
            weighting: loss weight by noise level: "edm", "uniform", "snr" or "min_snr".
            label_dropout: share of labels replaced by the null class, for classifier-free guidance.
            ema_decay: decay per step of the moving average; it warms up as (1 + step) / (10 + step).
            seed: of the noise.

        Raises:
            ModelError: when the network is not one that tfdiff can train.
            UsageError: when another argument is unknown or out of range.
        """
        network = networks.check_network(network)
        # The model's own policy is the network's, so that `compile` wraps the optimizer in loss scaling under
        # mixed_float16. Its inputs stay float32: noise levels reach 80, and noisy images need their bits.
        super().__init__(dtype=network_policy(network), autocast=False, **kwargs)
        for argument, value in (("label_dropout", label_dropout), ("ema_decay", ema_decay)):
            if not 0 <= value < 1:
                raise UsageError(f"{argument}={value} is not in [0, 1).")
        self.network = network
        self.ema_network = networks.rebuild(network, _without_wrapper)
        self.ema_network.trainable = False
        self._config: dict[str, Any] = {
            "parameterization": parameterization,
            "sigma_data": sigma_data,
            "noise_levels": noise_levels,
            "weighting": weighting,
            "label_dropout": label_dropout,
            "ema_decay": ema_decay,
            "seed": seed,
        }
        self.sigma_data = sigma_data
        self.label_dropout = label_dropout
        self.ema_decay = ema_decay
        self.seed = seed
        options = {"name": noise_levels} if isinstance(noise_levels, str) else dict(noise_levels)
        self.noise_levels = diffusion.get_schedule(**options)
        self.weighting = diffusion.get_weighting(weighting)
        self.step = tf.Variable(
            0, dtype=tf.int64, trainable=False, name="step", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.gradient_norm_tracker = keras.metrics.Mean(name="gradient_norm")
        self.denoiser()  # refuses an unknown parameterization now rather than in the first step
        self.built = True

    @property
    def completed_steps(self) -> int:
        """Training steps taken, whatever the distribution strategy."""
        return int(keras.backend.get_value(self.step))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of the images."""
        return tuple(self.network.inputs[0].shape[1:])

    @property
    def num_classes(self) -> int | None:
        """Classes of a conditional network, None of an unconditional one."""
        return self.network.inputs[2].shape[-1] if len(self.network.inputs) == 3 else None

    def denoiser(self, *, ema: bool = True) -> diffusion.Denoiser:
        """The denoiser D(x; σ) of the averaged (`ema`) or the trained network."""
        network = self.ema_network if ema else self.network
        return diffusion.Denoiser(network, self._config["parameterization"], sigma_data=self.sigma_data)

    def sample(
        self,
        labels: np.ndarray | list[int] | None = None,
        *,
        num_images: int | None = None,
        sampling: diffusion.Sampling | None = None,
        seed: int = 0,
        batch_size: int = 64,
    ) -> np.ndarray:
        """Draw images with the averaged network.

        Args:
            labels: (N,) class per image, −1 for unconditional; None: unconditional.
            num_images: N where `labels` is None.
            sampling: sampler, steps, noise levels and guidance; default `Sampling()`.
            seed: image i starts from the noise of (seed, i), whatever the batch size.
            batch_size: images per network call.

        Returns:
            (N,H,W,C) float32 in [−1, 1].
        """
        generator = Generator(self.denoiser(), sampling or diffusion.Sampling(), batch_size=batch_size)
        return generator.draw(labels, num_images=num_images, seed=seed)

    def call(self, inputs: list[tf.Tensor], training: bool = False) -> tf.Tensor:
        """Denoise: [x (B,H,W,C), sigma (B,), label one-hot (B,K)?] → D (B,H,W,C) of the trained network."""
        return self.denoiser(ema=False)(*inputs, training=training)

    def fit(self, x: Any = None, y: Any = None, **kwargs: Any) -> keras.callbacks.History:
        """Keras's `fit`, after checking the data.

        Raises:
            DataError: when images or labels do not suit the network.
            ModelError: when the network has pruned kernels but no masks: training would fill the zeros.
        """
        self._check_data(x, y)
        return super().fit(x, y, **kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        """Keras's hook before any training (`fit`, `train_on_batch`): refuses to fill the zeros of pruned kernels."""
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if not isinstance(inner, keras.optimizers.Optimizer):
            raise ModelError(
                f"optimizer {type(inner).__module__}.{type(inner).__name__} is not one of tf_keras.optimizers: the "
                "legacy ones have no checkpoints that fit; use tf_keras.optimizers.Adam or its like."
            )
        for layer in self.network.layers:
            kernel = getattr(layer, "kernel", None)
            zeros = 0.0 if kernel is None else float(np.mean(keras.backend.get_value(kernel) == 0))
            # A kernel of zeros alone is an initial value, and single zeros are chance.
            if 0.2 < zeros < 1:
                raise ModelError(
                    f"layer {layer.name!r} has {zeros:.0%} zeros and no mask, so training would fill them: train "
                    "sparsity.sparsify(model, sparsity.FixedMask()), which keeps them."
                )
        return super().make_train_function(force)

    def evaluate(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Keras's `evaluate`: the loss of the averaged network on noise that is the same every time.

        Raises:
            DataError: when images or labels do not suit the network.
        """
        self._check_data(x, y)
        return super().evaluate(x, y, **kwargs)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step: draw noise levels and noise, denoise, weigh the error, update weights and average."""
        images, labels = self._unpack(data)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        # One algorithm for all: left to itself, XLA picks another and trains on other noise.
        seed = tf.random.fold_in(
            tf.stack([tf.constant(self.seed, tf.int64), self.step]), tf.cast(replica, tf.int64), alg="philox"
        )
        level_seed, noise_seed, drop_seed = tf.unstack(tf.random.split(seed, 3, alg="philox"))
        if labels is not None and self.label_dropout:
            kept = diffusion.stateless_uniform([tf.shape(labels)[0], 1], drop_seed) >= self.label_dropout
            labels *= tf.cast(kept, labels.dtype)
        with tf.GradientTape() as tape:
            loss = self._loss(self.denoiser(ema=False), images, labels, level_seed, noise_seed, training=True)
            total = loss + tf.add_n([tf.cast(term, tf.float32) for term in self.network.losses] or [0.0])
            # Optimizers add the gradients of the replicas up; Keras's own losses are divided the same way.
            total /= tf.cast(tf.distribute.get_strategy().num_replicas_in_sync, tf.float32)
        self._apply_gradients(total, tape)
        self.step.assign_add(1)
        self._update_average()
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result(), "gradient_norm": self.gradient_norm_tracker.result()}

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Loss of the averaged network on noise that depends on the batch's place alone: comparable runs."""
        images, labels = self._unpack(data)
        # The tracker was reset when `evaluate` began, so its count is the number of images seen since.
        place = tf.cast(self.loss_tracker.count, tf.int64)
        seeds = tf.random.split(tf.stack([tf.constant(self.seed, tf.int64), -1 - place]), 2, alg="philox")
        loss = self._loss(self.denoiser(), images, labels, seeds[0], seeds[1], training=False)
        self.loss_tracker.update_state(loss, sample_weight=tf.shape(images)[0])
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_tracker, self.gradient_norm_tracker]

    def _apply_gradients(self, loss: tf.Tensor, tape: tf.GradientTape) -> None:
        """What `optimizer.minimize` does, with a look at the norm of the gradients before they are clipped."""
        gradients = self.optimizer.compute_gradients(loss, self.network.trainable_variables, tape=tape)
        inner: keras.optimizers.Optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        gradients = inner.aggregate_gradients(gradients)
        self.optimizer.apply_gradients(gradients, skip_gradients_aggregation=True)
        norm = tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient, _ in gradients])
        # Steps that loss scaling skips have no finite gradient; they must not spoil the mean of the others.
        finite = tf.math.is_finite(norm)
        self.gradient_norm_tracker.update_state(tf.where(finite, norm, 0.0), sample_weight=tf.cast(finite, tf.float32))

    def _loss(
        self,
        denoiser: diffusion.Denoiser,
        images: tf.Tensor,
        labels: tf.Tensor | None,
        level_seed: tf.Tensor,
        noise_seed: tf.Tensor,
        training: bool,
    ) -> tf.Tensor:
        """Mean weighted denoising error of a batch at random noise levels."""
        sigma = diffusion.stratified_levels(self.noise_levels, tf.shape(images)[0], level_seed)
        noise = diffusion.stateless_normal(tf.shape(images), noise_seed)
        noisy = diffusion.add_noise(images, noise, sigma)
        denoised = denoiser(noisy, sigma, labels, training=training)
        return tf.reduce_mean(diffusion.denoising_loss(denoised, images, sigma, self.weighting, self.sigma_data))

    def _check_data(self, x: Any, y: Any) -> None:
        """Refuse data whose shapes are known and wrong, before TensorFlow traces a step with it."""
        spec = x.element_spec if isinstance(x, tf.data.Dataset | tf.distribute.DistributedDataset) else x
        images, labels = spec if y is None and isinstance(spec, tuple) and len(spec) == 2 else (spec, y)
        shape = getattr(images, "shape", None)
        if shape is None:
            return  # a generator: its batches are seen first by Keras
        if tuple(shape[1:]) != self.image_shape:
            raise DataError(
                f"images of shape {tuple(shape[1:])} do not fit the network, which takes {self.image_shape}: "
                "resize them or build the network for their size."
            )
        if self.num_classes is not None and labels is None:
            raise DataError(
                f"the network is conditional on {self.num_classes} classes, but the data has no labels: "
                "give (image, label) pairs, or build the network with num_classes=None."
            )

    def _unpack(self, data: Any) -> tuple[tf.Tensor, tf.Tensor | None]:
        """A batch as (images float32, one-hot labels or None)."""
        images, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        images = tf.cast(images, tf.float32)
        return images, None if self.num_classes is None else diffusion.one_hot_labels(labels, self.num_classes)

    def _averages(self) -> list[tuple[tf.Variable, ...]]:
        """(average, the weight it follows, masks that it is multiplied by …) for every weight."""
        # Not kept as an attribute: Keras would track it and count the averages as trainable.
        pairs: list[tuple[tf.Variable, ...]] = []
        for layer in self.network.layers:
            inner = networks.unwrapped(layer)
            pairs.extend(zip(self.ema_network.get_layer(inner.name).weights, inner.weights, strict=True))
        return pairs

    def _update_average(self) -> None:
        def update(average: tf.Variable, weight: tf.Tensor, *masks: tf.Tensor) -> None:
            step = tf.cast(self.step, tf.float32)
            keep = tf.cast(tf.minimum(self.ema_decay, (1.0 + step) / (10.0 + step)), average.dtype)
            value = weight + keep * (average - weight) if average.dtype.is_floating else weight
            for mask in masks:
                value *= mask
            average.assign(value)

        def update_all(strategy: tf.distribute.Strategy) -> None:
            for average, *sources in self._averages():
                strategy.extended.update(average, update, args=tuple(sources))

        # Every replica computes the same average; only between replicas may all copies be assigned.
        tf.distribute.get_replica_context().merge_call(update_all)

    def get_config(self) -> dict[str, Any]:
        network = keras.saving.serialize_keras_object(self.network)
        return {"name": self.name, "network": network, **self._config}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> DiffusionModel:
        config = dict(config)
        config["network"] = keras.saving.deserialize_keras_object(config["network"], custom_objects)
        return cls(**config)


def network_policy(network: keras.Model) -> str:
    """The dtype policy that a network was built under; single layers, such as heads, may be float32."""
    policies = {layer.dtype_policy.name for layer in network.layers} - {"float32"}
    return policies.pop() if policies else "float32"


def load_model(path: str) -> DiffusionModel:
    """Load a model saved with `DiffusionModel.save`.

    Raises:
        ModelError: when the file is missing, damaged, of Keras 3 or of another kind.
    """
    version = _keras_version(path)
    if version and not version.startswith("2."):
        raise ModelError(
            f"{path} was saved by Keras {version}; tfdiff and TF-MOT work on Keras 2: build and save the model with "
            "`import tf_keras as keras` (or TF_USE_LEGACY_KERAS=1)."
        )
    try:
        model = keras.models.load_model(path)
    except Exception as error:  # Keras raises whatever its reader met: OSError, KeyError, zipfile and h5py errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{path} cannot be loaded as a tfdiff model: {reason}") from error
    if not isinstance(model, DiffusionModel):
        raise ModelError(f"{path} holds a {type(model).__name__}, not a tfdiff.DiffusionModel.")
    return model


def _keras_version(path: str) -> str | None:
    """The version of Keras that saved a .keras file; None where the file does not tell."""
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("metadata.json")).get("keras_version")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def _without_wrapper(layer: keras.layers.Layer) -> keras.layers.Layer | None:
    inner = networks.unwrapped(layer)
    return None if inner is layer else networks.copy_layer(inner)
