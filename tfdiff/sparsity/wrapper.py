"""TF-MOT's pruning wrapper, made safe for mixed precision."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras import pruning_wrapper
from tf_keras.src.mixed_precision.autocast_variable import enable_auto_cast_variables


@keras.saving.register_keras_serializable("tfdiff")
class PruneLowMagnitude(pruning_wrapper.PruneLowMagnitude):
    """`PruneLowMagnitude` whose inner layer keeps its own precision and whose weights keep all their bits.

    TF-MOT's wrapper calls `layer.call` under its own dtype policy and multiplies kernel and mask inside the
    automatic cast: under `mixed_float16` a float32 head fails or silently computes in float16, and each step
    would round the kernel to float16. Here the mask is applied to the float32 variables and the inner layer is
    called as a layer. The schedule, the masks and the callback are TF-MOT's.
    """

    def call(self, inputs: Any, training: bool | tf.Tensor | None = None, **kwargs: Any) -> Any:
        if training is None:
            training = keras.backend.learning_phase()
        with enable_auto_cast_variables(None):
            if not isinstance(training, bool | int):
                tf.cond(tf.cast(training, tf.bool), self._update, lambda: None)
            elif training:
                self._update()
        return self.layer(inputs, **kwargs)

    @property
    def mask(self) -> tf.Variable:
        """1 where the kernel's weights live, 0 where they are pruned."""
        return self.pruning_vars[0][1]

    def apply_mask(self) -> None:
        """Zero the masked weights: an optimizer step has just moved them."""
        self.pruning_obj.weight_mask_op()

    def restore_masks(self) -> None:
        """Recompute the masks from the zeros of the weights, where those were set from outside."""
        for weight, mask, _ in self.pruning_vars:
            mask.assign(tf.cast(tf.not_equal(weight, 0), mask.dtype))

    def _update(self) -> None:
        """One training step of TF-MOT's wrapper: count, update the mask if it is due, apply it."""
        self.pruning_step.assign_add(1)
        with tf.control_dependencies(
            [
                tf.debugging.assert_greater_equal(
                    self.pruning_step, tf.constant(1, tf.int64), self._PRUNE_CALLBACK_ERROR_MSG
                )
            ]
        ):
            self.pruning_obj.conditional_mask_update()
        self.apply_mask()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PruneLowMagnitude:
        config = dict(config)
        config.pop("name", None)  # TF-MOT derives it from the inner layer, and refuses to be given one
        return super().from_config(config)
