"""One-line messages for Spark's errors: no stack traces, no error codes."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fleet.common import exits

CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w{5}\b")
POSITION: Final = re.compile(r"\(?\bline (\d+),? pos (\d+)\)?")
CLASS: Final = re.compile(r"^(?:\w+\.)+\w+: ")
ABORTED: Final = re.compile(r"^.*?\bmost recent failure: (?:Lost task .*?\)(?=: ): )?", re.DOTALL)
STREAM: Final = re.compile(r"^.*?\bterminated with exception: ", re.DOTALL)
TRACEBACK: Final = "Traceback (most recent call last)"
SENTENCE: Final = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")

DIED: Final = (
    "Spark's Java process ended, perhaps for want of memory: SPARK_DRIVER_MEMORY=4g gives it more"
)

FULL: Final = os.strerror(errno.ENOSPC)
# Java does not say on which disk.
MAKE_ROOM: Final = (
    "the disk of the lake is full, or that of Spark's own files (/tmp, or what SPARK_LOCAL_DIRS "
    "names); make room there, then run this again"
)


class EngineError(exits.CommandError):
    """Spark refused or failed. `status`: USAGE if the request is invalid (unknown table, column,
    path or syntax), FAILED if the job failed. `died`: its process is gone."""

    def __init__(self, text: str, status: int, *, died: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.died = died


@contextmanager
def spoken() -> Iterator[None]:
    """Context manager: exceptions of Spark become an EngineError of one line; others, such as wrong
    uses of PySpark, stay as they are."""
    try:
        yield
    except Exception as error:
        known = told(error)
        if known is None:
            raise
        raise known from error


def one_line(text: str) -> str:
    """The first sentence of a Spark message, with its suggestion and position."""
    if TRACEBACK in text:
        text = _raised(text)
    for prefix in (STREAM, ABORTED, CLASS, CONDITION):
        text = prefix.sub("", text.strip(), count=1)
    line = SQLSTATE.sub("", text.strip().partition("\n")[0]).strip()
    place = POSITION.search(line)
    first, *more = SENTENCE.split(POSITION.sub("", line).rstrip("; "))
    sentences = [first, *(sentence for sentence in more if sentence.startswith("Did you mean"))]
    said = " ".join(sentences).rstrip(". ")
    if said.endswith(FULL):
        return f"{said}: {MAKE_ROOM}"
    return f"{said} (line {place[1]}, position {place[2]})" if place else said


def _raised(text: str) -> str:
    """The exception and its message at the end of the last traceback in the text."""
    lines = text.rpartition(TRACEBACK)[2].splitlines()[1:]
    for line in lines:
        if line.strip() and not line.startswith(" "):
            return line
    return text


def told(error: Exception) -> EngineError | None:
    """The error in one line, if it is Spark's."""
    # If Spark's modules are not loaded, Spark has not raised it.
    if "py4j.protocol" not in sys.modules or "pyspark.errors" not in sys.modules:
        return None
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.errors.exceptions.captured import CapturedException

    match error:
        case Py4JNetworkError():
            return EngineError(DIED, exits.FAILED, died=True)
        case Py4JJavaError():
            return EngineError(_cause(error.java_exception), exits.FAILED)
        case Py4JError() if "Trace:" not in str(error):
            # No message from Java: py4j found the connection broken.
            return EngineError(DIED, exits.FAILED, died=True)
        case ConnectionError() if _java_ended():
            return EngineError(DIED, exits.FAILED, died=True)
        case CapturedException():
            status = exits.USAGE if isinstance(error, AnalysisException) else exits.FAILED
            return EngineError(one_line(str(error)), status)
        case PySparkException() if error.getCondition() == "JAVA_GATEWAY_EXITED":
            return EngineError(DIED, exits.FAILED, died=True)
    return None


def _java_ended() -> bool:
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark keeps its process nowhere else
    return gateway is not None and gateway.proc.poll() is not None


def _cause(raised: object) -> str:
    """The root cause: the message of the last cause that has one."""
    message = ""
    while raised is not None:
        java = raised.getClass().getName()  # type: ignore[attr-defined] # a Java Throwable
        if "OutOfMemoryError" in java:
            return DIED
        message = raised.getMessage() or message or java  # type: ignore[attr-defined]
        raised = raised.getCause()  # type: ignore[attr-defined]
    return one_line(message)
