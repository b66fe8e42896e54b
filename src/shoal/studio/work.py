"""Long work beside the page: the newest of what was asked for, in a thread; and attacks, in a process of their own."""

from __future__ import annotations

import multiprocessing
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from shoal.errors import ShoalError

Step = Callable[[str], None]
Work = Callable[[Step, Callable[[Any], None]], Any]


class Superseded(Exception):  # noqa: N818 - nothing went wrong
    """Something newer was asked for."""


@dataclass(frozen=True)
class Progress:
    """How far the newest work is."""

    ticket: int = 0
    """Counts what was asked for."""
    running: bool = False
    step: str = ""
    result: Any = None
    """What was found last; partial results come while it is running."""
    of: int = 0
    """The ticket that the result belongs to."""
    error: str = ""


class Latest:
    """Does what was asked for last. What was asked for before ends at its next step, and its result is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting: tuple[int, Work] | None = None
        self._thread: threading.Thread | None = None
        self.progress = Progress()

    def ask(self, work: Work) -> int:
        """Begin this as soon as may be; returns its ticket.

        ``work`` is called with ``step``, which is told what is done next and raises when something newer was asked
        for, and with ``show``, which takes partial results.
        """
        with self._lock:
            now = self.progress
            ticket = now.ticket + 1
            self.progress = Progress(ticket, True, "Waiting", now.result, now.of)
            self._waiting = ticket, work
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            return ticket

    def wait(self, ticket: int, timeout: float | None = None) -> Progress:
        """Wait until this work, or newer one, has ended."""
        with self._wake:
            self._wake.wait_for(lambda: self.progress.ticket > ticket or not self.progress.running, timeout)
            return self.progress

    def forget(self) -> None:
        """Drop results, and whatever is under way."""
        with self._wake:
            self._waiting = None
            self.progress = Progress(self.progress.ticket + 1)
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._waiting is None:
                    self._thread = None
                    return
                (ticket, work), self._waiting = self._waiting, None
            try:
                self._finish(ticket, work(partial(self._step, ticket), partial(self._show, ticket)))
            except Superseded:
                pass
            except ShoalError as error:
                self._finish(ticket, None, str(error))
            except Exception as error:  # whatever a library does with unusual tables: the page must live on
                traceback.print_exc()
                self._finish(ticket, None, f"Something unforeseen happened ({type(error).__name__}: {error}).")

    def _step(self, ticket: int, step: str) -> None:
        with self._lock:
            self._require_newest(ticket)
            now = self.progress
            self.progress = Progress(ticket, True, step, now.result, now.of)

    def _show(self, ticket: int, part: Any) -> None:
        with self._lock:
            self._require_newest(ticket)
            self.progress = Progress(ticket, True, self.progress.step, part, ticket)

    def _finish(self, ticket: int, result: Any, error: str = "") -> None:
        with self._wake:
            if self.progress.ticket == ticket:
                kept = self.progress
                if error:
                    result = kept.result if kept.of == ticket else None
                self.progress = Progress(ticket, False, "", result, ticket, error)
                self._wake.notify_all()

    def _require_newest(self, ticket: int) -> None:
        if self.progress.ticket != ticket:
            raise Superseded


class Errand:
    """A function that runs in a process of its own, reports steps, and can be stopped at any moment."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._reader, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_carry_out, args=(writer, function, arguments), daemon=True)
        self._process.start()
        writer.close()
        self.step = "Starting"
        self.error = ""
        self.ended = False

    def look(self) -> None:
        """Take note of what was reported since the last look."""
        while not self.ended:
            try:
                if not self._reader.poll():
                    if not self._process.is_alive() and not self._reader.poll():
                        self._end("it was stopped from outside")
                    return
                kind, text = self._reader.recv()
            except (EOFError, OSError):
                self._process.join(5)
                self._end("" if self._process.exitcode == 0 else "it ended before it was done")
                return
            if kind == "step":
                self.step = text
            else:
                self._end(text)

    def stop(self) -> None:
        """End it now."""
        if not self.ended:
            self._process.terminate()
            self._end("")

    def _end(self, error: str) -> None:
        self.ended, self.error, self.step = True, error, ""
        self._process.join(5)
        self._reader.close()


def _carry_out(writer: Any, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    try:
        function(*arguments, lambda step: writer.send(("step", step)))
        writer.send(("done", ""))
    except ShoalError as error:
        writer.send(("done", str(error)))
    except Exception as error:
        traceback.print_exc()
        writer.send(("done", f"Something unforeseen happened ({type(error).__name__}: {error})."))
