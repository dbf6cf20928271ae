"""Train Keras diffusion models, make them sparse and few-step, and ship them as TFLite and ONNX files.

Importing tfdiff settles which Keras is meant. TensorFlow Model Optimization prunes only Keras 2, so
everything here is built on `tf_keras`, and `TF_USE_LEGACY_KERAS=1` makes keras-cv and `tf.keras` follow.
The variable is read when `tf.keras` is first touched: after that it is too late, and this import says so.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any


def _settle_keras() -> None:
    """Choose Keras 2 for this process, or raise where Keras 3 has already been chosen."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    tensorflow = sys.modules.get("tensorflow")
    # `tf.keras` is a lazy loader: asking for a class loads the Keras that the variable names now, unless it was
    # loaded before.
    if tensorflow is not None and not tensorflow.keras.Model.__module__.startswith("tf_keras."):
        raise ImportError(
            "tfdiff needs Keras 2 (tf_keras), but Keras 3 is in use as tf.keras: import tfdiff before "
            "tf.keras is used, or set the environment variable TF_USE_LEGACY_KERAS=1 before starting Python."
        )


_settle_keras()

__version__ = "0.1.0"

#: Public names and the modules that hold them, imported on first use: `import tfdiff` stays quick,
#: and the command line can refuse a bad config before TensorFlow loads.
_LAZY = {
    "DiffusionModel": "tfdiff.training",
    "Sampling": "tfdiff.diffusion",
    "data": None,
    "diffusion": None,
    "export": None,
    "metrics": None,
    "networks": None,
    "sparsity": None,
    "training": None,
}

if TYPE_CHECKING:
    from tfdiff.diffusion import Sampling
    from tfdiff.training import DiffusionModel

__all__ = ["DiffusionModel", "Sampling", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tfdiff' has no attribute {name!r}")
    module = _LAZY[name]
    value = (
        importlib.import_module(f"tfdiff.{name}") if module is None else getattr(importlib.import_module(module), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
