"""Scores of drawn pictures: distances to the real ones, classes recognised, and pairs of the same seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfdiff import diffusion, metrics
from tfdiff.errors import DataError
from tfdiff.pipelines.evaluation.yardstick import Yardstick

#: Half the width of a 95 % interval, in standard errors.
_Z95 = 1.96


@dataclass(frozen=True, eq=False)
class Scores:
    """What was measured on one candidate's pictures.

    Attributes:
        distances: metric → its distance or score with its interval and protocol; a metric that cannot be had, such
            as FID of too few pictures, is missing.
        recognised: share of pictures taken for the class that was asked for, with `low` and `high`, or None.
        notes: why a metric is missing.
    """

    distances: dict[str, metrics.Distance]
    recognised: dict[str, float] | None
    notes: list[str] = field(default_factory=list)

    def rows(self) -> dict[str, Any]:
        """The figures by metric, each {"value", "low", "high"} or None."""
        found = {name: figure(self.distances.get(name)) for name in METRICS}
        return {**found, "recognised": self.recognised}


METRICS = ("fid", "kid", "precision", "recall", "density", "coverage", "inception_score")


def score(
    batches: Iterable[np.ndarray],
    labels: Sequence[int] | np.ndarray | None,
    yardstick: Yardstick,
    protocol: metrics.Protocol,
    progress: Any = None,
) -> Scores:
    """Measure pictures against the real ones, in constant memory.

    Args:
        batches: uint8 (n,H,W,C), in the order of their seeds.
        labels: class that was asked for, per picture; None without classes.
        yardstick: the real pictures and the networks that judge.
        protocol: goes with every distance.
        progress: called with the pictures seen since the last call.

    Raises:
        DataError: for pictures that do not fit the feature network, or fewer than two.
    """
    network, recogniser = yardstick.features, yardstick.recogniser if labels is not None else None
    # Classes come in turn: a group holds whole rounds of them.
    block = 1 if labels is None else int(np.max(labels)) + 1
    statistics = metrics.FeatureStatistics(network.dimension, num_classes=network.num_classes, block=block)
    right = seen = 0
    for batch in batches:
        statistics.update(*network.features_and_probabilities(batch))
        if recogniser is not None and labels is not None:
            asked = np.asarray(labels[seen : seen + len(batch)])
            right += int(np.sum(recogniser.predict(batch.astype(np.float32) / 127.5 - 1) == asked))
        seen += len(batch)
        if progress:
            progress(len(batch))
    distances, notes = _distances(statistics, yardstick.statistics, protocol)
    return Scores(distances, proportion(right, seen) if recogniser is not None else None, notes)


def protocol_of(yardstick: Yardstick, images: int, sampling: diffusion.Sampling, seed: int) -> metrics.Protocol:
    """How distances of `images` pictures to the yardstick's are measured."""
    return metrics.Protocol(
        features=yardstick.features.name,
        features_hash=yardstick.features.fingerprint,
        reference=yardstick.images.fingerprint,
        reference_images=len(yardstick.images),
        images=images,
        sampling=sampling.config(),
        seed=seed,
    )


def pairwise(
    reference: Iterable[np.ndarray], candidate: Iterable[np.ndarray], network: metrics.FeatureNetwork
) -> dict[str, float | None]:
    """`psnr` in dB (None where all pairs are equal), `ssim` and `feature_distance` of pictures of the same seeds."""
    fidelity = metrics.PairwiseFidelity(network.maps)
    for a, b in zip(reference, candidate, strict=True):
        fidelity.update(a, b)
    psnr = fidelity.psnr if math.isfinite(fidelity.psnr) else None
    return {"psnr": psnr, "ssim": fidelity.ssim, "feature_distance": fidelity.feature_distance}


def figure(estimate: metrics.Estimate | metrics.Distance | None) -> dict[str, float | None] | None:
    """A measured number as {"value", "low", "high"}; the interval is None where there is none."""
    if estimate is None:
        return None
    low, high = estimate.interval or (None, None)
    return {"value": estimate.value, "low": low, "high": high}


def proportion(hits: int, count: int) -> dict[str, float]:
    """A share with its 95 % interval (Wilson 1927), which stays inside [0, 1]."""
    share = hits / count
    centre = (share + _Z95**2 / (2 * count)) / (1 + _Z95**2 / count)
    half = _Z95 / (1 + _Z95**2 / count) * math.sqrt(share * (1 - share) / count + _Z95**2 / (4 * count**2))
    return {"value": share, "low": max(centre - half, 0.0), "high": min(centre + half, 1.0)}


def _distances(
    drawn: metrics.FeatureStatistics, real: metrics.FeatureStatistics, protocol: metrics.Protocol
) -> tuple[dict[str, metrics.Distance], list[str]]:
    """Every metric that these numbers of pictures allow, and why the others are missing."""
    estimates: dict[str, metrics.Estimate] = {"kid": metrics.kernel_distance(real, drawn)}
    notes = []
    try:
        estimates["fid"] = metrics.frechet_distance(real, drawn)
    except DataError as error:
        notes.append(str(error))
    try:
        estimates.update(metrics.precision_recall_density_coverage(real, drawn)._asdict())
    except DataError as error:
        notes.append(str(error))
    if drawn.num_classes is not None:
        estimates["inception_score"] = metrics.inception_score(drawn)
    return {name: metrics.Distance.of(name, estimate, protocol) for name, estimate in estimates.items()}, notes
