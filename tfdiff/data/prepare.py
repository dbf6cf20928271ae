"""Turn a source into an `ImageSet`: decode once, bring to size once, and keep the result if a cache is given."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tfdiff.data import cache
from tfdiff.data.image_set import ImageSet, Skipped
from tfdiff.data.resizing import Resize, check_options, fit
from tfdiff.data.source import Source
from tfdiff.data.sources import resolve
from tfdiff.errors import DataError

logger = logging.getLogger(__name__)

#: Part of the cache key: raise it when the same source and options begin to give other pixels.
_VERSION = 1


def prepare(
    source: str | os.PathLike[str] | Source,
    *,
    image_size: int,
    channels: int | None = None,
    resize: Resize | None = None,
    strict: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
) -> ImageSet:
    """Decode and resize every image of `source`.

    Args:
      source: a name or path (see `tfdiff.data.sources`), or a `Source`.
      image_size: height and width of the result, in pixels.
      channels: 1 (luminance) or 3; None keeps the source's own (folders: 3).
      resize: "crop", "pad" or "stretch" (see `tfdiff.data.resizing`); None is the source's own: "crop" where sizes
        vary (folders, some TensorFlow datasets), "pad" where all images have one size.
      strict: refuse a source with unreadable images, instead of leaving them out with a warning for each.
      cache_dir: a folder where the result is kept and, next time, memory-mapped instead of decoded. It is found again
        by the source's fingerprint and these options; a damaged entry is made anew.
      limit: use this many images, spread evenly over the source so that classes stay balanced.

    Returns:
      An `ImageSet` in the source's order; its `skipped` lists the images left out.

    Raises:
      DataError: for unusable arguments or sources, if no image can be read, or with `strict` if any cannot.
    """
    if not isinstance(source, Source):
        source = resolve(source)
    channels = source.channels if channels is None else channels
    resize = source.resize if resize is None else resize
    check_options(image_size, channels, resize)
    if limit is not None and limit < 1:
        raise DataError(f"limit must be at least 1 image, found {limit}.")
    count = len(source) if limit is None else min(limit, len(source))
    rows = np.arange(count) * len(source) // count
    shape = (count, image_size, image_size, channels)

    def build(allocate: Callable[[tuple[int, ...]], np.ndarray]) -> ImageSet:
        return _build(source, rows, allocate(shape), resize)

    if cache_dir is None:
        image_set = build(lambda shape: np.empty(shape, np.uint8))
    else:
        options = [_VERSION, source.name, source.fingerprint(), image_size, channels, resize, limit]
        key = hashlib.sha256(json.dumps(options).encode()).hexdigest()[:16]
        image_set = cache.load_or_build(Path(cache_dir) / f"{source.name}-{key}", build)
    if strict and image_set.skipped:
        raise DataError(
            f"{_count_text(image_set.skipped, count)}: repair or remove them, or set strict=False to leave them out."
        )
    return image_set


def _build(source: Source, rows: np.ndarray, images: np.ndarray, resize: Resize) -> ImageSet:
    """Fill `images` (one row for each of `rows`) and keep the leading ones that were read."""
    _, image_size, _, channels = images.shape
    labels: list[int] = []
    skipped: list[Skipped] = []
    kept = 0
    # Shown on a terminal only, and only for what takes long.
    for result in tqdm(source.read(rows), source.name, len(rows), unit="image", delay=2, disable=None):
        if isinstance(result, Skipped):
            logger.warning("skipped %s: %s", *result)
            skipped.append(result)
            continue
        images[kept] = fit(result.image, image_size, channels, resize)
        if result.label is not None:
            labels.append(result.label)
        kept += 1
    if kept == 0:
        raise DataError(f"{source.name}: {_count_text(tuple(skipped), len(rows))}: nothing is left to train on.")
    return ImageSet(
        images=images[:kept],
        labels=np.array(labels, np.int32) if source.class_names is not None else None,
        class_names=source.class_names,
        name=source.name,
        skipped=tuple(skipped),
    )


def _count_text(skipped: tuple[Skipped, ...], count: int) -> str:
    named = "; ".join(f"{path}: {reason}" for path, reason in skipped[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return f"{len(skipped)} of {count} images cannot be read ({named}{more})"
