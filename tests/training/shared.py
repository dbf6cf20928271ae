"""A model that trains in a blink, and pictures for it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tf_keras as keras

import tfdiff
from tfdiff import networks
from tfdiff.training import precision


def tiny_network(policy="float32", classes=3, size=8):
    with precision(policy):
        return networks.edge_unet(size, 1, classes, widths=(8, 16), blocks=1, embedding_width=16, noise_channels=8)


def tiny_model(policy="float32", *, jit_compile=False, learning_rate=0.01, classes=3, optimizer=None, **kwargs):
    """A compiled model with the same weights every time."""
    keras.utils.set_random_seed(1)
    model = tfdiff.DiffusionModel(tiny_network(policy, classes), **kwargs)
    model.compile(optimizer or keras.optimizers.Adam(learning_rate, jit_compile=False), jit_compile=jit_compile)
    return model


def tiny_batches(start_step=0, batch=8, classes=3, size=8):
    """Endless batches that are a function of the step: bars whose place is the class."""

    def batch_at(step):
        rng = np.random.default_rng(int(step))
        labels = rng.integers(0, classes, batch)
        images = np.full((batch, size, size, 1), -1.0, np.float32)
        for image, label in zip(images, labels, strict=True):
            image[:, 2 * label : 2 * label + 2] = 1.0
        return images, labels.astype(np.int32)

    def generate():
        step = start_step
        while True:
            yield batch_at(step)
            step += 1

    signature = (tf.TensorSpec((batch, size, size, 1), tf.float32), tf.TensorSpec((batch,), tf.int32))
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


class StopAfter(keras.callbacks.Callback):
    """Ends training after an epoch, as a kill would."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch + 1 >= self.epochs
