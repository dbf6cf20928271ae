"""Scores against closed forms: Wilson's interval, pictures that are the real ones, pairs that are equal."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfdiff import data, diffusion, metrics
from tfdiff.errors import DataError
from tfdiff.pipelines.evaluation import scoring
from tfdiff.pipelines.evaluation.yardstick import Yardstick, measure, real_batches

RNG = np.random.default_rng(0)


def features(channels=1):
    """Mean colour of the halves: few features, so that a hundred pictures do for FID."""

    def network(pixels):
        halves = tf.split(pixels / 255.0, 2, axis=1)
        return [tf.concat([tf.reduce_mean(half, axis=(1, 2)) for half in halves], -1), pixels / 255.0]

    return metrics.FeatureNetwork(
        "halves", network, "0" * 64, dimension=2 * channels, num_classes=None, image_shape=(8, 8, channels)
    )


@pytest.fixture(scope="module")
def yardstick():
    pictures = RNG.integers(0, 256, (300, 8, 8, 1), np.uint8)
    images = data.ImageSet(pictures[:200])
    held_out = data.ImageSet(pictures[200:])
    network = features()
    return Yardstick(images, held_out, network, None, measure(network, real_batches(images)))


def scored(pictures, yardstick):
    protocol = scoring.protocol_of(yardstick, len(pictures), diffusion.Sampling(), 3)
    return scoring.score(np.array_split(pictures, 2), None, yardstick, protocol)


@pytest.mark.parametrize(("hits", "count"), [(0, 20), (20, 20), (7, 20), (973, 1000)])
def test_wilson_interval_holds_the_shares_that_the_count_does_not_refute(hits, count):
    """Its ends are the p for which (hits/n − p)² = z² p (1 − p) / n (Wilson 1927)."""
    found = scoring.proportion(hits, count)
    assert found["value"] == hits / count
    for end in (found["low"], found["high"]):
        assert (found["value"] - end) ** 2 == pytest.approx(1.96**2 * end * (1 - end) / count, abs=1e-12)
    assert 0 <= found["low"] < found["high"] <= 1


def test_the_real_pictures_score_as_well_as_can_be(yardstick):
    found = scored(np.asarray(yardstick.images.images), yardstick).distances
    assert found["fid"].value == pytest.approx(0, abs=1e-6)
    assert found["kid"].value <= 0  # the unbiased estimate of 0 leaves out equal pairs
    assert found["precision"].value == found["recall"].value == found["coverage"].value == 1
    assert found["fid"].protocol.images == found["fid"].protocol.reference_images == 200
    assert found["fid"].protocol.seed == 3


def test_other_pictures_score_worse_and_say_by_how_much(yardstick):
    bright = np.full((200, 8, 8, 1), 250, np.uint8)
    found = scored(bright, yardstick).distances
    # All alike: FID is the distance of the means plus the whole variance of the real ones.
    real = features().features(yardstick.images.images).astype(np.float64)
    expected = np.sum((real.mean(0) - 250 / 255) ** 2) + np.trace(np.cov(real.T))
    assert found["fid"].value == pytest.approx(expected, rel=1e-3)
    assert found["recall"].value == 0


def test_too_few_pictures_leave_a_metric_out_with_a_reason(yardstick):
    found = scored(np.asarray(yardstick.held_out.images[:2]), yardstick)
    assert "kid" in found.distances
    assert "fid" not in found.distances
    assert any("FID" in note for note in found.notes)
    assert found.rows()["fid"] is None


def test_pictures_that_the_network_does_not_take_are_refused(yardstick):
    with pytest.raises(DataError, match="colour"):
        scored(np.zeros((70, 8, 8, 3), np.uint8), yardstick)


def test_pairs():
    pictures = RNG.integers(0, 256, (4, 16, 16, 1), np.uint8)
    network = metrics.FeatureNetwork(
        "pixels",
        lambda pixels: [tf.reduce_mean(pixels, axis=(1, 2)), pixels],
        "0" * 64,
        dimension=1,
        num_classes=None,
        image_shape=(16, 16, 1),
    )
    same = scoring.pairwise([pictures], [pictures], network)
    assert same == {"psnr": None, "ssim": pytest.approx(1), "feature_distance": pytest.approx(0, abs=1e-9)}
    pictures = np.full((4, 16, 16, 1), 100, np.uint8)
    brighter = scoring.pairwise([pictures], [pictures + 51], network)
    assert brighter["psnr"] == pytest.approx(20 * math.log10(5))
