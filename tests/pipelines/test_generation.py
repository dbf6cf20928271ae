"""Pictures depend on seed and number alone, work goes on where it stopped, and both formats are read as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.shared import tiny_model
from tfdiff import data
from tfdiff.errors import ModelError, UsageError
from tfdiff.pipelines import generation
from tfdiff.pipelines.generation import Source, generate
from tfdiff.pipelines.picture_store import Pictures

SAMPLING = {"num_steps": 2, "sigma_max": 10.0}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("model") / "model.keras"
    tiny_model().save(str(path))
    return Source(path, SAMPLING)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_CHUNK", 4)


def test_pictures_are_the_drawers(source: Source, tmp_path: Path) -> None:
    done: list[int] = []
    out = generate(source, tmp_path / "a.npz", num_images=10, seed=3, progress=done.append)
    pictures = Pictures.open(out)
    drawer = source.open()
    labels = np.arange(10) % drawer.num_classes
    expected = np.rint((drawer.draw(labels, seed=3) + 1) * 127.5)
    found = np.concatenate(list(pictures.batches(3)))
    assert pictures.shape == found.shape
    assert np.abs(found - expected).max() <= 1
    assert pictures.labels is not None
    assert pictures.labels.tolist() == labels.tolist()
    assert sum(done) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_a_run_that_was_cut_short_goes_on(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = generate(source, tmp_path / "whole.npz", num_images=10).read_bytes()
    draw_chunk, drawn = generation._draw_chunk, []

    def interrupted(job: Any, drawer: Any, index: int) -> None:
        if index == 2 and len(drawn) < 3:
            drawn.append(index)
            raise KeyboardInterrupt
        drawn.append(index)
        draw_chunk(job, drawer, index)

    monkeypatch.setattr(generation, "_draw_chunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(source, tmp_path / "cut.npz", num_images=10)
    done: list[int] = []
    assert generate(source, tmp_path / "cut.npz", num_images=10, progress=done.append).read_bytes() == whole
    assert drawn == [0, 1, 2, 2]
    assert done == [8, 2]


def test_refuses_to_mix_pictures(source: Source, tmp_path: Path) -> None:
    out = generate(source, tmp_path / "a.npz", num_images=4)
    before = out.read_bytes()
    assert generate(source, out, num_images=4) == out
    with pytest.raises(UsageError, match="seed 0 instead of 1"):
        generate(source, out, num_images=4, seed=1)
    with pytest.raises(UsageError, match="images 4 instead of 5"):
        generate(source, out, num_images=5)
    assert out.read_bytes() == before


def test_both_formats_are_data(source: Source, tmp_path: Path) -> None:
    npz = generate(source, tmp_path / "a.npz", num_images=9)
    folder = generate(source, tmp_path / "png", num_images=9)
    pictures = Pictures.open(npz)
    _, size, _, channels = pictures.shape
    first = data.prepare(str(npz), image_size=size, channels=channels)
    second = data.prepare(str(folder), image_size=size, channels=channels)
    order = np.argsort(first.labels, kind="stable")  # folders come class by class
    np.testing.assert_array_equal(first.images[order], second.images)
    np.testing.assert_array_equal(first.labels[order], second.labels)
    assert json.loads((folder / "pictures.json").read_text()) == dict(pictures.facts)


def test_one_class(source: Source, tmp_path: Path) -> None:
    labels = Pictures.open(generate(source, tmp_path / "a.npz", num_images=5, label=1)).labels
    assert labels is not None
    assert labels.tolist() == [1] * 5
    with pytest.raises(UsageError, match="--label 99 is not a class: give 0 to"):
        generate(source, tmp_path / "b.npz", num_images=5, label=99)
    assert not (tmp_path / "b.npz.parts").exists()


def test_broken_models_draw_nothing(source: Source, tmp_path: Path) -> None:
    model = tiny_model()
    model.ema_network.set_weights([np.full(w.shape, np.nan) for w in model.ema_network.get_weights()])
    model.save(str(tmp_path / "broken.keras"))
    with pytest.raises(ModelError, match="NaN or infinity, first in picture 0"):
        generate(Source(tmp_path / "broken.keras", SAMPLING), tmp_path / "a.npz", num_images=5)
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.slow
def test_workers_change_nothing(source: Source, tmp_path: Path) -> None:
    one, two = (generate(source, tmp_path / f"{n}.npz", num_images=300, workers=n) for n in (1, 2))
    assert one.read_bytes() == two.read_bytes()
