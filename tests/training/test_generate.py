"""Picture i of a seed is one picture: whatever the batch, the place it is drawn from, and the sampler."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training.shared import tiny_model
from tfdiff.diffusion import Sampling
from tfdiff.training import Generator

SAMPLINGS = [
    Sampling("euler", num_steps=2),
    Sampling("ancestral", num_steps=3),
    Sampling("heun", num_steps=3, options={"s_churn": 10.0}),
    Sampling("dpmpp_2m", num_steps=2),
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda sampling: sampling.sampler)
def test_batches_and_starts_change_nothing(sampling: Sampling) -> None:
    model = tiny_model()
    for weight in model.ema_network.weights:  # an untrained head draws the noise's own mean
        weight.assign(np.random.default_rng(0).uniform(-0.3, 0.3, weight.shape))
    labels = np.arange(7) % 3
    whole = Generator(model.denoiser(), sampling, batch_size=8).draw(labels, seed=5)
    for batch_size in (1, 3):
        drawer = Generator(model.denoiser(), sampling, batch_size=batch_size)
        np.testing.assert_allclose(drawer.draw(labels, seed=5), whole, atol=2e-5)
        np.testing.assert_allclose(drawer.draw(labels[4:], seed=5, start=4), whole[4:], atol=2e-5)
    # Stochastic samplers give every picture noise of its own.
    same = Generator(model.denoiser(), sampling, batch_size=8).draw([1, 1, 1], seed=5)
    assert np.abs(same[0] - same[1]).max() > 0.01


def test_stream_is_draw_in_parts() -> None:
    drawer = Generator(tiny_model().denoiser(), SAMPLINGS[0], batch_size=3)
    parts = list(drawer.stream([0, 1, 2, 0, 1], seed=1))
    assert [len(part) for part in parts] == [3, 2]
    np.testing.assert_array_equal(np.concatenate(parts), drawer.draw([0, 1, 2, 0, 1], seed=1))
    assert drawer.draw(num_images=0).shape == (0, 8, 8, 1)
