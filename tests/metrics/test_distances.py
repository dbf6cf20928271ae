"""Distances against closed forms and against the plainest computation of their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from sklearn.neighbors import NearestNeighbors

from tfdiff.errors import DataError
from tfdiff.metrics import (
    FeatureStatistics,
    frechet_distance,
    inception_score,
    kernel_distance,
    precision_recall_density_coverage,
    subset_kernel_distance,
)

GENERATOR = np.random.default_rng(1)


def with_moments(mean: np.ndarray, covariance: np.ndarray, count: int = 200) -> FeatureStatistics:
    """Features of exactly this mean and covariance."""
    raw = GENERATOR.standard_normal((count, len(mean)))
    raw -= raw.mean(axis=0)
    white = raw @ np.linalg.inv(np.linalg.cholesky(np.cov(raw.T))).T
    return FeatureStatistics.of(mean + white @ np.linalg.cholesky(covariance).T)


def test_frechet_distance_of_two_gaussians() -> None:
    """Of commuting covariances it is |μ − μ'|² + Σ (s − s')²."""
    s, t = np.array([1.0, 2.0, 0.5]), np.array([2.0, 2.0, 3.0])
    a = with_moments(np.array([1.0, 0.0, 2.0]), np.diag(s**2))
    b = with_moments(np.array([0.0, 3.0, 2.0]), np.diag(t**2))
    assert frechet_distance(a, b).value == pytest.approx(1 + 9 + np.sum((s - t) ** 2), rel=1e-9)
    assert frechet_distance(a, a).value == pytest.approx(0, abs=1e-9)


def test_frechet_distance_is_the_usual_formula() -> None:
    x, y = GENERATOR.standard_normal((300, 8)) @ GENERATOR.standard_normal((8, 8)), GENERATOR.standard_normal((200, 8))
    a, b = np.cov(x.T), np.cov(y.T)
    root = linalg.sqrtm(a @ b).real
    expected = np.sum((x.mean(0) - y.mean(0)) ** 2) + np.trace(a + b - 2 * root)
    found = frechet_distance(FeatureStatistics.of(x), FeatureStatistics.of(y))
    assert found.value == pytest.approx(expected, rel=1e-9)
    member = np.arange(200) % 10
    for group, replicate in enumerate(found.replicates):
        part = FeatureStatistics.of(y[member != group])
        assert replicate == pytest.approx(frechet_distance(FeatureStatistics.of(x), part).value, rel=1e-9)


def test_intervals_hold_the_true_value_as_often_as_they_say() -> None:
    """Of KID, which is unbiased: equal distributions have 0."""
    hits = 0
    for _ in range(100):
        a, b = (FeatureStatistics.of(GENERATOR.standard_normal((n, 4))) for n in (400, 100))
        low, high = kernel_distance(a, b).interval or (1, 1)
        hits += low <= 0 <= high
    # The reference is held fixed, which widens nothing for its own chance: a little below 95.
    assert hits >= 85


def test_kernel_distance_is_its_definition() -> None:
    x, y = GENERATOR.standard_normal((50, 3)), GENERATOR.standard_normal((40, 3)) + 0.5

    def expected(x: np.ndarray, y: np.ndarray) -> float:
        k = lambda a, b: (a @ b.T / 3 + 1) ** 3  # noqa: E731
        own = [(k(a, a).sum() - np.trace(k(a, a))) / (len(a) * (len(a) - 1)) for a in (x, y)]
        return float(sum(own) - 2 * k(x, y).mean())

    x, y = x.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)
    found = kernel_distance(FeatureStatistics.of(x), FeatureStatistics.of(y, groups=4, block=3))
    assert found.value == pytest.approx(expected(x, y), rel=1e-9)
    member = np.arange(40) // 3 % 4
    assert found.replicates == pytest.approx([expected(x, y[member != g]) for g in range(4)], rel=1e-9)
    # One subset of all images is the same number.
    subset = subset_kernel_distance(FeatureStatistics.of(x[:40]), FeatureStatistics.of(y), subsets=3, subset_size=999)
    assert (subset.subsets, subset.subset_size) == (3, 40)
    assert subset.mean == pytest.approx(expected(x[:40], y), rel=1e-9)
    assert subset.standard_deviation == pytest.approx(0, abs=1e-9)


def test_neighbours_are_scikit_learns() -> None:
    x, y = GENERATOR.standard_normal((60, 3)), GENERATOR.standard_normal((50, 3)) * 0.7
    x, y = x.astype(np.float32), y.astype(np.float32)
    k = 4

    def radii(points: np.ndarray) -> np.ndarray:
        return NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points)[0][:, k]

    between = np.linalg.norm(x[:, np.newaxis].astype(np.float64) - y[np.newaxis], axis=-1)
    inside = between <= radii(x)[:, np.newaxis]
    found = precision_recall_density_coverage(FeatureStatistics.of(x), FeatureStatistics.of(y), neighbours=k)
    assert found.precision.value == pytest.approx(inside.any(axis=0).mean())
    assert found.recall.value == pytest.approx((between <= radii(y)).any(axis=1).mean())
    assert found.density.value == pytest.approx(inside.sum(axis=0).mean() / k)
    assert found.coverage.value == pytest.approx((between.min(axis=1) <= radii(x)).mean())
    member = np.arange(50) % 10
    for group in range(10):
        rest = member != group
        assert found.precision.replicates[group] == pytest.approx(inside.any(axis=0)[rest].mean())
        assert found.coverage.replicates[group] == pytest.approx(inside[:, rest].any(axis=1).mean())


def test_inception_score_of_sure_and_unsure_classifiers() -> None:
    features = np.zeros((400, 1))
    # Each group holds whole rounds of the classes.
    sure = FeatureStatistics.of(features, np.eye(4)[np.arange(400) % 4], block=4)
    assert inception_score(sure).value == pytest.approx(4)
    unsure = FeatureStatistics.of(features, np.full((400, 4), 0.25))
    assert inception_score(unsure).value == pytest.approx(1)
    p = GENERATOR.dirichlet(np.ones(4), 400)
    splits = [p[np.arange(400) % 10 == group] for group in range(10)]
    scores = [np.exp(np.mean(np.sum(s * np.log(s / s.mean(axis=0)), axis=1))) for s in splits]
    assert inception_score(FeatureStatistics.of(features, p)).value == pytest.approx(np.mean(scores))


def test_too_few_images_for_the_features() -> None:
    few, many = (
        FeatureStatistics.of(GENERATOR.standard_normal((20, 30))),
        FeatureStatistics.of(GENERATOR.standard_normal((50, 30))),
    )
    with pytest.raises(DataError, match=r"FID over 30 features needs at least 31 images on each side.*use KID"):
        frechet_distance(many, few)
    assert np.isfinite(kernel_distance(many, few).value)
    with pytest.raises(DataError, match="neighbours=20 needs more images"):
        precision_recall_density_coverage(many, few, neighbours=20)


def test_features_of_two_networks() -> None:
    a, b = (FeatureStatistics.of(GENERATOR.standard_normal((50, d))) for d in (3, 4))
    for distance in (frechet_distance, kernel_distance, precision_recall_density_coverage):
        with pytest.raises(DataError, match="3 and 4 features: measure both with one network"):
            distance(a, b)
