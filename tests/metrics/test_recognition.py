from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff.metrics import Recogniser

CLASS_NAMES = ("horizontal", "vertical", "chequered")


def patterns(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy 8×8 stripes, in three directions, at random phase: uint8 (count, 8, 8, 1) and their classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    rows, columns = np.mgrid[:8, :8]
    waves = np.stack([rows, columns, rows + columns])[labels] + rng.integers(0, 4, (count, 1, 1))
    images = 255 * (waves // 2 % 2) + rng.normal(0, 40, waves.shape)
    return np.clip(images, 0, 255).astype(np.uint8)[..., np.newaxis], labels


def to_float(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / 127.5 - 1


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    return Recogniser.train(*patterns(300, seed=0), class_names=CLASS_NAMES, epochs=6)


def test_it_recognises_what_it_has_not_seen(recogniser: Recogniser):
    images, labels = patterns(90, seed=1)
    assert recogniser.accuracy > 0.9
    assert recogniser.recognised(to_float(images), labels) > 0.9
    assert recogniser.recognised(to_float(images), (labels + 1) % 3) < 0.1


def test_the_score_is_the_share_of_matching_predictions(recogniser: Recogniser):
    images = to_float(patterns(300, seed=2)[0])
    predicted = recogniser.predict(images)
    asked = predicted.copy()
    asked[:75] = (asked[:75] + 1) % 3
    assert recogniser.recognised(images, predicted) == 1
    assert recogniser.recognised(images, asked) == 0.75
    # Beyond one batch, and the same one by one.
    np.testing.assert_array_equal(recogniser.predict(images[290:]), predicted[290:])


def test_labels_without_pattern_cannot_be_learned():
    """Accuracy is measured on images that were not trained on: on random labels it is chance."""
    images, labels = patterns(300, seed=0)
    shuffled = np.random.default_rng(0).permutation(labels)
    trained = Recogniser.train(images, shuffled, held_out=patterns(300, seed=3), epochs=3)
    assert trained.accuracy < 0.6


def test_same_seed_same_weights_whatever_the_global_state(recogniser: Recogniser):
    images, labels = patterns(60, seed=0)
    keras.utils.set_random_seed(1)
    first = Recogniser.train(images, labels, epochs=2, seed=5)
    keras.utils.set_random_seed(2)
    tf.random.uniform([])
    second = Recogniser.train(images, labels, epochs=2, seed=5)
    assert first.fingerprint == second.fingerprint
    assert Recogniser.train(images, labels, epochs=2, seed=6).fingerprint != first.fingerprint


def test_training_leaves_the_global_generators_alone():
    def draws(train: bool) -> list[float]:
        keras.utils.set_random_seed(3)
        if train:
            Recogniser.train(*patterns(60, seed=0), epochs=1)
        dense = keras.layers.Dense(1)
        dense.build((None, 1))
        return [float(dense.kernel[0, 0]), float(tf.random.uniform([])), np.random.rand(), random.random()]

    assert draws(train=True) == draws(train=False)


def test_precision_policy_does_not_matter():
    images, labels = patterns(60, seed=0)
    expected = Recogniser.train(images, labels, epochs=1).fingerprint
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        assert Recogniser.train(images, labels, epochs=1).fingerprint == expected
    finally:
        keras.mixed_precision.set_global_policy(policy)


def test_saved_and_loaded(recogniser: Recogniser, tmp_path: Any):
    recogniser.save(tmp_path / "new" / "recogniser")
    loaded = Recogniser.load(tmp_path / "new" / "recogniser")
    assert (loaded.class_names, loaded.accuracy) == (CLASS_NAMES, recogniser.accuracy)
    assert loaded.fingerprint == recogniser.fingerprint
    images = to_float(patterns(30, seed=4)[0])
    np.testing.assert_array_equal(loaded.predict(images), recogniser.predict(images))


def test_files_that_do_not_belong_together_are_refused(recogniser: Recogniser, tmp_path: Any):
    with pytest.raises(ValueError, match=r"has no recogniser\.keras"):
        Recogniser.load(tmp_path)
    recogniser.save(tmp_path)
    metadata = json.loads((tmp_path / "recogniser.json").read_text())
    (tmp_path / "recogniser.json").write_text(json.dumps({**metadata, "fingerprint": "0" * 64}))
    with pytest.raises(ValueError, match=r"is not what recogniser\.json describes"):
        Recogniser.load(tmp_path)


def test_progress_counts_epochs():
    seen: list[int] = []
    Recogniser.train(*patterns(90, seed=0), epochs=3, progress=seen.append)
    assert seen == [1, 1, 1]


IMAGES, LABELS = patterns(60, seed=0)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"labels": np.zeros(60, int)}, "there is one class, '0'"),
        ({"labels": np.where(np.arange(60) < 9, 1, 0)}, "class '1' has 9 images"),
        ({"labels": LABELS + 1}, "class '0' has 0 images"),
        ({"class_names": ("a", "b")}, r"labels must lie in 0\.\.1"),
        ({"labels": None}, "there are no labels"),
        ({"images": to_float(IMAGES)}, "images must be uint8"),
        ({"images": IMAGES[..., 0]}, "images must be uint8"),
        ({"labels": LABELS[:9]}, "labels must be 60 integers"),
        ({"held_out": (IMAGES[:, :4], LABELS)}, r"held_out: images are \(4, 8, 1\)"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"epochs": 0}, "epochs=0"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(arguments: dict[str, Any], found: str):
    with pytest.raises(ValueError, match=found):
        Recogniser.train(**{"images": IMAGES, "labels": LABELS, **arguments})


def nan_in_image_3() -> np.ndarray:
    images = to_float(IMAGES)
    images[3, 0, 0, 0] = np.nan
    return images


@pytest.mark.parametrize(
    ("images", "labels", "found"),
    [
        (to_float(IMAGES[:, :4]), LABELS, r"images have shape \(60, 4, 8, 1\)"),
        (to_float(IMAGES[:0]), LABELS[:0], r"images have shape \(0, 8, 8, 1\)"),
        (IMAGES, LABELS, "dtype uint8"),
        (IMAGES.astype(np.float32), LABELS, r"images lie in \[0, 255\]"),
        (nan_in_image_3(), LABELS, "first in image 3"),
        (to_float(IMAGES), LABELS[:9], "give 60 ints"),
        (to_float(IMAGES), LABELS.astype(float), "give 60 ints"),
        (to_float(IMAGES), LABELS - 1, "labels contain -1: give 0 to 2"),
    ],
)
def test_what_cannot_be_judged_is_refused(recogniser: Recogniser, images: np.ndarray, labels: np.ndarray, found: str):
    with pytest.raises(ValueError, match=found):
        recogniser.recognised(images, labels)
