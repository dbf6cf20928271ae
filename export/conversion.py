"""Converts in child processes: a converter that aborts costs its own file and no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Called with (file, files done, files in all) when work on a file begins, and at the end with ("", all, all).
Progress = Callable[[str, int, int], None]

WORKER = (sys.executable, "-m", "tfdiff.export.worker")

_STDERR_LINES = 3


@dataclass(frozen=True)
class Job:
    """What a worker is told.

    graphs: directory that `graph.write_graphs` filled.
    calibration: file that `Trajectory.save` wrote.
    output: directory for the files.
    reduce_range: 7-bit weights in ONNX INT8 (see `onnx_int8`).
    """

    graphs: Path
    calibration: Path
    output: Path
    reduce_range: bool


@dataclass(frozen=True)
class Conversion:
    """How one file went: `error` is None, or one line."""

    file: str
    seconds: float
    error: str | None


def convert(
    job: Job, files: Sequence[str], *, progress: Progress | None = None, worker: Sequence[str] = WORKER
) -> list[Conversion]:
    """Convert `files`, each in its turn, in as few child processes as stay alive.

    Args:
        job: where things are.
        files: names of the bundle's files (`manifest.FileName`).
        progress: see `Progress`.
        worker: command that takes the path of a job and converts.

    Returns:
        One result per file, in the order of `files`.
    """
    results: dict[str, Conversion] = {}
    while remaining := [file for file in files if file not in results]:
        for result in _run_worker(job, remaining, worker, lambda file: _report(progress, file, results, files)):
            results[result.file] = result
    if progress:
        progress("", len(files), len(files))
    return [results[file] for file in files]


def _report(progress: Progress | None, file: str, results: dict[str, Conversion], files: Sequence[str]) -> None:
    if progress:
        progress(file, len(results), len(files))


def _run_worker(
    job: Job, files: Sequence[str], worker: Sequence[str], started: Callable[[str], None]
) -> Iterator[Conversion]:
    """Results of one child process. Where it dies, the file under way fails (all of them, before the first)."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+", errors="replace") as stderr:
        job_path = Path(directory) / "job.json"
        paths = {"graphs": str(job.graphs), "calibration": str(job.calibration), "output": str(job.output)}
        job_path.write_text(json.dumps({**paths, "reduce_range": job.reduce_range, "files": list(files)}))
        process = subprocess.Popen(
            [*worker, str(job_path)], stdout=subprocess.PIPE, stderr=stderr, text=True, env=_environment()
        )
        assert process.stdout is not None
        current: str | None = None
        finished: set[str] = set()
        try:
            for line in process.stdout:
                if not line.startswith("{"):  # what a library prints while it is imported
                    continue
                event: dict[str, Any] = json.loads(line)
                current = event["file"]
                if event["event"] == "start":
                    started(current)
                    continue
                yield Conversion(current, event.get("seconds", 0.0), event.get("error"))
                finished.add(current)
                current = None
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        left = [file for file in files if file not in finished]
        if left:
            reason = f"the converter {_ending(code)}: {_last_lines(stderr)}"
            yield from (Conversion(file, 0.0, reason) for file in ([current] if current else left))


def _environment() -> dict[str, str]:
    """The child's environment: the parent's modules, but not its GPU, whose memory the parent holds."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"stopped with exit code {code}"


def _last_lines(stream: IO[str]) -> str:
    stream.seek(0)
    lines = [line.strip() for line in stream if line.strip()]
    return " | ".join(lines[-_STDERR_LINES:]) or "no message"
