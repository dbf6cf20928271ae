"""What judges pictures: used again for the same pictures, trained anew for others, refused where it cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdiff import data
from tfdiff.errors import DataError, UsageError
from tfdiff.pipelines.evaluation import yardstick
from tfdiff.pipelines.evaluation.yardstick import feature_network, make_yardstick, recognition_obstacle


def bars(count: int, labelled: bool = True, seed: int = 0) -> data.ImageSet:
    """Two classes that anyone tells apart: a bar on the left or on the right."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.int32) % 2
    images = rng.integers(0, 60, (count, 8, 8, 1), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 5 * label : 5 * label + 3] = 250
    return data.ImageSet(images, labels if labelled else None, ("left", "right") if labelled else None)


def modified(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_network_is_trained_once_for_the_same_pictures(tmp_path: Path) -> None:
    images, held_out = bars(60), bars(20, seed=1)
    first = make_yardstick(images, held_out, yardstick.OWN, tmp_path)
    assert first.recogniser is not None
    predicted = first.recogniser.predict(held_out.images.astype(np.float32) / 127.5 - 1)
    assert np.mean(predicted == held_out.labels) == 1
    assert first.statistics.mean.shape == (first.features.dimension,)
    before = modified(tmp_path)
    again = make_yardstick(images, held_out, yardstick.OWN, tmp_path)
    assert again.features.fingerprint == first.features.fingerprint
    assert modified(tmp_path) == before
    other = make_yardstick(bars(60, seed=2), held_out, yardstick.OWN, tmp_path)
    assert other.features.fingerprint != first.features.fingerprint
    unjudged = make_yardstick(images, held_out, yardstick.OWN, tmp_path, recognise=False)
    assert unjudged.recogniser is None


@pytest.mark.slow
def test_without_labels_a_network_learns_which_way_up_pictures_are(tmp_path: Path) -> None:
    images, held_out = bars(60, labelled=False), bars(20, labelled=False, seed=1)
    found = make_yardstick(images, held_out, yardstick.OWN, tmp_path)
    assert found.recogniser is None
    assert found.features.num_classes == 4
    assert (tmp_path / "orientation" / "data.json").exists()
    assert not (tmp_path / "recogniser").exists()


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (bars(60), None),
        (bars(60, labelled=False), "has no labels"),
        (data.ImageSet(bars(30).images, np.zeros(30, np.int32), ("left",)), "has one class, 'left'"),
        (
            data.ImageSet(bars(30).images, np.array([0] * 29 + [1], np.int32), ("left", "right")),
            "has 1 images of class 'right', fewer than",
        ),
    ],
    ids=["none", "labels", "classes", "images"],
)
def test_obstacles_to_recognition(images: data.ImageSet, expected: str | None) -> None:
    obstacle = recognition_obstacle(images)
    assert obstacle == expected if expected is None else obstacle is not None and obstacle.startswith(expected)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--features 'nowhere' does not exist"):
        feature_network("nowhere", bars(60), bars(20), tmp_path)
    with pytest.raises(DataError, match="has no labels, unlike"):
        feature_network(yardstick.OWN, bars(60), bars(20, labelled=False), tmp_path)
    assert not list(tmp_path.iterdir())
