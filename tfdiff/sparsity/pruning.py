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

from tfdiff import networks
from tfdiff.errors import ModelError, UsageError
from tfdiff.sparsity.policy import LayerGraph, PruningPolicy, Selection, kernel_of, kernel_size, unprunable

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

    def select(self, network: keras.Model) -> list[Selection]:
        """The policy's decisions."""
        return self.policy.select(network)


class FixedMask:
    """Keeps the zeros that a network has: for training on after `strip` or after loading a sparse network.

    Every layer with zeros in its kernel keeps them, whatever policy put them there.
    """

    #: A range of steps that training (from step 1) never meets: the mask is never computed anew.
    schedule: PruningSchedule = ConstantSparsity(0.0, begin_step=0, end_step=0)

    def select(self, network: keras.Model) -> list[Selection]:
        """Layers with zeros are selected.

        Raises:
            ModelError: when a layer with zeros cannot be wrapped.
        """
        graph = LayerGraph(network)
        selections = []
        for layer in network.layers:
            if not kernel_size(layer):
                continue
            zeros = float(np.mean(keras.backend.get_value(kernel_of(layer)) == 0))
            reason = "" if 0 < zeros < 1 else "no zeros to keep" if zeros == 0 else "all zeros: an initial value"
            unable = unprunable(layer, graph)
            if not reason and unable:
                raise ModelError(f"layer {layer.name!r} has {zeros:.0%} zeros that cannot be kept ({unable}).")
            selections.append(Selection(networks.unwrapped(layer).name, kernel_size(layer), reason))
        return selections


def reached_sparsity(schedule: PruningSchedule, steps: int) -> float:
    """The sparsity of the last mask that training steps 1 … `steps` compute; NaN if they compute none.

    Masks change only at steps where (step − begin) is a multiple of the frequency.
    """
    if steps < 1:
        return float("nan")
    due, sparsity = schedule(tf.range(1, steps + 1, dtype=tf.int64))
    at = np.flatnonzero(np.broadcast_to(due.numpy(), steps))
    return float(np.broadcast_to(sparsity.numpy(), steps)[at[-1]]) if at.size else float("nan")


def target_sparsity(schedule: PruningSchedule) -> float:
    """The sparsity that a schedule names as its end."""
    target = getattr(schedule, "final_sparsity", getattr(schedule, "target_sparsity", None))
    return float(schedule(tf.constant(2**31, tf.int64))[1]) if target is None else float(target)


def check_reaches_target(schedule: PruningSchedule, steps: int) -> None:
    """Refuse a schedule that training up to step `steps`, counted from `sparsify`, cannot bring to its target.

    Raises:
        UsageError: naming the target, what would be reached and what to change.
    """
    target, reached = target_sparsity(schedule), reached_sparsity(schedule, steps)
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
