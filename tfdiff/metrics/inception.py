"""The InceptionV3 that published FID values were measured with, from the weights of torch-fidelity and pytorch-fid.

Its average pools leave padding out, its last block pools by maximum, and its classifier has 1,008 outputs; pictures are
resized as TensorFlow 1 did and lie in [−1, 0.992]. A value of another InceptionV3 is another number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfdiff.errors import ModelError
from tfdiff.files import sha256
from tfdiff.metrics.features import FeatureNetwork
from tfdiff.metrics.torch_weights import load_state_dict

#: How the SHA-256 of the published file begins; its name says so.
PUBLISHED = "6726825d"
_SIZE, _DIMENSION, _CLASSES = 299, 2048, 1008
_EPSILON = 1e-3


def inception_fid(path: str | Path) -> FeatureNetwork:
    """The FID feature network: 2,048 features, 1,008 classes, pictures of any size.

    Args:
        path: of `weights-inception-2015-12-05-6726825d.pth` (torch-fidelity) or
            `pt_inception-2015-12-05-6726825d.pth` (pytorch-fid). Other weights of this architecture are taken too, and
            named so.

    Raises:
        ModelError: when the file cannot be read, or a weight is missing or of another shape.
    """
    digest = sha256(Path(path)) if Path(path).is_file() else ""
    network = _Inception(load_state_dict(path), str(path))
    name = "InceptionV3 (FID)" if digest.startswith(PUBLISHED) else f"InceptionV3, weights {Path(path).name}"
    return FeatureNetwork(
        name,
        network,
        digest,
        dimension=_DIMENSION,
        num_classes=_CLASSES,
        image_shape=(None, None, 3),
    )


def resize(pixels: tf.Tensor) -> tf.Tensor:
    """To 299×299 as TensorFlow 1 did: corners at the corner of the grid, no antialiasing."""
    return tf.compat.v1.image.resize_bilinear(pixels, (_SIZE, _SIZE), align_corners=False, half_pixel_centers=False)


class _Inception:
    """The forward pass; batch normalization is folded into the convolutions."""

    def __init__(self, weights: Mapping[str, np.ndarray], path: str) -> None:
        self._kernels: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}
        self._weights, self._path = weights, path
        self._head = tf.constant(self._weight("fc.weight", (_CLASSES, _DIMENSION)).T)
        # Every kernel is found, and its shape checked, now rather than while pictures are measured.
        self(tf.zeros((1, _SIZE, _SIZE, 3)))
        del self._weights

    def __call__(self, pixels: tf.Tensor) -> list[tf.Tensor]:
        """Pixels 0 … 255 (n,H,W,3) → [features, probabilities, and the activations of five stages]."""
        x = (resize(pixels) - 128.0) / 128.0
        x = self._conv(x, "Conv2d_1a_3x3", (32, 3, 3), 2, "VALID")
        x = self._conv(x, "Conv2d_2a_3x3", (32, 3, 3), 1, "VALID")
        x = stem = self._conv(x, "Conv2d_2b_3x3", (64, 3, 3))
        x = self._conv(_max_pool(x, 2, "VALID"), "Conv2d_3b_1x1", (80, 1, 1))
        x = middle = self._conv(x, "Conv2d_4a_3x3", (192, 3, 3), 1, "VALID")
        x = _max_pool(x, 2, "VALID")
        for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
            x = self._block_a(x, f"Mixed_{name}", pooled)
        first = x
        x = self._block_b(x, "Mixed_6a")
        for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
            x = self._block_c(x, f"Mixed_{name}", width)
        second = x
        x = self._block_d(x, "Mixed_7a")
        x = self._block_e(x, "Mixed_7b", _average_pool)
        x = self._block_e(x, "Mixed_7c", lambda y: _max_pool(y, 1, "SAME"))
        features = tf.reduce_mean(x, axis=(1, 2))
        # Without the classifier's bias, as the original score was computed.
        return [features, tf.nn.softmax(features @ self._head), stem, middle, first, second, x]

    def _block_a(self, x: tf.Tensor, name: str, pooled: int) -> tf.Tensor:
        single = self._conv(x, f"{name}.branch1x1", (64, 1, 1))
        five = self._chain(x, name, [("branch5x5_1", (48, 1, 1)), ("branch5x5_2", (64, 5, 5))])
        three = self._chain(
            x,
            name,
            [("branch3x3dbl_1", (64, 1, 1)), ("branch3x3dbl_2", (96, 3, 3)), ("branch3x3dbl_3", (96, 3, 3))],
        )
        pool = self._conv(_average_pool(x), f"{name}.branch_pool", (pooled, 1, 1))
        return tf.concat([single, five, three, pool], axis=-1)

    def _block_b(self, x: tf.Tensor, name: str) -> tf.Tensor:
        three = self._conv(x, f"{name}.branch3x3", (384, 3, 3), 2, "VALID")
        double = self._chain(x, name, [("branch3x3dbl_1", (64, 1, 1)), ("branch3x3dbl_2", (96, 3, 3))])
        double = self._conv(double, f"{name}.branch3x3dbl_3", (96, 3, 3), 2, "VALID")
        return tf.concat([three, double, _max_pool(x, 2, "VALID")], axis=-1)

    def _block_c(self, x: tf.Tensor, name: str, width: int) -> tf.Tensor:
        single = self._conv(x, f"{name}.branch1x1", (192, 1, 1))
        seven = self._chain(
            x,
            name,
            [("branch7x7_1", (width, 1, 1)), ("branch7x7_2", (width, 1, 7)), ("branch7x7_3", (192, 7, 1))],
        )
        shapes = [(width, 1, 1), (width, 7, 1), (width, 1, 7), (width, 7, 1), (192, 1, 7)]
        double = self._chain(x, name, [(f"branch7x7dbl_{i}", shape) for i, shape in enumerate(shapes, start=1)])
        pool = self._conv(_average_pool(x), f"{name}.branch_pool", (192, 1, 1))
        return tf.concat([single, seven, double, pool], axis=-1)

    def _block_d(self, x: tf.Tensor, name: str) -> tf.Tensor:
        three = self._conv(x, f"{name}.branch3x3_1", (192, 1, 1))
        three = self._conv(three, f"{name}.branch3x3_2", (320, 3, 3), 2, "VALID")
        shapes = [(192, 1, 1), (192, 1, 7), (192, 7, 1)]
        seven = self._chain(x, name, [(f"branch7x7x3_{i}", shape) for i, shape in enumerate(shapes, start=1)])
        seven = self._conv(seven, f"{name}.branch7x7x3_4", (192, 3, 3), 2, "VALID")
        return tf.concat([three, seven, _max_pool(x, 2, "VALID")], axis=-1)

    def _block_e(self, x: tf.Tensor, name: str, pooling: Any) -> tf.Tensor:
        single = self._conv(x, f"{name}.branch1x1", (320, 1, 1))
        three = self._conv(x, f"{name}.branch3x3_1", (384, 1, 1))
        double = self._chain(x, name, [("branch3x3dbl_1", (448, 1, 1)), ("branch3x3dbl_2", (384, 3, 3))])
        split = [
            self._conv(three, f"{name}.branch3x3_2a", (384, 1, 3)),
            self._conv(three, f"{name}.branch3x3_2b", (384, 3, 1)),
            self._conv(double, f"{name}.branch3x3dbl_3a", (384, 1, 3)),
            self._conv(double, f"{name}.branch3x3dbl_3b", (384, 3, 1)),
        ]
        pool = self._conv(pooling(x), f"{name}.branch_pool", (192, 1, 1))
        return tf.concat([single, *split, pool], axis=-1)

    def _chain(self, x: tf.Tensor, name: str, convolutions: list[tuple[str, tuple[int, int, int]]]) -> tf.Tensor:
        for part, shape in convolutions:
            x = self._conv(x, f"{name}.{part}", shape)
        return x

    def _conv(
        self, x: tf.Tensor, name: str, shape: tuple[int, int, int], stride: int = 1, padding: str = "SAME"
    ) -> tf.Tensor:
        """Convolution (filters, height, width), batch normalization, ReLU."""
        if name not in self._kernels:
            filters, height, width = shape
            kernel = self._weight(f"{name}.conv.weight", (filters, x.shape[-1], height, width))
            gamma, beta, mean, variance = (
                self._weight(f"{name}.bn.{part}", (filters,))
                for part in ("weight", "bias", "running_mean", "running_var")
            )
            scale = gamma / np.sqrt(variance + _EPSILON)
            folded = np.transpose(kernel, (2, 3, 1, 0)) * scale
            self._kernels[name] = tf.constant(folded, tf.float32), tf.constant(beta - mean * scale, tf.float32)
        kernel, bias = self._kernels[name]
        return tf.nn.relu(tf.nn.conv2d(x, kernel, stride, padding) + bias)

    def _weight(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        found = self._weights.get(name)
        if found is None or found.shape != shape:
            state = "is missing" if found is None else f"has shape {found.shape}, not {shape}"
            raise ModelError(
                f"{self._path}: weight {name!r} {state}: give the FID weights of InceptionV3 "
                f"(…-2015-12-05-{PUBLISHED}.pth)."
            )
        return found.astype(np.float32)


def _average_pool(x: tf.Tensor) -> tf.Tensor:
    """3×3, stride 1; TensorFlow's SAME divides by the places inside the image, as the original does."""
    return tf.nn.avg_pool2d(x, 3, 1, "SAME")


def _max_pool(x: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    return tf.nn.max_pool2d(x, 3, stride, padding)
