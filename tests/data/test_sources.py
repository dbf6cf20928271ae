"""Names resolve to sources; built-in sets and .npz files come out pixel by pixel, or are refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tfdiff import data
from tfdiff.errors import DataError


def test_mnist_at_32_is_mnist_with_a_border():
    original = data.prepare("mnist", image_size=28)
    padded = data.prepare("mnist", image_size=32)
    assert original.images.shape == (5000, 28, 28, 1)
    np.testing.assert_array_equal(np.bincount(original.labels), [500] * 10)
    np.testing.assert_array_equal(padded.images, np.pad(original.images, ((0, 0), (2, 2), (2, 2), (0, 0))))


def test_digits_at_8_are_exact():
    image_set = data.prepare("digits", image_size=8)
    np.testing.assert_array_equal(np.rint(image_set.images[..., 0] / 255 * 16), load_digits().images)
    np.testing.assert_array_equal(image_set.labels, load_digits().target)
    assert image_set.class_names == tuple("0123456789")


def test_unknown_name_says_what_would_work():
    with pytest.raises(DataError, match=r"'cifar'.*digits, mnist.*folder.*\.npz.*tfds:"):
        data.prepare("cifar", image_size=8)


@pytest.fixture
def pixels():
    images = np.random.RandomState(0).randint(0, 256, (5, 6, 6, 3)).astype(np.uint8)
    images[0, 0, 0] = 0, 128, 255
    return images


@pytest.mark.parametrize(
    "encode",
    [
        lambda pixels: pixels,
        lambda pixels: pixels / 255,
        lambda pixels: (pixels / 255).astype(np.float32),
        lambda pixels: (pixels / 255).astype(np.float16),
        lambda pixels: (pixels / 127.5 - 1).astype(np.float32),
    ],
    ids=["uint8", "float64", "float32", "float16", "signed"],
)
def test_npz_gives_the_pixels_back(tmp_path, pixels, encode):
    np.savez(tmp_path / "a.npz", images=encode(pixels))
    image_set = data.prepare(tmp_path / "a.npz", image_size=6)
    np.testing.assert_array_equal(image_set.images, pixels)
    assert image_set.labels is None


def test_npz_labels_and_names(tmp_path, pixels):
    np.savez(tmp_path / "a.npz", images=pixels[..., 0], labels=np.array([1, 0, 1, 1, 0]), class_names=["cat", "dog"])
    image_set = data.prepare(tmp_path / "a.npz", image_size=6)
    np.testing.assert_array_equal(image_set.images, pixels[..., :1])
    np.testing.assert_array_equal(image_set.labels, [1, 0, 1, 1, 0])
    assert image_set.labels.dtype == np.int32
    assert image_set.class_names == ("cat", "dog")


def with_value(value):
    images = np.full((2, 4, 4), 0.5, np.float32)
    images[1, 2, 3] = value
    return images


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros((2, 4, 4), np.uint8)}, "'images', found pictures"),
        ({"images": with_value(np.nan)}, "1 values that are NaN"),
        ({"images": with_value(np.inf)}, "NaN or infinite"),
        ({"images": with_value(255)}, r"\[-1, 1\], found 0.5 to 255"),
        ({"images": with_value(-1.5)}, "found -1.5 to 0.5"),
        ({"images": np.zeros((2, 4, 4), np.int64)}, "found int64"),
        ({"images": np.zeros((2, 4, 4), bool)}, "found bool"),
        ({"images": np.zeros((2, 3, 4, 4), np.uint8)}, r"channels last, found \(2, 3, 4, 4\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8)}, r"found \(0, 4, 4, 1\)"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.zeros(3, int)}, "2 integers"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.array([0.0, 0.5])}, "found float64"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.array([0, 2]), "class_names": ["a", "b"]}, "0..1"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "class_names": ["a"]}, "without labels"),
    ],
)
def test_unusable_npz_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=rf"a\.npz.*{message}"):
        data.prepare(tmp_path / "a.npz", image_size=4)


class Bomb:
    """Tells, when it is unpickled, that it was."""

    def __reduce__(self):
        return (_explode, ())


def _explode():
    raise AssertionError("a pickle was loaded")


@pytest.mark.parametrize("key", ["images", "labels"])
def test_objects_are_never_unpickled(tmp_path, key):
    arrays = {"images": np.zeros((2, 4, 4), np.uint8), key: np.array([Bomb(), Bomb()], object)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match="plain arrays"):
        data.prepare(tmp_path / "a.npz", image_size=4)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut short"])
def test_file_that_is_no_npz_is_refused(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"not an \.npz file"):
        data.prepare(tmp_path / "a.npz", image_size=4)


def test_damaged_npz_is_refused(tmp_path, pixels):
    np.savez_compressed(tmp_path / "a.npz", images=pixels)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[200] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"not an \.npz file"):
        data.prepare(tmp_path / "a.npz", image_size=4)


def test_single_array_is_refused(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(DataError, match="single array"):
        data.prepare(tmp_path / "a.npz", image_size=4)


def test_missing_npz_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        data.prepare(tmp_path / "a.npz", image_size=4)
