"""Find the source that a name means.

| written | means |
|---|---|
| `digits`, `mnist` | a built-in set |
| `….npz` | an array file, see `tfdiff.data.npz` |
| a folder | its images, see `tfdiff.data.folder` |
| `tfds:NAME`, `tfds:NAME/SPLIT` | TensorFlow Datasets, see `tfdiff.data.tfds` |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tfdiff.data.builtin import digits, mnist
from tfdiff.data.folder import FolderSource
from tfdiff.data.npz import npz_source
from tfdiff.data.source import Source
from tfdiff.data.tfds import PREFIX, tfds_source
from tfdiff.errors import DataError

BUILT_IN: dict[str, Callable[[], Source]] = {"digits": digits, "mnist": mnist}


def resolve(name: str | os.PathLike[str]) -> Source:
    """The source called `name`, by the first rule of the module's table that fits.

    A folder called like a built-in set is reached by a path with a separator, such as `./mnist`.

    Raises:
      DataError: if nothing fits (the message lists what would), or what it names cannot be used.
    """
    text = os.fspath(name)
    if text in BUILT_IN:
        return BUILT_IN[text]()
    if text.startswith(PREFIX):
        return tfds_source(text)
    path = Path(text)
    if path.suffix.lower() == ".npz":
        return npz_source(path)
    if path.is_dir():
        return FolderSource.scan(path)
    raise DataError(
        f"no images called {text!r}: give {', '.join(sorted(BUILT_IN))}, the path of a folder of images or of an "
        f".npz file, or {PREFIX}NAME for a TensorFlow dataset."
    )
