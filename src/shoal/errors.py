"""Exceptions and warnings, with messages of one sentence each: the culprit, the value, the way out."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ShoalError(ValueError):
    """Invalid input. The message is one sentence that names the culprit, the value and the way out."""


class SchemaError(ShoalError):
    """The schema is invalid, or does not fit the frame."""


class HierarchyError(ShoalError):
    """A hierarchy is invalid, or does not cover a value of its attribute."""


class DataError(ShoalError):
    """The frame or file contains something that cannot be used as it is."""


class GuaranteeError(ShoalError):
    """A constraint cannot be satisfied, or does not hold for the data to be released."""


class GuaranteeWarning(UserWarning):
    """The guarantee is weaker than it may look."""


def reason(error: Exception) -> str:
    """Return the reason for a failure, short enough to be part of a sentence."""
    return (str(error).strip().split("\n", 1)[0] or type(error).__name__).rstrip(".")


@contextmanager
def surviving_broken_pipes() -> Iterator[None]:
    """Turn a broken pipe into an error where it occurs, instead of the end of this process.

    The command line ends silently if its output is closed; code that talks to other processes, such as browsers or
    Java, must outlive them.
    """
    if not hasattr(signal, "SIGPIPE") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)
