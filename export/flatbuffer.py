"""TFLite files packed anew: equal vectors once, weights aligned."""

from __future__ import annotations

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

#: What TFLite's schema asks for (`force_align`) and its converter loses: delegates read weights in place.
ALIGNMENT = 16


def compact(content: bytes) -> bytes:
    """The same model in fewer bytes.

    Every step of an unrolled INT8 sampler has the zero points of all channels of all its biases, as 64-bit zeros.
    A flatbuffer may refer to one vector any number of times, which readers need not know.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    builder = _SharingBuilder(len(content))
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


class _SharingBuilder(flatbuffers.Builder):
    """Writes each distinct vector once, and byte vectors (the weights) aligned."""

    def __init__(self, initial_size: int) -> None:
        super().__init__(initial_size)
        self._offsets: dict[tuple[str, bytes], int] = {}

    def CreateNumpyVector(self, x: np.ndarray) -> int:
        key = (x.dtype.str, x.tobytes())
        if key not in self._offsets:
            if x.dtype == np.uint8:
                self.Prep(ALIGNMENT, x.nbytes)
            self._offsets[key] = super().CreateNumpyVector(x)
        return self._offsets[key]
