"""INT8 is calibrated on the deployed sampler's own path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.export.conftest import NUM_CLASSES, SAMPLING
from tfdiff.diffusion import Denoiser, noise_embedding
from tfdiff.errors import UsageError
from tfdiff.export.calibration import Trajectory, calibration_labels, record_trajectory

LABELS = np.asarray([0, 3, -1])


def test_trajectory_is_what_the_sampler_gives_the_network(denoiser: Denoiser) -> None:
    visited = []
    trajectory, images = record_trajectory(denoiser, SAMPLING, LABELS, 3, seed=4)
    drawn = SAMPLING(
        denoiser,
        trajectory.starts["noise"],
        trajectory.starts["label"],
        callback=lambda step, sigma, x, denoised: visited.append((sigma, x)),
    )
    np.testing.assert_allclose(images, np.clip(drawn, -1, 1), atol=1e-5)
    assert trajectory.sigmas == [sigma for sigma, _ in visited] == SAMPLING.sigmas()[:-1].tolist()
    for call, (sigma, x) in zip(trajectory.calls, visited, strict=True):
        c_in = denoiser.parameterization.coefficients(sigma, denoiser.sigma_data).c_in
        np.testing.assert_allclose(call["image"], c_in * x, atol=1e-5)
        np.testing.assert_allclose(call["noise_embedding"], [noise_embedding(sigma, 4)] * 3, atol=1e-6)
        np.testing.assert_array_equal(call["label"], trajectory.starts["label"])


def test_guidance_adds_the_unconditional_calls(denoiser: Denoiser) -> None:
    trajectory, _ = record_trajectory(denoiser, replace(SAMPLING, guidance_scale=2.0), LABELS, 3, seed=4)
    assert len(trajectory.calls) == len(trajectory.sigmas) == 2 * SAMPLING.num_steps
    assert [call["label"].any() for call in trajectory.calls] == [False, True] * SAMPLING.num_steps


def test_saved_and_loaded_and_cut_into_batches(denoiser: Denoiser, tmp_path: Path) -> None:
    trajectory, _ = record_trajectory(denoiser, SAMPLING, LABELS, 3, seed=4, batch_size=2)
    trajectory.save(tmp_path / "trajectory.npz")
    loaded = Trajectory.load(tmp_path / "trajectory.npz")
    assert loaded.sigmas == trajectory.sigmas
    # Three rows make one batch of two; the third is left out.
    assert [feeds["noise"].shape for feeds in loaded.batches("sample")] == [(2, 8, 8, 1)]
    calls = list(loaded.batches("denoise"))
    assert len(calls) == SAMPLING.num_steps
    for feeds, call in zip(calls, trajectory.calls, strict=True):
        assert feeds.keys() == {"image", "noise_embedding", "label"}
        for name, rows in feeds.items():
            np.testing.assert_array_equal(rows, call[name][:2])


def labels_without_null(data: object) -> set[int]:
    labels = calibration_labels(data, NUM_CLASSES, 16, seed=0)
    assert labels is not None
    assert labels.shape == (16,)
    assert list(labels[::8]) == [-1, -1]
    return set(labels.tolist()) - {-1}


def test_labels_are_those_of_the_data() -> None:
    images = tf.zeros([6, 8, 8, 1])
    data = tf.data.Dataset.from_tensor_slices((images, tf.constant([1, 2, 1, 2, 1, 2])))
    assert labels_without_null(data) == {1, 2}
    assert labels_without_null(data.batch(4).repeat()) == {1, 2}
    assert labels_without_null([(np.zeros([6, 8, 8, 1]), np.full(6, 3))]) == {3}
    # Without labels, all classes come up.
    assert labels_without_null(data.map(lambda image, label: image)) == {0, 1, 2, 3}
    assert labels_without_null(None) == {0, 1, 2, 3}
    assert calibration_labels(data, None, 16, seed=0) is None


def test_labels_outside_the_classes_are_named(denoiser: Denoiser) -> None:
    labels = calibration_labels([(np.zeros([2, 8, 8, 1]), np.full(2, 7))], NUM_CLASSES, 4, seed=0)
    with pytest.raises(UsageError, match="7"):
        record_trajectory(denoiser, SAMPLING, labels, 4, seed=0)
