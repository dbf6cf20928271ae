"""What is compared: Keras models and sampler files, found in runs or named one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfdiff import diffusion, export
from tfdiff.errors import UsageError
from tfdiff.export.manifest import MANIFEST
from tfdiff.files import sha256
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import load_config
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.training_run import sampling_of

_SUFFIXES = {".keras": "keras", ".tflite": "tflite", ".onnx": "onnx"}


@dataclass(frozen=True)
class Candidate:
    """Something that draws pictures.

    Attributes:
        name: what tables call it; unique among the candidates of a comparison.
        path: .keras model, or .tflite or .onnx sampler file.
        sampling: how it draws; a file has it built in.
        run: the run directory that it lies in, or None.
        sha256: of the file.
    """

    name: str
    path: Path
    sampling: diffusion.Sampling
    run: RunDirectory | None
    sha256: str

    @property
    def kind(self) -> str:
        """keras, tflite or onnx."""
        return _SUFFIXES[self.path.suffix]

    @property
    def exported(self) -> bool:
        """Whether it is a file that can be shipped, rather than a Keras model."""
        return self.kind != "keras"

    @property
    def bundle(self) -> export.Bundle | None:
        """The bundle that an exported file belongs to."""
        beside = (self.path.parent / MANIFEST).exists()
        return export.Bundle.load(self.path.parent) if self.exported and beside else None

    @property
    def config(self) -> Config | None:
        """The config of its run."""
        return load_config(self.run.path) if self.run else None


def find_candidates(sources: Sequence[str]) -> list[Candidate]:
    """The candidates that `sources` mean.

    Args:
        sources: run directories (each stands for its dense and pruned Keras models and its sampler files), and paths of
            single .keras, .tflite and .onnx files.

    Raises:
        UsageError: when a source does not exist, a run has drawn nothing that could be compared, a file is no sampler
            or one file is named twice.
    """
    found: list[Candidate] = []
    for source in sources:
        path = Path(source)
        found.extend([_of_file(path)] if path.suffix in _SUFFIXES else _of_run(path))
    twice = [path for path, count in Counter(candidate.path.resolve() for candidate in found).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]} is named twice: name each candidate once.")
    return _with_unique_names(found)


def _of_run(path: Path) -> list[Candidate]:
    run = RunDirectory(path)
    if not run.config_path.exists():
        raise UsageError(f"{path} is neither a run nor a .keras, .tflite or .onnx file: make a run with `tfdiff run`.")
    models = [run.stage(stage) / "model.keras" for stage in ("train", "sparsify")]
    files = []
    if (run.bundle / MANIFEST).exists():
        files = [file for file in export.Bundle.load(run.bundle).files if file.name.startswith("sample_")]
    paths = [path for path in (*models, *files) if path.is_file()]
    if not paths:
        raise UsageError(f"{path} has no trained model yet: `tfdiff run {path}` makes one.")
    return [_of_file(path) for path in paths]


def _of_file(path: Path) -> Candidate:
    if not path.is_file():
        raise UsageError(f"{path} does not exist: give a run directory or a .keras, .tflite or .onnx file.")
    run = _run_around(path)
    if path.suffix == ".keras":
        stages = {"train": "Keras, dense", "sparsify": "Keras, pruned"}
        name = stages.get(path.parent.name, path.stem) if run else path.stem
        if name == "Keras, dense" and run and not (run.stage("sparsify") / path.name).exists():
            name = "Keras"
        sampling = sampling_of(load_config(run.path)) if run else diffusion.Sampling()
    else:
        name = path.name
        manifest = path.parent / MANIFEST
        if not manifest.exists():
            raise UsageError(f"{path} has no {MANIFEST} beside it, which tells how it draws: keep a bundle together.")
        sampling = export.Bundle.load(path.parent).sampling()
    return Candidate(name, path, sampling, run, sha256(path))


def _run_around(path: Path) -> RunDirectory | None:
    """The run directory that a file lies in, at most two folders up."""
    for folder in list(path.resolve().parents)[:2]:
        run = RunDirectory(folder)
        if run.config_path.exists():
            return RunDirectory(_relative(folder))
    return None


def _relative(folder: Path) -> Path:
    """Shorter to read where the folder lies below this one."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _with_unique_names(candidates: list[Candidate]) -> list[Candidate]:
    """Names that tell the candidates apart: by their run's folder where needed, else by the whole path."""
    several_runs = len({candidate.run.path if candidate.run else None for candidate in candidates}) > 1
    if several_runs:
        candidates = [replace(c, name=f"{c.run.path.name}/{c.name}") if c.run else c for c in candidates]
    counts = Counter(candidate.name for candidate in candidates)
    return [replace(c, name=str(c.path)) if counts[c.name] > 1 else c for c in candidates]
