"""The event files hold the logs against the training step."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.shared import tiny_batches, tiny_model
from tfdiff.training import TensorBoard


def scalars(folder):
    """Tag → [(step, value)] of a run."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_scalars_are_the_logs_at_their_steps(tmp_path, policy):
    model = tiny_model(policy)
    model.step.assign(10)
    logs = model.fit(
        tiny_batches(),
        steps_per_epoch=2,
        epochs=2,
        validation_data=tiny_batches().take(1),
        verbose=0,
        callbacks=[TensorBoard(tmp_path)],
    ).history
    train, validation = scalars(tmp_path / "train"), scalars(tmp_path / "validation")
    for name in ("loss", "gradient_norm"):
        assert train[name] == [(step, pytest.approx(value)) for step, value in zip((12, 14), logs[name], strict=True)]
    assert validation["loss"] == [(12, pytest.approx(logs["val_loss"][0])), (14, pytest.approx(logs["val_loss"][1]))]
    assert [value for _, value in train["learning_rate"]] == pytest.approx([0.01, 0.01])
    assert ("loss_scale" in train) == (policy == "mixed_float16")
    if policy == "mixed_float16":
        assert train["loss_scale"][-1] == (14, float(model.optimizer.loss_scale))
