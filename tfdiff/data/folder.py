"""A folder of pictures: unlabelled if they lie in it, labelled if they lie in one sub-folder for each class."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfdiff.data.decoding import UnreadableImage, decode
from tfdiff.data.image_set import Skipped
from tfdiff.data.source import Example, Source
from tfdiff.errors import DataError

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp")

#: Pictures decoded ahead of the reader: enough to keep every core busy, few enough to hold in memory.
_CHUNK = 64


@dataclass(frozen=True, eq=False)
class FolderSource(Source):
    """The PNG, JPEG and WebP files of a folder; hidden files and other suffixes are ignored.

    Attributes:
      root: the folder.
      files: paths relative to it, sorted.
      labels: the class number of each file, or None.
    """

    root: Path
    files: tuple[Path, ...]
    labels: tuple[int, ...] | None

    @classmethod
    def scan(cls, root: Path) -> FolderSource:
        """List the pictures of `root`. Classes are its sub-folders in sorted order, each searched to any depth.

        Raises:
          DataError: if pictures lie both in `root` and in sub-folders, if there are none, or none in some class.
        """
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        loose = _pictures(root, root.iterdir())
        classes = [_pictures(root, folder.rglob("*")) for folder in folders]
        if loose and folders:
            raise DataError(
                f"{root}: {len(loose)} images (such as {loose[0]}) lie beside the class folders "
                f"{', '.join(folder.name for folder in folders[:5])}: move either away."
            )
        empty = [folder.name for folder, files in zip(folders, classes, strict=True) if not files]
        if empty or not (loose or folders):
            where = f"its class folder {', '.join(empty[:5])}" if empty else "it"
            raise DataError(f"{root}: {where} holds no image ({', '.join(SUFFIXES)}): add some, or remove the folder.")
        labels = tuple(label for label, files in enumerate(classes) for _ in files) if folders else None
        names = tuple(folder.name for folder in folders) if folders else None
        files = tuple(file for files in (classes or [loose]) for file in files)
        name = root.resolve().name
        return cls(name, names, channels=3, resize="crop", root=root, files=files, labels=labels)

    def __len__(self) -> int:
        return len(self.files)

    def fingerprint(self) -> str:
        """sha256 over each file's relative path, size and modification time (nanoseconds)."""
        digest = hashlib.sha256()
        for file in self.files:
            status = os.stat(self.root / file)
            digest.update(f"{file.as_posix()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def read(self, rows: np.ndarray) -> Iterator[Example | Skipped]:
        # Pillow decodes outside Python's lock, so threads are enough to use every core.
        with ThreadPoolExecutor() as pool:
            for start in range(0, len(rows), _CHUNK):
                yield from pool.map(self._read_one, rows[start : start + _CHUNK])

    def _read_one(self, row: int) -> Example | Skipped:
        path = self.root / self.files[row]
        try:
            return Example(decode(path), None if self.labels is None else self.labels[row])
        except UnreadableImage as error:
            return Skipped(str(path), str(error))


def _pictures(root: Path, candidates: Iterator[Path]) -> list[Path]:
    """The visible picture files among `candidates`, relative to `root` and sorted."""
    relative = (path.relative_to(root) for path in candidates if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in relative if not any(part.startswith(".") for part in path.parts))
