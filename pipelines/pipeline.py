"""The stages in order, and the one loop that runs them."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdiff.errors import UsageError
from tfdiff.files import write_text
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import dump
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.tensorflow_import import import_tensorflow


@dataclass(frozen=True)
class Result:
    """What a stage hands back: `figures` for its summary, and `outputs`, paths relative to the run directory."""

    figures: dict[str, Any]
    outputs: list[str]


@dataclass(frozen=True)
class Stage:
    """One step from config to report.

    Attributes:
        name: of the stage, its folder and its command.
        sections: keys of the config that it depends on, besides the stage before it.
        owns: paths in the run directory, besides its folder, that it alone writes.
    """

    name: str
    sections: tuple[str, ...]
    owns: tuple[str, ...] = ()

    def settings(self, config: Config) -> dict[str, Any]:
        """What of the config the stage depends on, as plain values."""
        return config.model_dump(mode="json", include=set(self.sections))

    def load(self) -> Callable[[Config, RunDirectory], Result]:
        """Its function; imports TensorFlow."""
        import_tensorflow()
        return importlib.import_module(f"tfdiff.pipelines.{self.name}_stage").run


#: Each reads what the one before wrote. Previews follow `sampling`, but training does not depend on it.
STAGES = (
    Stage("train", ("seed", "data", "network", "train")),
    Stage("sparsify", ("sparsify",)),
    Stage("export", ("export", "sampling"), owns=("bundle",)),
    Stage("verify", ("verify",)),
    Stage("report", ("report", "name"), owns=("report.html", "report.json")),
)


def stages_until(last: str) -> tuple[Stage, ...]:
    """The stages up to and including `last`. Raises ValueError for an unknown name."""
    names = [stage.name for stage in STAGES]
    if last not in names:
        raise UsageError(f"stage {last!r} is unknown: use {', '.join(names)}.")
    return STAGES[: names.index(last) + 1]


def run(
    config: Config,
    directory: str | Path,
    *,
    until: str = "report",
    again: str | None = None,
    log: Callable[[str], None] = print,
) -> RunDirectory:
    """Run the stages up to `until` that are not finished; a stage that was cut short goes on where it stood.

    Args:
        config: of the run. Stages of a used run directory that it changes begin anew, and those after them.
        directory: of the run; made where it does not exist.
        until: the last stage to run.
        again: a stage to run although it is finished.
        log: receives one line per stage.

    Raises:
        TfdiffError: what a stage raises; those before it stay finished.
    """
    run_directory = RunDirectory(directory)
    stages = stages_until(until)
    with run_directory.claim():
        write_text(run_directory.config_path, dump(config))
        before = None
        for stage in stages:
            inputs = run_directory.inputs(stage.settings(config), before)
            before = stage.name
            state, reason = run_directory.state(stage.name, inputs)
            if state == "finished" and stage.name != again:
                log(f"{stage.name}: finished already")
                continue
            log(f"{stage.name}: " + {"new": "begins", "begun": "goes on", "finished": "runs again"}.get(
                state, f"begins anew ({reason})"
            ))  # fmt: skip
            run_directory.begin(stage.name, inputs, anew=state not in ("new", "begun"), also=stage.owns)
            started = time.monotonic()
            result = stage.load()(config, run_directory)
            run_directory.finish(stage.name, time.monotonic() - started, result.outputs, result.figures)
    return run_directory
