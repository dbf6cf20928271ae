"""Feature networks: what they give, what they refuse, and a hash that follows what shapes the features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff import data
from tfdiff.errors import DataError, ModelError, UsageError
from tfdiff.metrics import Recogniser, keras_features, orientation_set, recogniser_features

PICTURES = np.random.default_rng(0).integers(0, 256, (5, 12, 12, 3), np.uint8)


def tiny_network(size: int | None = 8, channels: int = 3) -> keras.Model:
    keras.utils.set_random_seed(1)
    image = keras.Input((size, size, channels))
    return keras.Model(image, keras.layers.Conv2D(4, 3, name="conv")(image), name="tiny")


def test_keras_features_are_the_models() -> None:
    model = tiny_network()
    network = keras_features(model)
    resized = tf.image.resize(PICTURES.astype(np.float32), (8, 8), antialias=True) / 127.5 - 1
    expected = np.mean(model(resized), axis=(1, 2))
    assert network.dimension == 4
    assert network.num_classes is None
    np.testing.assert_allclose(network.features(PICTURES), expected, rtol=1e-4, atol=1e-5)
    (maps,) = network.maps(PICTURES)
    np.testing.assert_allclose(maps, model(resized), rtol=1e-4, atol=1e-5)


def test_files_give_what_the_model_gives(tmp_path: Path) -> None:
    model = tiny_network()
    expected = keras_features(model)
    model.save(tmp_path / "model.keras")
    loaded = keras_features(tmp_path / "model.keras")
    assert loaded.fingerprint == expected.fingerprint
    assert loaded.name == "model.keras"
    np.testing.assert_allclose(loaded.features(PICTURES), expected.features(PICTURES), rtol=1e-5)
    model.export(tmp_path / "saved")
    saved = keras_features(tmp_path / "saved")
    np.testing.assert_allclose(saved.features(PICTURES), expected.features(PICTURES), rtol=1e-4, atol=1e-5)


def test_hash_follows_weights_and_preprocessing() -> None:
    model = tiny_network()
    found = {keras_features(model).fingerprint, keras_features(model, value_range=(0.0, 1.0)).fingerprint}
    model.get_layer("conv").bias.assign_add([0.0, 0.0, 0.0, 1e-3])
    found.add(keras_features(model).fingerprint)
    assert len(found) == 3


def test_grey_pictures_are_repeated_for_a_network_of_colour() -> None:
    network = keras_features(tiny_network())
    grey = PICTURES[..., :1]
    np.testing.assert_array_equal(network.features(grey), network.features(np.repeat(grey, 3, axis=-1)))
    with pytest.raises(DataError, match="the pictures are colour, but tiny takes grey"):
        keras_features(tiny_network(channels=1)).features(PICTURES)


def test_refuses_what_is_no_feature_network(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        keras_features(tmp_path / "none.keras")
    (tmp_path / "broken.keras").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"broken\.keras cannot be loaded"):
        keras_features(tmp_path / "broken.keras")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "saved_model.pb").touch()
    with pytest.raises(ModelError, match="is no SavedModel with a signature"):
        keras_features(tmp_path / "empty")
    vector = keras.Input((3,))
    with pytest.raises(ModelError, match="must take images"):
        keras_features(keras.Model(vector, keras.layers.Dense(2)(vector)))
    with pytest.raises(UsageError, match="layer='x' is not in 'tiny'"):
        keras_features(tiny_network(), layer="x")
    with pytest.raises(DataError, match=r"floats in .* become pictures with training.to_uint8"):
        keras_features(tiny_network()).features(PICTURES / 255)


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    images = data.prepare("digits", image_size=8, channels=1, limit=300)
    return Recogniser.train(images.images, images.labels, epochs=1)


def test_recogniser_features_lead_to_its_classes(recogniser: Recogniser) -> None:
    digits = np.asarray(data.prepare("digits", image_size=8, channels=1, limit=40).images)
    network = recogniser_features(recogniser)
    features, probabilities = network.features_and_probabilities(digits)
    assert probabilities is not None
    assert features.shape == (40, network.dimension)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), recogniser.predict(digits / 127.5 - 1))
    head = recogniser.network.get_layer("logits")
    np.testing.assert_allclose(tf.nn.softmax(head(features)), probabilities, rtol=1e-4, atol=1e-6)
    assert [maps.shape[0] for maps in network.maps(digits)] == [40] * 3
    assert network.fingerprint == recogniser.fingerprint
    with pytest.raises(DataError, match="the pictures are 12×12, but a classifier of the real pictures takes 8×8"):
        network.features(PICTURES[..., :1])


def test_orientations_are_quarter_turns() -> None:
    images = data.ImageSet(np.arange(2 * 9, dtype=np.uint8).reshape(2, 3, 3, 1))
    turned = orientation_set(images)
    assert turned.labels is not None
    assert turned.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert turned.class_names == ("0°", "90°", "180°", "270°")
    for index, label in enumerate(turned.labels):
        np.testing.assert_array_equal(turned.images[index], np.rot90(images.images[index % 2], label))
    with pytest.raises(DataError, match="not square"):
        orientation_set(data.ImageSet(np.zeros((2, 3, 4, 1), np.uint8)))
