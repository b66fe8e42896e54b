"""Worker processes of the studio: the newest requested run, and audits.

Nothing of this may run in the process of the pages: compiling and training hold the GIL, and a thread that compiles
blocks all threads that need a kernel, so pages would freeze.
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
Publish = Callable[[Any], None]
POLL_INTERVAL = 0.05
"""Seconds between two checks for a newer task; messages are read as they arrive."""
PATIENCE = 1.0
"""Seconds that a process may take to abandon an older task before it is killed and replaced."""
PATIENCE_FIRST = 60.0
"""The same while the process may still compile its kernels: a killed process would have to start over."""
MOST_IDLE = 2
"""Idle processes that are kept for later tasks; each takes some 300 MB."""
IDLE = 1800.0
"""Seconds without a task after which a process exits."""
ENDS = "done", "failed", "superseded"
"""Kinds of the last report on a task."""


class Superseded(Exception):  # noqa: N818 - nothing went wrong
    """A newer task was submitted."""


@dataclass(frozen=True)
class Progress:
    """Progress of the newest task."""

    ticket: int = 0
    """Number of the task."""
    running: bool = False
    step: str = ""
    result: Any = None
    """Latest result; partial results arrive while the task is running."""
    result_ticket: int = 0
    """Ticket of the task that the result belongs to."""
    error: str = ""
    payload: Any = None
    """Object that the result describes, once it has arrived."""


class LatestTask:
    """Runs the newest submitted task. Older tasks stop at their next step, and their results are dropped.

    Parameters
    ----------
    pool : WorkerPool
        Processes that run the tasks.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting: tuple[int, str, tuple[Any, ...]] | None = None
        self._thread: threading.Thread | None = None
        self._done: set[str] = set()
        """Kinds of tasks that have run before, so that their kernels are compiled."""
        self.progress = Progress()

    def submit(self, kind: str, *arguments: Any) -> int:
        """Run a task as soon as possible; return its ticket.

        ``kind`` names the kernels that the task needs: once they are compiled, the task can be killed at any moment.
        """
        with self._lock:
            now = self.progress
            ticket = now.ticket + 1
            self.progress = Progress(ticket, True, "Waiting", now.result, now.result_ticket, payload=now.payload)
            self._waiting = ticket, kind, arguments
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            return ticket

    def wait(self, ticket: int, timeout: float | None = None) -> Progress:
        """Wait until this task or a newer one has ended."""
        with self._wake:
            self._wake.wait_for(lambda: self.progress.ticket > ticket or not self.progress.running, timeout)
            return self.progress

    def reset(self) -> None:
        """Drop the results and the running task."""
        with self._wake:
            self._waiting = None
            self._done.clear()
            self.progress = Progress(self.progress.ticket + 1)
            self._wake.notify_all()

    def _run(self) -> None:
        worker: Worker | None = None
        previous_kind = ""
        while (task := self._next()) is not None:
            worker = self._supervise(worker or self._pool.acquire(self), *task, previous_kind)
            previous_kind = task[1]
        if worker is not None:
            self._pool.release(worker, self)

    def _next(self) -> tuple[int, str, tuple[Any, ...]] | None:
        """Return the newest task if it has not started yet."""
        with self._lock:
            found, self._waiting = self._waiting, None
            if found is None:
                self._thread = None
            return found

    def _supervise(
        self, worker: Worker, ticket: int, kind: str, arguments: tuple[Any, ...], previous_kind: str
    ) -> Worker | None:
        """Send a task, and read reports until it has ended or a newer one was submitted.

        Returns the worker that ran it, or None if that process has exited.
        """
        worker.send(ticket, arguments)
        sent, begun = time.monotonic(), False
        while self.progress.ticket == ticket:
            report = worker.receive(POLL_INTERVAL)
            if report is not None and report[0] == ticket:
                begun = True
                if self._record(*report):
                    self._done.add(kind)
                    return worker
            elif report is None and not worker.alive:
                self._finish(ticket, "The process was stopped from outside: change a setting to run it again.")
                return None
            elif not begun and time.monotonic() - sent > self._patience(previous_kind):
                worker.stop()
                worker, previous_kind, sent = self._pool.acquire(self), "", time.monotonic()
                worker.send(ticket, arguments)
        return worker

    def _patience(self, kind: str) -> float:
        return PATIENCE if kind in self._done else PATIENCE_FIRST

    def _record(self, ticket: int, kind: str, content: Any) -> bool:
        """Record a report; return True if the task has ended."""
        with self._lock:
            now = self.progress
            if now.ticket == ticket and kind == "step":
                self.progress = replace(now, step=content)
            elif now.ticket == ticket and kind == "show":
                self.progress = replace(now, result=content, result_ticket=ticket)
            elif now.ticket == ticket and kind == "keep":
                self.progress = replace(now, payload=content)
        if kind in ("done", "failed"):
            self._finish(ticket, content if kind == "failed" else "")
            return True
        return False

    def _finish(self, ticket: int, error: str) -> None:
        with self._wake:
            now = self.progress
            if now.ticket == ticket:
                result = now.result if now.result_ticket == ticket else None
                self.progress = Progress(ticket, False, "", result, ticket, error, now.payload)
                self._wake.notify_all()


