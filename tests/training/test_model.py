"""`DiffusionModel` behaves as a Keras model, in every precision, with and without XLA."""

import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import tfdiff
from tests.training.shared import tiny_batches, tiny_model, tiny_network
from tfdiff import diffusion, networks, sparsity
from tfdiff.errors import DataError, ModelError, UsageError
from tfdiff.training import PRECISIONS, load_model, precision


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("policy", PRECISIONS)
def test_loss_falls_in_every_precision(policy, jit_compile):
    model = tiny_model(policy, jit_compile=jit_compile, learning_rate=0.02)
    before = model.evaluate(tiny_batches(10_000).take(4), verbose=0)
    model.fit(tiny_batches(), steps_per_epoch=100, verbose=0)
    after = model.evaluate(tiny_batches(10_000).take(4), verbose=0)
    assert after < 0.75 * before
    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())


@pytest.mark.slow
def test_xla_and_graph_take_the_same_step():
    weights = []
    for jit_compile in (False, True):
        model = tiny_model(jit_compile=jit_compile, optimizer=keras.optimizers.SGD(0.01, jit_compile=False))
        model.fit(tiny_batches(), steps_per_epoch=3, verbose=0)
        weights.append(model.get_weights())
    for plain, compiled in zip(*weights, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("weighting", ["edm", "uniform"])
def test_loss_is_the_expectation_of_the_formula(weighting):
    # The untrained network predicts F = 0, so D = c_skip·x; for images of ±1 the error's expectation is a closed form
    # in sigma, and sigma's distribution is a log-normal whose quantiles are known.
    model = tiny_model(weighting=weighting, noise_levels={"name": "lognormal", "p_mean": -0.5, "p_std": 0.8})
    sigma = model.noise_levels.sigma((np.arange(4000) + 0.5) / 4000)
    c_skip = 0.25 / (sigma**2 + 0.25)
    weight = {"edm": (sigma**2 + 0.25) / (0.5 * sigma) ** 2, "uniform": 1.0}[weighting]
    expected = np.mean(weight * ((c_skip - 1) ** 2 + (c_skip * sigma) ** 2))
    measured = model.evaluate(tiny_batches(batch=64).take(40), verbose=0)
    # 2,560 levels, stratified, of 64 pixels each.
    assert measured == pytest.approx(expected, rel=0.02)
    logs = model.train_step(next(iter(tiny_batches(batch=512))))
    assert float(logs["loss"]) == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("policy", PRECISIONS)
def test_loss_is_scaled_under_float16_alone(policy, tmp_path):
    model = tiny_model(policy)
    scaled = policy == "mixed_float16"
    assert isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer) == scaled
    model.fit(tiny_batches(), steps_per_epoch=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = load_model(str(tmp_path / "model.keras"))
    assert isinstance(loaded.optimizer, keras.mixed_precision.LossScaleOptimizer) == scaled
    sparse = sparsity.sparsify(model, sparsity.MagnitudePruning.polynomial(0.5, 10))
    sparse.compile("adam")
    assert isinstance(sparse.optimizer, keras.mixed_precision.LossScaleOptimizer) == scaled
    # Noise levels and images reach the denoiser in float32 whatever the policy.
    assert model([np.full((1, 8, 8, 1), 70_000.0), np.array([70_000.0]), np.zeros((1, 3))]).dtype == tf.float32


def test_evaluate_is_the_same_every_time_and_scores_the_average():
    model = tiny_model()
    data = tiny_batches().take(3)
    first = model.evaluate(data, verbose=0)
    assert model.evaluate(data, verbose=0) == first
    model.network.set_weights([weight + 0.5 for weight in model.network.get_weights()])
    assert model.evaluate(data, verbose=0) == first
    model.ema_network.set_weights(model.network.get_weights())
    assert model.evaluate(data, verbose=0) != first


def test_average_follows_the_documented_recursion():
    model = tiny_model(ema_decay=0.5)
    average = [weight.numpy() for weight in model.ema_network.weights]
    data = iter(tiny_batches())
    for step in (1, 2, 3):
        model.train_step(next(data))
        keep = min(0.5, (1 + step) / (10 + step))
        average = [keep * a + (1 - keep) * w.numpy() for a, w in zip(average, model.network.weights, strict=True)]
    for expected, weight in zip(average, model.ema_network.weights, strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.25, 0.999])
