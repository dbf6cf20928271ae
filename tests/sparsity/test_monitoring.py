"""Sparsity and flips are counted on the masks, and a resumed run records what an unbroken one does."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tf_keras as keras

from tests.training.shared import StopAfter, tiny_batches, tiny_model
from tfdiff import sparsity
from tfdiff.sparsity import SparsityMonitor
from tfdiff.training import Checkpoint


def sparse_model():
    model = sparsity.sparsify(tiny_model(), sparsity.MagnitudePruning.polynomial(0.6, 12, end=0.75, frequency=2))
    model.compile(keras.optimizers.Adam(0.01, jit_compile=False))
    return model


def fit(model, path, epochs, callbacks=(), start=0):
    model.fit(
        tiny_batches(start_step=4 * start),
        steps_per_epoch=4,
        epochs=epochs,
        initial_epoch=start,
        verbose=0,
        callbacks=[SparsityMonitor(path / "sparsity.json", path / "logs"), *callbacks],
    )
    return json.loads((path / "sparsity.json").read_text())


@pytest.mark.slow
def test_masks_are_counted(tmp_path):
    model, masks = sparse_model(), []

    class Remember(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            masks.append({layer.layer.name: layer.mask.numpy() for layer in model.pruned_layers})
            assert logs["sparsity"] == pytest.approx(1 - np.concatenate([m.ravel() for m in masks[-1].values()]).mean())

    rows = fit(model, tmp_path, 3, [Remember()])
    assert [row["step"] for row in rows] == [4, 8, 12]
    before = {name: np.ones_like(mask) for name, mask in masks[0].items()}
    for row, after in zip(rows, masks, strict=True):
        flips, weights = 0, 0
        for name, mask in after.items():
            assert row["layers"][name]["sparsity"] == pytest.approx(np.mean(mask == 0))
            assert row["layers"][name]["mask_flips"] == pytest.approx(np.mean(mask != before[name]))
            flips, weights = flips + np.sum(mask != before[name]), weights + mask.size
        assert row["mask_flips"] == pytest.approx(flips / weights)
        before = after
    assert rows[-1]["sparsity"] == pytest.approx(0.6, abs=0.01)
    assert rows[0]["mask_flips"] > 0
    assert list((tmp_path / "logs").glob("events*"))


@pytest.mark.slow
def test_resumed_records_what_unbroken_does(tmp_path):
    unbroken = fit(sparse_model(), tmp_path / "unbroken", 3)
    fit(sparse_model(), tmp_path / "killed", 3, [Checkpoint(tmp_path / "checkpoints"), StopAfter(1)])
    # An epoch whose checkpoint the kill prevented: its row runs again.
    rows = json.loads((tmp_path / "killed" / "sparsity.json").read_text())
    (tmp_path / "killed" / "sparsity.json").write_text(json.dumps([*rows, {**rows[-1], "step": 8, "sparsity": 9.0}]))
    resumed = sparse_model()
    assert Checkpoint(tmp_path / "checkpoints").restore(resumed) == 4
    assert fit(resumed, tmp_path / "killed", 3, start=1) == unbroken
