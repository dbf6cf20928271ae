"""Any number of pictures from a Keras model or a sampler file: in several processes, seeded per picture, resumable."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfdiff import diffusion, training
from tfdiff.errors import ModelError, TrainingError, UsageError
from tfdiff.files import sha256, write_text, written_whole
from tfdiff.pipelines.drawing import FileDrawer, labels_in_turn
from tfdiff.pipelines.picture_store import Pictures, write_npz, write_png

#: Pictures of a chunk, the unit of work and of what a kill can cost.
_CHUNK = 128

#: The drawer of this worker process, and what it draws.
_worker: tuple[training.Drawer, Job] | None = None


@dataclass(frozen=True)
class Source:
    """What draws.

    Attributes:
        path: .keras model, or .tflite or .onnx sampler file.
        sampling: `Sampling.config()`: how a Keras model draws; a file has its own built in, which this names.
        threads: of a file's runtime.
    """

    path: Path
    sampling: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1

    def open(self) -> training.Drawer:
        """Load it.

        Raises:
            UsageError, ModelError: when it is missing, damaged or draws no pictures.
        """
        if self.path.suffix == ".keras":
            model = training.load_model(str(self.path))
            return training.Generator(model.denoiser(), diffusion.Sampling(**self.sampling))
        return FileDrawer(self.path, self.threads)


@dataclass(frozen=True)
class Job:
    """A whole generation, as worker processes receive it."""

    source: Source
    num_images: int
    seed: int
    label: int | None
    parts: Path


def generate(
    source: Source,
    out: Path,
    *,
    num_images: int,
    seed: int = 0,
    label: int | None = None,
    workers: int = 1,
    class_names: list[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Draw pictures 0 … N − 1 of a seed into `out`.

    Picture i depends on the source, the seed and i alone: not on chunks, batches or workers. Chunks that are finished
    stay when the work is cut short, and the same call goes on with the others.

    Args:
        source: what draws.
        out: an .npz file, or else a folder of PNG files, in a sub-folder per class where there are classes.
        num_images: N.
        seed: of the starting noise.
        label: class of all pictures; default: each in turn.
        workers: processes; 1 draws in this one.
        class_names: of the PNG files' sub-folders.
        progress: called with the pictures done since the last call, those found done at the beginning included.

    Returns:
        `out`. Where it was drawn in the same way before, nothing is drawn.

    Raises:
        UsageError: when `out` holds, or was begun with, pictures drawn in another way, or cannot be written.
        ModelError: when a picture is not finite.
        TrainingError: when a worker process dies.
    """
    facts: dict[str, Any] = {
        "source": source.path.name,
        "sha256": sha256(source.path) if source.path.is_file() else None,
        "sampling": dict(source.sampling),
        "images": num_images,
        "seed": seed,
        "label": "each in turn" if label is None else label,
    }
    if _is_done(out, facts):
        if progress:
            progress(num_images)
        return out
    parts = out.with_name(f"{out.name}.parts")
    drawer = source.open()
    classes = drawer.num_classes
    if label is not None and (classes is None or label >= classes):
        offer = "the model has no classes" if classes is None else f"give 0 to {classes - 1}"
        raise UsageError(f"--label {label} is not a class: {offer}.")
    _begin(parts, facts)
    job = Job(source, num_images, seed, label, parts)
    todo = [index for index in range(-(-num_images // _CHUNK)) if not _chunk_path(parts, index).exists()]
    if progress:
        progress(num_images - sum(_chunk_size(num_images, index) for index in todo))
    for index in _draw_chunks(job, drawer, todo, workers):
        if progress:
            progress(_chunk_size(num_images, index))
    labels = _labels(job, 0, num_images, classes)
    shape = (num_images, *drawer.image_shape)
    chunks = (np.load(_chunk_path(parts, index)) for index in range(-(-num_images // _CHUNK)))
    if out.suffix == ".npz":
        write_npz(out, chunks, shape, labels, facts)
    else:
        write_png(out, chunks, labels, class_names, facts)
    shutil.rmtree(parts)
    return out


def _draw_chunks(job: Job, drawer: training.Drawer, todo: list[int], workers: int) -> Iterator[int]:
    """Draw the chunks, yielding the number of each when it is written."""
    if workers == 1 or len(todo) < 2:
        for index in todo:
            _draw_chunk(job, drawer, index)
            yield index
        return
    # Processes that are forked after TensorFlow has started threads hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(todo)), context, _open_worker, (job,)) as pool:
        try:
            for done in as_completed([pool.submit(_draw_in_worker, index) for index in todo]):
                yield done.result()
        except BrokenProcessPool as error:
            raise TrainingError(
                "a worker process ended while it drew (out of memory?): give fewer --workers; the same command goes on "
                "with the pictures that are missing."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _open_worker(job: Job) -> None:
    """Runs once in each worker process."""
    global _worker
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    _worker = (job.source.open(), job)


def _draw_in_worker(index: int) -> int:
    assert _worker is not None
    drawer, job = _worker
    _draw_chunk(job, drawer, index)
    return index


def _draw_chunk(job: Job, drawer: training.Drawer, index: int) -> None:
    start, count = index * _CHUNK, _chunk_size(job.num_images, index)
    labels = _labels(job, start, count, drawer.num_classes)
    images = drawer.draw(labels, num_images=count, seed=job.seed, start=start)
    broken = np.flatnonzero(~np.isfinite(images).all(axis=(1, 2, 3)))
    if len(broken):
        raise ModelError(f"{job.source.path} drew NaN or infinity, first in picture {start + broken[0]}: check it.")
    with written_whole(_chunk_path(job.parts, index)) as partial:
        np.save(partial, training.to_uint8(images))


def _labels(job: Job, start: int, count: int, num_classes: int | None) -> np.ndarray | None:
    if num_classes is None:
        return None
    if job.label is not None:
        return np.full(count, job.label)
    in_turn = labels_in_turn(start + count, num_classes)
    assert in_turn is not None
    return in_turn[start:]


def _chunk_size(num_images: int, index: int) -> int:
    return min(_CHUNK, num_images - index * _CHUNK)


def _chunk_path(parts: Path, index: int) -> Path:
    return parts / f"{index:06d}.npy"


def _is_done(out: Path, facts: Mapping[str, Any]) -> bool:
    """Whether `out` holds these very pictures; UsageError where it holds others."""
    if not out.exists():
        return False
    record = out / "pictures.json"
    if out.suffix == ".npz":
        found = Pictures.open(out).facts
    else:
        found = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    _refuse_other(out, found, facts)
    return True


def _begin(parts: Path, facts: Mapping[str, Any]) -> None:
    record = parts / "facts.json"
    if record.exists():
        _refuse_other(parts, json.loads(record.read_text(encoding="utf-8")), facts)
        return
    try:
        parts.mkdir(parents=True, exist_ok=True)
        write_text(record, json.dumps(facts, indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write to {parts} ({error.strerror}): choose another path with -o.") from error


def _refuse_other(path: Path, found: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    unlike = [key for key in facts if found.get(key) != json.loads(json.dumps(facts[key]))]
    if unlike:
        differences = ", ".join(f"{key} {found.get(key)} instead of {facts[key]}" for key in unlike)
        raise UsageError(f"{path} holds pictures drawn otherwise ({differences}): remove it, or choose another path.")
