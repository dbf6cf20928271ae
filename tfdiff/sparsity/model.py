"""`sparsify` and `strip`: a diffusion model with pruning wrappers, and back."""

from __future__ import annotations

import logging
from typing import Any, Protocol

import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras.pruning_callbacks import UpdatePruningStep
from tensorflow_model_optimization.python.core.sparsity.keras.pruning_schedule import PruningSchedule

from tfdiff import networks
from tfdiff.errors import ModelError
from tfdiff.sparsity.policy import PruningPolicy, Selection, kernel_of
from tfdiff.sparsity.pruning import FixedMask, check_reaches_target
from tfdiff.sparsity.wrapper import PruneLowMagnitude
from tfdiff.training import DiffusionModel

_log = logging.getLogger(__name__)


class SparsityMethod(Protocol):
    """What `sparsify` needs: which layers, on which schedule, in which wrapper."""

    @property
    def policy(self) -> PruningPolicy: ...

    @property
    def schedule(self) -> PruningSchedule: ...

    def wrap(self, layer: keras.layers.Layer) -> PruneLowMagnitude: ...


@keras.saving.register_keras_serializable("tfdiff")
class SparseDiffusionModel(DiffusionModel):
    """A `DiffusionModel` whose network carries pruning wrappers.

    After every training step the weights and their moving average are exactly as sparse as the masks: whatever
    is saved, averaged or exported at any moment keeps its zeros. TF-MOT's `UpdatePruningStep` is added to `fit`
    by itself.
    """

    @property
    def pruned_layers(self) -> list[PruneLowMagnitude]:
        """The wrappers, in the network's order."""
        # Not kept as an attribute: Keras would track, and save, every one of them twice.
        return [layer for layer in self.network.layers if isinstance(layer, PruneLowMagnitude)]

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        callbacks: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Keras's `fit` with the pruning-step callback, after checking that the schedule reaches its target.

        Raises:
            UsageError: when the steps of all epochs end before the schedule does.
            ModelError: when the optimizer's own averages would fill the zeros.
        """
        if getattr(self.optimizer, "use_ema", False):
            raise ModelError(
                "optimizer use_ema=True writes dense averages over pruned weights at the end of fit: leave it off; "
                "ema_network already holds the (sparse) average."
            )
        steps = steps_per_epoch or (int(x.cardinality()) if isinstance(x, tf.data.Dataset) else -1)
        if steps > 0:  # of a dataset of unknown length only Keras learns the end
            schedule, taken = self.pruned_layers[0].pruning_schedule, max(int(self.pruned_layers[0].pruning_step), 0)
            check_reaches_target(schedule, taken + steps * (epochs - initial_epoch), taken)
        given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []
        if not any(isinstance(callback, UpdatePruningStep) for callback in given):
            given.insert(0, UpdatePruningStep())
        return super().fit(
            x,
            y,
            epochs=epochs,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            callbacks=given,
            **kwargs,
        )

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """A step of `DiffusionModel`, after which weights and averages are masked."""
        logs = super().train_step(data)
        for layer in self.pruned_layers:
            layer.apply_mask()
            average = kernel_of(self.ema_network.get_layer(layer.layer.name))
            assert average is not None
            for _, mask, _ in layer.pruning_vars:
                average.assign(average * mask)
        return logs


def sparsify(model: DiffusionModel, method: SparsityMethod) -> SparseDiffusionModel:
    """A copy of `model` whose selected layers are wrapped for pruning. Compile and fit it as any Keras model.

    Args:
        model: a trained dense model.
        method: `MagnitudePruning` or `FixedMask`.

    Raises:
        ModelError: when the model is sparse already or has no layer that the policy selects.
    """
    if isinstance(model, SparseDiffusionModel):
        raise ModelError("sparsify: the model carries pruning wrappers already; train it on, or strip it first.")
    selections = method.policy.select(model.network)
    chosen = {selection.layer for selection in selections if selection.pruned}
    if not chosen:
        raise ModelError(
            f"sparsify: no layer of {model.network.name!r} is selected: "
            + ("; ".join(f"{s.layer}: {s.reason}" for s in selections) or "it has no kernels")
            + ". Change the policy."
        )
    for selection in selections:
        if not selection.pruned:
            _log.info("not pruned: %s (%s)", selection.layer, selection.reason)

    def wrap(layer: keras.layers.Layer) -> keras.layers.Layer | None:
        return method.wrap(networks.copy_layer(layer)) if layer.name in chosen else None

    config = {**model.get_config(), "network": networks.rebuild(model.network, wrap)}
    sparse = SparseDiffusionModel(**config)
    sparse.ema_network.set_weights(model.ema_network.get_weights())
    if isinstance(method, FixedMask):
        for layer in sparse.pruned_layers:
            layer.restore_masks()
    return sparse


def strip(model: DiffusionModel) -> DiffusionModel:
    """A copy of `model` without wrappers; its networks hold the zeros as plain weights.

    It can be saved, sampled and exported, but not trained on: `fit` refuses a network with pruned kernels and
    no masks, since it would fill them. Train on with `sparsify(stripped, FixedMask())`.
    """
    config = {**model.get_config(), "network": networks.rebuild(model.network, _inner)}
    stripped = DiffusionModel(**config)
    stripped.ema_network.set_weights(model.ema_network.get_weights())
    stripped.step.assign(model.step)
    return stripped


def selections(model: DiffusionModel, policy: PruningPolicy | None = None) -> list[Selection]:
    """The decision about every layer: of the wrappers in place, or of `policy` for a dense model."""
    decided = (policy or PruningPolicy()).select(model.network)
    if not isinstance(model, SparseDiffusionModel):
        return decided
    wrapped = {layer.layer.name for layer in model.pruned_layers}
    return [Selection(s.layer, s.weights, "" if s.layer in wrapped else s.reason or "not wrapped") for s in decided]


def _inner(layer: keras.layers.Layer) -> keras.layers.Layer | None:
    return networks.copy_layer(layer.layer) if isinstance(layer, PruneLowMagnitude) else None
