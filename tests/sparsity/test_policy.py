"""Which layers are selected, and the reason given for each other one."""

import pytest
import tf_keras as keras

from tfdiff import networks
from tfdiff.sparsity import PruningPolicy


@pytest.fixture(scope="module")
def edge():
    return networks.edge_unet(16, 3, 10, widths=(16, 24), blocks=1, embedding_width=32)


def reasons(network, **kwargs):
    return {selection.layer: selection.reason for selection in PruningPolicy(**kwargs).select(network)}


def test_default_policy_on_the_edge_network(edge):
    found = reasons(edge)
    assert found["stem"] == "first layer"
    assert found["head"] == "last layer"
    assert found["embed_noise"] == found["embed_label"] == "embeds noise level or class"
    assert found["down0_block0_depthwise"].startswith("depthwise")
    for layer in ("down0_block0_expand", "down0_block0_project", "down1_block0_modulation", "up0_join_skip"):
        assert found[layer] == "", layer


def test_unet_attention_projections_and_split_skips_are_selected():
    network = networks.unet(8, 1, widths=(16, 32), blocks=1, attention=(4,), groups=4, embedding_width=32)
    found = reasons(network)
    for layer in ("down1_block0_attention_query", "middle_attention_output", "up0_block0_conv0_skip", "down1_reduce"):
        assert found[layer] == "", layer
    assert found["embed_noise"] == found["embed_hidden"] == "embeds noise level or class"
    assert (found["stem"], found["head"]) == ("first layer", "last layer")


def test_first_last_and_embedding_are_selected_when_asked(edge):
    found = reasons(edge, first_and_last=True, embedding=True)
    assert {found[layer] for layer in ("stem", "head", "embed_noise", "embed_label")} == {""}


def test_small_and_named_layers_are_skipped(edge):
    found = reasons(edge, min_weights=10_000, skip=("up0_block0_project",))
    assert found["up0_block0_project"] == "named in skip"
    assert found["down0_block0_expand"] == "fewer than 10000 weights"


def test_every_kernel_is_reported_with_its_size(edge):
    sizes = {selection.layer: selection.weights for selection in PruningPolicy().select(edge)}
    assert sizes["stem"] == 3 * 3 * 3 * 16
    assert sizes["down1_block0_expand"] == 24 * 72
    assert sizes["down1_block0_depthwise"] == 9 * 72
    assert sizes["down1_block0_modulation"] == 32 * 2 * 72


def test_layers_that_tfmot_cannot_wrap_are_skipped_with_a_reason():
    class Scaled(keras.layers.Dense):
        """A subclass that TF-MOT's registry does not know."""

    image = keras.Input((4, 4, 32), name="image")
    noise = keras.Input((8,), name="noise_embedding")
    shared = keras.layers.Conv2D(32, 1, name="shared")
    x = keras.layers.Conv2D(32, 1, name="first")(image)
    x = Scaled(32, name="subclass")(shared(shared(x)))
    x = keras.layers.Conv2DTranspose(32, 1, name="transposed")(x)
    network = keras.Model([image, noise], keras.layers.Conv2D(32, 1, name="last")(x))
    found = reasons(network)
    assert found["shared"].startswith("called in several places")
    assert found["subclass"].startswith("Scaled is no layer of Keras")
    assert found["transposed"] == ""
    assert reasons(network, first_and_last=True)["first"] == ""
