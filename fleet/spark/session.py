"""Factory of Spark sessions: quiet, and always stopped."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from fleet.common import exits, extras
from fleet.spark import archive, interrupts, java, process
from fleet.spark.errors import EngineError, spoken, told
from fleet.spark.masters import await_executor, is_local, reach

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
# First the settings that results depend on; the others keep a command's terminal, ports and folder
# private.
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Location of tables created in SQL; Spark's default is the current folder.
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "sanderling-warehouse"),
}
OPTIONS: Final = "spark.driver.extraJavaOptions"
STOP_TIMEOUT_S: Final = 30.0


@contextmanager
def open_session(
    name: str,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    ctrl_c_ends: bool = True,
) -> Iterator[SparkSession]:
    """A session on `master`, any URL that Spark knows; it ends with the context.

    What Spark raises inside becomes an EngineError. The environment is as before once the session
    is there. Ctrl-C ends Java and, soon after, this process (`interrupts`), unless somebody else
    is to answer it. JavaError; EngineError if `master` does not answer or has nothing that
    computes, or PySpark is missing.
    """
    if line := extras.lacking("pyspark", "py4j"):
        raise EngineError(line, exits.USAGE)
    with interrupts.heard() if ctrl_c_ends else nullcontext(), spoken(), _py4j_silent():
        reach(master)
        with _sigint_as_before():
            session = _start(name, master, {**SETTINGS, **(settings or {})})
        try:
            await_executor(session.sparkContext, master)
            yield session
        finally:
            _stop(session)


def _start(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # They repeat on stderr what is raised.
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(logger).disabled = True
    conf = SparkConf(loadDefaults=False).setAppName(name).setMaster(master)
    conf.setAll(list(settings.items()))
    java_home = java.find()
    if is_local(master) and OPTIONS not in settings:
        conf.setAll([(OPTIONS, options) for options in _options(java_home)])
    needed = process.environment(master, java_home, os.environ, process.memory_bytes())
    with process.applied(needed), process.log_file() as log:
        context = _context(conf, log)
    context.setLogLevel("WARN" if os.environ.get(process.LOG) else "ERROR")
    return SparkSession(context)


def _options(java_home: Path) -> Iterator[str]:
    """Java's options, the archive of classes among them; none if the user has chosen some."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    chosen = "SPARK_CONF_DIR" in os.environ or (home / "conf" / "spark-defaults.conf").exists()
    if not chosen:
        processors = len(os.sched_getaffinity(0))
        words = process.java_options(processors) + archive.options(java_home, home / "jars")
        yield " ".join(words)


def _context(conf: SparkConf, log: IO[bytes]) -> SparkContext:
    """A SparkContext in a new Java process, or in that of an earlier session. EngineError."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    # PySpark keeps the only Java of a process there.
    gateway = SparkContext._gateway  # noqa: SLF001
    began = log.tell()
    try:
        if gateway is None or gateway.proc.poll() is not None:
            # Unless the user has set another folder.
            chosen = {"SPARK_LOCAL_DIRS", "SPARK_CONF_DIR"} & os.environ.keys()
            if is_local(conf.get("spark.master") or "") and not chosen:
                conf.set("spark.local.dir", interrupts.scratch("sanderling-spark-"))
            # In a session of its own it gets no signals from the terminal, and can be ended as a
            # group.
            options = {"stderr": log, "start_new_session": True}
            gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
            SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm  # noqa: SLF001
        return SparkContext(conf=conf)
    except Exception as error:
        known = told(error)
        if known is not None and not known.died:
            said = str(known)
        else:
            log.seek(began)
            said = process.complaint(log.read().decode(errors="replace"))
        raise EngineError(f"Spark did not start: {said}", exits.FAILED) from error


@contextmanager
def _py4j_silent() -> Iterator[None]:
    """Silence py4j's logger, which logs a stack trace whenever a call is interrupted or broken."""

    def others(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    root = logging.getLogger()
    root.addFilter(others)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeFilter(others)


@contextmanager
def _sigint_as_before() -> Iterator[None]:
    """Restore the handler: PySpark's own sends a message to Java, even amid another one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(session: SparkSession) -> None:
    """End the session, even during a job.

    It uses a thread, and so a connection, of its own: the connection of this thread may still be
    waiting for a job's answer if an exception was raised meanwhile.
    """

    def stop() -> None:
        # Java is gone and cannot be told.
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.stop()

    thread = threading.Thread(target=stop, name="spark-stop", daemon=True)
    thread.start()
    thread.join(STOP_TIMEOUT_S)
