"""Progress bars on stderr for work that reports itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tqdm import tqdm

from tfdiff.training.callbacks import refresh_seconds


def _bar(description: str, total: int | None, unit: str) -> tqdm:
    return tqdm(desc=description, total=total, unit=unit, mininterval=refresh_seconds(), dynamic_ncols=True)


@contextlib.contextmanager
def counting_bar(description: str, total: int, unit: str = "image") -> Iterator[Callable[[int], None]]:
    """Yields a function that is told how many more are done."""
    with _bar(description, total, unit) as bar:

        def update(count: int) -> None:
            bar.update(count)

        yield update


@contextlib.contextmanager
def rounds_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that is told (rounds done, rounds in all)."""
    with _bar(description, None, "round") as bar:

        def update(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield update


@contextlib.contextmanager
def files_bar(description: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function that is told (file under way, files done, files in all)."""
    with _bar(description, None, "file") as bar:

        def update(file: str, done: int, total: int) -> None:
            bar.total = total
            bar.set_postfix_str(file, refresh=False)
            bar.update(done - bar.n)

        yield update
