"""What a source of images is: something that counts its images, reads them by number and knows its fingerprint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfdiff.data.image_set import ImageSet, Skipped
from tfdiff.data.resizing import Resize


class Example(NamedTuple):
    """One decoded image at its own size: `image` (H, W, 1 or 3) uint8, `label` a class number or None."""

    image: np.ndarray
    label: int | None


@dataclass(frozen=True, eq=False)
class Source(ABC):
    """Images before they are prepared.

    Attributes:
      name: what logs and reports call it.
      class_names: the names of classes 0, 1, …; None if the images have no labels.
      channels: 1 or 3, what `prepare` keeps unless it is told otherwise.
      resize: how these images are best brought to size, unless `prepare` is told otherwise.
    """

    name: str
    class_names: tuple[str, ...] | None
    channels: int
    resize: Resize

    @abstractmethod
    def __len__(self) -> int:
        """The number of images, readable or not."""

    def known_length(self) -> int | None:
        """The number of images where it can be told without downloading anything, else None."""
        return len(self)

    @abstractmethod
    def fingerprint(self) -> str:
        """A string that changes when the images do, and is much cheaper to get than the images."""

    @abstractmethod
    def read(self, rows: np.ndarray) -> Iterator[Example | Skipped]:
        """One result for each of `rows` (image numbers, ascending), in that order."""


@dataclass(frozen=True, eq=False)
class ArraySource(Source):
    """Images that are an array already, at whatever size they have."""

    image_set: ImageSet

    @classmethod
    def wrap(cls, image_set: ImageSet, resize: Resize) -> ArraySource:
        """A source of the images of `image_set`, preferably resized by the rule `resize`."""
        return cls(image_set.name, image_set.class_names, image_set.image_shape[-1], resize, image_set)

    def __len__(self) -> int:
        return len(self.image_set)

    def fingerprint(self) -> str:
        return self.image_set.fingerprint

    def read(self, rows: np.ndarray) -> Iterator[Example | Skipped]:
        images, labels = self.image_set.images, self.image_set.labels
        for row in rows:
            yield Example(images[row], None if labels is None else int(labels[row]))
