"""Import TensorFlow without the lines that it logs before it reads TF_CPP_MIN_LOG_LEVEL."""

from __future__ import annotations

import os
import sys
import tempfile


def import_tensorflow() -> None:
    """Import TensorFlow; where TF_CPP_MIN_LOG_LEVEL hides its messages, hide those of its loading, too.

    They come from C++, before logging is set up, so the file descriptor itself is turned aside. What was written
    is shown if the import fails.
    """
    if "tensorflow" in sys.modules or os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") == "0":
        import tensorflow

        return
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            aside.seek(0)
            os.write(kept, aside.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
