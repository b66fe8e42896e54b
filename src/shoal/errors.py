"""What can go wrong, in one sentence each: the culprit, the value, the way out."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ShoalError(ValueError):
    """Bad input. The message is one sentence that names the culprit, the value and the way out."""


class SchemaError(ShoalError):
    """The schema is wrong in itself, or does not fit the frame."""


class HierarchyError(ShoalError):
    """A hierarchy is wrong in itself, or does not cover a value of its attribute."""


class DataError(ShoalError):
    """The frame or file holds something that cannot be used as it is."""


class GuaranteeError(ShoalError):
    """A constraint cannot be reached, or does not hold on what would be released."""


class GuaranteeWarning(UserWarning):
    """The guarantee is weaker than it may look."""


def reason(error: Exception) -> str:
    """Why something failed, short enough to stand in a sentence."""
    return (str(error).strip().split("\n", 1)[0] or type(error).__name__).rstrip(".")


@contextmanager
def surviving_broken_pipes() -> Iterator[None]:
    """Let whoever does not read on be an error where it happens, and not the end of this process.

    The command line ends silently if nobody reads what it prints; what talks to others, such as browsers or Java, must
    outlive them.
    """
    if not hasattr(signal, "SIGPIPE") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)
