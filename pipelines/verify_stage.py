"""Stage verify: every file of the bundle against the Keras model, in its own runtime."""

from __future__ import annotations

import math
from typing import Any

from tfdiff import export
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.pipeline import Result
from tfdiff.pipelines.progress import files_bar
from tfdiff.pipelines.run_directory import RunDirectory

_RUNTIMES = {"tflite": "LiteRT", "onnx": "ONNX Runtime"}


def run(config: Config, directory: RunDirectory) -> Result:
    """Write bundle/verify.json.

    Raises:
        ExportError: naming every file below its threshold, after all were measured.
    """
    settings = config.verify
    # The layers that were pruned are those whose zeros count; of a dense model, all of them.
    pruned = [layer["layer"] for layer in directory.require("sparsify").get("layers", ()) if layer["pruned"]]
    with files_bar("verify") as progress:
        verification = export.verify(
            directory.bundle,
            num_images=settings.images,
            layers=pruned or None,
            thresholds=settings.thresholds,
            progress=progress,
        )
    return Result({"files": [_figures(report) for report in verification.files]}, ["bundle/verify.json"])


def _figures(report: Any) -> dict[str, Any]:
    """What the report shows of a file. `snr_db` is None where the file is equal to the bit."""
    return {
        "name": report.name,
        "runtime": _RUNTIMES[report.name.rpartition(".")[2]],
        "bytes": report.bytes,
        "gzip_bytes": report.gzip_bytes,
        "snr_db": report.snr_db if math.isfinite(report.snr_db) else None,
        "relative_error": report.relative_error,
        "partitions": report.partitions,
        "undelegated_ops": report.undelegated_ops,
        "zero_fraction": report.zero_fraction,
    }
