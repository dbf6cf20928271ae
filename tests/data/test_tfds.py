"""TensorFlow Datasets by name: a tiny dataset written here, and what is said when one cannot be had."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tfdiff import data
from tfdiff.errors import DataError


class TinyRemote(tfds.core.GeneratorBasedBuilder):
    """Has code, but no data here."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"image": tfds.features.Image()})
        )

    def _split_generators(self, dl_manager):
        raise ConnectionError("no route\nto host")

    def _generate_examples(self):
        raise NotImplementedError


def write(root, name, features, splits):
    """Write a dataset, several shards to a split, as TensorFlow Datasets finds it by name."""
    folder = root / name / "1.0.0"
    folder.mkdir(parents=True)
    identity = tfds.core.dataset_info.DatasetIdentity(
        name=name, version=tfds.core.Version("1.0.0"), data_dir=str(folder), module_name=""
    )
    info = tfds.core.DatasetInfo(builder=identity, features=tfds.features.FeaturesDict(features))
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=15)
    writer.initialize_splits(list(splits))
    writer.add_examples(splits)
    writer.close_all()


def shades(start, stop):
    """Image n is grey n; class by parity."""
    numbers = range(start, stop)
    return [{"image": np.full((6, 6, 1), n, np.uint8), "label": n % 2, "note": "unused"} for n in numbers]


@pytest.fixture(autouse=True)
def _datasets(tmp_path, monkeypatch):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    image, label = tfds.features.Image(shape=(6, 6, 1)), tfds.features.ClassLabel(names=["even", "odd"])
    features = {"image": image, "label": label, "note": tfds.features.Text()}
    write(tmp_path, "tiny_shades", features, {"train": shades(0, 40), "test": shades(100, 110)})
    write(tmp_path, "tiny_texts", {"text": tfds.features.Text()}, {"train": [{"text": "words"}]})


def values(image_set):
    return image_set.images[:, 0, 0, 0].tolist()


def test_dataset_comes_in_its_order_with_labels_and_names():
    image_set = data.prepare("tfds:tiny_shades", image_size=6)
    assert image_set.images.shape == (40, 6, 6, 1)
    assert values(image_set) == list(range(40))
    np.testing.assert_array_equal(image_set.labels, np.arange(40) % 2)
    assert image_set.class_names == ("even", "odd")


def test_split_and_slice_of_a_split():
    assert values(data.prepare("tfds:tiny_shades/test", image_size=6)) == list(range(100, 110))
    assert values(data.prepare("tfds:tiny_shades/train[25%:50%]", image_size=6)) == list(range(10, 20))


def test_limit_reads_evenly():
    assert values(data.prepare("tfds:tiny_shades", image_size=6, limit=4)) == [0, 10, 20, 30]


def test_cache_tells_splits_apart(tmp_path):
    options = {"image_size": 6, "cache_dir": tmp_path / "cache"}
    train, again, test = (data.prepare(f"tfds:tiny_shades{split}", **options) for split in ("", "/train", "/test"))
    assert train.fingerprint == again.fingerprint
    assert len(test) == 10


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tfds:tiny_nonesuch", "knows no dataset"),
        ("tfds:tiny_nonesuch/train", "knows no dataset|not found"),
        ("tfds:tiny_shades/dev", "no split 'dev': choose from train, test"),
        ("tfds:tiny_texts", "needs a feature 'image'"),
        ("tfds:tiny_remote", r"cannot be downloaded .*tfds build tiny_remote"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(name, message):
    with pytest.raises(DataError, match=message) as caught:
        data.prepare(name, image_size=6)
    assert "\n" not in str(caught.value)
