"""Sparsity survives everything that is known to lose it: each way it gets lost is a test."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras.pruning_callbacks import UpdatePruningStep

import tfdiff
from tests.training.shared import tiny_batches, tiny_model
from tfdiff import diffusion, networks, sparsity
from tfdiff.errors import ModelError, UsageError
from tfdiff.training import PRECISIONS, Checkpoint, load_model

TARGET, STEPS = 0.75, 8


def fractions(model):
    """Zero fraction of the pruned kernels in the trained and in the averaged network."""
    selections = sparsity.selections(model)
    return [
        sparsity.pruned_fraction(sparsity.layer_sparsity(network, selections))
        for network in (model.network, model.ema_network)
    ]


def sparse_model(policy="float32", *, jit_compile=False, optimizer=None, model=None):
    method = sparsity.MagnitudePruning.polynomial(TARGET, STEPS, end=0.75, frequency=2)
    sparse = sparsity.sparsify(model or tiny_model(policy), method)
    sparse.compile(optimizer or keras.optimizers.Adam(0.01, jit_compile=False), jit_compile=jit_compile)
    return sparse


@pytest.fixture(scope="module")
def trained():
    """A sparse model after its whole schedule. Tests must not change it."""
    keras.utils.set_random_seed(0)
    model = sparse_model()
    model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("policy", PRECISIONS)
def test_target_is_reached_without_naming_the_callback(policy, jit_compile):
    model = sparse_model(policy, jit_compile=jit_compile)
    model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0)
    assert fractions(model) == pytest.approx([TARGET, TARGET], abs=0.005)


@pytest.mark.slow
def test_unet_with_group_normalization_and_attention_reaches_it_too():
    network = networks.unet(8, 1, 3, widths=(8, 16), blocks=1, attention=(4,), groups=4, embedding_width=16)
    model = sparse_model(model=tfdiff.DiffusionModel(network))
    model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0)
    assert fractions(model) == pytest.approx([TARGET, TARGET], abs=0.005)


@pytest.mark.slow
def test_sparsify_starts_from_the_same_function():
    dense = tiny_model()
    dense.fit(tiny_batches(), steps_per_epoch=3, verbose=0)
    sparse = sparse_model(model=dense)
    labels = [0, 1, 2]
    np.testing.assert_array_equal(sparse.sample(labels), dense.sample(labels))
    for ema in (False, True):
        x, rows = np.ones((3, 8, 8, 1), "float32"), np.eye(3, dtype="float32")
        np.testing.assert_array_equal(sparse.denoiser(ema=ema)(x, 0.7, rows), dense.denoiser(ema=ema)(x, 0.7, rows))
    assert fractions(sparse)[0] < 0.1


def test_wrapped_model_is_the_plain_network_on_masked_weights(trained):
    stripped = sparsity.strip(trained)
    x = np.random.default_rng(0).standard_normal((2, 8, 8, 1)).astype("float32")
    inputs = [x, np.array([0.5, 2.0], "float32"), np.eye(3, dtype="float32")[:2]]
    np.testing.assert_allclose(stripped(inputs), trained(inputs), rtol=1e-5, atol=1e-6)
    assert not any(isinstance(layer, keras.layers.Wrapper) for layer in stripped.network.layers)


@pytest.mark.slow
def test_every_step_ends_masked(trained):
    # Not only the last of an epoch: a checkpoint callback that runs first must find zeros.
    seen = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(fractions(self.model))

    model = sparse_model()
    model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0, callbacks=[Look(), UpdatePruningStep()])
    assert seen[-1] == pytest.approx([TARGET, TARGET], abs=0.005)
    assert seen[3][0] > 0.4
    assert seen[3][0] == pytest.approx(seen[3][1], abs=1e-6)


@pytest.mark.slow
def test_save_and_load_keep_zeros_masks_and_step(trained, tmp_path):
    trained.save(tmp_path / "sparse.keras")
    loaded = load_model(str(tmp_path / "sparse.keras"))
    assert isinstance(loaded, sparsity.SparseDiffusionModel)
    assert fractions(loaded) == fractions(trained)
    loaded.compile(keras.optimizers.Adam(0.01, jit_compile=False))
    loaded.fit(tiny_batches(), steps_per_epoch=3, verbose=0)  # trained on: the schedule is over, the masks stay
    assert fractions(loaded) == pytest.approx([TARGET, TARGET], abs=0.005)


@pytest.mark.slow
def test_model_checkpoint_before_the_pruning_callback_saves_zeros(tmp_path):
    model = sparse_model()
    path = tmp_path / "weights.keras"
    model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0, callbacks=[keras.callbacks.ModelCheckpoint(str(path))])
    assert fractions(load_model(str(path))) == pytest.approx([TARGET, TARGET], abs=0.005)


@pytest.mark.slow
def test_restored_wrappers_all_keep_their_step(tmp_path):
    model = sparse_model()
    model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0, callbacks=[Checkpoint(tmp_path)])
    restored = sparse_model()
    Checkpoint(tmp_path).restore(restored)
    assert {int(layer.pruning_step) for layer in restored.pruned_layers} == {STEPS}
    assert fractions(restored) == fractions(model)


def test_optimizer_averages_are_refused():
    model = sparse_model(optimizer=keras.optimizers.Adam(0.01, use_ema=True, jit_compile=False))
    with pytest.raises(ModelError, match="use_ema=True writes dense averages"):
        model.fit(tiny_batches(), steps_per_epoch=STEPS, verbose=0)


@pytest.mark.slow
def test_training_on_after_strip_is_refused_and_fixed_mask_keeps_the_zeros(trained, tmp_path):
    sparsity.strip(trained).save(tmp_path / "stripped.keras")
    stripped = load_model(str(tmp_path / "stripped.keras"))
    stripped.compile("adam")
    with pytest.raises(ModelError, match="would fill them: train sparsity"):
        stripped.fit(tiny_batches(), steps_per_epoch=1, verbose=0)
    again = sparsity.sparsify(stripped, sparsity.FixedMask())
    again.compile(keras.optimizers.Adam(0.01, jit_compile=False))
    before = [np.asarray(layer.layer.kernel) for layer in again.pruned_layers]
    again.fit(tiny_batches(), steps_per_epoch=4, verbose=0)
    for old, layer in zip(before, again.pruned_layers, strict=True):
        np.testing.assert_array_equal(np.asarray(layer.layer.kernel) == 0, old == 0)
        assert not np.array_equal(np.asarray(layer.layer.kernel), old)


def with_zeros(layer, fraction):
    """A dense model with zeros in one layer's kernel."""
    model = tiny_model()
    kernel = model.network.get_layer(layer).kernel
    flat = kernel.numpy().ravel()
    flat[: int(fraction * flat.size)] = 0
    kernel.assign(flat.reshape(kernel.shape))
    return model