def test_label_dropout_drops_that_share(dropout):
    model = tiny_model(label_dropout=dropout)
    images, labels = next(iter(tiny_batches(batch=400)))
    seen = []
    network = model.network

    class Spy:
        inputs = network.inputs

        def __call__(self, inputs, training=False):
            seen.append(inputs[2].numpy())
            return network(inputs)

    model.denoiser = lambda ema=True: diffusion.Denoiser(Spy())
    model.train_step((images, labels))
    rows = seen[0].sum(axis=1)
    # Binomial: four standard errors.
    assert abs((rows == 0).mean() - dropout) <= 4 * np.sqrt(dropout * (1 - dropout) / 400)
    np.testing.assert_array_equal(seen[0][rows == 1].argmax(1), labels.numpy()[rows == 1])


@pytest.mark.slow
def test_steps_per_execution_changes_nothing():
    weights = []
    for steps_per_execution in (1, 3):
        model = tiny_model()
        model.compile(keras.optimizers.Adam(0.01, jit_compile=False), steps_per_execution=steps_per_execution)
        model.fit(tiny_batches(), steps_per_epoch=6, verbose=0)
        assert int(model.step) == 6
        weights.append(model.get_weights())
    for one, three in zip(*weights, strict=True):
        np.testing.assert_allclose(one, three, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_saved_and_loaded_model_is_the_same(tmp_path):
    model = tiny_model(parameterization="v", noise_levels={"name": "cosine"}, weighting="min_snr", seed=7)
    model.fit(tiny_batches(), steps_per_epoch=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = load_model(str(tmp_path / "model.keras"))
    assert loaded.get_config() == model.get_config()
    assert int(loaded.step) == 2
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    labels = [0, 1, 2, -1]
    np.testing.assert_array_equal(loaded.sample(labels), model.sample(labels))
    assert loaded.evaluate(tiny_batches().take(2), verbose=0) == model.evaluate(tiny_batches().take(2), verbose=0)


@pytest.mark.slow
def test_sample_does_not_depend_on_the_batch_size():
    model = tiny_model()
    model.fit(tiny_batches(), steps_per_epoch=3, verbose=0)
    labels = [0, 1, 2, 0, 1]
    sampling = diffusion.Sampling(num_steps=3, guidance_scale=1.5)
    whole = model.sample(labels, sampling=sampling, batch_size=5)
    parts = model.sample(labels, sampling=sampling, batch_size=2)
    assert whole.shape == (5, 8, 8, 1)
    np.testing.assert_allclose(whole, parts, atol=1e-4)
    assert np.abs(whole[0] - whole[3]).max() > 0.01  # same label, another noise


@pytest.mark.slow
def test_trained_model_draws_the_class_that_is_asked_for():
    model = tiny_model(learning_rate=0.03, noise_levels={"name": "lognormal", "p_mean": -0.4}, ema_decay=0.95)
    model.fit(tiny_batches(batch=32), steps_per_epoch=300, verbose=0)
    labels = np.arange(30) % 3
    images = model.sample(labels, sampling=diffusion.Sampling(num_steps=6, sigma_max=20))
    brightness = np.stack([images[:, :, 2 * k : 2 * k + 2].mean(axis=(1, 2, 3)) for k in range(3)], axis=1)
    assert (brightness.argmax(axis=1) == labels).mean() >= 0.9


@pytest.mark.slow
def test_a_one_device_strategy_changes_nothing():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        model = tiny_model()
    model.fit(tiny_batches(), steps_per_epoch=2, verbose=0)
    alone = tiny_model()
    alone.fit(tiny_batches(), steps_per_epoch=2, verbose=0)
    for ours, theirs in zip(model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_wrong_data_is_refused_by_name():
    model = tiny_model()
    images = np.zeros((4, 8, 8, 1), "float32")
    with pytest.raises(DataError, match="conditional on 3 classes, but the data has no labels"):
        model.fit(tf.data.Dataset.from_tensors(images), verbose=0)
    with pytest.raises(DataError, match=r"images of shape \(6, 6, 1\) do not fit"):
        model.fit(tf.data.Dataset.from_tensors((images[:, :6, :6], np.zeros(4, "int32"))), verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_dropout": 1.0}, "label_dropout=1.0"),
        ({"ema_decay": -0.1}, "ema_decay=-0.1"),
        ({"parameterization": "z"}, "z"),
        ({"noise_levels": "sigmoid"}, "sigmoid"),
        ({"weighting": "none"}, "none"),
        ({"sigma_data": 0.0}, "sigma_data=0.0"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(UsageError, match=message):
        tfdiff.DiffusionModel(tiny_network(), **arguments)


def test_load_model_names_the_file_and_the_fault(tmp_path):
    broken = tmp_path / "broken.keras"
    broken.write_bytes(b"PK\x03\x04 not a model")
    with pytest.raises(ModelError, match=r"broken\.keras cannot be loaded"):
        load_model(str(broken))
    with pytest.raises(ModelError, match=r"missing\.keras cannot be loaded"):
        load_model(str(tmp_path / "missing.keras"))
    with zipfile.ZipFile(tmp_path / "modern.keras", "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
    with pytest.raises(
        ModelError, match=r"modern\.keras was saved by Keras 3\.15\.1; tfdiff and TF-MOT work on Keras 2"
    ):
        load_model(str(tmp_path / "modern.keras"))
    tiny_network().save(tmp_path / "network.keras")
    with pytest.raises(ModelError, match=r"holds a Functional, not a tfdiff\.DiffusionModel"):
        load_model(str(tmp_path / "network.keras"))


def test_unknown_precision_is_refused_and_the_policy_restored():
    before = keras.mixed_precision.global_policy().name
    with pytest.raises(UsageError, match="precision='float8' is unknown"), precision("float8"):
        pass
    with precision("mixed_bfloat16"):
        assert keras.mixed_precision.global_policy().name == "mixed_bfloat16"
    assert keras.mixed_precision.global_policy().name == before


@pytest.mark.slow
@pytest.mark.parametrize("policy", PRECISIONS)
def test_gradient_norm_is_that_before_clipping(policy):
    """The same whether gradients are clipped or not; SGD at rate 1 shows them as the change of the weights."""
    norms, moved = [], []
    for clip in (None, 1e-3):
        keras.utils.set_random_seed(1)
        with precision(policy):  # a network whose weights only the optimizer moves: edge_unet's are normalized as well
            network = networks.unet(8, 1, 3, widths=(8,), blocks=1, attention=(), groups=4)
        model = tfdiff.DiffusionModel(network)
        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=clip, jit_compile=False), jit_compile=False)
        before = [weight.numpy() for weight in model.network.trainable_variables]
        # Steps whose scaled gradients overflow are skipped and do not count.
        while True:
            norm = model.train_on_batch(*next(iter(tiny_batches())), return_dict=True)["gradient_norm"]
            if norm:
                break
            model.reset_metrics()
        after = [weight.numpy() for weight in model.network.trainable_variables]
        norms.append(norm)
        moved.append(np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(after, before, strict=True))))
    assert np.isfinite(norms).all()
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    assert moved[0] == pytest.approx(norms[0], rel=1e-3)
    assert moved[1] == pytest.approx(1e-3, rel=1e-3)


def test_legacy_optimizers_are_refused_before_a_step():
    model = tiny_model(optimizer=keras.optimizers.legacy.Adam(0.01))
    with pytest.raises(ModelError, match="legacy"):
        model.fit(tiny_batches(), steps_per_epoch=1, verbose=0)
    assert model.completed_steps == 0
