"""Files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def partial_path(path: Path) -> Path:
    """Where a file is written before it gets its name: beside it, with its suffix, which readers and writers go by."""
    return path.with_name(f"partial_{path.name}")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give the path to write to; it becomes `path` at the end of the block, and is removed where the block raises."""
    partial = partial_path(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
