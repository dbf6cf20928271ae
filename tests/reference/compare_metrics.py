"""Compare tfdiff's metrics with the implementations that published numbers come from. Not a test: run it by hand.

    pip install torch torchvision torch-fidelity clean-fid prdc scikit-image    # beside tfdiff
    python tests/reference/compare_metrics.py

It prints a line per figure and exits with 1 where one is off by more than its tolerance. References that are not
installed are named. The InceptionV3 of both sides gets the same random weights, through a file that torch.save wrote:
the architecture, the resize and the normalization are compared, whatever the weights.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tfdiff import metrics

Line = tuple[str, str, float, float, float]


def main() -> int:
    """Print the table; 0 where every figure is within its tolerance."""
    if importlib.util.find_spec("torchvision") is None:
        # Both references import it for networks that are not used here.
        for name in ("", ".datasets", ".transforms", ".transforms.functional", ".models", ".models.inception"):
            sys.modules[f"torchvision{name}"] = mock.MagicMock()
    failed = 0
    print(f"{'figure':<34} {'reference':<15} {'tfdiff':>14} {'reference':>14} {'difference':>11} {'tolerance':>10}")
    for lines in (fidelity_lines, clean_fid_lines, neighbour_lines, similarity_lines, inception_lines):
        try:
            for figure, name, ours, theirs, tolerance in lines():
                difference = abs(ours - theirs) / max(abs(theirs), 1e-12)
                bad = not difference <= tolerance
                failed += bad
                print(
                    f"{figure:<34} {name:<15} {ours:>14.8g} {theirs:>14.8g} {difference:>11.1e} {tolerance:>10.0e}"
                    + ("  MISSED" if bad else "")
                )
        except ImportError as error:
            print(f"{lines.__name__}: skipped ({error})")
    return 1 if failed else 0


def sets() -> tuple[np.ndarray, np.ndarray]:
    """Features of 1,500 "real" and 1,200 "drawn" images: correlated, skewed, positive, as a network's are."""
    generator = np.random.default_rng(0)
    mixing = generator.standard_normal((64, 64)) / 8
    real = np.maximum(generator.standard_normal((1500, 64)) @ mixing, 0)
    drawn = np.maximum(generator.standard_normal((1200, 64)) @ mixing * 1.1 + 0.05, 0)
    return real.astype(np.float32), drawn.astype(np.float32)


def fidelity_lines() -> Iterator[Line]:
    """FID, KID and Inception Score of torch-fidelity."""
    import torch
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_isc import isc_features_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric

    real, drawn = sets()
    a, b = metrics.FeatureStatistics.of(real), metrics.FeatureStatistics.of(drawn)
    both = [fid_features_to_statistics(torch.from_numpy(x)) for x in (drawn, real)]
    fid = fid_statistics_to_metric(*both, verbose=False)["frechet_inception_distance"]
    yield "FID", "torch-fidelity", metrics.frechet_distance(a, b).value, float(fid), 1e-5
    subset = metrics.subset_kernel_distance(a, b)
    kid = kid_features_to_metric(torch.from_numpy(drawn), torch.from_numpy(real), verbose=False)
    for figure, ours, key in (
        ("KID mean, 100 subsets", subset.mean, "kernel_inception_distance_mean"),
        ("KID deviation", subset.standard_deviation, "kernel_inception_distance_std"),
    ):
        yield figure, "torch-fidelity", ours, float(kid[key]), 1e-4
    logits = np.random.default_rng(1).standard_normal((1200, 10)).astype(np.float32) * 3
    probabilities = np.asarray(torch.softmax(torch.from_numpy(logits).double(), dim=1))
    score = metrics.inception_score(metrics.FeatureStatistics.of(drawn, probabilities))
    # Its splits are contiguous: ours, one after another.
    order = np.concatenate([np.arange(split, 1200, 10) for split in range(10)])
    isc = isc_features_to_metric(torch.from_numpy(logits[order]), splits=10, shuffle=False)
    yield "Inception Score, 10 splits", "torch-fidelity", score.value, float(isc["inception_score_mean"]), 1e-5


