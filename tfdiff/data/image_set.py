"""Images prepared for training: one uint8 array, its labels, and where they came from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfdiff.errors import DataError


class Skipped(NamedTuple):
    """An image that was left out: where it lies and why it could not be read."""

    path: str
    reason: str


class MappedRows:
    """Some rows of a memory-mapped array, read only when they are indexed.

    Stands in for an array where a copy of the rows would not fit in memory: it has `shape`, `dtype`, a length,
    NumPy indexing along the first axis, and `np.asarray`, which does copy.
    """

    def __init__(self, array: np.ndarray, rows: np.ndarray) -> None:
        self._array, self._rows = array, rows
        self.shape = (len(rows), *array.shape[1:])
        self.dtype = array.dtype
        self.ndim = array.ndim

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.asarray(self._array[self._rows[key]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array[self._rows], dtype=dtype)

    def select(self, rows: np.ndarray) -> MappedRows:
        """Rows of these rows, still unread."""
        return MappedRows(self._array, self._rows[rows])


ImageArray = np.ndarray | MappedRows


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size, ready to be batched.

    Attributes:
      images: (N, H, W, C) uint8 with C 1 or 3, in memory or memory-mapped.
      labels: (N,) int32, or None.
      class_names: the name of each class number; None without labels.
      name: what logs and reports call the set.
      skipped: the images of the source that could not be read.
      fingerprint: sha256 (hex) over pixels, labels and class names: equal sets have equal fingerprints, on every
        machine. Computed when left empty.

    Raises:
      DataError: for images that are not (N, H, W, 1 or 3) uint8 with N ≥ 1, or labels that do not fit them.
    """

    images: ImageArray
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None
    name: str = "images"
    skipped: tuple[Skipped, ...] = ()
    fingerprint: str = ""

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or shape[-1] not in (1, 3) or len(self.images) == 0:
            raise DataError(
                f"{self.name}: images must be uint8 (N, H, W, 1 or 3) with N >= 1, found {self.images.dtype} {shape}."
            )
        if self.labels is not None:
            self._settle_labels(np.asarray(self.labels))
        elif self.class_names is not None:
            raise DataError(f"{self.name}: class_names {self.class_names} without labels: give labels as well.")
        if not self.fingerprint:
            digest = content_digest(self.images, self.labels, self.class_names)
            object.__setattr__(self, "fingerprint", digest)

    def _settle_labels(self, labels: np.ndarray) -> None:
        """Make labels int32 and see that each has a class name; without names, classes are called by number."""
        if labels.shape != (len(self.images),) or labels.dtype.kind not in "iu":
            raise DataError(
                f"{self.name}: labels must be {len(self.images)} integers, one for each image, "
                f"found {labels.dtype} {labels.shape}."
            )
        lowest, highest = int(labels.min()), int(labels.max())
        names = self.class_names if self.class_names is not None else tuple(map(str, range(highest + 1)))
        if lowest < 0 or highest >= len(names):
            raise DataError(
                f"{self.name}: labels must lie in 0..{len(names) - 1} (the class names), found {lowest}..{highest}."
            )
        object.__setattr__(self, "labels", labels.astype(np.int32))
        object.__setattr__(self, "class_names", names)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        _, height, width, channels = self.images.shape
        return height, width, channels

    @property
    def num_classes(self) -> int | None:
        """The number of classes, or None without labels."""
        return None if self.class_names is None else len(self.class_names)

    def split(self, validation_fraction: float, seed: int = 0) -> tuple[ImageSet, ImageSet]:
        """Divide into (train, validation): disjoint, together everything, the same for the same arguments.

        With labels, every class is divided in the same proportion, rounded so that the validation set has
        `round(validation_fraction * N)` images. Both keep the order of the whole.

        Raises:
          DataError: if `validation_fraction` is not in (0, 1), or leaves either part empty.
        """
        count = round(validation_fraction * len(self))
        if not 0 < validation_fraction < 1 or not 0 < count < len(self):
            raise DataError(
                f"validation_fraction must be in (0, 1) and leave images on both sides, found {validation_fraction} "
                f"of {len(self)} images."
            )
        labels = np.zeros(len(self), np.int32) if self.labels is None else self.labels
        # RandomState, because NumPy promises its stream for ever; default_rng's may change with a release.
        order = np.random.RandomState(seed).permutation(len(self))
        chosen = np.zeros(len(self), bool)
        for label, quota in enumerate(_apportion(np.bincount(labels), count)):
            chosen[order[labels[order] == label][:quota]] = True
        return self._select(~chosen, "train"), self._select(chosen, "validation")

    def _select(self, mask: np.ndarray, part: str) -> ImageSet:
        rows = np.flatnonzero(mask)
        images: ImageArray
        if isinstance(self.images, MappedRows):
            images = self.images.select(rows)
        elif isinstance(self.images, np.memmap):
            images = MappedRows(self.images, rows)
        else:
            images = self.images[rows]
        origin = hashlib.sha256(f"{self.fingerprint} {part}".encode() + rows.astype("<i8").tobytes())
        return ImageSet(
            images=images,
            labels=None if self.labels is None else self.labels[rows],
            class_names=self.class_names,
            name=f"{self.name}/{part}",
            skipped=self.skipped,
            fingerprint=origin.hexdigest(),
        )


def _apportion(class_sizes: np.ndarray, count: int) -> np.ndarray:
    """Seats for each class, proportional to its size and `count` in all (largest remainders win)."""
    exact = class_sizes * count / class_sizes.sum()
    quotas = np.floor(exact).astype(int)
    by_remainder = np.argsort(quotas - exact, kind="stable")
    quotas[by_remainder[: count - quotas.sum()]] += 1
    return quotas


def content_digest(images: ImageArray, labels: np.ndarray | None, class_names: tuple[str, ...] | None) -> str:
    """sha256 (hex) over shape, pixels, labels and class names, reading a memory-mapped array piece by piece."""
    header = json.dumps([list(images.shape), class_names])
    digest = hashlib.sha256(header.encode())
    for start in range(0, len(images), 1024):
        digest.update(np.ascontiguousarray(images[start : start + 1024]).data)
    if labels is not None:
        digest.update(np.asarray(labels).astype("<i4").tobytes())
    return digest.hexdigest()
