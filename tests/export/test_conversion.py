"""A worker that fails or dies costs its own file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfdiff.export.conversion import Job, convert

#: Speaks the worker's protocol without TensorFlow: writes files, raises for one and aborts at another.
WORKER = """
import json, os, sys
job = json.load(open(sys.argv[1]))
for file in job["files"]:
    print(json.dumps({"file": file, "event": "start"}), flush=True)
    if "abort" in file:
        print("Check failed: shape mismatch", file=sys.stderr, flush=True)
        os.abort()
    if "raise" in file:
        print(json.dumps({"file": file, "event": "failed", "error": "ValueError: no such op"}), flush=True)
        continue
    open(os.path.join(job["output"], file), "w").write(str(os.getpid()))
    print(json.dumps({"file": file, "event": "done", "seconds": 0.5}), flush=True)
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, tmp_path / "calibration.npz", tmp_path, reduce_range=True)


def test_death_and_failure_are_reported_by_file_and_the_rest_goes_on(job: Job) -> None:
    files = ["first", "abort_second", "third", "raise_fourth", "fifth"]
    seen: list[tuple[str, int, int]] = []
    results = convert(job, files, progress=lambda *event: seen.append(event), worker=[sys.executable, "-c", WORKER])

    assert [result.file for result in results] == files
    errors = {result.file: result.error for result in results if result.error}
    assert errors.keys() == {"abort_second", "raise_fourth"}
    assert "SIGABRT" in errors["abort_second"]
    assert "Check failed: shape mismatch" in errors["abort_second"]
    assert errors["raise_fourth"] == "ValueError: no such op"
    # One process up to the death, one for all that was left.
    processes = [(job.output / file).read_text() for file in ("first", "third", "fifth")]
    assert processes[0] != processes[1] == processes[2]
    assert seen == [(file, done, 5) for done, file in enumerate(files)] + [("", 5, 5)]


def test_a_worker_that_never_starts_fails_all_files(job: Job) -> None:
    script = "import sys; sys.exit('no such module')"
    results = convert(job, ["a", "b"], worker=[sys.executable, "-c", script])
    assert [result.error for result in results] == ["the converter stopped with exit code 1: no such module"] * 2
