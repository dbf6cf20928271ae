"""Precision and compilation: under which dtype policy a network is built, and whether XLA compiles its steps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras as keras

from tfdiff import networks
from tfdiff.errors import UsageError

#: Keras dtype policies that training supports.
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")


@contextlib.contextmanager
def precision(name: str) -> Iterator[None]:
    """Build layers under a dtype policy: `with precision("mixed_bfloat16"): network = edge_unet(…)`.

    Variables stay float32. A `DiffusionModel` takes over its network's policy, so that `compile` adds loss scaling
    to the optimizer under `mixed_float16`, as Keras does.

    Raises:
        UsageError: for an unknown policy.
    """
    if name not in PRECISIONS:
        raise UsageError(f"precision={name!r} is unknown; use one of {', '.join(PRECISIONS)}.")
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def resolve_jit_compile(setting: bool | str, network: keras.Model) -> bool | None:
    """What to pass to `compile(jit_compile=…)` for `setting` True, False or "auto".

    "auto" compiles on GPU; leaves the choice to TPUs, whose programs are compiled in any case; and on CPU
    compiles only networks without depthwise convolutions, whose gradients XLA runs several times slower there.
    """
    if isinstance(setting, bool):
        return setting
    if setting != "auto":
        raise UsageError(f"jit_compile={setting!r} is unknown; use auto, true or false.")
    if tf.config.list_logical_devices("TPU"):
        return None
    if tf.config.list_logical_devices("GPU"):
        return True
    return not any(isinstance(networks.unwrapped(layer), keras.layers.DepthwiseConv2D) for layer in network.layers)
