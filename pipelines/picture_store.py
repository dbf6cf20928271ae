"""Drawn pictures on disk: one .npz, or PNG files, written and read piece by piece, with the facts of how they came."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from tfdiff import training
from tfdiff.errors import DataError
from tfdiff.files import partial_path, written_whole

#: Array of an .npz that holds the facts as JSON.
_FACTS = "facts"


@dataclass(frozen=True)
class Pictures:
    """Pictures in an .npz of `images` uint8 (N,H,W,C) and perhaps `labels` (N,), which `tfdiff.data` reads as well.

    Attributes:
        path: of the .npz.
        facts: how they were drawn (see `generation.generate`); empty for pictures from elsewhere.
    """

    path: Path
    facts: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> Pictures:
        """Open an .npz without reading its pictures.

        Raises:
            DataError: when it is missing, damaged or holds no uint8 images.
        """
        path = Path(path)
        try:
            with zipfile.ZipFile(path) as archive, archive.open("images.npy") as file:
                shape, _, dtype = _header(file)
                facts = json.loads(str(_small(archive, _FACTS))) if f"{_FACTS}.npy" in archive.namelist() else {}
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} is no .npz of pictures ({error}): draw them again.") from None
        if dtype != np.uint8 or len(shape) != 4:
            raise DataError(f"{path}: images are {dtype} {shape}, not uint8 (N, H, W, C).")
        return cls(path, facts)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, H, W, C)."""
        with zipfile.ZipFile(self.path) as archive, archive.open("images.npy") as file:
            return _header(file)[0]

    @property
    def labels(self) -> np.ndarray | None:
        """(N,) class that was asked for, or None."""
        with zipfile.ZipFile(self.path) as archive:
            return _small(archive, "labels") if "labels.npy" in archive.namelist() else None

    def batches(self, size: int = 256) -> Iterator[np.ndarray]:
        """The pictures in order, `size` at a time: memory does not grow with their number."""
        with zipfile.ZipFile(self.path) as archive, archive.open("images.npy") as file:
            (count, *shape), _, dtype = _header(file)
            each = int(np.prod(shape)) * dtype.itemsize
            for begin in range(0, count, size):
                rows = min(size, count - begin)
                yield np.frombuffer(file.read(rows * each), dtype).reshape(rows, *shape)


def write_npz(
    path: Path,
    batches: Iterable[np.ndarray],
    shape: tuple[int, ...],
    labels: np.ndarray | None,
    facts: Mapping[str, Any],
) -> None:
    """Write pictures as they come.

    Args:
        path: of the .npz.
        batches: uint8 (n,H,W,C).
        shape: (N,H,W,C) of all together.
        labels: (N,) ints, or None.
        facts: JSON-able.
    """
    with written_whole(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for batch in batches:
                file.write(np.ascontiguousarray(batch, np.uint8).tobytes())
        for name, value in (("labels", labels), (_FACTS, np.array(json.dumps(facts)))):
            if value is not None:
                with archive.open(f"{name}.npy", "w") as file:
                    npy.write_array(file, np.asarray(value))


def write_png(
    folder: Path,
    batches: Iterable[np.ndarray],
    labels: np.ndarray | None,
    class_names: list[str] | None,
    facts: Mapping[str, Any],
) -> None:
    """Write pictures as 00000000.png …, in a sub-folder per class where there are classes, as `tfdiff.data` reads them.

    Args:
        folder: made; it appears when all pictures are in it.
        batches: uint8 (n,H,W,C).
        labels: (N,) ints, or None.
        class_names: names of the sub-folders; default: the numbers.
        facts: kept beside the pictures, in pictures.json.
    """
    partial = partial_path(folder)
    shutil.rmtree(partial, ignore_errors=True)
    number = 0
    for batch in batches:
        for image in batch:
            place = partial
            if labels is not None:
                label = int(labels[number])
                place = partial / (class_names[label] if class_names else str(label)).replace("/", "_")
            place.mkdir(parents=True, exist_ok=True)
            training.save_png(image, place / f"{number:08d}.png")
            number += 1
    (partial / "pictures.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    partial.replace(folder)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(file)


def _small(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        return npy.read_array(file, allow_pickle=False)
