"""Training on two replicas: a process of its own, since devices are divided before TensorFlow starts."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
import tensorflow as tf

import tfdiff
from tests.training.shared import tiny_batches, tiny_model
from tfdiff import sparsity
import tf_keras as keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tiny_model(learning_rate=0.02)
data = tiny_batches(batch=16)
before = model.evaluate(data.take(4), verbose=0)
model.fit(data, steps_per_epoch=60, verbose=0)
assert model.completed_steps == 60
assert model.evaluate(data.take(4), verbose=0) < 0.85 * before
with strategy.scope():
    sparse = sparsity.sparsify(model, sparsity.MagnitudePruning.polynomial(0.75, 6, end=0.75, frequency=2))
    sparse.compile(keras.optimizers.Adam(0.01, jit_compile=False))
sparse.fit(data, steps_per_epoch=6, verbose=0)
for network in (sparse.network, sparse.ema_network):
    for weight in network.weights:
        copies = [np.asarray(copy) for copy in strategy.experimental_local_results(weight)]
        assert len(copies) == 2 and np.array_equal(*copies), weight.name
    zeros = sparsity.pruned_fraction(sparsity.layer_sparsity(network, sparsity.selections(sparse)))
    assert abs(zeros - 0.75) < 0.005, zeros
"""


@pytest.mark.slow
def test_two_replicas_train_prune_and_stay_equal():
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
