"""Folders: classes from sub-folders, unreadable files named, ambiguous layouts refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from PIL import Image

from tfdiff import data
from tfdiff.errors import DataError


def save(path, value, size=8):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), (value,) * 3).save(path)


@pytest.fixture
def animals(tmp_path):
    """Grey values 10.. in class zebra, 20.. in class ant."""
    for number in range(3):
        save(tmp_path / "zebra" / f"{number}.png", 10 + number)
        save(tmp_path / "ant" / "deep" / f"{number}.PNG", 20 + number)
    return tmp_path


def test_classes_are_the_sorted_sub_folders(animals):
    image_set = data.prepare(animals, image_size=8)
    assert image_set.class_names == ("ant", "zebra")
    np.testing.assert_array_equal(image_set.labels, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(image_set.images[:, 0, 0, 0], [20, 21, 22, 10, 11, 12])
    assert image_set.images.shape == (6, 8, 8, 3)


def test_loose_images_have_no_labels(tmp_path):
    for number in (2, 0, 1):
        save(tmp_path / f"{number}.webp", 50 * number, size=16)
    image_set = data.prepare(str(tmp_path), image_size=16)
    assert image_set.labels is None
    assert image_set.num_classes is None
    np.testing.assert_allclose(image_set.images.mean((1, 2, 3)), [0, 50, 100], atol=2)


def test_hidden_and_foreign_files_are_ignored(animals):
    (animals / ".DS_Store").write_bytes(b"x")
    (animals / "zebra" / "._0.png").write_bytes(b"x")
    (animals / "zebra" / "notes.txt").write_text("x")
    save(animals / ".thumbnails" / "a.png", 0)
    assert len(data.prepare(animals, image_size=8, strict=True)) == 6


def test_loose_images_beside_classes_are_refused(animals):
    save(animals / "lost.png", 0)
    with pytest.raises(DataError, match=r"lost\.png.*ant, zebra"):
        data.prepare(animals, image_size=8)


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no image"):
        data.prepare(tmp_path, image_size=8)


def test_empty_class_is_refused(animals):
    (animals / "bee").mkdir()
    with pytest.raises(DataError, match="bee"):
        data.prepare(animals, image_size=8)


@pytest.fixture
def with_damage(animals):
    whole = (animals / "ant" / "deep" / "1.PNG").read_bytes()
    (animals / "ant" / "deep" / "1.PNG").write_bytes(whole[: len(whole) // 2])
    (animals / "zebra" / "0.png").write_bytes(b"")
    return animals


def test_unreadable_images_are_named_and_left_out(with_damage, caplog):
    with caplog.at_level(logging.WARNING, logger="tfdiff"):
        image_set = data.prepare(with_damage, image_size=8)
    np.testing.assert_array_equal(image_set.images[:, 0, 0, 0], [20, 22, 11, 12])
    np.testing.assert_array_equal(image_set.labels, [0, 0, 1, 1])
    truncated, empty = image_set.skipped
    assert truncated.path == str(with_damage / "ant" / "deep" / "1.PNG")
    assert empty == (str(with_damage / "zebra" / "0.png"), "empty file")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert all(path in warning for (path, _), warning in zip(image_set.skipped, warnings, strict=True))


def test_strict_refuses_and_counts(with_damage):
    with pytest.raises(DataError, match=r"2 of 6 images cannot be read .*1\.PNG.*0\.png: empty file"):
        data.prepare(with_damage, image_size=8, strict=True)


def test_nothing_readable_is_refused(tmp_path):
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(DataError, match=r"1 of 1 .*a\.png: not a picture"):
        data.prepare(tmp_path, image_size=8)


def test_more_images_than_are_decoded_at_once_keep_their_order(tmp_path):
    for number in range(150):
        save(tmp_path / f"{number:03}.png", number, size=4)
    image_set = data.prepare(tmp_path, image_size=4)
    np.testing.assert_array_equal(image_set.images[:, 0, 0, 0], np.arange(150))
