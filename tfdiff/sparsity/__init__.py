"""Sparsity: which layers, which masks, when, and how sparse the result really is."""

from tensorflow_model_optimization.python.core.sparsity.keras.pruning_schedule import (
    ConstantSparsity,
    PolynomialDecay,
    PruningSchedule,
)

from tfdiff.sparsity.model import SparseDiffusionModel, StrippedDiffusionModel, selections, sparsify, strip
from tfdiff.sparsity.monitoring import SparsityMonitor
from tfdiff.sparsity.policy import PruningPolicy, Selection
from tfdiff.sparsity.pruning import FixedMask, MagnitudePruning, check_reaches_target, reached_sparsity
from tfdiff.sparsity.report import LayerSparsity, layer_sparsity, pruned_fraction
from tfdiff.sparsity.wrapper import PruneLowMagnitude

__all__ = [
    "ConstantSparsity",
    "FixedMask",
    "LayerSparsity",
    "MagnitudePruning",
    "PolynomialDecay",
    "PruneLowMagnitude",
    "PruningPolicy",
    "PruningSchedule",
    "Selection",
    "SparseDiffusionModel",
    "SparsityMonitor",
    "StrippedDiffusionModel",
    "check_reaches_target",
    "layer_sparsity",
    "pruned_fraction",
    "reached_sparsity",
    "selections",
    "sparsify",
    "strip",
]