def clean_fid_lines() -> Iterator[Line]:
    """FID and KID of clean-fid."""
    from cleanfid.fid import frechet_distance, kernel_distance

    real, drawn = sets()
    a, b = metrics.FeatureStatistics.of(real), metrics.FeatureStatistics.of(drawn)
    moments = [value for x in (real, drawn) for value in (x.astype(np.float64).mean(axis=0), np.cov(x.T))]
    yield "FID", "clean-fid", metrics.frechet_distance(a, b).value, float(frechet_distance(*moments)), 1e-5
    # It draws subsets of its own: one subset of everything is the same for both.
    count = len(drawn)
    same = metrics.kernel_distance(metrics.FeatureStatistics.of(real[:count]), b).value
    theirs = kernel_distance(real[:count], drawn, num_subsets=1, max_subset_size=count)
    yield "KID, all images", "clean-fid", same, float(theirs), 1e-3


def neighbour_lines() -> Iterator[Line]:
    """Precision, recall, density and coverage of prdc, and of torch-fidelity."""
    from prdc import compute_prdc

    real, drawn = sets()
    found = metrics.precision_recall_density_coverage(
        metrics.FeatureStatistics.of(real), metrics.FeatureStatistics.of(drawn), neighbours=5
    )
    theirs = compute_prdc(real, drawn, nearest_k=5)
    for figure, estimate in found._asdict().items():
        yield figure, "prdc", estimate.value, float(theirs[figure]), 1e-3


def similarity_lines() -> Iterator[Line]:
    """PSNR and SSIM of scikit-image."""
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    generator = np.random.default_rng(2)
    a = generator.integers(0, 256, (4, 32, 32, 3), np.uint8)
    b = np.clip(a + generator.normal(0, 20, a.shape), 0, 255).astype(np.uint8)
    fidelity = metrics.PairwiseFidelity()
    fidelity.update(a, b)
    yield "PSNR", "scikit-image", fidelity.psnr, float(peak_signal_noise_ratio(a, b, data_range=255)), 1e-6
    options: dict[str, Any] = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    # TensorFlow averages over whole windows only, scikit-image over its map less a border: crop it likewise.
    maps = [
        structural_similarity(x, y, channel_axis=-1, data_range=255, full=True, **options)[1][5:-5, 5:-5].mean()
        for x, y in zip(a, b, strict=True)
    ]
    yield "SSIM", "scikit-image", fidelity.ssim, float(np.mean(maps)), 1e-4


def inception_lines() -> Iterator[Line]:
    """Features and logits of torch-fidelity's InceptionV3 with random weights, both formats of torch.save."""
    import torch
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    torch.manual_seed(0)
    with (
        mock.patch("torch_fidelity.feature_extractor_inceptionv3.load_state_dict_from_url", return_value={}),
        mock.patch.object(torch.nn.Module, "load_state_dict"),
    ):
        reference = FeatureExtractorInceptionV3("inception", ["2048", "logits_unbiased"])
    state = {}
    for name, value in reference.state_dict().items():
        if name.endswith(("running_var", "bn.weight")):
            value = torch.rand_like(value) + 0.5
        elif value.is_floating_point() and value.ndim > 1:
            # He's initialization: activations neither vanish nor explode.
            value = torch.randn_like(value) * (2 / value[0].numel()) ** 0.5
        elif value.is_floating_point():
            value = torch.randn_like(value) * 0.1
        state[name] = value
    reference.load_state_dict(state)
    reference.eval()
    generator = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        for zipped in (True, False):
            path = Path(folder) / f"weights{zipped}.pth"
            torch.save(state, path, _use_new_zipfile_serialization=zipped)
            network = metrics.inception_fid(path)
            for size in ((32, 32), (64, 48), (299, 299)) if zipped else ((32, 32),):
                images = generator.integers(0, 256, (3, *size, 3), np.uint8)
                ours, probabilities = network.features_and_probabilities(images)
                with torch.no_grad():
                    features, logits = reference(torch.from_numpy(images.transpose(0, 3, 1, 2)))
                where = f"{size[0]}×{size[1]}" + ("" if zipped else ", old format")
                error = np.linalg.norm(ours - features.numpy()) / np.linalg.norm(features.numpy())
                yield f"Inception features {where}", "torch-fidelity", 1 + float(error), 1.0, 1e-4
                theirs = torch.softmax(logits, dim=1).numpy()
                assert probabilities is not None
                error = np.abs(probabilities - theirs).max()
                yield f"class probabilities {where}", "torch-fidelity", 1 + float(error), 1.0, 1e-4


if __name__ == "__main__":
    sys.exit(main())
