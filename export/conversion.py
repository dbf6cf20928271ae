"""Converts in child processes: a converter that aborts costs its own file and no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tfdiff.files import partial_path

#: Called with (file, files done, files in all) when work on a file begins, and at the end with ("", all, all).
Progress = Callable[[str, int, int], None]

WORKER = (sys.executable, "-m", "tfdiff.export.worker")

#: Seconds without a word from a worker after which it is taken to hang, and ended. It speaks when it takes up a file
#: and when it is done with it, so that this is the most that one file may take. It is far more than any should need:
#: small networks take seconds, large ones and long samplers minutes.
FILE_TIMEOUT = 2 * 60 * 60.0

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
    job: Job,
    files: Sequence[str],
    *,
    progress: Progress | None = None,
    worker: Sequence[str] = WORKER,
    timeout: float = FILE_TIMEOUT,
) -> list[Conversion]:
    """Convert `files`, each in its turn, in as few child processes as stay alive.

    Args:
        job: where things are.
        files: names of the bundle's files (`manifest.FileName`).
        progress: see `Progress`.
        worker: command that takes the path of a job and converts.
        timeout: seconds that one file may take (`FILE_TIMEOUT`).

    Returns:
        One result per file, in the order of `files`.
    """
    results: dict[str, Conversion] = {}

    def started(file: str) -> None:
        if progress:
            progress(file, len(results), len(files))

    while remaining := [file for file in files if file not in results]:
        for result in _run_worker(job, remaining, worker, timeout, started):
            results[result.file] = result
    if progress:
        progress("", len(files), len(files))
    return [results[file] for file in files]


def _run_worker(
    job: Job, files: Sequence[str], worker: Sequence[str], timeout: float, started: Callable[[str], None]
) -> Iterator[Conversion]:
    """Results of one child process. Where it dies or hangs, the file under way fails (all, before the first)."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+", errors="replace") as stderr:
        job_path = Path(directory) / "job.json"
        paths = {"graphs": str(job.graphs), "calibration": str(job.calibration), "output": str(job.output)}
        job_path.write_text(json.dumps({**paths, "reduce_range": job.reduce_range, "files": list(files)}))
        process = subprocess.Popen(
            [*worker, str(job_path)], stdout=subprocess.PIPE, stderr=stderr, text=True, env=_environment()
        )
        assert process.stdout is not None
        watchdog = _Watchdog(process, timeout)
        current: str | None = None
        finished: set[str] = set()
        try:
            for line in process.stdout:
                if not line.startswith("{"):  # what a library prints while it is imported
                    continue
                watchdog.restart()
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
            watchdog.stop()
            process.kill()
            process.wait()
            process.stdout.close()
            for file in files:  # a child that died could not clean up
                partial_path(job.output / file).unlink(missing_ok=True)
        left = [file for file in files if file not in finished]
        if left:
            ending = f"hung and was ended after {timeout:g} s" if watchdog.fired else _ending(code)
            reason = f"the converter {ending}: {_last_lines(stderr)}"
            # Between two files it is the fault of neither: a new child goes on.
            failed = [current] if current else [] if finished else left
            yield from (Conversion(file, 0.0, reason) for file in failed)


class _Watchdog:
    """Kills a process unless it is restarted or stopped within `timeout` seconds."""

    def __init__(self, process: subprocess.Popen[str], timeout: float) -> None:
        self.fired = False
        self._process = process
        self._timeout = timeout
        self._start()

    def restart(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        self._timer.cancel()

    def _start(self) -> None:
        self._timer = threading.Timer(self._timeout, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def _fire(self) -> None:
        self.fired = True
        self._process.kill()


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
