"""Fidelity of pairs against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfdiff.errors import DataError
from tfdiff.metrics import PairwiseFidelity

PICTURES = np.random.default_rng(0).integers(0, 256, (6, 16, 16, 3), np.uint8)


def test_equal_pictures() -> None:
    fidelity = PairwiseFidelity(lambda images: [images / 255])
    fidelity.update(PICTURES, PICTURES)
    assert fidelity.psnr == math.inf
    assert fidelity.ssim == pytest.approx(1)
    assert fidelity.feature_distance == 0


def test_known_error_in_any_batches() -> None:
    reference = PICTURES // 2
    candidate = reference + np.arange(6, dtype=np.uint8).reshape(-1, 1, 1, 1)
    whole, parts = PairwiseFidelity(), PairwiseFidelity()
    whole.update(reference, candidate)
    parts.update(reference[:1], candidate[:1])
    parts.update(reference[1:], candidate[1:])
    assert whole.psnr == pytest.approx(10 * math.log10(255**2 / np.mean(np.arange(6) ** 2)))
    assert parts.psnr == pytest.approx(whole.psnr)
    assert parts.ssim == pytest.approx(whole.ssim)
    assert whole.feature_distance is None


def test_ssim_of_flat_pictures() -> None:
    """Without variance it is the luminance term (2ab + C)/(a² + b² + C), C = (0.01·255)²; small pictures too."""
    c = (0.01 * 255) ** 2
    expected = (2 * 50 * 80 + c) / (50**2 + 80**2 + c)
    for size in (8, 16):
        fidelity = PairwiseFidelity()
        fidelity.update(np.full((2, size, size, 1), 50, np.uint8), np.full((2, size, size, 1), 80, np.uint8))
        assert fidelity.ssim == pytest.approx(expected, rel=1e-4)


def test_feature_distance_by_hand() -> None:
    """Directions (3,4)/5 and (4,3)/5 at one of two places: (0.04 + 0.04)/2, and length does not count."""
    a = np.array([[[[3.0, 4.0], [1.0, 0.0]]]])
    b = np.array([[[[8.0, 6.0], [5.0, 0.0]]]])
    maps = {0: [a, a], 1: [b, b]}
    fidelity = PairwiseFidelity(lambda images: maps[int(images[0, 0, 0, 0])])
    fidelity.update(np.zeros((1, 1, 2, 1), np.uint8), np.ones((1, 1, 2, 1), np.uint8))
    assert fidelity.feature_distance == pytest.approx(2 * 0.04)


@pytest.mark.parametrize("other", [PICTURES[..., :1], PICTURES[:, :8], PICTURES[:3]])
def test_refuses_unlike_pictures(other: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"reference has shape \(6, 16, 16, 3\), candidate"):
        PairwiseFidelity().update(PICTURES, other)


def test_refuses_floats() -> None:
    with pytest.raises(DataError, match="give uint8"):
        PairwiseFidelity().update(PICTURES, PICTURES / 255)
