"""One set of checks that every network runs through."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.networks.shared import BUILDERS, example_inputs, randomize
from tfdiff import networks
from tfdiff.errors import ModelError, UsageError
from tfdiff.training import PRECISIONS, precision

every_network = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


@every_network
@pytest.mark.parametrize(("size", "channels", "classes"), [(8, 1, None), (24, 3, 4)])
def test_output_has_the_image_shape(build, size, channels, classes):
    network = build(size, channels, classes)
    assert network(example_inputs(network)).shape == (2, size, size, channels)
    assert networks.check_network(network) is network


@every_network
def test_untrained_network_predicts_zero(build):
    network = build()
    assert np.all(network(example_inputs(network)).numpy() == 0)


@every_network
def test_every_input_matters(build):
    network = randomize(build())
    inputs = example_inputs(network)
    reference = network(inputs).numpy()
    for index, value in enumerate(inputs):
        changed = list(inputs)
        changed[index] = np.roll(value, 1, axis=-1)
        assert np.abs(network(changed).numpy() - reference).max() > 1e-4, network.inputs[index].name


@every_network
def test_null_label_row_is_the_unconditional_network(build):
    network = randomize(build())
    image, noise, label = example_inputs(network)
    null = network([image, noise, np.zeros_like(label)]).numpy()
    assert np.abs(null - network([image, noise, label]).numpy()).max() > 1e-4


@every_network
@pytest.mark.parametrize("policy", PRECISIONS)
def test_output_is_float32_and_close_in_every_precision(build, policy):
    reference = randomize(build())
    with precision(policy):
        network = build()
    network.set_weights(reference.get_weights())
    inputs = example_inputs(network)
    output, expected = network(inputs), reference(inputs).numpy()
    assert output.dtype == tf.float32
    tolerance = {"float32": 1e-6, "mixed_float16": 0.02, "mixed_bfloat16": 0.15}[policy]
    assert np.abs(output.numpy() - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.slow
@every_network
def test_xla_agrees(build):
    network = randomize(build())
    inputs = example_inputs(network)

    def value_and_gradients():
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(tf.square(network(inputs, training=True)))
        return [value, *tape.gradient(value, network.trainable_variables)]

    plain = tf.function(value_and_gradients)()
    compiled = tf.function(value_and_gradients, jit_compile=True)()
    for ours, theirs in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-5)


@every_network
def test_saved_and_loaded_gives_the_same_output(build, tmp_path):
    network = randomize(build())
    network.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    inputs = example_inputs(network)
    np.testing.assert_array_equal(loaded(inputs), network(inputs))


@every_network
def test_folded_is_plain_float32_with_fixed_batch_and_equal(build):
    with precision("mixed_float16"):
        network = randomize(build())
    reference = build()
    reference.set_weights(network.get_weights())
    folded = networks.folded(network, batch_size=2)
    inputs = example_inputs(network)
    np.testing.assert_allclose(folded(inputs), reference(inputs), rtol=1e-4, atol=1e-5)
    assert all(layer.compute_dtype == "float32" for layer in folded.layers)
    assert {tensor.shape[0] for tensor in folded.inputs} == {2}
    assert not any(hasattr(layer, "folded_layer") for layer in folded.layers)


@every_network
@pytest.mark.parametrize(
    ("size", "channels", "message"), [(7, 3, "image_size=7 does not divide"), (16, 2, "channels=2")]
)
def test_unfit_image_shapes_are_refused(build, size, channels, message):
    with pytest.raises(UsageError, match=message):
        build(size, channels)


def test_unet_refuses_groups_that_do_not_divide():
    with pytest.raises(UsageError, match=r"groups=5 does not divide the widths \[8, 16\]"):
        networks.unet(16, widths=(8, 16), groups=5)


def test_split_skip_equals_convolution_of_the_concatenation():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 1, 6, 6, 4)).astype("float32")
    whole = keras.layers.Conv2D(3, 3, padding="same")
    expected = whole(np.concatenate([a, b], -1))
    for_a, for_b = keras.layers.Conv2D(3, 3, padding="same"), keras.layers.Conv2D(3, 3, padding="same", use_bias=False)
    for_a.build(a.shape)
    for_b.build(b.shape)
    for_a.set_weights([whole.kernel[:, :, :4], whole.bias])
    for_b.set_weights([whole.kernel[:, :, 4:]])
    np.testing.assert_allclose(for_a(a) + for_b(b), expected, atol=1e-5)


def test_check_network_refuses_what_cannot_be_wrapped_or_exported():
    image = keras.Input((8, 8, 1), name="image")
    noise = keras.Input((4,), name="noise_embedding")
    other = keras.Input((8, 8, 1), name="picture")

    class Subclassed(keras.Model):
        def call(self, inputs):
            return inputs[0]

    inner = keras.Model(image, keras.layers.Conv2D(1, 1)(image), name="inner")
    cases = [
        (Subclassed(), "is a subclassed model"),
        (keras.Model([other, noise], other), "has inputs"),
        (keras.Model([image, noise], keras.layers.Conv2D(2, 1)(image)), "one output of the image's shape"),
        (keras.Model([image, noise], inner(image)), "holds the model 'inner' as a layer"),
        (object(), "must be a tf_keras functional model, got object"),
    ]
    for network, message in cases:
        with pytest.raises(ModelError, match=message):
            networks.check_network(network)


def test_check_network_names_keras_3():
    keras3_model = type("Functional", (), {"__module__": "keras.src.models.functional", "name": "modern"})()
    with pytest.raises(ModelError, match="'modern' is a Keras 3 model"):
        networks.check_network(keras3_model)
