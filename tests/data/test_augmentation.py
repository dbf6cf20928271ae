"""Augmentation does what keras-cv does, from draws that are a function of (seed, step)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff import data
from tfdiff.data.augmentation import LAYERS, Augmentation
from tfdiff.errors import DataError


@pytest.fixture
def image_set():
    rng = np.random.RandomState(0)
    return data.ImageSet(rng.randint(0, 256, (13, 8, 8, 3)).astype(np.uint8), rng.randint(0, 4, 13))


@pytest.mark.parametrize("augment", [*LAYERS, tuple(LAYERS)], ids=str)
def test_batch_is_a_function_of_seed_and_step(image_set, augment):
    whole = data.batches(image_set, 5, seed=2, augment=augment)
    later = data.batches(image_set, 5, seed=2, augment=augment, start_step=4)
    other = data.batches(image_set, 5, seed=2)
    changed = False
    for (image, _), (later_image, _), (plain, _) in zip(
        itertools.islice(whole, 4, 8), later.take(4), itertools.islice(other, 4, 8), strict=True
    ):
        np.testing.assert_array_equal(image, later_image)
        assert np.abs(image).max() <= 1
        changed |= not np.allclose(image, plain, atol=1e-3)
    assert changed


def test_steps_and_seeds_draw_differently(image_set):
    image = tf.fill([64, 4, 4, 3], 0.5)
    brighten = [Augmentation(["brightness"], 3, seed) for seed in (0, 1)]
    draws = [
        augmentation(image, tf.constant(step, tf.int64)).numpy()[:, 0, 0, 0]
        for augmentation in brighten
        for step in (0, 1)
    ]
    assert len({draw.tobytes() for draw in draws}) == 4
    assert all(len(set(draw)) == 64 for draw in draws)


def test_two_layers_draw_independently():
    """Were the j-th draw of every layer the same, brightness up and brightness up again would move together."""
    augmentation = Augmentation({"brightness": {}, "contrast": {}}, 3, seed=0)
    image = tf.tile(tf.reshape([0.4, 0.6], [1, 2, 1, 1]), [500, 1, 1, 3])
    low, high = augmentation(image, tf.constant(0, tf.int64)).numpy()[:, :, 0, 0].T
    brightness, contrast = (low + high) / 2, high - low
    assert abs(np.corrcoef(brightness, contrast)[0, 1]) < 4 / np.sqrt(500)


def test_flip_mirrors_half_of_the_images():
    image = np.random.RandomState(0).uniform(size=(400, 4, 4, 1)).astype(np.float32)
    flipped = Augmentation(["flip"], 1, seed=0)(image, tf.constant(3, tf.int64)).numpy()
    same = (flipped == image).all((1, 2, 3))
    mirrored = (flipped == image[:, :, ::-1]).all((1, 2, 3))
    assert (same ^ mirrored).all()
    assert abs(mirrored.mean() - 0.5) < 4 * 0.5 / np.sqrt(400)


def test_brightness_has_keras_cvs_distribution():
    image = tf.fill([4000, 1, 1, 3], 0.5)
    shift = Augmentation({"brightness": {"factor": (-0.1, 0.3)}}, 3, 0)(image, tf.constant(0, tf.int64)).numpy() - 0.5
    shift = shift[:, 0, 0, 0]
    assert shift.min() >= -0.1 - 1e-6
    assert shift.max() <= 0.3 + 1e-6
    # Uniform on (-0.1, 0.3): mean 0.1, deviation 0.4 / √12.
    deviation = 0.4 / np.sqrt(12)
    assert abs(shift.mean() - 0.1) < 4 * deviation / np.sqrt(4000)
    assert abs(shift.std() - deviation) < 0.05 * deviation


@pytest.mark.parametrize(
    "augment",
    [
        {"translate": {"height_factor": 0.0, "width_factor": 0.0}},
        {"rotate": {"factor": 0.0}},
        {"brightness": {"factor": 0.0}},
        {"contrast": {"factor": 0.0}},
        {"hue": {"factor": 0.0}},
        {"saturation": {"factor": 0.5}},
        {"flip": {"rate": 0.0}},
        {},
    ],
    ids=str,
)
def test_augmentation_of_no_strength_changes_nothing(image_set, augment):
    if augment.get("saturation"):
        augment = {"saturation": {"factor": (0.5, 0.5)}}
    for (image, _), (plain, _) in zip(
        data.batches(image_set, 5, augment=augment).take(2), data.batches(image_set, 5).take(2), strict=True
    ):
        np.testing.assert_allclose(image, plain, atol=1e-5)


def test_translation_moves_by_whole_pixels_when_told_so(image_set):
    shifted = Augmentation(
        {"translate": {"height_factor": (0.25, 0.25), "width_factor": (0.0, 0.0), "fill_mode": "constant"}}, 3, 0
    )
    image = tf.constant(image_set.images, tf.float32) / 255
    expected = np.zeros(image.shape, np.float32)
    expected[:, 2:] = image[:, :-2]
    np.testing.assert_allclose(shifted(image, tf.constant(0, tf.int64)), expected, atol=1e-6)


def test_mixed_precision_does_not_reach_the_images(image_set):
    plain = next(iter(data.batches(image_set, 5, augment=["rotate", "contrast"])))
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        mixed = next(iter(data.batches(image_set, 5, augment=["rotate", "contrast"])))
    finally:
        keras.mixed_precision.set_global_policy(policy)
    np.testing.assert_array_equal(plain[0], mixed[0])


def test_defaults_may_be_written_as_null():
    image = tf.random.stateless_uniform([4, 8, 8, 3], [0, 0])
    step = tf.constant(0, tf.int64)
    null, empty, listed = (Augmentation(spec, 3, 0)(image, step) for spec in ({"zoom": None}, {"zoom": {}}, ["zoom"]))
    np.testing.assert_array_equal(null, empty)
    np.testing.assert_array_equal(null, listed)


@pytest.mark.parametrize(
    ("augment", "channels", "message"),
    [
        (["cutout"], 3, r"'cutout': choose from flip, translate"),
        ({"flip": {"modus": 1}}, 3, r"'flip' takes no 'modus': choose from mode, rate"),
        ({"flip": {"seed": 1}}, 3, "takes no 'seed'"),
        ({"contrast": {"value_range": (0, 255)}}, 3, "takes no 'value_range'"),
        ({"flip": {"mode": "diagonal"}}, 3, "'flip' refuses"),
        ({"translate": {"height_factor": 2.0}}, 3, "'translate' refuses"),
        (["hue"], 1, r"'hue' needs colour"),
    ],
)
def test_unusable_augmentation_is_refused(augment, channels, message):
    with pytest.raises(DataError, match=message):
        Augmentation(augment, channels, seed=0)
