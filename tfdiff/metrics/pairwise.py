"""How far pictures of the same seed are from each other, pair by pair, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.errors import DataError

#: SSIM's Gaussian window; smaller images take the largest odd one that fits.
_WINDOW = 11


class PairwiseFidelity:
    """PSNR, SSIM and, with a feature network, an LPIPS-style distance between two streams of pictures.

    Args:
        maps: uint8 images (n,H,W,C) → activations, a list of (n,h,w,c); None: no feature distance.
    """

    def __init__(self, maps: Callable[[np.ndarray], Sequence[np.ndarray]] | None = None) -> None:
        self._maps = maps
        self.count = 0
        self._squared_error = self._similarity = self._feature_distance = 0.0

    def update(self, reference: Any, candidate: Any) -> None:
        """Take in pairs of pictures.

        Args:
            reference, candidate: uint8 (n,H,W,C), image i of both from the same noise.

        Raises:
            DataError: for another dtype, or two shapes: grey against colour, other sizes, other numbers.
        """
        reference, candidate = np.asarray(reference), np.asarray(candidate)
        for name, images in (("reference", reference), ("candidate", candidate)):
            if images.dtype != np.uint8 or images.ndim != 4:
                raise DataError(f"{name} is {images.dtype} {images.shape}: give uint8 pictures (n, H, W, C).")
        if reference.shape != candidate.shape:
            raise DataError(
                f"reference has shape {reference.shape}, candidate {candidate.shape}: pairs need one number of "
                "pictures of one size, all grey or all in colour."
            )
        if not len(reference):
            return
        error = reference.astype(np.float64) - candidate
        self._squared_error += float(np.mean(np.square(error), axis=(1, 2, 3)).sum())
        window = min(_WINDOW, (min(reference.shape[1:3]) - 1) // 2 * 2 + 1)
        self._similarity += float(np.sum(tf.image.ssim(reference, candidate, max_val=255, filter_size=window)))
        if self._maps is not None:
            pairs = zip(self._maps(reference), self._maps(candidate), strict=True)
            self._feature_distance += float(sum(_map_distance(a, b).sum() for a, b in pairs))
        self.count += len(reference)

    @property
    def psnr(self) -> float:
        """10·log10(255²/MSE) in decibels, the MSE over all pictures; inf where all pairs are equal."""
        error = self._squared_error / self._seen()
        return math.inf if error == 0 else 10 * math.log10(255**2 / error)

    @property
    def ssim(self) -> float:
        """Mean structural similarity (Wang et al. 2004), at most 1: equal pictures."""
        return self._similarity / self._seen()

    @property
    def feature_distance(self) -> float | None:
        """Mean LPIPS-style distance, 0 for equal pictures; None without a feature network.

        Zhang et al. 2018, eq. 1, with unit weights: activations of unit length at each place, squared difference summed
        over channels, mean over places, sum over layers.
        """
        return None if self._maps is None else self._feature_distance / self._seen()

    def _seen(self) -> int:
        if not self.count:
            raise DataError("no pairs of pictures were given.")
        return self.count


def _map_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,) distance of two (n,h,w,c) activations."""

    def unit(values: np.ndarray) -> np.ndarray:
        values = values.astype(np.float64)
        return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-10)

    return np.mean(np.sum(np.square(unit(a) - unit(b)), axis=-1), axis=(1, 2))
