"""Run directories: which stage runs, goes on, is skipped or begins anew."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfdiff.errors import TrainingError, UsageError
from tfdiff.pipelines import Config, RunDirectory, load_config, pipeline, run
from tfdiff.pipelines.pipeline import Result, Stage


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces what stages do by writing one file each; lists the stages that ran."""
    ran: list[str] = []

    def load(stage: Stage) -> Any:
        def work(config: Config, directory: RunDirectory) -> Result:
            ran.append(stage.name)
            (directory.stage(stage.name) / "work").write_text(str(len(ran)))
            return Result({"ran": len(ran)}, [f"{stage.name}/work"])

        return work

    monkeypatch.setattr(pipeline.Stage, "load", load)
    return ran


def take(calls: list[str]) -> list[str]:
    taken = list(calls)
    calls.clear()
    return taken


ALL = ["train", "sparsify", "export", "verify", "report"]


def test_finished_stages_are_skipped(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    config = load_config(tiny)
    run(config, tmp_path / "run", until="sparsify")
    assert take(calls) == ALL[:2]
    lines: list[str] = []
    run(config, tmp_path / "run", log=lines.append)
    assert take(calls) == ALL[2:]
    assert lines[:3] == ["train: finished already", "sparsify: finished already", "export: begins"]


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({"train.steps": 8}, "train"),
        ({"seed": 1}, "train"),
        ({"sparsify.sparsity": 0.5}, "sparsify"),
        ({"sampling.num_steps": 3}, "export"),
        ({"verify.images": 8}, "verify"),
        ({"report.images": 8}, "report"),
    ],
)
def test_changed_settings_rerun_their_stage_and_those_after(
    tiny: Path, tmp_path: Path, calls: list[str], change: dict[str, Any], first: str
) -> None:
    run(load_config(tiny), tmp_path / "run")
    take(calls)
    stale = tmp_path / "run" / first / "stale"
    stale.touch()
    lines: list[str] = []
    run(load_config(tiny, change), tmp_path / "run", log=lines.append)
    assert take(calls) == ALL[ALL.index(first) :]
    assert not stale.exists()
    (key,) = change
    assert f"{first}: begins anew ({key} " in "\n".join(lines)


def test_a_missing_output_is_made_again(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    directory = run(load_config(tiny), tmp_path / "run")
    take(calls)
    (directory.stage("sparsify") / "work").unlink()
    run(load_config(tiny), tmp_path / "run")
    assert take(calls) == ALL[1:]


def test_again_runs_a_finished_stage(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    run(load_config(tiny), tmp_path / "run")
    take(calls)
    run(load_config(tiny), tmp_path / "run", until="verify", again="verify")
    assert take(calls) == ["verify"]


def test_a_stage_that_was_cut_short_keeps_its_files(
    tiny: Path, tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(config: Config, directory: RunDirectory) -> Result:
        (directory.stage("train") / "checkpoint").touch()
        raise TrainingError("loss became nan.")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.Stage, "load", lambda stage: fails)
        with pytest.raises(TrainingError):
            run(load_config(tiny), tmp_path / "run")
    lines: list[str] = []
    directory = run(load_config(tiny), tmp_path / "run", until="train", log=lines.append)
    assert lines == ["train: goes on"]
    assert (directory.stage("train") / "checkpoint").exists()


def test_the_resolved_config_is_saved(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    config = load_config(tiny, {"train.steps": 8})
    directory = run(config, tmp_path / "run")
    assert load_config(directory.path) == config


def test_two_processes_cannot_share_a_run(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    script = (
        "import sys; from tfdiff.pipelines import RunDirectory\n"
        "with RunDirectory(sys.argv[1]).claim(): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(UsageError, match=f"is in use by process {other.pid}"):
            run(load_config(tiny), tmp_path / "run")
        other.kill()
    run(load_config(tiny), tmp_path / "run")
    assert take(calls) == ALL


def test_unwritable_folder(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write to .*--out"):
        run(load_config(tiny), tmp_path / "file" / "run")
    assert not calls


def test_damaged_state_names_the_file(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    directory = run(load_config(tiny), tmp_path / "run")
    (directory.stage("train") / "inputs.json").write_text("{")
    with pytest.raises(UsageError, match=r"inputs\.json is damaged .* remove the folder"):
        run(load_config(tiny), tmp_path / "run")


def test_summaries_are_complete_json(tiny: Path, tmp_path: Path, calls: list[str]) -> None:
    directory = run(load_config(tiny), tmp_path / "run")
    for name in ALL:
        summary = json.loads((directory.stage(name) / "summary.json").read_text())
        assert summary["stage"] == name
        assert summary["outputs"] == [f"{name}/work"]
    assert not list(directory.path.rglob("*.tmp"))
