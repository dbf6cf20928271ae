"""Files that are there whole or not at all, and what tells one content from another."""

from __future__ import annotations

import hashlib
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


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text so that a reader never meets half of it."""
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, as 64 hex digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
