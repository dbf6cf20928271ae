"""What distances need to know of a set of images: gathered a batch at a time, in constant memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from scipy.special import xlogy

from tfdiff.errors import DataError, UsageError
from tfdiff.files import written_whole
from tfdiff.metrics.moments import Moments, merged

#: Above this many features only the total's covariance is kept: ten of 2048² would take 335 MB.
MAX_GROUPED_DIMENSION = 512

_FORMAT = 1
_SETTINGS = ("dimension", "num_classes", "capacity", "groups", "block", "seed")
#: Softmax in float16 is off by no more.
_SUM_TOLERANCE = 1e-2


class FeatureStatistics:
    """Moments, class probabilities and a fixed-size sample of the features of any number of images.

    Images are numbered. Image i belongs to group (i div `block`) mod `groups`, for errors by the jackknife
    (`Estimate`), and whether it is in the sample depends on (seed, i) alone: so neither batch size, nor order,
    nor the split over workers changes what is gathered, but for rounding.

    Memory is constant: groups·D² + capacity·D numbers, or D² + capacity·D for D > `MAX_GROUPED_DIMENSION`,
    where the Fréchet distance has no error.

    Args:
        dimension: D, features per image, ≥ 1.
        num_classes: K, where class probabilities come with the features (for the Inception Score); else None.
        capacity: features kept for the distances that need them themselves, ≥ 1.
        groups: G ≥ 2.
        block: images in a row that stay in one group. Where classes are drawn in turn, their number: else leaving
            a group out would leave a class out, and the error would be that of missing classes.
        seed: of the sample, 0 ≤ seed < 2⁶⁴.

    Raises:
        UsageError: for a number out of range.
    """

    def __init__(
        self,
        dimension: int,
        *,
        num_classes: int | None = None,
        capacity: int = 10_000,
        groups: int = 10,
        block: int = 1,
        seed: int = 0,
    ) -> None:
        numbers = {
            "dimension": (dimension, 1),
            "capacity": (capacity, 1),
            "groups": (groups, 2),
            "block": (block, 1),
            "seed": (seed, 0),
        }
        for name, (number, least) in numbers.items():
            if number < least:
                raise UsageError(f"{name}={number}: give {least} or more.")
        if num_classes is not None and num_classes < 1:
            raise UsageError(f"num_classes={num_classes}: give 1 or more, or None without class probabilities.")
        self.dimension = dimension
        self.num_classes = num_classes
        self.capacity = capacity
        self.groups = groups
        self.block = block
        self.seed = seed
        grouped = groups if dimension <= MAX_GROUPED_DIMENSION else 1
        self._moments = [Moments(dimension) for _ in range(grouped)]
        self._counts = np.zeros(groups, np.int64)
        self._class_sums = np.zeros((groups, num_classes or 0))
        self._negative_entropies = np.zeros(groups)
        self._spans: list[tuple[int, int]] = []
        self._sample = np.empty((0, dimension), np.float32)
        self._sample_indices = np.empty(0, np.int64)

    @classmethod
    def of(cls, features: Any, probabilities: Any = None, **options: Any) -> FeatureStatistics:
        """The statistics of arrays that are there already.

        Args:
            features: (N,D) floats.
            probabilities: (N,K) floats, or None.
            options: `capacity`, `groups`, `block` and `seed` as the constructor's.
        """
        features = np.asarray(features)
        if features.ndim != 2:
            raise DataError(f"features have shape {features.shape}: give (N, D).")
        num_classes = None if probabilities is None else np.shape(probabilities)[-1]
        statistics = cls(features.shape[1], num_classes=num_classes, **options)
        statistics.update(features, probabilities)
        return statistics

    def update(self, features: Any, probabilities: Any = None, *, start: int | None = None) -> None:
        """Take in the features of images start, start + 1, …

        Args:
            features: (n,D) floats. Moments are summed in float64, the sample is kept in float32.
            probabilities: (n,K) in [0, 1], each row's sum 1; given exactly where `num_classes` is.
            start: number of the first image; default: the one after the highest seen. Workers that gather a
                part each give it, and are merged.

        Raises:
            DataError: for another shape or dtype, NaN or infinity, rows that are no probabilities, or an
                image that was counted before. Nothing is taken in then.
        """
        features = np.asarray(features)
        if features.ndim != 2 or features.shape[1] != self.dimension or features.dtype.kind != "f":
            raise DataError(
                f"features are {features.dtype} {features.shape}: give floats of shape (n, {self.dimension})."
            )
        start = (self._spans[-1][1] if self._spans else 0) if start is None else start
        if start < 0:
            raise UsageError(f"start={start}: images are numbered from 0.")
        _refuse_broken(features, "features", start)
        probabilities = self._checked_probabilities(probabilities, len(features), start)
        if not len(features):
            return
        self._spans = _united([*self._spans, (start, start + len(features))])
        indices = np.arange(start, start + len(features))
        groups = self._group(indices)
        self._counts += np.bincount(groups, minlength=self.groups)
        for group in np.unique(groups):
            members = groups == group
            # With a single one for all groups, the whole block goes there at once, below.
            if len(self._moments) > 1:
                self._moments[group].add(features[members])
            if probabilities is not None:
                rows = probabilities[members]
                self._class_sums[group] += rows.sum(axis=0)
                self._negative_entropies[group] += xlogy(rows, rows).sum()
        if len(self._moments) == 1:
            self._moments[0].add(features)
        self._keep(features, indices)

    def merge(self, other: FeatureStatistics) -> None:
        """Take in all images of `other`, which were numbered apart from these.

        Raises:
            UsageError: where the two were made with other settings.
            DataError: where an image is in both.
        """
        for name in _SETTINGS:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise UsageError(f"statistics with {name}={mine} and {theirs} do not merge: gather both with one.")
        self._spans = _united([*self._spans, *other._spans])
        for own, part in zip(self._moments, other._moments, strict=True):
            own.merge(part)
        self._counts += other._counts
        self._class_sums += other._class_sums
        self._negative_entropies += other._negative_entropies
        self._keep(other._sample, other._sample_indices)

    @property
    def count(self) -> int:
        """N, images seen."""
        return sum(part.count for part in self._moments)

    @property
    def mean(self) -> np.ndarray:
        """(D,) float64, over all images."""
        return merged(self._moments).mean

    @property
    def covariance(self) -> np.ndarray:
        """(D,D) float64, unbiased, over all images.

        Raises:
            DataError: for fewer than two images.
        """
        return self.moments().covariance

    def moments(self) -> Moments:
        """Count, mean and scatter over all images.

        Raises:
            DataError: for fewer than two images.
        """
        if self.count < 2:
            raise DataError(f"the covariance of {self.count} images is not defined: give two or more.")
        return merged(self._moments)

    def moments_without_groups(self) -> list[Moments]:
        """The moments without group 0, 1, …; empty where the groups' were not kept or two images would not be left."""
        if not self.grouped or not self.filled:
            return []
        return [merged(self._moments[:g] + self._moments[g + 1 :]) for g in range(self.groups)]

    @property
    def grouped(self) -> bool:
        """Whether each group's moments are kept: D ≤ `MAX_GROUPED_DIMENSION`."""
        return len(self._moments) > 1

    @property
    def filled(self) -> bool:
        """Whether every group has two images: leaving one group out then leaves something of the others."""
        return bool(np.all(self._counts > 1))

    @property
    def sample(self) -> np.ndarray:
        """(min(N, capacity), D) float32 by image number: all features while they fit, then a uniform sample."""
        return self._sample[np.argsort(self._sample_indices)]

    @property
    def sample_indices(self) -> np.ndarray:
        """(min(N, capacity),) int64, increasing: the numbers of the images in `sample`."""
        return np.sort(self._sample_indices)

    @property
    def sample_groups(self) -> np.ndarray:
        """(min(N, capacity),) int64: the group of each image in `sample`."""
        return self._group(self.sample_indices)

    def class_sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By group: images (G,), Σ p (G,K) and Σ p·log p (G,), for the Inception Score.

        Raises:
            UsageError: where no class probabilities were gathered.
        """
        if self.num_classes is None:
            raise UsageError("these statistics hold no class probabilities: give num_classes, and probabilities.")
        return self._counts, self._class_sums, self._negative_entropies

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it as .npz."""
        with written_whole(Path(path)) as partial, partial.open("wb") as file:
            np.savez(
                file,
                version=_FORMAT,
                settings=json.dumps({name: getattr(self, name) for name in _SETTINGS}),
                counts=np.array([part.count for part in self._moments], np.int64),
                means=np.stack([part.mean for part in self._moments]),
                scatters=np.stack([part.scatter for part in self._moments]),
                group_counts=self._counts,
                class_sums=self._class_sums,
                negative_entropies=self._negative_entropies,
                spans=np.array(self._spans, np.int64).reshape(-1, 2),
                sample=self._sample,
                sample_indices=self._sample_indices,
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FeatureStatistics:
        """Read what `save` wrote.

        Raises:
            DataError: when the file is missing, damaged or of another kind.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                if int(arrays["version"]) != _FORMAT:
                    raise DataError(f"{path} is of another tfdiff: gather the statistics again.")
                settings = json.loads(str(arrays["settings"]))
                statistics = cls(settings.pop("dimension"), **settings)
                for index, part in enumerate(statistics._moments):
                    part.count = int(arrays["counts"][index])
                    part.mean = arrays["means"][index]
                    part.scatter = arrays["scatters"][index]
                statistics._counts = arrays["group_counts"]
                statistics._class_sums = arrays["class_sums"]
                statistics._negative_entropies = arrays["negative_entropies"]
                statistics._spans = [(begin, end) for begin, end in arrays["spans"].tolist()]
                statistics._sample = arrays["sample"]
                statistics._sample_indices = arrays["sample_indices"]
        except (OSError, KeyError, ValueError, IndexError, BadZipFile) as error:
            raise DataError(f"{path} holds no feature statistics ({error}): gather them again.") from None
        return statistics

    def _group(self, indices: np.ndarray) -> np.ndarray:
        return indices // self.block % self.groups

    def _checked_probabilities(self, probabilities: Any, count: int, start: int) -> np.ndarray | None:
        if (probabilities is None) != (self.num_classes is None):
            raise DataError(
                f"probabilities are {'missing' if probabilities is None else 'given'}, but num_classes is "
                f"{self.num_classes}: give both or neither."
            )
        if probabilities is None:
            return None
        probabilities = np.asarray(probabilities, np.float64)
        if probabilities.shape != (count, self.num_classes):
            raise DataError(f"probabilities have shape {probabilities.shape}: give ({count}, {self.num_classes}).")
        _refuse_broken(probabilities, "probabilities", start)
        wrong = np.flatnonzero(
            (probabilities < 0).any(axis=1) | (np.abs(probabilities.sum(axis=1) - 1) > _SUM_TOLERANCE)
        )
        if len(wrong):
            raise DataError(f"probabilities of image {start + wrong[0]} are no distribution: apply softmax to logits.")
        return probabilities

    def _keep(self, features: np.ndarray, indices: np.ndarray) -> None:
        """Offer features to the sample: it holds those of the images with the smallest hashes."""
        sample = np.concatenate([self._sample, features.astype(np.float32)])
        numbers = np.concatenate([self._sample_indices, indices])
        if len(numbers) > self.capacity:
            chosen = np.argpartition(_hashes(numbers, self.seed), self.capacity)[: self.capacity]
            sample, numbers = sample[chosen], numbers[chosen]
        self._sample, self._sample_indices = sample, numbers


def _hashes(numbers: np.ndarray, seed: int) -> np.ndarray:
    """uint64 hash of each image number (SplitMix64, Steele et al. 2014)."""
    z = numbers.astype(np.uint64) + np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of image numbers, those that touch joined; DataError where two overlap."""
    united: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if united and begin < united[-1][1]:
            raise DataError(f"image {begin} was counted before: number the images of each part apart.")
        if united and begin == united[-1][1]:
            united[-1] = (united[-1][0], end)
        else:
            united.append((begin, end))
    return united


def _refuse_broken(rows: np.ndarray, what: str, start: int) -> None:
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(broken):
        raise DataError(f"{what}: {len(broken)} hold NaN or infinity, first in image {start + broken[0]}.")
