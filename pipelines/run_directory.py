"""The folder of one run: who may write to it, which stages are finished, and what they were made from.

    runs/NAME/
      config.yaml            the resolved config
      STAGE/inputs.json      what the stage was begun with: its settings and the summary of the stage before
      STAGE/summary.json     written last: the stage is finished
      bundle/                the exported files
      report.html, report.json

A stage whose settings, and whose predecessor's summary, are as they were is not run again. Otherwise it begins
anew: its folder is removed first, so that no result of other settings stays in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdiff.errors import ConfigError, UsageError
from tfdiff.files import sha256, write_text


class RunDirectory:
    """Paths and state of one run. Nothing is written before `claim`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def config_path(self) -> Path:
        return self.path / "config.yaml"

    @property
    def bundle(self) -> Path:
        """Where the exported files lie."""
        return self.path / "bundle"

    def stage(self, name: str) -> Path:
        """The folder of a stage."""
        return self.path / name

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Create the folder and hold it against other processes.

        Raises:
            UsageError: when it cannot be written, or another process holds it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("a+")
        except OSError as error:
            raise UsageError(
                f"cannot write to {self.path} ({error.strerror}): choose another folder with --out."
            ) from error
        with lock:
            try:
                # The system drops this lock with the process, however that ends.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                raise UsageError(
                    f"{self.path} is in use by process {lock.read().strip() or 'unknown'}: wait for it, or choose "
                    "another folder with --out."
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def summary(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage wrote, or None.

        Raises:
            UsageError: when the file is damaged.
        """
        path = self.stage(stage) / "summary.json"
        return _read_json(path) if path.exists() else None

    def require(self, stage: str) -> dict[str, Any]:
        """The summary of a stage that must be finished.

        Raises:
            UsageError: when it is not.
        """
        summary = self.summary(stage)
        if summary is None:
            raise UsageError(f"{self.path} has no finished stage {stage!r}: run `tfdiff {stage} {self.path}` first.")
        return summary

    def inputs(self, settings: dict[str, Any], before: str | None) -> dict[str, Any]:
        """What a stage depends on: its settings, and the summary of the stage `before` by its hash."""
        return {"settings": settings, "upstream": self._summary_hash(before) if before else None}

    def state(self, stage: str, inputs: dict[str, Any]) -> tuple[str, str]:
        """("new" | "begun" | "finished" | "changed", the reason for "changed" in words)."""
        path = self.stage(stage) / "inputs.json"
        if not path.exists():
            return "new", ""
        found = _read_json(path)
        if found == inputs:
            summary = self.summary(stage)
            if summary is None:
                return "begun", ""
            missing = [name for name in summary["outputs"] if not (self.path / name).exists()]
            return ("changed", f"{missing[0]} is missing") if missing else ("finished", "")
        changes = [
            f"{key} {_short(old)} → {_short(new)}"
            for key, old, new in _differences(found["settings"], inputs["settings"])
        ]
        return "changed", ", ".join(changes) or "the stage before it ran again"

    def begin(self, stage: str, inputs: dict[str, Any], *, anew: bool, also: tuple[str, ...] = ()) -> None:
        """Make a stage's folder; `anew`: without what was there, nor in the paths `also`."""
        folder = self.stage(stage)
        if anew:
            # The inputs go first: a removal that is cut short leaves a stage that has not begun.
            (folder / "inputs.json").unlink(missing_ok=True)
            for path in (folder, *(self.path / name for name in also)):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        (folder / "summary.json").unlink(missing_ok=True)
        write_json(folder / "inputs.json", inputs)

    def _summary_hash(self, stage: str) -> str | None:
        """Of the summary of a stage; None where it is not finished."""
        path = self.stage(stage) / "summary.json"
        return sha256(path) if path.exists() else None

    def finish(self, stage: str, seconds: float, outputs: list[str], figures: dict[str, Any]) -> None:
        """Mark a stage as finished.

        Args:
            stage: its name.
            seconds: how long it took in this process.
            outputs: paths inside the run directory without which it would not count as finished.
            figures: what it found, JSON-able.
        """
        # With the inputs' hash, equal results of other settings still count as other results downstream.
        inputs = sha256(self.stage(stage) / "inputs.json")
        summary = {"stage": stage, "inputs": inputs, "seconds": round(seconds, 1), "outputs": outputs, **figures}
        write_json(self.stage(stage) / "summary.json", summary)


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON whole (see `tfdiff.files.write_text`)."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(
            f"{path} is damaged ({error}): remove the folder {path.parent} to run its stage again."
        ) from None


def _differences(old: Any, new: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _differences(old.get(key), new.get(key), f"{prefix}.{key}" if prefix else key)
    elif old != new:
        yield prefix, old, new


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "…"
