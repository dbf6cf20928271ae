"""`sparsify` and `strip`: a diffusion model with pruning wrappers, and back."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras.pruning_callbacks import UpdatePruningStep
from tensorflow_model_optimization.python.core.sparsity.keras.pruning_schedule import PruningSchedule

from tfdiff import networks
from tfdiff.errors import ModelError
from tfdiff.sparsity.policy import PruningPolicy, Selection
from tfdiff.sparsity.pruning import FixedMask, check_reaches_target
from tfdiff.sparsity.wrapper import PruneLowMagnitude
from tfdiff.training import DiffusionModel


class SparsityMethod(Protocol):
    """What `sparsify` needs: which layers, on which schedule."""

    @property
    def schedule(self) -> PruningSchedule: ...

    def select(self, network: keras.Model) -> list[Selection]: ...


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
        steps = steps_per_epoch or _steps_in(x, kwargs.get("batch_size"))
        if steps:
            taken = max(int(keras.backend.get_value(self.pruned_layers[0].pruning_step)), 0)
            check_reaches_target(self.pruned_layers[0].pruning_schedule, taken + steps * (epochs - initial_epoch))
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
        return logs

    def _averages(self) -> list[tuple[tf.Variable, ...]]:
        masks = {id(kernel): mask for layer in self.pruned_layers for kernel, mask, _ in layer.pruning_vars}
        return [
            (average, weight, masks[id(weight)]) if id(weight) in masks else (average, weight)
            for average, weight in super()._averages()
        ]


def sparsify(model: DiffusionModel, method: SparsityMethod) -> SparseDiffusionModel:
    """A copy of `model` whose selected layers are wrapped for pruning. Compile and fit it as any Keras model.

    `selections` tells which layers were left dense, and why. Step counter and moving average begin anew: the average
    follows the weights closely at first, since those of the dense model are not what it should remember.

    Args:
        model: a trained dense model.
        method: `MagnitudePruning` or `FixedMask`.

    Raises:
        ModelError: when the model is sparse already or has no layer that the policy selects.
    """
    if isinstance(model, SparseDiffusionModel):
        raise ModelError("sparsify: the model carries pruning wrappers already; train it on, or strip it first.")
    selections = method.select(model.network)
    chosen = {selection.layer for selection in selections if selection.pruned}
    if not chosen:
        raise ModelError(
            f"sparsify: no layer of {model.network.name!r} is selected: "
            + ("; ".join(f"{s.layer}: {s.reason}" for s in selections) or "it has no kernels")
            + ". Change the policy."
        )

    def wrap(layer: keras.layers.Layer) -> keras.layers.Layer | None:
        if layer.name not in chosen:
            return None
        return PruneLowMagnitude(networks.copy_layer(layer), pruning_schedule=method.schedule)

    # Steps are counted anew; with the same seed the first of them would see the noise of training's first again.
    config = {**model.get_config(), "network": networks.rebuild(model.network, wrap), "seed": model.seed + 1}
    sparse = SparseDiffusionModel(**config)
    sparse.ema_network.set_weights(model.ema_network.get_weights())
    if isinstance(method, FixedMask):
        for layer in sparse.pruned_layers:
            layer.restore_masks()
    return sparse


@keras.saving.register_keras_serializable("tfdiff")
class StrippedDiffusionModel(DiffusionModel):
    """What `strip` makes: it samples, saves and exports, but does not train, since that would fill its zeros."""

    def make_train_function(self, force: bool = False) -> Any:
        raise ModelError(
            "a stripped model has zeros and no mask, so training would fill them: train "
            "sparsity.sparsify(model, sparsity.FixedMask()), which keeps them."
        )


def strip(model: DiffusionModel) -> StrippedDiffusionModel:
    """A copy of `model` without wrappers; its networks hold the zeros as plain weights.

    Train on with `sparsify(stripped, FixedMask())`.
    """
    config = {**model.get_config(), "network": networks.rebuild(model.network, _inner)}
    stripped = StrippedDiffusionModel(**config)
    stripped.ema_network.set_weights(model.ema_network.get_weights())
    stripped.step.assign(keras.backend.get_value(model.step))
    return stripped


def selections(model: DiffusionModel, policy: PruningPolicy | None = None) -> list[Selection]:
    """The decision about every layer with a kernel.

    Args:
        model: of a sparse model the wrappers in place count, and `policy` gives the reasons for the others.
        policy: that was, or would be, used; default `PruningPolicy()`.
    """
    decided = (policy or PruningPolicy()).select(model.network)
    if not isinstance(model, SparseDiffusionModel):
        return decided
    wrapped = {layer.layer.name for layer in model.pruned_layers}
    return [
        Selection(s.layer, s.weights, "" if s.layer in wrapped else s.reason or "not selected by its method")
        for s in decided
    ]


def _steps_in(data: Any, batch_size: int | None) -> int | None:
    """Training steps in one pass over the data; None where only Keras learns its end."""
    if isinstance(data, tf.data.Dataset):
        size = int(data.cardinality())
        return size if size > 0 else None
    return None if getattr(data, "shape", None) is None else -(-len(data) // (batch_size or 32))


def _inner(layer: keras.layers.Layer) -> keras.layers.Layer | None:
    return networks.copy_layer(layer.layer) if isinstance(layer, PruneLowMagnitude) else None
