from __future__ import annotations

import math

import numpy as np
import pytest

from tfdiff.metrics import snr_db


@pytest.mark.parametrize("share", [1.0, 0.1, 0.001])
def test_noise_of_a_known_share(share: float):
    """A candidate that is off by `share` of the reference has 1/share² times less noise than signal."""
    reference = np.random.default_rng(0).standard_normal((2, 4, 4, 3))
    assert snr_db(reference, reference * (1 + share)) == pytest.approx(-20 * math.log10(share))


def test_float32_inputs_are_summed_in_float64():
    """The error, 1e-8 of the signal, would be lost in the float32 sum of a million squares."""
    reference = np.ones((1000, 1000), np.float32)
    candidate = reference.copy()
    candidate[0, 0] = 1.5
    assert snr_db(reference, candidate) == pytest.approx(10 * math.log10(1e6 / 0.25))


def test_equal_is_infinite():
    assert snr_db(np.arange(3.0), np.arange(3.0)) == math.inf
    assert snr_db(np.zeros(3), np.zeros(3)) == math.inf


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_broken_candidate_misses_every_tolerance(bad: float):
    assert snr_db(np.ones(3), np.array([1.0, 1.0, bad])) == -math.inf


def test_nothing_explains_noise_on_silence():
    assert snr_db(np.zeros(3), np.ones(3)) == -math.inf


@pytest.mark.parametrize(
    ("reference", "candidate", "found"),
    [
        (np.ones((2, 3)), np.ones((2, 1)), r"candidate has shape \(2, 1\), reference \(2, 3\)"),
        (np.ones((0, 3)), np.ones((0, 3)), r"candidate has shape \(0, 3\)"),
        (np.array([math.nan]), np.ones(1), "reference holds NaN"),
    ],
)
def test_what_cannot_be_compared_is_refused(reference: np.ndarray, candidate: np.ndarray, found: str):
    with pytest.raises(ValueError, match=found):
        snr_db(reference, candidate)