class WorkerPool:
    """Worker processes that are shared by all clients and kept while idle.

    Parameters
    ----------
    make : callable
        Called once in each process; the callable that it returns runs the tasks, and may cache data between them. It
        is called with ``step``, which announces the next step and raises when a newer task was submitted; with
        ``show``, which publishes results; with ``keep``, which publishes the object that they describe; and with the
        arguments of :meth:`LatestTask.submit`.
    """

    def __init__(self, make: Callable[[], Callable[..., None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[tuple[Worker, Any]] = []

    def acquire(self, client: Any) -> Worker:
        """Return an idle process, preferably the last one of this client, or a new process."""
        with self._lock:
            self._idle = [(worker, last) for worker, last in self._idle if worker.alive]
            free = [i for i, (worker, _) in enumerate(self._idle) if not worker.is_busy()]
            free.sort(key=lambda i: self._idle[i][1] is not client)
            if free:
                return self._idle.pop(free[0])[0]
        return Worker(self._make)

    def release(self, worker: Worker, client: Any) -> None:
        """Return a process to the pool; it may still be about to abandon its task."""
        with self._lock:
            self._idle.append((worker, client))
            more, self._idle = self._idle[:-MOST_IDLE], self._idle[-MOST_IDLE:]
        for old, _ in more:
            old.stop()

    def prepare(self) -> None:
        """Start a process in advance, so that the first client does not have to wait for it."""
        self.release(self.acquire(None), None)


class Worker:
    """Process that runs one task after the other; a task stops at its next step when the next one arrives."""

    def __init__(self, make: Callable[[], Callable[..., None]]) -> None:
        context = multiprocessing.get_context("spawn")
        inbox, self._tasks = context.Pipe(duplex=False)
        self._reports, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(inbox, writer, make), daemon=True)
        self._process.start()
        self._unfinished = 0
        inbox.close()
        writer.close()

    @property
    def alive(self) -> bool:
        """True while the process is running."""
        return self._process.is_alive()

    def send(self, ticket: int, arguments: tuple[Any, ...]) -> None:
        """Send the next task; it is lost if the process has exited meanwhile."""
        try:
            self._tasks.send((ticket, arguments))
            self._unfinished += 1
        except OSError:
            self._process.join(5)

    def receive(self, seconds: float) -> tuple[int, str, Any] | None:
        """Return the next report, or None if it takes longer than this."""
        try:
            found: tuple[int, str, Any] | None = self._reports.recv() if self._reports.poll(seconds) else None
        except (EOFError, OSError):
            self._process.join(5)
            return None
        if found is not None and found[1] in ENDS:
            self._unfinished -= 1
        return found

    def is_busy(self) -> bool:
        """Return True if the process has an unfinished task; reports read meanwhile are dropped."""
        while self._unfinished and self.receive(0) is not None:
            pass
        return self._unfinished > 0

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join(5)
        self._tasks.close()
        self._reports.close()


def _serve(tasks: Any, reports: Any, make: Callable[[], Callable[..., None]]) -> None:
    """Run tasks in a worker process until its parent exits or no task arrives for a long time."""
    run = make()
    try:
        while tasks.poll(IDLE):
            _run_task(tasks, reports, run, *tasks.recv())
    except (EOFError, OSError, KeyboardInterrupt):
        pass


def _run_task(tasks: Any, reports: Any, run: Callable[..., None], ticket: int, arguments: tuple[Any, ...]) -> None:
    def step(name: str) -> None:
        if tasks.poll():
            raise Superseded
        reports.send((ticket, "step", name))

    def show(result: Any) -> None:
        reports.send((ticket, "show", result))

    def keep(payload: Any) -> None:
        reports.send((ticket, "keep", payload))

    try:
        step("Starting")
        error = _error_of(run, step, show, keep, *arguments)
        reports.send((ticket, "failed" if error else "done", error))
    except Superseded:
        reports.send((ticket, "superseded", ""))


def _error_of(function: Callable[..., None], *arguments: Any) -> str:
    """Call a function of a process; return the sentence about its error, or an empty string."""
    try:
        function(*arguments)
    except (Superseded, BrokenPipeError):
        raise  # a newer task was submitted, or the parent has exited
    except ShoalError as error:
        return str(error)
    except Exception as error:  # libraries may fail on unusual tables; the page must survive that
        traceback.print_exc()
        return describe_unexpected(error)
    return ""


def describe_unexpected(error: Exception) -> str:
    """Return the sentence about an error of an unexpected type."""
    return f"An unexpected error occurred ({type(error).__name__}: {error})."


class BackgroundTask:
    """Function that runs in a process of its own, reports its steps, and can be stopped at any moment."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._reader, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_run_once, args=(writer, function, arguments), daemon=True)
        self._process.start()
        writer.close()
        self.step = "Starting"
        self.error = ""
        self.ended = False

    def poll(self) -> None:
        """Read the reports that have arrived since the last call."""
        while not self.ended:
            try:
                if not self._reader.poll():
                    if not self._process.is_alive() and not self._reader.poll():
                        self._end("The process was stopped from outside.")
                    return
                kind, text = self._reader.recv()
            except (EOFError, OSError):
                self._process.join(5)
                self._end("" if self._process.exitcode == 0 else "The process exited before it was done.")
                return
            if kind == "step":
                self.step = text
            else:
                self._end(text)

    def stop(self) -> None:
        """Terminate the process."""
        if not self.ended:
            self._process.terminate()
            self._end("")

    def _end(self, error: str) -> None:
        self.ended, self.error, self.step = True, error, ""
        self._process.join(5)
        self._reader.close()


def _run_once(writer: Any, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with suppress(BrokenPipeError):  # the parent has exited
        writer.send(("done", _error_of(function, *arguments, lambda step: writer.send(("step", step)))))
