"""The Java process of a session: its environment and its output."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from fleet.common import exits
from fleet.spark.errors import EngineError, one_line
from fleet.spark.masters import is_local

# Environment variable: a file for all of Java's output, for debugging.
LOG: Final = "SANDERLING_SPARK_LOG"
GIB: Final = 1 << 30
# Java optimises what has run so often, ten times as often as by default. Of a command's many short
# jobs that is the work on each reading, and little of Spark's own code.
COMPILED_LATER: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# On so many processors the threads of another collector would take them from the jobs.
FEW_PROCESSORS: Final = 2
ONE_COLLECTOR: Final = "-XX:+UseSerialGC"
COMPLAINT: Final = re.compile(r"(error|exception|invalid|unrecognized)\b", re.IGNORECASE)
THREAD: Final = re.compile(r'^Exception in thread "[^"]*" ')


def environment(
    master: str, java_home: Path, given: Mapping[str, str], memory: int
) -> dict[str, str]:
    """Environment variables for Java and the Python workers, in addition to `given`; `memory` of
    this machine in bytes. An address and memory that the user has set stay."""
    needed = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master):
        # Otherwise its ports are open to the network.
        needed["SPARK_LOCAL_IP"] = given.get("SPARK_LOCAL_IP") or "127.0.0.1"
        # On this machine the driver also computes, on all processors; Spark's own 1 GiB is too
        # little for that, but the machine is shared. On a cluster it only collects small results.
        chosen = f"{min(max(memory // 4, GIB), 8 * GIB) >> 20}m"
        needed["SPARK_DRIVER_MEMORY"] = given.get("SPARK_DRIVER_MEMORY") or chosen
    return needed


def java_options(processors: int) -> tuple[str, ...]:
    """Java's options for a session on this machine."""
    return (*COMPILED_LATER, ONE_COLLECTOR) if processors <= FEW_PROCESSORS else COMPILED_LATER


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def applied(needed: Mapping[str, str]) -> Iterator[None]:
    """Context manager: add these to the environment; it is restored at the end."""
    before = {name: os.environ.get(name) for name in needed}
    os.environ.update(needed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def log_file() -> Iterator[IO[bytes]]:
    """The file for Java's stderr in place of the terminal. EngineError if the named one cannot be
    written."""
    named = os.environ.get(LOG)
    try:
        file: IO[bytes]
        with Path(named).open("a+b") if named else tempfile.TemporaryFile() as file:
            file.seek(0, os.SEEK_END)
            yield file
    except OSError as error:
        if error.filename != named or named is None:
            raise
        raise EngineError(f"${LOG}: {named}: {error.strerror}", exits.USAGE) from None


def complaint(said: str) -> str:
    """The line of Java's output that states the error: the first that looks like one, otherwise the
    last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    line = next(filter(COMPLAINT.match, lines), lines[-1] if lines else "it said nothing")
    return one_line(THREAD.sub("", line))
