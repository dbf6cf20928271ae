"""Magnitude pruning as a method for `sparsify`: TF-MOT's schedules, checked against the steps there will be."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras.pruning_schedule import (
    ConstantSparsity,
    PolynomialDecay,
    PruningSchedule,
)

from tfdiff.errors import UsageError
from tfdiff.sparsity.policy import PruningPolicy
from tfdiff.sparsity.wrapper import PruneLowMagnitude

#: A schedule may end this far from its target: a kernel's share of zeros is a whole number of weights anyway.
_TOLERANCE = 0.005


@dataclass(frozen=True)
class MagnitudePruning:
    """TF-MOT's pruning by magnitude (Zhu & Gupta 2017, arXiv 1710.01878).

    Attributes:
        schedule: TF-MOT `PruningSchedule`, in training steps counted from `sparsify`.
        policy: which layers.
    """

    schedule: PruningSchedule
    policy: PruningPolicy = field(default_factory=PruningPolicy)

    @classmethod
    def polynomial(
        cls,
        sparsity: float,
        steps: int,
        *,
        initial_sparsity: float = 0.0,
        end: float = 0.6,
        frequency: int | None = None,
        policy: PruningPolicy | None = None,
    ) -> MagnitudePruning:
        """A cubic schedule that fits into `steps` training steps.

        Args:
            sparsity: final fraction of zeros, in (0, 1).
            steps: training steps that are planned.
            initial_sparsity: fraction of zeros at the first mask.
            end: share of the steps after which the masks stay, in (0, 1]; the rest is recovery.
            frequency: steps between two masks; default: about 50 masks.
            policy: which layers; default `PruningPolicy()`.

        Raises:
            UsageError: when a number is out of range or the steps are too few to reach the target.
        """
        for argument, value in (("sparsity", sparsity), ("end", end)):
            if not 0 < value <= 1 or (argument == "sparsity" and value == 1):
                raise UsageError(f"{argument}={value} must lie in (0, 1{')' if argument == 'sparsity' else ']'}.")
        if not 0 <= initial_sparsity <= sparsity:
            raise UsageError(f"initial_sparsity={initial_sparsity} must lie in [0, sparsity={sparsity}].")
        last = int(steps * end)
        frequency = frequency or max(1, last // 50)
        # The last mask comes at a multiple of `frequency`: let the schedule end there, at its target.
        schedule = PolynomialDecay(
            initial_sparsity, sparsity, 0, max(last // frequency * frequency, 1), frequency=frequency
        )
        check_reaches_target(schedule, steps)
        return cls(schedule, policy or PruningPolicy())

    def wrap(self, layer: keras.layers.Layer) -> PruneLowMagnitude:
        """Wrap one (unbuilt) layer."""
        return PruneLowMagnitude(layer, pruning_schedule=self.schedule)


@dataclass(frozen=True)
class FixedMask:
    """Keeps the zeros that a network has: for training on after `strip` or after loading a sparse network.

    Attributes:
        policy: which layers.
    """

    policy: PruningPolicy = field(default_factory=PruningPolicy)

    @property
    def schedule(self) -> PruningSchedule:
        # A range of steps that training (from step 1) never meets: the mask is never computed anew.
        return ConstantSparsity(0.0, begin_step=0, end_step=0)

    def wrap(self, layer: keras.layers.Layer) -> PruneLowMagnitude:
        """Wrap one (unbuilt) layer."""
        return PruneLowMagnitude(layer, pruning_schedule=self.schedule)


def reached_sparsity(schedule: PruningSchedule, steps: int, first_step: int = 0) -> float:
    """The sparsity of the last mask that training steps first_step + 1 … steps compute; NaN if they compute none.

    Masks change only at steps where (step − begin) is a multiple of the frequency.
    """
    if steps <= first_step:
        return float("nan")
    due, sparsity = schedule(tf.range(first_step + 1, steps + 1, dtype=tf.int64))
    at = np.flatnonzero(np.broadcast_to(due.numpy(), steps - first_step))
    return float(np.broadcast_to(sparsity.numpy(), steps - first_step)[at[-1]]) if at.size else float("nan")


def target_sparsity(schedule: PruningSchedule) -> float:
    """The sparsity that a schedule names as its end."""
    target = getattr(schedule, "final_sparsity", getattr(schedule, "target_sparsity", None))
    return float(schedule(tf.constant(2**31, tf.int64))[1]) if target is None else float(target)


def check_reaches_target(schedule: PruningSchedule, steps: int, first_step: int = 0) -> None:
    """Refuse a schedule that training up to step `steps` cannot bring to its target.

    Args:
        schedule: of the masks.
        steps: the last training step, counted from `sparsify`.
        first_step: steps that were taken already.

    Raises:
        UsageError: naming target, what would be reached and the steps that are needed.
    """
    target, reached = target_sparsity(schedule), reached_sparsity(schedule, steps, first_step)
    if np.isnan(reached) and first_step > 0:
        return  # every mask lies in the past
    if target and not reached >= target - _TOLERANCE:
        found = "no mask at all" if np.isnan(reached) else f"{reached:.1%}"
        settings = ", ".join(
            f"{name}={getattr(schedule, name)}"
            for name in ("begin_step", "end_step", "frequency")
            if hasattr(schedule, name)
        )
        raise UsageError(
            f"pruning target {target:.0%} cannot be reached in {steps} training steps: the schedule ({settings}) "
            f"gets to {found}. Train for more steps, end the schedule earlier, or prune more often."
        )
