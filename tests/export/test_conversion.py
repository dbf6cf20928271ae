"""A worker that fails, dies or hangs costs its own file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfdiff.export.conversion import Job, convert

#: Speaks the worker's protocol without TensorFlow: writes files, and does what the name of a file says.
WORKER = """
import json, os, signal, sys, time
job = json.load(open(sys.argv[1]))
for file in job["files"]:
    print(json.dumps({"file": file, "event": "start"}), flush=True)
    open(os.path.join(job["output"], "partial_" + file), "w").close()
    if "hang" in file:
        time.sleep(600)
    if "kill" in file:
        os.kill(os.getpid(), signal.SIGKILL)
    if "abort" in file:
        print("Check failed: shape mismatch", file=sys.stderr, flush=True)
        os.abort()
    if "raise" in file:
        print(json.dumps({"file": file, "event": "failed", "error": "ValueError: no such op"}), flush=True)
        continue
    os.remove(os.path.join(job["output"], "partial_" + file))
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


@pytest.mark.parametrize(
    ("second", "ending"), [("abort", "SIGABRT"), ("kill", "SIGKILL"), ("hang", "hung and was ended after 4 s")]
)
def test_nothing_is_left_of_a_file_whose_worker_was_ended(job: Job, second: str, ending: str) -> None:
    files = ["first", second, "third"]
    results = convert(job, files, worker=[sys.executable, "-c", WORKER], timeout=4.0)
    assert [result.error is None for result in results] == [True, False, True]
    assert ending in str(results[1].error)
    assert {path.name for path in job.output.iterdir()} == {"first", "third"}


def test_a_worker_that_never_starts_fails_all_files(job: Job) -> None:
    script = "import sys; sys.exit('no such module')"
    results = convert(job, ["a", "b"], worker=[sys.executable, "-c", script])
    assert [result.error for result in results] == ["the converter stopped with exit code 1: no such module"] * 2
