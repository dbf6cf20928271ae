"""Images from TensorFlow Datasets: `tfds:NAME[/CONFIG][:VERSION][/SPLIT]`, split `train` unless told otherwise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfdiff.data.image_set import Skipped
from tfdiff.data.resizing import Resize
from tfdiff.data.source import Example, Source
from tfdiff.errors import DataError

PREFIX = "tfds:"


@dataclass(frozen=True, eq=False)
class TfdsSource(Source):
    """One split of a dataset whose features include `image`; its `label`, if a class, is the label.

    Made from the dataset's description alone. What is not on disk yet is downloaded and prepared by TensorFlow
    Datasets when the images, their exact number or their fingerprint are first asked for: `__len__`, `fingerprint`
    and `read` raise `DataError` if that fails, or if the split turns out to be missing or empty.

    Attributes:
      builder: the `tfds.core.DatasetBuilder`.
      split: the split's name, or a slice of one such as "train[:10%]".
    """

    builder: Any
    split: str

    def known_length(self) -> int | None:
        # The description has splits once the dataset is prepared.
        return int(self._split().num_examples) if self.builder.info.splits else None

    def __len__(self) -> int:
        return int(self._prepared_split().num_examples)

    def fingerprint(self) -> str:
        """sha256 over the dataset's full name (with version), the split and its size in images and bytes."""
        split = self._prepared_split()
        identity = [self.builder.info.full_name, self.split, split.num_examples, split.num_bytes]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def read(self, rows: np.ndarray) -> Iterator[Example | Skipped]:
        import tensorflow as tf
        import tensorflow_datasets as tfds

        self._prepared_split()
        wanted = {"image": True} if self.class_names is None else {"image": True, "label": True}
        # Shards are read one after the other: their examples come in the same order every time.
        dataset = self.builder.as_dataset(
            split=self.split,
            decoders=tfds.decode.PartialDecoding(wanted),
            read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
        )
        position = -1
        examples = dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()
        for row in rows:
            while position < row:
                example = next(examples)
                position += 1
            yield Example(example["image"], None if self.class_names is None else int(example["label"]))

    def _prepared_split(self) -> Any:
        """The description of the split, once the dataset is on disk."""
        try:
            self.builder.download_and_prepare()
        # Anything may fail here: network, checksums, licences to accept by hand, disk space, the dataset's own code.
        except Exception as error:
            raise DataError(
                f"{self._text}: not in {self.builder.data_dir} and cannot be downloaded ({_one_line(error)}): "
                f"prepare it there with `tfds build {self.builder.info.full_name}`."
            ) from error
        return self._split()

    def _split(self) -> Any:
        splits = self.builder.info.splits
        try:
            split = splits[self.split]
        except (KeyError, ValueError) as error:
            raise DataError(f"{self._text}: no split {self.split!r}: choose from {', '.join(splits)}.") from error
        if split.num_examples == 0:
            raise DataError(f"{self._text}: split {self.split!r} is empty.")
        return split

    @property
    def _text(self) -> str:
        return f"{PREFIX}{self.builder.info.full_name}/{self.split}"


def tfds_source(text: str) -> TfdsSource:
    """The source that `tfds:…` names, from the dataset's description: nothing is downloaded yet.

    Raises:
      DataError: if there is no such dataset or, where they are known already, no such split, or it has no images.
    """
    import tensorflow_datasets as tfds

    builder, split = _builder(text)
    features = dict(builder.info.features.items())
    image = features.get("image")
    if not isinstance(image, tfds.features.Image) or image.np_dtype != np.uint8 or image.shape[-1] not in (1, 3):
        raise DataError(
            f"{text}: needs a feature 'image' of uint8 with 1 or 3 channels, found {_one_line(builder.info.features)}."
        )
    label = features.get("label")
    names = tuple(label.names) if isinstance(label, tfds.features.ClassLabel) else None
    resize: Resize = "crop" if None in image.shape else "pad"
    source = TfdsSource(builder.name, names, image.shape[-1], resize, builder=builder, split=split)
    source.known_length()  # a split that is known to be missing is refused at once
    return source


def _builder(text: str) -> tuple[Any, str]:
    """The dataset's builder, and the split asked for: the last part, where it is no configuration."""
    import tensorflow_datasets as tfds

    name = text.removeprefix(PREFIX)
    base, _, last = name.rpartition("/")
    problem = ""
    for candidate, split in [(name, "train"), (base, last)] if base else [(name, "train")]:
        try:
            return tfds.builder(candidate), split
        except tfds.core.DatasetNotFoundError:
            # Its text lists every dataset there is.
            problem = problem or "TensorFlow Datasets knows no dataset of that name"
        except ValueError as error:
            problem = _one_line(error)
    raise DataError(f"{text}: {problem}.")


def _one_line(text: object, length: int = 200) -> str:
    return " ".join(str(text).split())[:length]
