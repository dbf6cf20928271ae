"""Training: `DiffusionModel`, its callbacks, precision, and drawing from it."""

from tfdiff.training.callbacks import (
    Checkpoint,
    Progress,
    SampleGrid,
    StopOnNaN,
    standard_callbacks,
)
from tfdiff.training.generate import Drawer, Generator
from tfdiff.training.history import History, StepRows
from tfdiff.training.images import image_grid, save_png, to_uint8
from tfdiff.training.model import DiffusionModel, load_model
from tfdiff.training.monitoring import DenoisingMonitor, KeepBest, KernelDistanceMonitor
from tfdiff.training.precision import PRECISIONS, precision, resolve_jit_compile
from tfdiff.training.tensorboard import TensorBoard

__all__ = [
    "PRECISIONS",
    "Checkpoint",
    "DenoisingMonitor",
    "DiffusionModel",
    "Drawer",
    "Generator",
    "History",
    "KeepBest",
    "KernelDistanceMonitor",
    "Progress",
    "SampleGrid",
    "StepRows",
    "StopOnNaN",
    "TensorBoard",
    "image_grid",
    "load_model",
    "precision",
    "resolve_jit_compile",
    "save_png",
    "standard_callbacks",
    "to_uint8",
]
