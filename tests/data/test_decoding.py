"""Decoded pixels equal those that were written, or the file is refused with its reason."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageFile

from tfdiff.data.decoding import UnreadableImage, decode
from tfdiff.errors import DataError


@pytest.fixture
def colours():
    return np.random.RandomState(0).randint(0, 256, (9, 7, 3)).astype(np.uint8)


@pytest.fixture
def grey():
    return np.random.RandomState(1).randint(0, 256, (9, 7)).astype(np.uint8)


@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_lossless_colour_is_exact(tmp_path, colours, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(colours).save(path, lossless=True)
    np.testing.assert_array_equal(decode(path), colours)


def test_grey_keeps_one_channel(tmp_path, grey):
    Image.fromarray(grey).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), grey[..., None])


def test_jpeg_is_what_pillow_decodes(tmp_path, colours):
    Image.fromarray(colours).save(tmp_path / "a.jpg", quality=90)
    with Image.open(tmp_path / "a.jpg") as image:
        np.testing.assert_array_equal(decode(tmp_path / "a.jpg"), np.asarray(image))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(tmp_path, colours, orientation):
    # What a camera stores so that a viewer, following EXIF, shows `colours` again.
    stored = {
        1: colours,
        2: colours[:, ::-1],
        3: colours[::-1, ::-1],
        4: colours[::-1],
        5: colours.transpose(1, 0, 2),
        6: np.rot90(colours, 1),
        7: np.rot90(colours.transpose(1, 0, 2), 2),
        8: np.rot90(colours, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), colours)


def test_alpha_is_composited_over_white(tmp_path):
    pixels = np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [0, 0, 0, 51]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    # 51 / 255 is one fifth: black over white leaves four fifths of white.
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), [[[10, 20, 30], [255] * 3, [204] * 3]])


def test_grey_alpha_stays_grey(tmp_path):
    pixels = np.array([[[10, 255], [10, 0]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), [[[10], [255]]])


def test_transparent_colour_of_a_grey_png(tmp_path):
    Image.fromarray(np.array([[7, 8]], np.uint8)).save(tmp_path / "a.png", transparency=7)
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), [[[255], [8]]])


def test_palette_with_transparency(tmp_path):
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8))
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.save(tmp_path / "a.png", transparency=1)
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), [[[255, 0, 0], [255] * 3, [0, 0, 255]]])


def test_16_bit_grey_is_scaled_not_clipped(tmp_path, grey):
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), grey[..., None])


def test_16_bit_grey_with_a_transparent_value(tmp_path):
    Image.fromarray(np.array([[0, 257 * 9]], np.uint16)).save(tmp_path / "a.png", transparency=0)
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), [[[255], [9]]])


def test_1_bit_becomes_black_and_white(tmp_path):
    Image.fromarray(np.eye(5) > 0).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode(tmp_path / "a.png")[..., 0], np.eye(5) * 255)


def test_cmyk_jpeg_becomes_rgb(tmp_path):
    # Full cyan ink leaves no red, all green and all blue.
    Image.new("CMYK", (16, 16), (255, 0, 0, 0)).save(tmp_path / "a.jpg", quality=100)
    np.testing.assert_allclose(decode(tmp_path / "a.jpg").mean((0, 1)), [0, 255, 255], atol=2)


@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_first_frame_of_an_animation(tmp_path, suffix):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    path = tmp_path / f"a.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True, duration=100)
    np.testing.assert_array_equal(decode(path), np.broadcast_to([255, 0, 0], (8, 8, 3)))


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp"])
@pytest.mark.parametrize("fraction", [0.3, 0.9])
def test_truncated_file_is_refused(tmp_path, suffix, fraction):
    noise = np.random.RandomState(2).randint(0, 256, (64, 64, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, {"jpg": "jpeg"}.get(suffix, suffix))
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(buffer.getvalue()[: int(fraction * len(buffer.getvalue()))])
    with pytest.raises(UnreadableImage):
        decode(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty file"), (b"not a picture, but a text\n", "not a picture"), (None, "No such file")],
)
def test_reason_of_a_file_that_is_no_picture(tmp_path, content, reason):
    path = tmp_path / "a.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableImage, match=reason):
        decode(path)


def test_damaged_png_is_refused(tmp_path, colours):
    path = tmp_path / "a.png"
    Image.fromarray(colours).save(path)
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UnreadableImage):
        decode(path)


def test_accepting_truncated_files_globally_is_refused(tmp_path, colours, monkeypatch):
    Image.fromarray(colours).save(tmp_path / "a.png")
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(DataError, match="LOAD_TRUNCATED_IMAGES"):
        decode(tmp_path / "a.png")
