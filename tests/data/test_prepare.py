"""Options, limits and the cache: the cache changes nothing but the time taken."""

from __future__ import annotations

import logging
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from tfdiff import data
from tfdiff.data import folder
from tfdiff.errors import DataError


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "pictures"
    for number in range(8):
        path = root / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.RandomState(number).randint(0, 256, (6, 6, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(path)
    return root


@pytest.fixture
def decoded(monkeypatch):
    """The files decoded so far."""
    files = []

    def decode(path):
        files.append(path)
        return original(path)

    original = folder.decode
    monkeypatch.setattr(folder, "decode", decode)
    return files


def assert_equal(first, second):
    np.testing.assert_array_equal(np.asarray(first.images), np.asarray(second.images))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.class_names == second.class_names
    assert first.skipped == second.skipped
    assert first.fingerprint == second.fingerprint
    assert first.name == second.name


def entries(cache_dir):
    return sorted(path.name for path in cache_dir.iterdir())


def test_cache_equals_no_cache(pictures, tmp_path, decoded):
    plain = data.prepare(pictures, image_size=6)
    built = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    assert len(decoded) == 16
    found = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    assert len(decoded) == 16
    assert isinstance(found.images, np.memmap)
    assert_equal(plain, built)
    assert_equal(plain, found)


def test_cache_of_a_source_with_damage(pictures, tmp_path, decoded):
    (pictures / "a" / "2.png").write_bytes(b"")
    plain = data.prepare(pictures, image_size=6)
    for _ in range(2):
        cached = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
        assert_equal(plain, cached)
        assert len(cached) == 7
    with pytest.raises(DataError, match=r"2\.png: empty file"):
        data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache", strict=True)
    assert len(decoded) == 16


@pytest.mark.parametrize("change", [{"image_size": 5}, {"channels": 1}, {"resize": "pad"}, {"limit": 3}])
def test_other_options_are_another_entry(pictures, tmp_path, change):
    options = {"image_size": 6, "cache_dir": tmp_path / "cache"}
    data.prepare(pictures, **options)
    changed = data.prepare(pictures, **(options | change))
    assert len(entries(tmp_path / "cache")) == 2
    assert_equal(changed, data.prepare(pictures, **({"image_size": 6} | change)))


def test_changed_picture_is_another_entry(pictures, tmp_path):
    before = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    path = pictures / "a" / "0.png"
    Image.new("RGB", (6, 6), "red").save(path)
    os.utime(path, ns=(1, 1))
    after = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(after.images[0, 0, 0], [255, 0, 0])
    assert before.fingerprint != after.fingerprint


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["images.npy", "labels.npy", "set.json"])
@pytest.mark.parametrize("damage", [cut, flip_a_bit, os.remove, lambda path: path.write_bytes(b"")])
def test_damaged_cache_is_made_anew(pictures, tmp_path, name, damage, caplog):
    plain = data.prepare(pictures, image_size=6)
    data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    (entry,) = (tmp_path / "cache").iterdir()
    damage(entry / name)
    with caplog.at_level(logging.WARNING, logger="tfdiff"):
        again = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    assert "damaged" in caplog.text
    assert_equal(plain, again)
    assert entries(tmp_path / "cache") == [entry.name]


def test_failed_preparation_leaves_nothing(pictures, tmp_path):
    for path in pictures.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match="nothing is left"):
        data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache")
    assert entries(tmp_path / "cache") == []


def test_cached_images_train_after_a_split(pictures, tmp_path):
    sets = [data.prepare(pictures, image_size=6, cache_dir=cache) for cache in (None, tmp_path / "cache")]
    streams = [data.batches(image_set.split(0.25)[0], 4, seed=1).take(5) for image_set in sets]
    for (ours, our_label), (theirs, their_label) in zip(*streams, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(our_label, their_label)


def test_entry_finished_meanwhile_by_another_process_is_used(pictures, tmp_path, monkeypatch):
    finished = data.prepare(pictures, image_size=6, cache_dir=tmp_path / "other")
    (other,) = (tmp_path / "other").iterdir()
    original = os.replace

    def replace(source, target):
        shutil.copytree(other, target)
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert_equal(data.prepare(pictures, image_size=6, cache_dir=tmp_path / "cache"), finished)
    assert entries(tmp_path / "cache") == [other.name]


def test_limit_keeps_classes_balanced():
    image_set = data.prepare("mnist", image_size=28, limit=50)
    np.testing.assert_array_equal(np.bincount(image_set.labels), [5] * 10)


def test_limit_beyond_the_source_is_the_source(pictures):
    assert_equal(data.prepare(pictures, image_size=6, limit=99), data.prepare(pictures, image_size=6))


@pytest.mark.parametrize("change", [{"limit": 0}, {"image_size": 0}, {"channels": 2}, {"resize": "fill"}])
def test_bad_options_are_named(pictures, change):
    (name,) = change
    with pytest.raises(DataError, match=name):
        data.prepare(pictures, **({"image_size": 6} | change))
