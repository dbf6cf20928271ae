"""Peak memory of drawing one picture, measured in a process that does nothing else.

Run as `python -m tfdiff.pipelines.evaluation.peak_memory FILE SAMPLING THREADS`, it prints by how many bytes the
process grew at most above the idle runtime: the file, its tensors and the runtime's scratch memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any


def peak_memory(path: Path, sampling: dict[str, Any], threads: int) -> int | None:
    """Bytes that a model or file needs, above those of its runtime, to be loaded and to draw one picture.

    Args:
        path: .keras, .tflite or .onnx.
        sampling: `diffusion.Sampling.config()`, used for .keras.
        threads: of the file's runtime.

    Returns:
        None where the child process fails (its memory cannot be told then).
    """
    command = [sys.executable, "-m", __name__, str(path), json.dumps(sampling), str(threads)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    try:
        return int(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None


class Peak:
    """Growth of this process's memory: `Peak()` takes the level, `bytes()` tells the highest point above it."""

    def __init__(self) -> None:
        # Linux lets a process reset its own high-water mark; elsewhere the mark of the whole life serves.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._before = _status("VmRSS")

    def bytes(self) -> int:
        """Bytes, ≥ 0."""
        return max(_status("VmHWM") - self._before, 0)


def _status(key: str) -> int:
    """A field of /proc/self/status in bytes; the peak of the process's life where there is no such file."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))


def _draw(path: Path, sampling: dict[str, Any], threads: int) -> int:
    """Load and draw in this process; the growth in bytes."""
    if path.suffix == ".keras":
        from tfdiff import diffusion, training

        peak = Peak()
        model = training.load_model(str(path))
        generator = training.Generator(model.denoiser(), diffusion.Sampling(**sampling), batch_size=1)
        generator.draw([0] if model.num_classes else None, num_images=1)
        return peak.bytes()

    import numpy as np

    from tfdiff import export

    if path.suffix == ".tflite":
        import ai_edge_litert.interpreter  # noqa: F401  the runtime's own memory is not the file's
    else:
        import onnxruntime  # noqa: F401

    peak = Peak()
    runner = export.load(path, num_threads=threads)
    runner.run({name: np.zeros(shape, np.float32) for name, shape in runner.input_shapes.items()})
    return peak.bytes()


if __name__ == "__main__":
    print(_draw(Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])))
