from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdiff.diffusion import (
    PARAMETERIZATIONS,
    Denoiser,
    get_parameterization,
    noise_embedding,
    one_hot_labels,
)

X = np.random.default_rng(0).standard_normal((3, 4, 4, 3)).astype(np.float32)
LABEL = one_hot_labels([0, 3, -1], 5)


def written_out(network, parameterization: str, x, sigma: float, *label):
    """The definition of D, in float64 around the network."""
    c_skip, c_out, c_in = get_parameterization(parameterization).coefficients(sigma, 0.5)
    embedding = np.tile(noise_embedding(sigma, 8), (len(x), 1))
    return c_skip * x + c_out * network([tf.constant(c_in * x, tf.float32), embedding, *label]).numpy()


@pytest.mark.parametrize("parameterization", PARAMETERIZATIONS)
@pytest.mark.parametrize("sigma", [0.002, 0.5, 80.0])
def test_every_form_of_sigma_gives_the_definition(unconditional, parameterization: str, sigma: float):
    denoiser = Denoiser(unconditional, parameterization)
    expected = written_out(unconditional, parameterization, X, sigma)
    scale = max(1, np.abs(expected).max())
    numbers = (sigma, np.float32(sigma), np.array(sigma), np.full(3, sigma))
    for form in (*numbers, tf.constant(sigma), tf.fill([3], sigma)):
        denoised = denoiser(X, form)
        assert denoised.dtype == tf.float32
        np.testing.assert_allclose(denoised / scale, expected / scale, atol=2e-5)


def test_each_image_has_its_own_level(unconditional):
    denoiser = Denoiser(unconditional)
    levels = [0.1, 1.0, 10.0]
    together = denoiser(X, tf.constant(levels))
    for i, sigma in enumerate(levels):
        np.testing.assert_allclose(together[i], denoiser(X[i : i + 1], sigma)[0], atol=2e-5)


@pytest.mark.parametrize("batch", [3, None])
def test_scalar_sigma_is_folded_into_constants(conditional, op_types, batch: int | None):
    denoiser = Denoiser(conditional)
    image, label = tf.TensorSpec([batch, 4, 4, 3]), tf.TensorSpec([batch, 5])
    types = op_types(lambda x, y: denoiser(x, np.float64(2.0), y), image, label)
    assert not types & {"Sin", "Cos", "Log", "Pow", "Sqrt", "RealDiv"}
    if batch:
        assert not types & {"BroadcastTo", "Tile", "Shape", "Fill"}
    assert {"Sin", "Cos"} <= op_types(lambda x, y: denoiser(x, tf.constant(2.0), y), image, label)


@pytest.mark.parametrize("sigma", [2.0, tf.constant(2.0)])
def test_unknown_batch_gives_the_same(conditional, sigma):
    denoiser = Denoiser(conditional)
    traced = tf.function(lambda x: denoiser(x, sigma), input_signature=[tf.TensorSpec([None, 4, 4, 3])])
    np.testing.assert_allclose(traced(X), denoiser(X, sigma), atol=1e-5)


def test_no_label_means_null_rows(conditional):
    denoiser = Denoiser(conditional)
    np.testing.assert_array_equal(denoiser(X, 1.0), denoiser(X, 1.0, np.zeros((3, 5))))
    assert np.abs(denoiser(X, 1.0) - denoiser(X, 1.0, LABEL)).max() > 0.1


@pytest.mark.parametrize("scale", [-1.0, 0.5, 3.0])
def test_guidance_formula_takes_two_calls(conditional, scale: float):
    denoiser = Denoiser(conditional)
    denoised = denoiser.guided(LABEL, scale)(X, 0.7)
    assert len(conditional.calls) == 2
    without, with_label = denoiser(X, 0.7), denoiser(X, 0.7, LABEL)
    np.testing.assert_allclose(denoised, (1 - scale) * without + scale * with_label, atol=1e-5)


@pytest.mark.parametrize(("scale", "label"), [(1.0, LABEL), (0.0, None), (1, LABEL), (0, None)])
def test_scales_zero_and_one_take_one_call(conditional, scale: float, label):
    denoiser = Denoiser(conditional)
    denoised = denoiser.guided(LABEL, scale)(X, 0.7)
    assert len(conditional.calls) == 1
    np.testing.assert_array_equal(denoised, denoiser(X, 0.7, label))


