"""Images from a NumPy `.npz` file.

Keys:

* `images`: (N, H, W) or (N, H, W, 1 or 3); uint8 in 0..255, or floats. Floats are read as [0, 1] if none is negative
  and as [-1, 1] otherwise; anything beyond that range, NaN and other types are refused rather than guessed at.
  Floats that came from 8-bit images come back to exactly those.
* `labels` (optional): (N,) integers from 0.
* `class_names` (optional, with labels): one string for each class.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from tfdiff.data.image_set import ImageSet
from tfdiff.data.source import ArraySource
from tfdiff.errors import DataError


def npz_source(path: Path) -> ArraySource:
    """Read and check an `.npz` file. Pickled objects are never loaded.

    Raises:
      DataError: naming the file, the key and what was found there.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    try:
        # Opened by hand: given a path, np.load leaves the file open when it turns out not to be a zip.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: holds a single array: save it with np.savez(path, images=array).")
            arrays = {key: archive[key] for key in ("images", "labels", "class_names") if key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not an .npz file of plain arrays ({error}).") from error
    if "images" not in arrays:
        raise DataError(f"{path}: no array called 'images', found {', '.join(archive.files) or 'nothing'}.")
    images = _to_uint8(_to_nhwc(arrays["images"], path), path)
    names = tuple(str(name) for name in arrays["class_names"].ravel()) if "class_names" in arrays else None
    return ArraySource.wrap(ImageSet(images, arrays.get("labels"), names, path.name), resize="pad")


def _to_nhwc(images: np.ndarray, path: Path) -> np.ndarray:
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or images.size == 0:
        raise DataError(
            f"{path}: images must be (N, H, W) or (N, H, W, channels) with 1 or 3 channels last, found {images.shape}."
        )
    return images


def _to_uint8(images: np.ndarray, path: Path) -> np.ndarray:
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind != "f":
        raise DataError(f"{path}: images must be uint8 in 0..255 or floats, found {images.dtype}: convert them.")
    if not np.isfinite(images).all():
        bad = int(np.size(images) - np.isfinite(images).sum())
        raise DataError(f"{path}: images hold {bad} values that are NaN or infinite: remove or repair them.")
    low, high = float(images.min()), float(images.max())
    if low < -1 or high > 1:
        raise DataError(f"{path}: float images must lie in [0, 1] or [-1, 1], found {low:g} to {high:g}: scale them.")
    # In float32, so that a float16 file rounds to the pixel it came from.
    scaled = images.astype(np.float32) * 255 if low >= 0 else (images.astype(np.float32) + 1) * 127.5
    return np.rint(scaled).astype(np.uint8)
