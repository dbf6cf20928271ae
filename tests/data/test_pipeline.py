"""Every image once an epoch, batch k a function of (seed, k), shapes static."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfdiff import data
from tfdiff.errors import DataError


def numbered(count, labelled=True):
    """Image n has n as its first pixel, and as its label."""
    images = np.full((count, 4, 4, 1), 255, np.uint8)
    images[:, 0, 0, 0] = np.arange(count)
    return data.ImageSet(images, np.arange(count) if labelled else None)


def order(image_set, batch_size, number, **options):
    """The numbers of the images in the first `number` positions of the stream."""
    stream = data.batches(image_set, batch_size, **options).take(-(-number // batch_size))
    return np.concatenate([label for _, label in stream.as_numpy_iterator()])[:number]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 254, 255])
def test_pixels_come_out_in_minus_one_to_one(value):
    images = data.ImageSet(np.full((2, 4, 4, 3), value, np.uint8))
    (batch,) = data.batches(images, 2).take(1)
    np.testing.assert_allclose(batch, value / 127.5 - 1, atol=1e-7)
    np.testing.assert_array_equal(np.rint((batch.numpy() + 1) * 127.5), images.images)


def test_labels_stay_with_their_images():
    for image, label in data.batches(numbered(50), 8).take(20):
        np.testing.assert_array_equal(np.rint((image.numpy()[:, 0, 0, 0] + 1) * 127.5), label)


@pytest.mark.parametrize("batch_size", [1, 7, 10, 32, 64])
@pytest.mark.parametrize("count", [1, 2, 23, 32])
def test_every_epoch_holds_every_image_once(count, batch_size):
    epochs = order(numbered(count), batch_size, 5 * count).reshape(5, count)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(count), (5, 1)))


def test_order_does_not_depend_on_the_batch_size():
    np.testing.assert_array_equal(order(numbered(23), 5, 100), order(numbered(23), 64, 100))


def test_no_two_epochs_and_no_two_seeds_share_an_order():
    count, epochs = 20, 600
    seen = {tuple(row) for row in order(numbered(count), 100, epochs * count).reshape(epochs, count)}
    # The key's low bits alone repeat after 256 epochs.
    assert len(seen) == epochs
    assert tuple(order(numbered(count), 100, count, seed=256)) not in seen


def test_shuffle_is_uniform():
    count, epochs = 100, 400
    orders = order(numbered(count), 200, epochs * count).reshape(epochs, count)
    # Kendall: the correlation of position and image has deviation 1 / √(count - 1); its mean √epochs less.
    correlations = [np.corrcoef(np.arange(count), row)[0, 1] for row in orders]
    assert abs(np.mean(correlations)) < 4 / np.sqrt((count - 1) * epochs)
    # How often each image comes in each tenth of an epoch: χ² with (count - 1)·9 degrees of freedom.
    tenths = np.zeros((count, 10))
    np.add.at(tenths, (orders, np.broadcast_to(np.arange(count) // 10, orders.shape)), 1)
    chi_square = ((tenths - epochs / 10) ** 2 / (epochs / 10)).sum()
    freedom = (count - 1) * 9
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)


def test_without_shuffle_the_order_is_the_sets_own():
    np.testing.assert_array_equal(order(numbered(5), 3, 12, shuffle=False), np.arange(12) % 5)


def test_seed_changes_the_order():
    assert not np.array_equal(order(numbered(50), 10, 50, seed=0), order(numbered(50), 10, 50, seed=1))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("start", [1, 4, 5, 37])
def test_stream_started_later_is_the_rest_of_the_stream(start, shuffle):
    image_set = numbered(23)
    whole = data.batches(image_set, 5, seed=9, shuffle=shuffle)
    later = data.batches(image_set, 5, seed=9, shuffle=shuffle, start_step=start)
    rest = itertools.islice(whole, start, start + 6)
    for (image, label), (later_image, later_label) in zip(rest, later.take(6), strict=True):
        np.testing.assert_array_equal(image, later_image)
        np.testing.assert_array_equal(label, later_label)


def test_start_far_away_is_reached_at_once():
    start = 2**40
    labels = order(numbered(23), 23, 23, start_step=start)
    np.testing.assert_array_equal(np.sort(labels), np.arange(23))


def test_stream_is_endless_and_static():
    stream = data.batches(numbered(10), 4)
    assert stream.cardinality() == tf.data.INFINITE_CARDINALITY
    image, label = stream.element_spec
    assert image == tf.TensorSpec((4, 4, 4, 1), tf.float32)
    assert label == tf.TensorSpec((4,), tf.int32)


def test_without_labels_elements_are_images():
    image_set = numbered(10, labelled=False)
    assert data.batches(image_set, 4).element_spec == tf.TensorSpec((4, 4, 4, 1), tf.float32)
    assert data.validation_batches(image_set, 5).element_spec == tf.TensorSpec((5, 4, 4, 1), tf.float32)


@pytest.mark.parametrize(
    ("batch_size", "drop", "sizes"), [(5, False, [5, 5]), (4, False, [4, 4, 2]), (4, True, [4, 4])]
)
def test_validation_is_finite_ordered_and_as_static_as_can_be(batch_size, drop, sizes):
    stream = data.validation_batches(numbered(10), batch_size, drop_remainder=drop)
    labels = [label for _, label in stream.as_numpy_iterator()]
    assert [len(label) for label in labels] == sizes
    np.testing.assert_array_equal(np.concatenate(labels), np.arange(sum(sizes)))
    assert stream.cardinality() == len(sizes)
    assert stream.element_spec[0].shape[0] == (batch_size if len(set(sizes)) == 1 else None)


def test_load_is_prepare_and_batches():
    stream = data.load("digits", image_size=32, batch_size=6, seed=3)
    by_hand = data.batches(data.prepare("digits", image_size=32, channels=3), 6, seed=3)
    for (image, label), (hand_image, hand_label) in zip(stream.take(2), by_hand.take(2), strict=True):
        assert image.shape == (6, 32, 32, 3)
        np.testing.assert_array_equal(image, hand_image)
        np.testing.assert_array_equal(label, hand_label)


def test_stream_is_shared_among_replicas():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    stream = iter(strategy.experimental_distribute_dataset(data.batches(numbered(10), 4)))
    _, label = next(stream)
    (expected,) = data.batches(numbered(10), 4).take(1)
    np.testing.assert_array_equal(label, expected[1])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"start_step": -1}, "start_step"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_bad_arguments_are_named(options, name):
    with pytest.raises(DataError, match=name):
        data.batches(numbered(10), **({"batch_size": 2} | options))


def test_dropping_everything_is_refused():
    with pytest.raises(DataError, match=r"batch_size 11 .*\(10\)"):
        data.validation_batches(numbered(10), 11, drop_remainder=True)
