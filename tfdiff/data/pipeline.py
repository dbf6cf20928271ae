"""From an `ImageSet` to batches, such that batch k is a function of (seed, k) alone.

A training stream is a counter. Batch k takes positions k·B … k·B + B − 1 of an endless sequence that visits every
image once an epoch, in an order that a stateless cipher gives for (seed, epoch, position). So a stream that starts at
batch k costs nothing to reach, equals the same batch of a stream that started at 0, augmentation included, and a run
that is resumed trains on what it would have trained on. Batches run across the ends of epochs: none is short, no image
is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.data.augmentation import Augment, Augmentation
from tfdiff.data.image_set import ImageSet
from tfdiff.data.prepare import prepare
from tfdiff.data.resizing import Resize
from tfdiff.data.source import Source
from tfdiff.errors import DataError


def batches(
    image_set: ImageSet,
    batch_size: int,
    *,
    seed: int = 0,
    start_step: int = 0,
    augment: Augment | None = None,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """An endless training stream.

    Args:
      image_set: N images (H, W, C).
      batch_size: images in every batch; may exceed N.
      seed: of the order and the augmentation, 0 ≤ seed < 2³².
      start_step: the batch to start with.
      augment: see `tfdiff.data.augmentation`; None leaves images as they are.
      shuffle: a new order every epoch; otherwise the set's own.

    Returns:
      Batches of (image, label), or of image alone without labels. image: (batch_size, H, W, C) float32 in [-1, 1];
      label: (batch_size,) int32. Shapes are static.

    Raises:
      DataError: if an argument is out of range, or the augmentation does not exist or fit.
    """
    _check_batch_size(batch_size)
    if start_step < 0:
        raise DataError(f"start_step must be 0 or more, found {start_step}.")
    if not 0 <= seed < 2**32:
        raise DataError(f"seed must be in 0..2**32 - 1, found {seed}.")
    count = len(image_set)
    augmentation = None if augment is None else Augmentation(augment, image_set.image_shape[-1], seed)

    def batch(step: tf.Tensor) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        positions = step * batch_size + tf.range(batch_size, dtype=tf.int64)
        rows = _shuffled(positions, count, seed) if shuffle else positions % count
        image, *label = _gather(image_set, rows, batch_size)
        if augmentation is not None:
            image = augmentation(image, step)
        return _elements(image, label)

    return _mapped(tf.data.Dataset.counter(start_step), batch)


def validation_batches(image_set: ImageSet, batch_size: int, *, drop_remainder: bool = False) -> tf.data.Dataset:
    """Every image once, in the set's order, without augmentation; elements as those of `batches`.

    Where `batch_size` does not divide N the last batch is smaller and the batch dimension is unknown, unless
    `drop_remainder` leaves it out: then N mod batch_size images go unused and shapes are static, which TPUs need.

    Raises:
      DataError: if `batch_size` is not positive, or `drop_remainder` would leave nothing.
    """
    _check_batch_size(batch_size)
    count = len(image_set)
    if drop_remainder and count < batch_size:
        raise DataError(f"batch_size {batch_size} is larger than {image_set.name} ({count}): drop_remainder drops all.")
    if drop_remainder:
        count -= count % batch_size
    static_size = batch_size if count % batch_size == 0 else None

    def batch(start: tf.Tensor) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        rows = tf.range(start, tf.minimum(start + batch_size, count))
        image, *label = _gather(image_set, rows, static_size)
        return _elements(image, label)

    return _mapped(tf.data.Dataset.range(0, count, batch_size), batch)


def load(
    source: str | os.PathLike[str] | Source,
    *,
    image_size: int,
    batch_size: int,
    channels: int | None = 3,
    resize: Resize | None = None,
    strict: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    start_step: int = 0,
    augment: Augment | None = None,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """`batches(prepare(source, …), …)` in one call: an endless training stream.

    Arguments, elements and errors are those of `prepare` and `batches`; `channels` is 3 unless told otherwise, what
    most networks take.
    """
    image_set = prepare(
        source,
        image_size=image_size,
        channels=channels,
        resize=resize,
        strict=strict,
        cache_dir=cache_dir,
        limit=limit,
    )
    return batches(image_set, batch_size, seed=seed, start_step=start_step, augment=augment, shuffle=shuffle)


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise DataError(f"batch_size must be at least 1, found {batch_size}.")


def _shuffled(positions: tf.Tensor, count: int, seed: int) -> tf.Tensor:
    """The image at each position (B,) int64 of the endless sequence: one permutation of `count` for each epoch.

    `RandomIndexShuffle` is a Simon block cipher. For small sets only the low 8 bits of each of its three key words
    count, so keys are hashed from (seed, epoch): taken as they are, orders would repeat every 256 epochs. Eight rounds
    instead of the default four: with four, images kept close to their place in the set for some keys.
    """
    batch_size = positions.shape[0]
    epochs = positions // count
    # A batch of B positions reaches into at most this many epochs.
    span = (batch_size + count - 2) // count + 1
    keys = tf.stack(
        [
            tf.random.stateless_uniform([3], [tf.constant(seed, tf.int64), epochs[0] + i], None, None, tf.int32)
            for i in range(span)
        ]
    )
    # The raw op, because tf.random.experimental.index_shuffle pads a matrix of keys along the wrong axis.
    return tf.raw_ops.RandomIndexShuffle(
        index=positions % count,
        seed=tf.gather(keys, epochs - epochs[0]),
        max_index=tf.constant(count - 1, tf.int64),
        rounds=8,
    )


def _gather(image_set: ImageSet, rows: tf.Tensor, size: int | None) -> list[tf.Tensor]:
    """[image] or [image, label] at `rows`. Reads in Python, so that memory-mapped images stay on disk."""
    images, labels = image_set.images, image_set.labels

    def read(rows: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(images[rows])] if labels is None else [np.asarray(images[rows]), labels[rows]]

    dtypes = [tf.uint8] if labels is None else [tf.uint8, tf.int32]
    pixels, *label = tf.numpy_function(read, [rows], dtypes, stateful=False)
    pixels.set_shape((size, *image_set.image_shape))
    for tensor in label:
        tensor.set_shape((size,))
    return [tf.cast(pixels, tf.float32) / 255, *label]


def _elements(image: tf.Tensor, label: list[tf.Tensor]) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
    """Take images from [0, 1] to [-1, 1], and drop the label that is not there."""
    image = image * 2 - 1
    return (image, *label) if label else image


def _mapped(indices: tf.data.Dataset, batch: Callable[[tf.Tensor], Any]) -> tf.data.Dataset:
    options = tf.data.Options()
    # There are no files to divide among workers: each takes its share of the batches.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = indices.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
