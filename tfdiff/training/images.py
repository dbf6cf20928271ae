"""Pictures to look at: grids and PNG files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from PIL import Image

from tfdiff.files import written_whole


def to_uint8(images: np.ndarray) -> np.ndarray:
    """[−1, 1] floats → 0 … 255 uint8 of the same shape, rounded and clipped."""
    return np.clip(np.rint((np.asarray(images, np.float32) + 1.0) * 127.5), 0, 255).astype(np.uint8)


def image_grid(images: np.ndarray, columns: int, gap: int = 1) -> np.ndarray:
    """Lay (N,H,W,C) images in [−1, 1] out in rows of `columns`: uint8 (rows·(H+gap)−gap, …, C), gaps grey."""
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    grid = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, channels), 128, np.uint8)
    for index, image in enumerate(to_uint8(images)):
        top, left = index // columns * (height + gap), index % columns * (width + gap)
        grid[top : top + height, left : left + width] = image
    return grid


def save_png(image: np.ndarray, path: str | os.PathLike[str], scale: int = 1) -> None:
    """Write uint8 (H,W,1 or 3) as PNG, each pixel `scale`² pixels; a temporary name first, then renamed."""
    path = Path(path)
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    if scale != 1:
        picture = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    with written_whole(path) as partial:
        picture.save(partial, format="PNG")
