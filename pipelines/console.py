"""How a command behaves in a terminal: quiet imports, errors of one line, exit codes."""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from collections.abc import Iterator

import typer

from tfdiff.errors import TfdiffError, UsageError

#: Exit codes: wrong use, failure, interrupted.
USAGE, FAILURE, INTERRUPTED = 2, 1, 130


@contextlib.contextmanager
def session(*, debug: bool, verbose: bool, resume: str | None = None) -> Iterator[None]:
    """Run a command's body: what it raises becomes one line on stderr and an exit code.

    Args:
        debug: show tracebacks.
        verbose: show what TensorFlow and the libraries log.
        resume: the command that goes on after an interruption.
    """
    _set_logging(verbose)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted" + (f"; `{resume}` goes on from the last checkpoint" if resume else ""), err=True)
        raise typer.Exit(INTERRUPTED) from None
    except TfdiffError as error:
        _report(str(error), debug)
        raise typer.Exit(USAGE if isinstance(error, UsageError) else FAILURE) from None
    except typer.Exit:
        raise
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        _report(
            f"unexpected {type(error).__name__}: {first}" + ("" if debug else " (use --debug for the traceback)"), debug
        )
        raise typer.Exit(FAILURE) from None


def _report(text: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    typer.echo(f"error: {' '.join(text.split())}", err=True)


def _set_logging(verbose: bool) -> None:
    """Must come before TensorFlow loads: it reads its variable once."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s")
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        for name in ("tensorflow", "absl", "tf2onnx", "h5py"):
            logging.getLogger(name).setLevel(logging.ERROR)
