"""The resize rules touch no pixel they need not touch."""

from __future__ import annotations

import numpy as np
import pytest

from tfdiff.data.resizing import check_options, fit
from tfdiff.errors import DataError


def noise(*shape):
    return np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("rule", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("channels", [1, 3])
def test_right_size_is_left_alone(rule, channels):
    image = noise(16, 16, channels)
    np.testing.assert_array_equal(fit(image, 16, channels, rule), image)


def test_pad_adds_background_around_exact_pixels():
    image = noise(28, 28, 1)
    image[[0, -1], :] = image[:, [0, -1]] = 9
    padded = fit(image, 32, 1, "pad")
    np.testing.assert_array_equal(padded, np.pad(image, ((2, 2), (2, 2), (0, 0)), constant_values=9))


def test_pad_enlarges_by_whole_factors():
    white = np.full((28, 28, 1), 255, np.uint8)
    white[[0, -1], :] = white[:, [0, -1]] = 0
    padded = fit(white, 63, 1, "pad")[..., 0]
    rows = np.flatnonzero(padded.max(1) > 128)
    # Twice the 26 white rows; three times would not fit.
    assert len(rows) == 52


def test_pad_keeps_the_aspect_ratio_when_shrinking():
    image = np.zeros((40, 80, 3), np.uint8)
    image[1:-1, 1:-1] = 255
    fitted = fit(image, 20, 3, "pad")
    bright = fitted[..., 0] > 128
    assert bright.any(0).sum() == 20
    assert bright.any(1).sum() == 10


def test_crop_takes_the_centre():
    image = noise(10, 16, 3)
    np.testing.assert_array_equal(fit(image, 10, 3, "crop"), image[:, 3:13])


def test_stretch_uses_the_whole_image():
    image = np.repeat(np.array([0, 255], np.uint8), 20)[None, :, None].repeat(10, 0)
    stretched = fit(image, 4, 1, "stretch")[..., 0]
    np.testing.assert_allclose(stretched, np.tile([0, 0, 255, 255], (4, 1)), atol=20)  # Lanczos rings at the edge


@pytest.mark.parametrize("rule", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("size", [5, 24, 100])
def test_constant_stays_constant(rule, size):
    np.testing.assert_array_equal(fit(np.full((24, 17, 3), 77, np.uint8), size, 3, rule), np.full((size, size, 3), 77))


def test_very_thin_image():
    assert fit(noise(2, 500, 3), 16, 3, "pad").shape == (16, 16, 3)


def test_grey_to_colour_repeats():
    image = noise(8, 8, 1)
    np.testing.assert_array_equal(fit(image, 8, 3, "crop"), np.concatenate([image] * 3, -1))


def test_colour_to_grey_is_luminance():
    image = noise(8, 8, 3)
    expected = image @ np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
    np.testing.assert_allclose(fit(image, 8, 1, "crop")[..., 0], expected, atol=1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 3, "crop"), "image_size"),
        ((8.0, 3, "crop"), "image_size"),
        ((8, 4, "crop"), "channels"),
        ((8, 3, "squash"), "resize"),
    ],
)
def test_bad_options_are_named(arguments, name):
    with pytest.raises(DataError, match=name):
        check_options(*arguments)
