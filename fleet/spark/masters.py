"""Checks a Spark master before connecting, so that no session waits for an absent one."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

from fleet.common import exits
from fleet.spark.errors import EngineError

if TYPE_CHECKING:
    from pyspark import SparkContext

STANDALONE: Final = "spark://"
CONNECT_TIMEOUT_S: Final = 5.0
EXECUTOR_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1


def is_local(master: str) -> bool:
    """Whether the master URL means this machine only: local, local[4], local-cluster[2,1,1024]."""
    return master.partition("[")[0] in {"local", "local-cluster"}


def reach(master: str) -> None:
    """EngineError if none of a standalone cluster's masters accepts a connection: Spark itself
    would try for a minute, then end with a stack trace."""
    if not master.startswith(STANDALONE):
        return
    said = ""
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal() and int(port) < 1 << 16):
            raise EngineError(f"{master}: not spark://HOST:PORT", exits.USAGE)
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            said = error.strerror or str(error)
        else:
            return
    raise EngineError(f"{master}: no Spark master answers: {said}", exits.FAILED)


def await_executor(context: SparkContext, master: str) -> None:
    """EngineError if a standalone cluster has no executors: a job would wait for ever."""
    conf = context.getConf()
    if not master.startswith(STANDALONE) or conf.get("spark.dynamicAllocation.enabled") == "true":
        return
    spark = context._jsc.sc()  # noqa: SLF001 - PySpark's own face does not tell of executors
    until_s = time.monotonic() + EXECUTOR_TIMEOUT_S
    # The driver counts as one.
    while spark.getExecutorMemoryStatus().size() < 2:
        if spark.isStopped() or time.monotonic() > until_s:
            raise EngineError(
                f"{master}: no worker gave an executor in {EXECUTOR_TIMEOUT_S:.0f} s: there is "
                "none, or their processors or memory are taken; SPARK_EXECUTOR_MEMORY=512m asks "
                "for less",
                exits.FAILED,
            )
        time.sleep(POLL_S)
