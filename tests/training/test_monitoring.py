"""Monitors put the right numbers into the logs, and the best model is kept, whole, across a restart."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tf_keras as keras

from tests.training.shared import tiny_batches, tiny_model
from tfdiff import diffusion, metrics
from tfdiff.errors import DataError, UsageError
from tfdiff.training import DenoisingMonitor, History, KeepBest, KernelDistanceMonitor, load_model, to_uint8

EPOCH = {"steps_per_epoch": 2, "verbose": 0}


def held_out(count=10):
    images, labels = next(iter(tiny_batches(batch=count)))
    return images.numpy(), labels.numpy()


def mean_and_deviation():
    """A feature network whose features are known: mean and standard deviation of the pixels."""
    import tensorflow as tf

    def run(pixels):
        return [tf.stack([tf.reduce_mean(pixels, (1, 2, 3)), tf.math.reduce_std(pixels, (1, 2, 3))], -1) / 255]

    return metrics.FeatureNetwork("moments", run, "f" * 64, dimension=2, num_classes=None, image_shape=(8, 8, 1))


class _Logs(keras.callbacks.Callback):
    """Gives the epochs of a training the values that it is told."""

    def __init__(self, values):
        super().__init__()
        self.values = list(values)

    def on_epoch_end(self, epoch, logs=None):
        logs["score"] = self.values[epoch]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [3, None])
def test_denoising_is_that_of_the_averaged_network(classes, tmp_path):
    model = tiny_model(classes=classes)
    images, labels = held_out()
    monitor = DenoisingMonitor(images, labels, sigmas=[5.0, 0.5], every=2, batch_size=4)
    model.fit(tiny_batches(), epochs=2, **EPOCH, callbacks=[monitor, History(tmp_path / "history.json")])
    expected = metrics.denoising_loss_by_level(model.denoiser(), images, labels, sigmas=[5.0, 0.5])
    first, second = json.loads((tmp_path / "history.json").read_text())
    assert "val_denoising" not in first
    assert second["val_denoising"] == pytest.approx(expected.mean, rel=1e-5)
    assert [second["val_denoising_5"], second["val_denoising_0.5"]] == pytest.approx(expected.by_level, rel=1e-5)


@pytest.mark.slow
def test_kid_is_that_of_the_pictures_that_the_model_draws():
    model = tiny_model()
    features, sampling = mean_and_deviation(), diffusion.Sampling(num_steps=2)
    real = metrics.FeatureStatistics.of(features.features(to_uint8(held_out(20)[0])))
    monitor = KernelDistanceMonitor(features, real, images=30, sampling=sampling, seed=7, batch_size=16)
    logs = model.fit(tiny_batches(), epochs=1, **EPOCH, callbacks=[monitor]).history
    drawn = model.sample(np.arange(30) % 3, sampling=sampling, seed=7)
    expected = metrics.kernel_distance(real, metrics.FeatureStatistics.of(features.features(to_uint8(drawn))))
    assert logs["val_kid"] == [pytest.approx(expected.value, rel=1e-3, abs=1e-6)]


def test_kid_refuses_what_it_cannot_measure():
    features = mean_and_deviation()
    real = metrics.FeatureStatistics.of(np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(DataError, match="have 3 features, moments gives 2"):
        KernelDistanceMonitor(features, real)
    with pytest.raises(UsageError, match="images=1"):
        KernelDistanceMonitor(features, real, images=1)
    with pytest.raises(UsageError, match="every=0"):
        DenoisingMonitor(*held_out(), every=0)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "best"), [("min", 1), ("max", 2)])
def test_the_best_epoch_is_kept(tmp_path, mode, best):
    model = tiny_model()
    weights = []

    class Remember(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            weights.append(model.get_weights())

    keep = KeepBest(tmp_path, "score", mode=mode)
    model.fit(tiny_batches(), epochs=4, **EPOCH, callbacks=[_Logs([3.0, 1.0, 5.0, float("nan")]), Remember(), keep])
    assert keep.best == {
        "step": 2 * (best + 1),
        "monitor": "score",
        "mode": mode,
        "value": [3.0, 1.0, 5.0][best],
        "file": f"best_{2 * (best + 1):06d}.keras",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", keep.best["file"]]
    keep.restore(tmp_path / "chosen.keras")
    for ours, theirs in zip(load_model(str(tmp_path / "chosen.keras")).get_weights(), weights[best], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_that_goes_on_compares_with_what_was_best_before(tmp_path):
    model = tiny_model()
    model.fit(tiny_batches(), epochs=1, **EPOCH, callbacks=[_Logs([2.0]), KeepBest(tmp_path, "score")])
    keep = KeepBest(tmp_path, "score")
    model.fit(tiny_batches(), epochs=3, initial_epoch=1, **EPOCH, callbacks=[_Logs([0, 4.0, 3.0]), keep])
    assert keep.best["step"] == 2
    with pytest.raises(UsageError, match=r"keeps the best score \(min\), not val_loss"):
        model.fit(tiny_batches(), **EPOCH, callbacks=[KeepBest(tmp_path, "val_loss")])


@pytest.mark.slow
def test_epochs_before_the_start_do_not_count(tmp_path):
    keep = KeepBest(tmp_path, "score", start_step=4)
    model = tiny_model()
    model.fit(tiny_batches(), epochs=3, **EPOCH, callbacks=[_Logs([0.0, 2.0, 1.0]), keep])
    assert keep.best["step"] == 6
    late = KeepBest(tmp_path / "late", "score", start_step=99)
    with pytest.raises(UsageError, match="no epoch ended at or after step 99"):
        late.restore(tmp_path / "none.keras")
    assert not (tmp_path / "none.keras").exists()


@pytest.mark.slow
def test_a_failed_save_leaves_the_best_before_it(tmp_path, monkeypatch):
    model, keep = tiny_model(), KeepBest(tmp_path, "score")
    model.fit(tiny_batches(), epochs=1, **EPOCH, callbacks=[_Logs([2.0]), keep])
    before = keep.best

    def fail(path):
        raise OSError("disk full")

    monkeypatch.setattr(model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        model.fit(tiny_batches(), epochs=2, initial_epoch=1, **EPOCH, callbacks=[_Logs([0, 1.0]), keep])
    assert keep.best == before
    assert load_model(str(tmp_path / before["file"])).completed_steps == 2


def test_keep_best_says_what_the_logs_hold(tmp_path):
    keep = KeepBest(tmp_path)
    keep.set_model(tiny_model())
    with pytest.raises(UsageError, match="'val_denoising' is not in the logs, which hold loss, val_loss: put the"):
        keep.on_epoch_end(0, {"loss": 1.0, "val_loss": 2.0})
    with pytest.raises(UsageError, match="mode='least'"):
        KeepBest(tmp_path, mode="least")