def test_zeros_in_a_plain_network_are_not_filled():
    model = with_zeros("stem", 0.5)
    images, labels = next(iter(tiny_batches()))
    with pytest.raises(ModelError, match="layer 'stem' has 50% zeros and no mask"):
        model.train_on_batch(images, labels)


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_fixed_mask_keeps_zeros_that_no_default_policy_selects(fraction):
    model = sparsity.sparsify(with_zeros("stem", fraction), sparsity.FixedMask())
    assert [layer.layer.name for layer in model.pruned_layers] == ["stem"]
    model.compile(keras.optimizers.Adam(0.01, jit_compile=False))
    model.fit(tiny_batches(), steps_per_epoch=2, verbose=0)
    kernel = np.asarray(model.ema_network.get_layer("stem").kernel)
    assert np.mean(kernel == 0) == pytest.approx(fraction, abs=1 / kernel.size)


def test_folded_network_has_the_same_zeros(trained):
    folded = networks.folded(trained.ema_network, batch_size=1)
    counted = sparsity.layer_sparsity(folded, sparsity.selections(trained))
    averaged = sparsity.layer_sparsity(trained.ema_network, sparsity.selections(trained))
    assert [layer.zeros for layer in counted if layer.pruned] == [layer.zeros for layer in averaged if layer.pruned]
    assert sparsity.pruned_fraction(counted) == pytest.approx(TARGET, abs=0.005)


def test_report_counts_every_layer(trained):
    layers = {layer.layer: layer for layer in sparsity.layer_sparsity(trained.network, sparsity.selections(trained))}
    assert not layers["stem"].pruned
    assert layers["stem"].zeros == 0
    assert layers["stem"].reason == "first layer"
    expand = layers["down1_block0_expand"]
    assert expand.pruned
    assert expand.weights == 16 * 48
    assert expand.fraction == pytest.approx(TARGET, abs=0.005)


def test_too_few_steps_are_refused_before_training():
    model = sparse_model()
    with pytest.raises(UsageError, match="pruning target 75% cannot be reached in 4 training steps"):
        model.fit(tiny_batches(), steps_per_epoch=4, verbose=0)
    assert int(model.step) == 0
    with pytest.raises(UsageError, match="cannot be reached in 4"):
        model.fit(tiny_batches().take(4).apply(tf.data.experimental.assert_cardinality(4)), verbose=0)

    images, labels = (np.concatenate(part) for part in zip(*tiny_batches().take(4).as_numpy_iterator(), strict=True))
    with pytest.raises(UsageError, match="cannot be reached in 4"):
        model.fit(images, labels, batch_size=8, verbose=0)


def test_noise_is_not_that_of_the_dense_training():
    dense = tiny_model(seed=5)
    assert sparse_model(model=dense).seed != dense.seed


def test_sparse_models_are_not_sparsified_again(trained):
    with pytest.raises(ModelError, match="carries pruning wrappers already"):
        sparsity.sparsify(trained, sparsity.MagnitudePruning.polynomial(0.5, 10))


def test_a_policy_that_selects_nothing_is_refused():
    policy = sparsity.PruningPolicy(min_weights=10**6)
    with pytest.raises(ModelError, match="no layer of 'edge_unet' is selected"):
        sparsity.sparsify(tiny_model(), sparsity.MagnitudePruning.polynomial(0.5, 10, policy=policy))


@pytest.mark.slow
def test_constant_schedule_works_as_tfmot_defines_it():
    schedule = sparsity.ConstantSparsity(0.5, begin_step=1, frequency=1)
    model = sparsity.sparsify(tiny_model(), sparsity.MagnitudePruning(schedule))
    model.compile(keras.optimizers.Adam(0.01, jit_compile=False))
    model.fit(tiny_batches(), steps_per_epoch=3, verbose=0)
    assert fractions(model) == pytest.approx([0.5, 0.5], abs=0.005)


def test_samples_of_the_sparse_model_do_not_depend_on_wrappers(trained):
    sampling = diffusion.Sampling(num_steps=3)
    np.testing.assert_array_equal(
        trained.sample([0, 1], sampling=sampling), sparsity.strip(trained).sample([0, 1], sampling=sampling)
    )
