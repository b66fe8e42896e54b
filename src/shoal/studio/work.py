"""Long work beside the page, in processes of its own: the newest release that was asked for, and attacks.

Nothing of this may run in the process of the pages: compiling and training hold the GIL, and what is compiled in one
thread holds up all others that need a kernel, so pages would freeze.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from shoal.errors import ShoalError

Step = Callable[[str], None]
Take = Callable[[Any], None]
LOOK = 0.05
"""Seconds between two looks whether something newer was asked for; messages are taken as they come."""
PATIENCE = 1.0
"""Seconds that a process may take to put older work aside, before it is ended and another one is started."""
PATIENCE_FIRST = 60.0
"""The same while it may still compile what it needs: who ends that has to begin it again."""
MOST_IDLE = 2
"""Processes that are kept for what is asked for next; each takes some 300 MB."""
IDLE = 1800.0
"""Seconds without work after which a process ends by itself."""
ENDS = "done", "failed", "aside"
"""The last report on each piece of work is one of these."""


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
    behind: Any = None
    """What the result tells about, where it has come already."""


class Latest:
    """Does what was asked for last. What was asked for before ends at its next step, and its result is dropped.

    Parameters
    ----------
    crew : WorkerPool
        Who does it.
    """

    def __init__(self, crew: WorkerPool) -> None:
        self._crew = crew
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting: tuple[int, str, tuple[Any, ...]] | None = None
        self._thread: threading.Thread | None = None
        self._done: set[str] = set()
        """Kinds of work that have been done once, for which everything is compiled."""
        self.progress = Progress()

    def ask(self, kind: str, *arguments: Any) -> int:
        """Have this done as soon as may be; returns its ticket.

        ``kind`` says what must be compiled for it: where it was done before, it can be ended at any moment.
        """
        with self._lock:
            now = self.progress
            ticket = now.ticket + 1
            self.progress = Progress(ticket, True, "Waiting", now.result, now.of, behind=now.behind)
            self._waiting = ticket, kind, arguments
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
            self._done.clear()
            self.progress = Progress(self.progress.ticket + 1)
            self._wake.notify_all()

    def _run(self) -> None:
        worker: Worker | None = None
        busy_with = ""
        while (next_one := self._next()) is not None:
            worker = self._attend(worker or self._crew.take(self), *next_one, busy_with)
            busy_with = next_one[1]
        if worker is not None:
            self._crew.give_back(worker, self)

    def _next(self) -> tuple[int, str, tuple[Any, ...]] | None:
        """What was asked for last, if it was not begun yet."""
        with self._lock:
            found, self._waiting = self._waiting, None
            if found is None:
                self._thread = None
            return found

    def _attend(
        self, worker: Worker, ticket: int, kind: str, arguments: tuple[Any, ...], busy_with: str
    ) -> Worker | None:
        """Hand work over, and take what is reported until it has ended or something newer was asked for.

        Returns who has done it, unless that process has ended.
        """
        worker.give(ticket, arguments)
        given, begun = time.monotonic(), False
        while self.progress.ticket == ticket:
            report = worker.listen(LOOK)
            if report is not None and report[0] == ticket:
                begun = True
                if self._note(*report):
                    self._done.add(kind)
                    return worker
            elif report is None and not worker.alive:
                self._finish(ticket, "It was stopped from outside: change something, and it is tried again.")
                return None
            elif not begun and time.monotonic() - given > self._patience(busy_with):
                worker.stop()
                worker, busy_with, given = self._crew.take(self), "", time.monotonic()
                worker.give(ticket, arguments)
        return worker

    def _patience(self, busy_with: str) -> float:
        return PATIENCE if busy_with in self._done else PATIENCE_FIRST

    def _note(self, ticket: int, kind: str, content: Any) -> bool:
        """Take note of what was reported; whether the work has ended."""
        with self._lock:
            now = self.progress
            if now.ticket == ticket and kind == "step":
                self.progress = replace(now, step=content)
            elif now.ticket == ticket and kind == "show":
                self.progress = replace(now, result=content, of=ticket)
            elif now.ticket == ticket and kind == "keep":
                self.progress = replace(now, behind=content)
        if kind in ("done", "failed"):
            self._finish(ticket, content if kind == "failed" else "")
            return True
        return False

    def _finish(self, ticket: int, error: str) -> None:
        with self._wake:
            now = self.progress
            if now.ticket == ticket:
                result = now.result if now.of == ticket else None
                self.progress = Progress(ticket, False, "", result, ticket, error, now.behind)
                self._wake.notify_all()


class WorkerPool:
    """Processes that work for whoever asks, and are kept while nobody does.

    Parameters
    ----------
    make : callable
        Called once in each process; what it returns does the work, and may keep what it will need again. It is called
        with ``step``, which is told what is done next and raises when something newer was asked for; with ``show``,
        which takes results; with ``keep``, which takes what they tell about; and with the arguments of
        :meth:`Latest.ask`.
    """

    def __init__(self, make: Callable[[], Callable[..., None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[tuple[Worker, Any]] = []

    def take(self, whom: Any) -> Worker:
        """A process for somebody: the one that has worked for them before, if it is idle, or else any."""
        with self._lock:
            self._idle = [(worker, last) for worker, last in self._idle if worker.alive]
            free = [i for i, (worker, _) in enumerate(self._idle) if not worker.is_busy()]
            free.sort(key=lambda i: self._idle[i][1] is not whom)
            if free:
                return self._idle.pop(free[0])[0]
        return Worker(self._make)

    def give_back(self, worker: Worker, whom: Any) -> None:
        """Keep a process that somebody does not need at present; it may still be about to put its work aside."""
        with self._lock:
            self._idle.append((worker, whom))
            more, self._idle = self._idle[:-MOST_IDLE], self._idle[-MOST_IDLE:]
        for old, _ in more:
            old.stop()

    def prepare(self) -> None:
        """Start a process, so that whoever asks first need not wait for that."""
        self.give_back(self.take(None), None)


class Worker:
    """A process that does one thing after the other; what it does ends at its next step when more is given to it."""

    def __init__(self, make: Callable[[], Callable[..., None]]) -> None:
        context = multiprocessing.get_context("spawn")
        theirs, self._given = context.Pipe(duplex=False)
        self._reports, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(theirs, writer, make), daemon=True)
        self._process.start()
        self._unfinished = 0
        theirs.close()
        writer.close()

    @property
    def alive(self) -> bool:
        """Whether it can be given anything."""
        return self._process.is_alive()

    def give(self, ticket: int, arguments: tuple[Any, ...]) -> None:
        """Have it do this next; nothing comes of it if it has ended meanwhile."""
        try:
            self._given.send((ticket, arguments))
            self._unfinished += 1
        except OSError:
            self._process.join(5)

    def listen(self, seconds: float) -> tuple[int, str, Any] | None:
        """What it reports next; None if there is nothing so long."""
        try:
            found: tuple[int, str, Any] | None = self._reports.recv() if self._reports.poll(seconds) else None
        except (EOFError, OSError):
            self._process.join(5)
            return None
        if found is not None and found[1] in ENDS:
            self._unfinished -= 1
        return found

    def is_busy(self) -> bool:
        """Whether it has something to do; what it reports meanwhile is dropped."""
        while self._unfinished and self.listen(0) is not None:
            pass
        return self._unfinished > 0

    def stop(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.join(5)
        self._given.close()
        self._reports.close()


def _serve(given: Any, reports: Any, make: Callable[[], Callable[..., None]]) -> None:
    """What happens in the process of a worker, until its maker has gone or it was idle for long."""
    work = make()
    try:
        while given.poll(IDLE):
            _do(given, reports, work, *given.recv())
    except (EOFError, OSError, KeyboardInterrupt):
        pass


def _do(given: Any, reports: Any, work: Callable[..., None], ticket: int, arguments: tuple[Any, ...]) -> None:
    def step(what: str) -> None:
        if given.poll():
            raise Superseded
        reports.send((ticket, "step", what))

    def show(result: Any) -> None:
        reports.send((ticket, "show", result))

    def keep(behind: Any) -> None:
        reports.send((ticket, "keep", behind))

    try:
        step("Beginning")
        work(step, show, keep, *arguments)
        reports.send((ticket, "done", ""))
    except Superseded:
        reports.send((ticket, "aside", ""))
    except ShoalError as error:
        reports.send((ticket, "failed", str(error)))
    except BrokenPipeError:
        raise  # nobody listens any more
    except Exception as error:  # whatever a library does with unusual tables: the page must live on
        traceback.print_exc()
        reports.send((ticket, "failed", unforeseen(error)))


def unforeseen(error: Exception) -> str:
    """The sentence about an error that nobody thought of."""
    return f"Something unforeseen happened ({type(error).__name__}: {error})."


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
    error = ""
    try:
        function(*arguments, lambda step: writer.send(("step", step)))
    except BrokenPipeError:
        return  # nobody listens any more
    except ShoalError as refused:
        error = str(refused)
    except Exception as wrong:
        traceback.print_exc()
        error = unforeseen(wrong)
    with suppress(BrokenPipeError):
        writer.send(("done", error))
