"""The errors that end a command with one line instead of a traceback.

Each is also a `ValueError` (or the built-in that Keras users expect), so scripts can catch either.
"""


class TfdiffError(Exception):
    """An expected failure: its text is one line that names the thing, what was found and what to do."""


class UsageError(TfdiffError, ValueError):
    """Wrong use (argument, config, model, data): the command ends with exit code 2."""


class ConfigError(UsageError):
    """A config that cannot be resolved: unknown key, wrong type or impossible combination."""


class DataError(UsageError):
    """Images that cannot be used: missing, unreadable, out of range, of the wrong shape or unlabelled."""


class ModelError(UsageError):
    """A model that cannot be used as asked: Keras 3, wrong inputs, nothing to prune, sparsity at risk."""


class ExportError(TfdiffError, RuntimeError):
    """A conversion, verification or benchmark that failed: the command ends with exit code 1."""


class TrainingError(TfdiffError, RuntimeError):
    """Training that cannot go on, such as a loss that became NaN: exit code 1."""