def test_attributes_come_from_the_network(conditional, unconditional):
    denoiser = Denoiser(conditional, "v", 0.3)
    assert denoiser.network is conditional
    assert denoiser.parameterization is get_parameterization("v")
    assert (denoiser.sigma_data, denoiser.image_shape, denoiser.noise_channels) == (0.3, (4, 4, 3), 8)
    assert denoiser.num_classes == 5
    assert Denoiser(unconditional).num_classes is None


def keras_network(*, with_label: bool = True):
    image = keras.Input((4, 4, 3), name="image")
    noise = keras.Input((8,), name="noise_embedding")
    label = keras.Input((5,), name="label")
    shift = keras.layers.Dense(3)(noise)
    if with_label:
        shift = keras.layers.Add()([shift, keras.layers.Dense(3)(label)])
    hidden = keras.layers.Add()([image, keras.layers.Reshape((1, 1, 3))(shift)])
    output = keras.layers.Dropout(0.5)(hidden)
    return keras.Model([image, noise, label][: 2 + with_label], output)


def test_a_keras_model_hears_of_training():
    keras.utils.set_random_seed(0)
    denoiser = Denoiser(keras_network(), "x0")
    assert (denoiser.image_shape, denoiser.noise_channels, denoiser.num_classes) == ((4, 4, 3), 8, 5)
    np.testing.assert_array_equal(denoiser(X, 1.0, LABEL), denoiser(X, 1.0, LABEL))
    dropped = denoiser(X, 1.0, LABEL, training=True).numpy() == 0
    assert 0.2 < dropped.mean() < 0.8


def test_xla_changes_nothing():
    keras.utils.set_random_seed(0)
    denoiser = Denoiser(keras_network())
    compiled = tf.function(lambda x, sigma, label: denoiser(x, sigma, label), jit_compile=True)
    sigma = tf.constant([0.01, 1.0, 50.0])
    np.testing.assert_allclose(compiled(X, sigma, LABEL), denoiser(X, sigma, LABEL), atol=1e-5)


def test_one_hot_labels():
    expected = [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    rows = one_hot_labels(np.array([0, 2, -1]), 3)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, expected)
    tensor = one_hot_labels(tf.constant([0, 2, -1]), 3)
    assert tensor.dtype == tf.float32
    np.testing.assert_array_equal(tensor, expected)


@pytest.mark.parametrize(("labels", "found"), [([0, 3], "contain 3"), ([-2], "contain -2"), ([0.5], "dtype float64")])
def test_bad_labels_are_refused(labels: list, found: str):
    with pytest.raises(ValueError, match=found):
        one_hot_labels(labels, 3)


def test_float_tensor_labels_are_refused():
    with pytest.raises(ValueError, match="dtype float32"):
        one_hot_labels(tf.constant([1.0]), 3)


def test_errors_name_the_argument(conditional, unconditional):
    with pytest.raises(ValueError, match=r"label has shape \(3, 4\).*\(batch, 5\)"):
        Denoiser(conditional)(X, 1.0, np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"label has shape \(3,\).*one_hot_labels"):
        Denoiser(conditional)(X, 1.0, np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="this network is unconditional"):
        Denoiser(unconditional)(X, 1.0, LABEL)
    with pytest.raises(ValueError, match=r"guidance_scale=3\.0 needs a conditional network"):
        Denoiser(unconditional).guided(None, 3.0)
    with pytest.raises(ValueError, match=r"guidance_scale=3\.0 needs a label"):
        Denoiser(conditional).guided(None, 3.0)
    with pytest.raises(ValueError, match=r"sigma has shape \(3, 1\)"):
        Denoiser(unconditional)(X, tf.ones([3, 1]))
    with pytest.raises(ValueError, match="sigma_data=0"):
        Denoiser(unconditional, sigma_data=0)
    with pytest.raises(ValueError, match="parameterization='e'"):
        Denoiser(unconditional, "e")


def test_a_network_with_other_inputs_is_refused(unconditional):
    with pytest.raises(ValueError, match=r"network has inputs of shapes \[\]"):
        Denoiser(lambda inputs: inputs[0])
    unconditional.inputs = unconditional.inputs[:1]
    with pytest.raises(ValueError, match="it needs image"):
        Denoiser(unconditional)
    unconditional.inputs = [tf.TensorSpec([None, None, None, 3]), tf.TensorSpec([None, 8])]
    with pytest.raises(ValueError, match="fix every size"):
        Denoiser(unconditional)
