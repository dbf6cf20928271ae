"""From a trained model to TFLite and ONNX files whose size, speed and picture quality have been measured.

`bundle` converts and proves, `verify` measures a bundle against its Keras network, `benchmark` times files, and
`load` runs one file in its real runtime.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

#: Public names and their modules, imported on first use: running a file needs no TensorFlow.
_LAZY = {
    "Bundle": "manifest",
    "FORMATS": "manifest",
    "Runner": "runtimes",
    "Timing": "benchmarks",
    "Verification": "verification",
    "benchmark": "benchmarks",
    "bundle": "bundling",
    "load": "runtimes",
    "record_quality": "model_card",
    "verify": "verification",
    "write_card": "model_card",
}

if TYPE_CHECKING:
    from tfdiff.export.benchmarks import Timing, benchmark
    from tfdiff.export.bundling import bundle
    from tfdiff.export.manifest import FORMATS, Bundle
    from tfdiff.export.model_card import record_quality, write_card
    from tfdiff.export.runtimes import Runner, load
    from tfdiff.export.verification import Verification, verify

__all__ = [
    "FORMATS",
    "Bundle",
    "Runner",
    "Timing",
    "Verification",
    "benchmark",
    "bundle",
    "load",
    "record_quality",
    "verify",
    "write_card",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tfdiff.export' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tfdiff.export.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
