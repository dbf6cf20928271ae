"""Prepared images on disk: a folder with `images.npy`, `labels.npy` and `set.json`, complete or not there at all."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tfdiff.data.image_set import ImageSet, Skipped

logger = logging.getLogger(__name__)

Allocate = Callable[[tuple[int, ...]], np.ndarray]


def load_or_build(entry: Path, build: Callable[[Allocate], ImageSet]) -> ImageSet:
    """The image set kept in the folder `entry`, memory-mapped; made by `build` if it is missing or damaged.

    `build` is handed a function that allocates the (N, H, W, C) uint8 array that it fills, here a file, so that sets
    larger than memory can be prepared. A new entry is written beside and renamed when whole: a killed process leaves
    no half of one, and of two processes that build the same entry either may win.
    """
    if entry.is_dir():
        try:
            return _load(entry)
        # Whatever a damaged file makes NumPy or JSON raise, the answer is to build it again.
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            logger.warning("cache %s is damaged (%s): preparing it again", entry, error)
            shutil.rmtree(entry)
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=f".{entry.name}.") as temporary:
        written = Path(temporary) / entry.name
        written.mkdir()
        image_set = build(
            lambda shape: np.lib.format.open_memmap(written / "all.npy", mode="w+", dtype=np.uint8, shape=shape)
        )
        _save(image_set, written)
        del image_set  # closes the file, which Windows will not rename while it is mapped
        try:
            os.replace(written, entry)
        except OSError:
            if not entry.is_dir():
                raise
            # Another process finished the same entry first.
    return _load(entry)


def _save(image_set: ImageSet, folder: Path) -> None:
    whole = folder / "all.npy"
    if image_set.skipped:
        # The file was made for every image of the source: copy the rows that were filled.
        np.save(folder / "images.npy", image_set.images)
        whole.unlink()
    else:
        whole.rename(folder / "images.npy")
    if image_set.labels is not None:
        np.save(folder / "labels.npy", image_set.labels)
    description = {
        "name": image_set.name,
        "class_names": image_set.class_names,
        "skipped": image_set.skipped,
        "fingerprint": image_set.fingerprint,
    }
    (folder / "set.json").write_text(json.dumps(description, indent=1), encoding="utf-8")


def _load(folder: Path) -> ImageSet:
    description = json.loads((folder / "set.json").read_text(encoding="utf-8"))
    names = description["class_names"]
    image_set = ImageSet(
        images=np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False),
        labels=None if names is None else np.load(folder / "labels.npy", allow_pickle=False),
        class_names=None if names is None else tuple(names),
        name=description["name"],
        skipped=tuple(Skipped(*item) for item in description["skipped"]),
    )
    if image_set.fingerprint != description["fingerprint"]:
        raise ValueError("its content does not match its fingerprint")
    return image_set
