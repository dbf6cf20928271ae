"""Streaming statistics equal those of the whole array, whatever the batches, order and split."""

from __future__ import annotations

import numpy as np
import pytest

from tfdiff.errors import DataError, UsageError
from tfdiff.metrics import FeatureStatistics

GENERATOR = np.random.default_rng(0)
# A mean far above the spread: sums of squares would lose the digits of the covariance.
FEATURES = (1000 + GENERATOR.standard_normal((230, 5))).astype(np.float64)
PROBABILITIES = GENERATOR.dirichlet(np.ones(4), 230)


def gathered(order: list[tuple[int, int]], **options: int) -> FeatureStatistics:
    statistics = FeatureStatistics(5, num_classes=4, **options)
    for begin, end in order:
        statistics.update(FEATURES[begin:end], PROBABILITIES[begin:end], start=begin)
    return statistics


def equal(a: FeatureStatistics, b: FeatureStatistics) -> None:
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(a.sample, b.sample)
    np.testing.assert_array_equal(a.sample_indices, b.sample_indices)
    for mine, theirs in zip(a.class_sums(), b.class_sums(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_mean_and_covariance_are_numpys() -> None:
    statistics = gathered([(0, 7), (7, 100), (100, 230)])
    assert statistics.count == 230
    np.testing.assert_allclose(statistics.mean, FEATURES.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(statistics.covariance, np.cov(FEATURES.T), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(statistics.sample, FEATURES.astype(np.float32))


@pytest.mark.parametrize("capacity", [50, 1000])
def test_batches_order_and_workers_change_nothing(capacity: int) -> None:
    whole = gathered([(0, 230)], capacity=capacity, block=3)
    equal(gathered([(100, 230), (0, 13), (13, 100)], capacity=capacity, block=3), whole)
    first, second = (gathered([part], capacity=capacity, block=3) for part in ((0, 91), (91, 230)))
    first.merge(second)
    equal(first, whole)
    assert len(whole.sample) == min(capacity, 230)


def test_the_sample_is_uniform() -> None:
    counts = np.zeros(100)
    for seed in range(300):
        statistics = FeatureStatistics(1, capacity=20, seed=seed)
        statistics.update(np.arange(100.0)[:, np.newaxis])
        counts[statistics.sample_indices] += 1
    # 60 expected each; five standard deviations of Binomial(300, 0.2).
    assert np.abs(counts - 60).max() < 5 * np.sqrt(300 * 0.2 * 0.8)


def test_leaving_groups_out() -> None:
    statistics = gathered([(0, 230)], groups=10, block=4)
    member = np.arange(230) // 4 % 10
    for group, part in enumerate(statistics.moments_without_groups()):
        np.testing.assert_allclose(part.mean, FEATURES[member != group].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(part.covariance, np.cov(FEATURES[member != group].T), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(statistics.sample_groups, member)


def test_many_features_keep_one_covariance() -> None:
    statistics = FeatureStatistics.of(GENERATOR.standard_normal((40, 513)))
    assert not statistics.grouped
    assert statistics.moments_without_groups() == []
    assert statistics.count == 40


def test_saved_and_loaded(tmp_path) -> None:
    statistics = gathered([(0, 230)], capacity=50, block=2)
    statistics.save(tmp_path / "real.npz")
    loaded = FeatureStatistics.load(tmp_path / "real.npz")
    equal(loaded, statistics)
    loaded.update(FEATURES, PROBABILITIES)
    assert loaded.count == 460
    (tmp_path / "real.npz").write_bytes(b"no zip")
    with pytest.raises(DataError, match="holds no feature statistics"):
        FeatureStatistics.load(tmp_path / "real.npz")


def test_refusals() -> None:
    statistics = gathered([(0, 10)])
    broken = FEATURES[:3].copy()
    broken[1, 2] = np.nan
    with pytest.raises(DataError, match="NaN or infinity, first in image 11"):
        statistics.update(broken, PROBABILITIES[:3])
    with pytest.raises(DataError, match="image 5 was counted before"):
        statistics.update(FEATURES[:3], PROBABILITIES[:3], start=5)
    with pytest.raises(DataError, match="no distribution"):
        statistics.update(FEATURES[:3], 2 * PROBABILITIES[:3])
    with pytest.raises(DataError, match="probabilities are missing"):
        statistics.update(FEATURES[:3])
    with pytest.raises(UsageError, match="capacity=3 and 10000 do not merge"):
        FeatureStatistics(5, num_classes=4, capacity=3).merge(statistics)
    assert statistics.count == 10
