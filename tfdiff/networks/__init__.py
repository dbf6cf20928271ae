"""Denoising networks (functional Keras models) and the layers that they share."""

from tfdiff.networks.checks import INPUT_NAMES, check_image_shape, check_network
from tfdiff.networks.edge_unet import edge_unet
from tfdiff.networks.rebuild import copy_layer, folded, rebuild, unwrapped
from tfdiff.networks.unet import unet

__all__ = [
    "INPUT_NAMES",
    "check_image_shape",
    "check_network",
    "copy_layer",
    "edge_unet",
    "folded",
    "rebuild",
    "unet",
    "unwrapped",
]
