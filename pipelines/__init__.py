"""From a config to artefacts: `load_config`, the stages and the command line.

    config = load_config("digits", {"train.steps": 200})
    run(config, "runs/quick")

Nothing here loads TensorFlow until a stage runs: a bad config is refused at once. `final_model` (what a run made)
and `sampling_of` (how it draws) need TensorFlow and are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import load_config, preset_names
from tfdiff.pipelines.pipeline import STAGES, Stage, run
from tfdiff.pipelines.run_directory import RunDirectory

if TYPE_CHECKING:
    from tfdiff.pipelines.sparsify_stage import final_model
    from tfdiff.pipelines.training_run import sampling_of

__all__ = [
    "STAGES",
    "Config",
    "RunDirectory",
    "Stage",
    "final_model",
    "load_config",
    "preset_names",
    "run",
    "sampling_of",
]

_LAZY = {"final_model": "sparsify_stage", "sampling_of": "training_run"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
