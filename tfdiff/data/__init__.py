"""Image sources and the tf.data pipeline.

    images = tfdiff.data.load("digits", image_size=32, batch_size=64)     # endless tf.data of (image, label)

or step by step, which is what training with validation and exact resumption needs:

    image_set = tfdiff.data.prepare("photos/", image_size=64, cache_dir="cache/")
    train, validation = image_set.split(0.1)
    stream = tfdiff.data.batches(train, 64, seed=0, start_step=step, augment={"flip": {}})
    held_out = tfdiff.data.validation_batches(validation, 64)
"""

from tfdiff.data.augmentation import Augment
from tfdiff.data.image_set import ImageSet, Skipped
from tfdiff.data.pipeline import batches, load, validation_batches
from tfdiff.data.prepare import prepare
from tfdiff.data.resizing import Resize
from tfdiff.data.source import Example, Source

__all__ = [
    "Augment",
    "Example",
    "ImageSet",
    "Resize",
    "Skipped",
    "Source",
    "batches",
    "load",
    "prepare",
    "validation_batches",
]
