"""One interface for a file in its real runtime: LiteRT for .tflite, ONNX Runtime for .onnx."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tfdiff.errors import UsageError


class Runner(ABC):
    """An exported file, loaded.

    Attributes:
        path: the file.
        signature: "denoise" or "sample" where the file is tfdiff's, else the first signature (.tflite) or "".
        input_shapes: shape of each input by name, the batch first.
        output_names: names of the outputs.
    """

    path: Path
    signature: str
    input_shapes: dict[str, tuple[int, ...]]
    output_names: list[str]

    @property
    def batch_size(self) -> int:
        """Rows that the file takes at once."""
        return next(iter(self.input_shapes.values()))[0]

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run any number of rows, in batches of the file's size (the last one padded).

        Args:
            feeds: float32 arrays by input name, all with N >= 1 rows.

        Returns:
            Arrays of N rows by output name.

        Raises:
            UsageError: when an input is missing, unknown or of the wrong shape.
        """
        rows = {name: np.asarray(value, np.float32) for name, value in feeds.items()}
        if set(rows) != set(self.input_shapes):
            raise UsageError(f"{self.path.name} has inputs {sorted(self.input_shapes)}, but {sorted(rows)} were given.")
        counts = {len(value) if value.ndim else 0 for value in rows.values()}
        for name, value in rows.items():
            if value.shape[1:] != self.input_shapes[name][1:] or len(counts) != 1 or 0 in counts:
                raise UsageError(
                    f"{self.path.name}: input {name!r} has shape {value.shape}; give (N, "
                    f"{', '.join(map(str, self.input_shapes[name][1:]))}) with one N for all inputs."
                )
        (count,) = counts
        parts: list[dict[str, np.ndarray]] = []
        for begin in range(0, count, self.batch_size):
            batch = {name: value[begin : begin + self.batch_size] for name, value in rows.items()}
            missing = self.batch_size - len(next(iter(batch.values())))
            if missing:
                batch = {name: np.concatenate([v, np.repeat(v[-1:], missing, axis=0)]) for name, v in batch.items()}
            parts.append(self._run_batch(batch))
        return {name: np.concatenate([part[name] for part in parts])[:count] for name in self.output_names}

    @abstractmethod
    def _run_batch(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run one batch of exactly the file's size."""

    def partitions(self) -> int | None:
        """Pieces of the graph that the delegate runs; None where the runtime has no such notion."""
        return None

    def undelegated_ops(self) -> dict[str, int] | None:
        """Operators that stay outside the delegate, by kind; None where the runtime has no such notion."""
        return None


def load(path: str | Path, *, num_threads: int = 1) -> Runner:
    """Load an exported file in the runtime of its suffix, .tflite or .onnx.

    Raises:
        UsageError: when the file is missing, damaged or of another kind.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path} does not exist: give a .tflite or .onnx file.")
    runners: dict[str, type[Runner]] = {".tflite": TFLiteRunner, ".onnx": OnnxRunner}
    if path.suffix not in runners:
        raise UsageError(f"{path} is not a .tflite or .onnx file.")
    return runners[path.suffix](path, num_threads)  # type: ignore[call-arg]


class TFLiteRunner(Runner):
    """A .tflite file in LiteRT, with the XNNPACK delegate that LiteRT applies by default."""

    def __init__(self, path: Path, num_threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.path = path
        content = path.read_bytes()
        if content[4:8] != b"TFL3":
            raise UsageError(f"{path} is not a TFLite file: its identifier is missing.")
        try:
            self._interpreter = Interpreter(model_content=content, num_threads=num_threads)
            self._interpreter.allocate_tensors()
            signatures = self._interpreter.get_signature_list()
            self.signature = next(iter(signatures))
            self._function = self._interpreter.get_signature_runner(self.signature)
        except (ValueError, RuntimeError, StopIteration) as error:
            raise UsageError(f"{path} cannot be loaded (damaged?): {_first_line(error)}") from error
        details = self._function.get_input_details()
        self.input_shapes = {name: tuple(map(int, detail["shape"])) for name, detail in details.items()}
        self.output_names = list(self._function.get_output_details())

    def _run_batch(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self._function(**feeds)

    def partitions(self) -> int:
        """Pieces of the graph that the XNNPACK delegate runs."""
        return sum(op["op_name"] == "DELEGATE" for op in self._executed())

    def undelegated_ops(self) -> dict[str, int]:
        """Operators that XNNPACK leaves to the interpreter, by kind."""
        return {kind: len(names) for kind, names in self.undelegated().items()}

    def undelegated(self) -> dict[str, list[str]]:
        """Names (of the output tensors) of the operators that XNNPACK leaves to the interpreter, by kind."""
        tensors = {detail["index"]: detail["name"] for detail in self._interpreter.get_tensor_details()}
        names: dict[str, list[str]] = {}
        for op in self._executed():
            if op["op_name"] != "DELEGATE":
                names.setdefault(op["op_name"], []).append(tensors[int(op["outputs"][0])])
        return names

    def _executed(self) -> list[dict]:
        """The ops that run: the interpreter lists delegated ones too, beside the DELEGATE that replaces them.

        Walking back from the outputs, a tensor is made by the delegate that lists it, else by its operator.
        """
        ops = self._interpreter._get_ops_details()
        makers: dict[int, dict] = {}
        for op in ops:
            for tensor in op["outputs"]:
                if op["op_name"] == "DELEGATE" or int(tensor) not in makers:
                    makers[int(tensor)] = op
        waiting = [int(detail["index"]) for detail in self._interpreter.get_output_details()]
        executed: dict[int, dict] = {}
        while waiting:
            op = makers.get(waiting.pop())
            if op is not None and op["index"] not in executed:
                executed[op["index"]] = op
                waiting.extend(int(tensor) for tensor in op["inputs"])
        return list(executed.values())


class OnnxRunner(Runner):
    """An .onnx file in ONNX Runtime on the CPU."""

    def __init__(self, path: Path, num_threads: int) -> None:
        import onnxruntime as ort

        self.path = path
        options = ort.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions share no base but Exception
            raise UsageError(f"{path} cannot be loaded (damaged?): {_first_line(error)}") from error
        self.input_shapes = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
        self.output_names = [value.name for value in self._session.get_outputs()]
        self.signature = {"image": "sample", "output": "denoise"}.get(self.output_names[0], "")

    def _run_batch(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self.output_names, self._session.run(self.output_names, feeds), strict=True))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
