"""Splits are disjoint, complete, stratified and repeatable; fingerprints follow content."""

from __future__ import annotations

import numpy as np
import pytest

from tfdiff.data import ImageSet
from tfdiff.errors import DataError


def numbered(labels=None, count=None):
    """Images whose first pixel is their number."""
    count = len(labels) if labels is not None else count
    images = np.zeros((count, 2, 2, 1), np.uint8)
    images[:, 0, 0, 0] = np.arange(count)
    return ImageSet(images, None if labels is None else np.asarray(labels))


def numbers(image_set):
    return np.asarray(image_set.images)[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("labels", [None, [0] * 50 + [1] * 30 + [2] * 20])
def test_split_is_a_partition(labels):
    train, validation = numbered(labels, 100).split(0.2, seed=3)
    assert len(validation) == 20
    assert sorted(numbers(train) + numbers(validation)) == list(range(100))


def test_split_is_stratified():
    train, validation = numbered(np.random.RandomState(0).permutation([0] * 50 + [1] * 30 + [2] * 20)).split(0.1)
    np.testing.assert_array_equal(np.bincount(validation.labels), [5, 3, 2])
    np.testing.assert_array_equal(np.bincount(train.labels), [45, 27, 18])


def test_split_has_the_asked_size_when_classes_do_not_divide():
    _, validation = numbered(np.arange(100) % 7).split(0.25)
    assert len(validation) == 25
    # 14 or 15 images in a class: a quarter is three or four of each.
    assert set(np.bincount(validation.labels)) <= {3, 4}


def test_split_keeps_images_and_labels_together():
    labels = np.random.RandomState(1).randint(0, 5, 60)
    for part in numbered(labels).split(0.3):
        np.testing.assert_array_equal(part.labels, labels[numbers(part)])
        assert part.class_names == ("0", "1", "2", "3", "4")


def test_split_depends_on_the_seed_alone():
    whole = numbered(np.arange(100) % 4)
    first, again, other = (whole.split(0.2, seed=seed)[1] for seed in (1, 1, 2))
    assert numbers(first) == numbers(again)
    assert first.fingerprint == again.fingerprint
    assert numbers(first) != numbers(other)
    assert first.fingerprint != other.fingerprint


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, 0.001, 0.999])
def test_split_that_leaves_nothing_is_refused(fraction):
    with pytest.raises(DataError, match=r"validation_fraction.*100 images"):
        numbered(count=100).split(fraction)


def test_split_of_mapped_images_reads_nothing_and_equals_the_split_in_memory(tmp_path):
    memory = numbered(np.arange(90) % 3)
    np.save(tmp_path / "a.npy", memory.images)
    mapped = ImageSet(np.load(tmp_path / "a.npy", mmap_mode="r"), memory.labels)
    for ours, theirs in zip(mapped.split(0.2), memory.split(0.2), strict=True):
        assert not isinstance(ours.images, np.ndarray)
        assert ours.images.shape == theirs.images.shape
        np.testing.assert_array_equal(ours.images[3:7], theirs.images[3:7])
        np.testing.assert_array_equal(ours.images[np.array([5, 0])], theirs.images[[5, 0]])
    again = [part.split(0.5)[0] for part in (mapped.split(0.2)[0], memory.split(0.2)[0])]
    assert numbers(again[0]) == numbers(again[1])


def test_fingerprint_follows_content():
    base = numbered([0, 1, 1])
    assert base.fingerprint == numbered([0, 1, 1]).fingerprint
    assert base.fingerprint != numbered([0, 1, 0]).fingerprint
    assert base.fingerprint != ImageSet(base.images + 1, base.labels).fingerprint
    assert base.fingerprint != ImageSet(base.images, base.labels, ("a", "b")).fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((3, 2, 2, 1), np.float32)}, "float32"),
        ({"images": np.zeros((3, 2, 2), np.uint8)}, r"\(3, 2, 2\)"),
        ({"images": np.zeros((3, 2, 2, 4), np.uint8)}, r"\(3, 2, 2, 4\)"),
        ({"images": np.zeros((0, 2, 2, 1), np.uint8)}, "N >= 1"),
        ({"labels": np.array([0, 1])}, "3 integers"),
        ({"labels": np.array([0.0, 1.0, 1.0])}, "float64"),
        ({"labels": np.array([0, -1, 1])}, r"-1\.\.1"),
        ({"labels": np.array([0, 2, 1]), "class_names": ("a", "b")}, r"0\.\.1"),
        ({"labels": None, "class_names": ("a", "b")}, "without labels"),
    ],
)
def test_unusable_arrays_are_refused(change, message):
    arguments = {"images": np.zeros((3, 2, 2, 1), np.uint8), "labels": np.array([0, 1, 1])} | change
    with pytest.raises(DataError, match=message):
        ImageSet(**arguments)
