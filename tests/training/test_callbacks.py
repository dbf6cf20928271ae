"""Callbacks: resume is exact, history survives, NaN ends training, grids are the right pictures."""

import json

import numpy as np
import pytest
import tf_keras as keras
from PIL import Image

from tests.training.shared import StopAfter, tiny_batches, tiny_model
from tfdiff import diffusion, sparsity
from tfdiff.errors import TrainingError
from tfdiff.networks import unet
from tfdiff.training import (
    PRECISIONS,
    Checkpoint,
    History,
    Progress,
    SampleGrid,
    StopOnNaN,
    image_grid,
    resolve_jit_compile,
    to_uint8,
)


def sparse_model(policy):
    sparse = sparsity.sparsify(tiny_model(policy), sparsity.MagnitudePruning.polynomial(0.6, 12, end=0.75, frequency=2))
    sparse.compile(keras.optimizers.Adam(0.01, jit_compile=False))
    return sparse


@pytest.mark.slow
@pytest.mark.parametrize("policy", PRECISIONS)
@pytest.mark.parametrize("make", [tiny_model, sparse_model], ids=["dense", "sparse"])
def test_resumed_equals_unbroken(make, policy, tmp_path):
    unbroken = make(policy)
    unbroken.fit(tiny_batches(), steps_per_epoch=4, epochs=3, verbose=0)

    killed = make(policy)
    killed.fit(tiny_batches(), steps_per_epoch=4, epochs=3, verbose=0, callbacks=[Checkpoint(tmp_path), StopAfter(1)])

    resumed = make(policy)
    checkpoint = Checkpoint(tmp_path)
    step = checkpoint.restore(resumed)
    assert step == 4
    resumed.fit(
        tiny_batches(start_step=step),
        steps_per_epoch=4,
        epochs=3,
        initial_epoch=step // 4,
        verbose=0,
        callbacks=[checkpoint],
    )
    assert int(resumed.step) == 12
    for ours, theirs in zip(resumed.get_weights(), unbroken.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_checkpoint_of_another_model_is_refused(tmp_path):
    tiny_model().fit(tiny_batches(), steps_per_epoch=1, verbose=0, callbacks=[Checkpoint(tmp_path)])
    other = tiny_model(classes=5)
    with pytest.raises(TrainingError, match="does not fit this model or is damaged"):
        Checkpoint(tmp_path).restore(other)


def test_nothing_to_restore_is_step_zero(tmp_path):
    assert Checkpoint(tmp_path).restore(tiny_model()) == 0


def test_history_keeps_rows_before_the_step_and_drops_those_that_run_again(tmp_path):
    path = tmp_path / "history.json"
    path.write_text(json.dumps([{"step": 2, "loss": 9.0}, {"step": 4, "loss": 8.0}]))
    model = tiny_model()
    model.step.assign(2)
    model.fit(tiny_batches(), steps_per_epoch=2, verbose=0, callbacks=[History(path)])
    rows = json.loads(path.read_text())
    assert [row["step"] for row in rows] == [2, 4]
    assert rows[0]["loss"] == 9.0
    assert rows[1]["loss"] != 8.0
    assert rows[1]["learning_rate"] == pytest.approx(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "advice"),
    [
        ("float32", r"float32\): lower the learning rate"),
        ("mixed_float16", r"mixed_float16\): .* or use mixed_bfloat16"),
    ],
)
def test_nan_ends_training_with_advice(policy, advice):
    model = tiny_model(policy)
    weights = model.network.get_weights()
    model.network.set_weights([np.full_like(weight, np.nan) for weight in weights])
    with pytest.raises(TrainingError, match=rf"loss became nan at step 1 \(learning rate 0.01, {advice}"):
        model.fit(tiny_batches(), steps_per_epoch=3, verbose=0, callbacks=[StopOnNaN()])


@pytest.mark.slow
def test_nan_in_the_weights_after_the_last_step_is_found_before_the_checkpoint(tmp_path):
    model = tiny_model()

    class Spoil(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            model.ema_network.set_weights([np.full_like(weight, np.nan) for weight in model.ema_network.get_weights()])

    callbacks = [Spoil(), StopOnNaN(), Checkpoint(tmp_path)]
    with pytest.raises(TrainingError, match="val_loss became nan"):
        model.fit(
            tiny_batches(), steps_per_epoch=1, validation_data=tiny_batches().take(1), verbose=0, callbacks=callbacks
        )
    assert Checkpoint(tmp_path).restore(tiny_model()) == 0


@pytest.mark.slow
def test_sample_grid_draws_the_classes_by_column(tmp_path):
    model = tiny_model()
    sampling = diffusion.Sampling(num_steps=2)
    callback = SampleGrid(tmp_path, sampling, columns=3, rows=2, every=2, log_dir=tmp_path / "logs")
    model.fit(tiny_batches(), steps_per_epoch=1, epochs=2, verbose=0, callbacks=[callback])
    assert [path.name for path in tmp_path.glob("*.png")] == ["samples_000002.png"]
    expected = image_grid(model.sample([0, 1, 2, 0, 1, 2], sampling=sampling, batch_size=6), columns=3)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "samples_000002.png")), expected[..., 0])
    assert list((tmp_path / "logs").glob("events*"))


@pytest.mark.slow
def test_progress_counts_from_the_restored_step(capsys):
    model = tiny_model()
    model.step.assign(5)
    model.fit(tiny_batches(), steps_per_epoch=3, verbose=0, callbacks=[Progress(8, "tiny")])
    shown = capsys.readouterr().err
    assert "tiny" in shown
    assert "8/8" in shown


def test_image_grid_places_images_row_by_row():
    images = np.linspace(-1, 1, 5 * 4, dtype="float32").reshape(5, 2, 2, 1)
    grid = image_grid(images, columns=3, gap=1)
    assert grid.shape == (5, 8, 1)
    np.testing.assert_array_equal(grid[3:5, 3:5], to_uint8(images[4]))
    assert np.all(grid[2] == 128)


def test_to_uint8_rounds_and_clips():
    np.testing.assert_array_equal(to_uint8(np.array([-2.0, -1.0, 0.0, 1.0, 3.0])), [0, 0, 128, 255, 255])


def test_auto_compiles_on_cpu_only_without_depthwise_convolutions():
    assert resolve_jit_compile("auto", tiny_model().network) is False
    assert resolve_jit_compile("auto", unet(8, 1, widths=(8,), attention=())) is True
    assert resolve_jit_compile(True, tiny_model().network) is True
