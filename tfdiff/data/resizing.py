"""Bring one image to a square of the size and channels that the network wants.

Three rules, all exact where no pixel has to be invented:

* `crop`: the central square, scaled to size. For photographs.
* `stretch`: scaled to size, ignoring the aspect ratio.
* `pad`: shrunk to fit, or enlarged by the largest *whole* factor that fits, then centred on the median
  colour of the image's border. So MNIST's 28×28 become 32×32 by a border of two background pixels,
  every original pixel untouched, and 64×64 by doubling and a border of four.

Shrinking uses Pillow's antialiased Lanczos filter (as EDM's `dataset_tool.py` does), enlarging uses bicubic,
which rings less.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from PIL import Image

from tfdiff.errors import DataError

Resize = Literal["crop", "pad", "stretch"]


def check_options(image_size: int, channels: int, resize: str) -> None:
    """Refuse a size, channel count or resize rule that does not exist, naming the argument."""
    if isinstance(image_size, bool) or not isinstance(image_size, int | np.integer) or image_size < 1:
        raise DataError(f"image_size must be a positive number of pixels, found {image_size!r}.")
    if channels not in (1, 3):
        raise DataError(f"channels must be 1 (grey) or 3 (colour), found {channels!r}.")
    if resize not in get_args(Resize):
        raise DataError(f"resize must be one of {', '.join(get_args(Resize))}, found {resize!r}.")


def fit(image: np.ndarray, image_size: int, channels: int, resize: Resize) -> np.ndarray:
    """Convert (H, W, 1 or 3) uint8 to (image_size, image_size, channels) uint8.

    Colour becomes grey by ITU-R 601 luminance, grey becomes colour by repeating it.
    """
    if image.shape[-1] == 3 and channels == 1:
        image = np.asarray(Image.fromarray(image).convert("L"))[:, :, None]
    height, width, _ = image.shape
    if resize == "crop":
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        image = _scale(image[top : top + side, left : left + side], image_size, image_size)
    elif resize == "stretch":
        image = _scale(image, image_size, image_size)
    else:
        image = _pad(image, image_size)
    return np.repeat(image, channels, axis=-1) if image.shape[-1] < channels else image


def _pad(image: np.ndarray, image_size: int) -> np.ndarray:
    height, width, channels = image.shape
    longer = max(height, width)
    scale = image_size // longer if longer <= image_size else image_size / longer
    # A very thin image keeps at least one pixel of its short side.
    height, width = max(1, round(height * scale)), max(1, round(width * scale))
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    canvas = np.empty((image_size, image_size, channels), np.uint8)
    canvas[:] = np.median(border, axis=0).astype(np.uint8)
    top, left = (image_size - height) // 2, (image_size - width) // 2
    canvas[top : top + height, left : left + width] = _scale(image, height, width)
    return canvas


def _scale(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[:2] == (height, width):
        return image
    shrinks = height < image.shape[0] or width < image.shape[1]
    grey = image.shape[-1] == 1
    picture = Image.fromarray(image[:, :, 0] if grey else image)
    resampling = Image.Resampling.LANCZOS if shrinks else Image.Resampling.BICUBIC
    scaled = np.asarray(picture.resize((width, height), resampling))
    return scaled[:, :, None] if grey else scaled
