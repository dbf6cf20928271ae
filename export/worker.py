"""The child process that converts: `python -m tfdiff.export.worker job.json`.

Converters can abort the process that they run in. Here they do no harm: every finished file is in its place, and
the parent (`conversion.convert`) names the file that was under way and starts a new worker for the rest.

The job is `conversion.Job` as JSON. Standard output carries one JSON object per event, {"file", "event", ...} with
event "start", "done" (and "seconds") or "failed" (and "error").
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tfdiff.export import onnx_files, onnx_int8, runtimes, tflite
from tfdiff.export.calibration import Trajectory
from tfdiff.export.manifest import FileName
from tfdiff.files import written_whole


def main(job_path: str) -> None:
    """Convert every file of the job, one after the other; a Python exception fails its file alone."""
    # Converters write to standard output too: they get standard error, the events the real one.
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def emit(**event: Any) -> None:
        events.write(json.dumps(event) + "\n")

    job = json.loads(Path(job_path).read_text())
    graphs, output = Path(job["graphs"]), Path(job["output"])
    calibration = Trajectory.load(Path(job["calibration"]))
    for file in job["files"]:
        emit(file=file, event="start")
        began = time.perf_counter()
        try:
            convert_file(file, graphs, output, calibration, job["reduce_range"])
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            emit(file=file, event="failed", error=f"{type(error).__name__}: {lines[0] if lines else ''}")
        else:
            emit(file=file, event="done", seconds=time.perf_counter() - began)


def convert_file(file: str, graphs: Path, output: Path, calibration: Trajectory, reduce_range: bool) -> None:
    """Convert one file, run it once in its runtime, and only then give it its name in `output`."""
    name = FileName.parse(file)
    with written_whole(output / file) as partial:
        if name.runtime == "tflite":
            partial.write_bytes(tflite.convert_tflite(graphs, name.signature, name.precision, calibration))
        else:
            source = _float32_onnx(graphs, name.signature)
            if name.precision == "int8":
                onnx_int8.quantize_onnx(source, partial, name.signature, calibration, reduce_range=reduce_range)
            else:
                partial.write_bytes(source.read_bytes())
        runtimes.load(partial).run(next(calibration.batches(name.signature)))


def _float32_onnx(graphs: Path, signature: str) -> Path:
    """The float32 ONNX file beside the graphs, made once: INT8 starts from it, and `sample` from `denoise`."""
    path = graphs / f"{signature}.onnx"
    if not path.exists():
        if signature == "denoise":
            model = onnx_files.denoise_model(graphs)
        else:
            model = onnx_files.sample_model(graphs, onnx_files.read(_float32_onnx(graphs, "denoise")))
        onnx_files.save_checked(model, path)
    return path


if __name__ == "__main__":
    main(sys.argv[1])
