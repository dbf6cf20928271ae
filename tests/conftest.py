"""What every test shares: fixed seeds and a quiet TensorFlow."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

import tfdiff  # noqa: F401  settles Keras 2 before anything else imports it


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import tf_keras as keras

    keras.utils.set_random_seed(0)
