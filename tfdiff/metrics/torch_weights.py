"""Read a state dict that `torch.save` wrote, without torch and without running what the file says.

A .pth file is a pickle, which could name any function to be called. Only the few that rebuild tensors are known here;
a file that names another is refused.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np

from tfdiff.errors import ModelError

_DTYPES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "DoubleStorage": np.dtype("<f8"),
    "LongStorage": np.dtype("<i8"),
}
#: First pickle of the format before torch 1.6, and its version.
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def load_state_dict(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays by name, in either of torch.save's formats.

    Raises:
        ModelError: when the file is missing, damaged, no state dict, or names anything but tensors.
    """
    path = Path(path)
    try:
        if zipfile.is_zipfile(path):
            found = _read_zip(path)
        else:
            with path.open("rb") as file:
                found = _read_legacy(file)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: give the path of the downloaded weights (.pth).") from None
    except (
        OSError,
        EOFError,
        KeyError,
        ValueError,
        IndexError,
        TypeError,
        AttributeError,
        pickle.UnpicklingError,
    ) as e:
        raise ModelError(f"{path} holds no weights that torch.save wrote ({e}): download it again.") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path} holds a {type(found).__name__}, not a state dict.")
    return {name: np.array(value) for name, value in found.items() if isinstance(value, np.ndarray)}


class _Storage:
    """Names a storage's element type; torch's class of that name is never imported."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype


class _Unpickler(pickle.Unpickler):
    """Knows ordered dicts, tensors and storages, and nothing else."""

    def __init__(self, file: IO[bytes], storages: Any) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _DTYPES:
            return _Storage(_DTYPES[name])
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is no part of a tensor")

    def persistent_load(self, identifier: Any) -> Any:
        kind, storage, key, _, count, *_ = identifier
        if kind != "storage":
            raise pickle.UnpicklingError(f"it refers to {kind!r}")
        return self._storages(str(key), storage.dtype, int(count))


def _rebuild(storage: np.ndarray, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> np.ndarray:
    strides = [step * storage.itemsize for step in stride]
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if 0 in size:
        return np.empty(size, storage.dtype)
    if offset < 0 or min(stride, default=0) < 0 or last >= len(storage):
        raise ValueError("a tensor reaches beyond its storage")
    return np.lib.stride_tricks.as_strided(storage[offset:], size, strides, writeable=False)


def _read_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        (index,) = [name for name in archive.namelist() if name.endswith("data.pkl")]
        root = index.removesuffix("data.pkl")

        def storage(key: str, dtype: np.dtype, count: int) -> np.ndarray:
            return np.frombuffer(archive.read(f"{root}data/{key}"), dtype, count)

        return _Unpickler(io.BytesIO(archive.read(index)), storage).load()


def _read_legacy(file: IO[bytes]) -> Any:
    """Pickles of magic number, version and machine, then of the dict; then the storages, each with its length."""
    storages: dict[str, np.ndarray] = {}

    def storage(key: str, dtype: np.dtype, count: int) -> np.ndarray:
        # Their content follows the pickle: tensors are views of what is filled in below.
        return storages.setdefault(key, np.zeros(count, dtype))

    def load() -> Any:
        return _Unpickler(file, storage).load()

    if load() != _MAGIC or load() != _PROTOCOL:
        raise ValueError("it begins otherwise")
    load()
    found = load()
    for key in load():
        count = int.from_bytes(file.read(8), "little")
        array = storages[key]
        array[:] = np.frombuffer(file.read(count * array.itemsize), array.dtype, count)
    return found
