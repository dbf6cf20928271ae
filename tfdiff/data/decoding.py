"""Decode one picture file to uint8 pixels, or say why it cannot be decoded.

What comes out is what a viewer shows: turned as EXIF says, transparency composited over white, palettes and CMYK
converted, 16-bit grey scaled to 8 bits, the first frame of an animation. Colour profiles are not applied.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageFile, ImageOps

from tfdiff.errors import DataError


class UnreadableImage(DataError):
    """A file that holds no whole picture; the text says why, without the path."""


def decode(path: Path) -> np.ndarray:
    """Decode a PNG, JPEG or WebP file.

    Returns:
      (H, W, 1) uint8 for grey pictures, (H, W, 3) uint8 for all others.

    Raises:
      UnreadableImage: if the file is missing, empty, truncated, corrupt or not a picture.
      DataError: if Pillow has been told to accept truncated files, which would feed half-grey pictures.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise DataError("PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True: set it to False to load training images.")
    try:
        with Image.open(path) as image:
            return _pixels(ImageOps.exif_transpose(image))
    except MemoryError:
        raise
    # Pillow's decoders let whatever their parser trips over escape: OSError, SyntaxError, struct.error, KeyError, …
    except Exception as error:
        if path.is_file() and path.stat().st_size == 0:
            raise UnreadableImage("empty file") from error
        # Pillow's texts repeat the path, which the caller names anyway.
        reason = "not a picture" if isinstance(error, Image.UnidentifiedImageError) else str(error)
        raise UnreadableImage(" ".join(reason.split()) or type(error).__name__) from error


def _pixels(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        return _from_16_bits(np.asarray(image), image.info.get("transparency"))
    grey = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    pixels = np.asarray(image.convert("L" if grey else "RGB"))
    return pixels[:, :, None] if grey else pixels


def _from_16_bits(values: np.ndarray, transparent: int | None) -> np.ndarray:
    """(H, W) grey in 0..65535 to (H, W, 1) in 0..255; Pillow has no conversion that rounds."""
    pixels = ((values.astype(np.int64) + 128) // 257).astype(np.uint8)  # 65535 / 255 = 257 exactly
    if transparent is not None:
        pixels[values == transparent] = 255
    return pixels[:, :, None]
