"""A standalone cluster of Spark on loopback: one master and some workers, each a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyspark

from fleet.spark import java
from testkit.waiting import wait_until
from tests.fleet.spark.shared import SHORT_LIVED

DEPLOY = "org.apache.spark.deploy"
WORKER_MEMORY = "600m"
PATIENCE_S = 240.0


class Cluster(NamedTuple):
    """`master` is its URL, `page` that of its state as JSON."""

    master: str
    page: str
    workers: list[subprocess.Popen[bytes]]

    def alive(self) -> list[dict[str, Any]]:
        """The workers that the master counts on."""
        with urllib.request.urlopen(self.page, timeout=5.0) as page:
            workers = json.load(page)["workers"]
        return [worker for worker in workers if worker["state"] == "ALIVE"]

    def kill(self, worker: int) -> int:
        """SIGKILL to a worker and its executors; returns how many of these there were."""
        children = psutil.Process(self.workers[worker].pid).children(recursive=True)
        self.workers[worker].kill()
        for child in children:
            child.kill()
        self.workers[worker].wait()
        return len(children)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as there:
        return there.getsockname()[1]


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    """Yields when the workers, of one processor each, have registered; all ends with the block."""
    port, page_port = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1"]
    with ExitStack() as stack:
        first = [*where, "--port", str(port), "--webui-port", str(page_port)]
        stack.enter_context(_process(folder, f"{DEPLOY}.master.Master", *first))
        more = [*where, "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0"]
        started = [
            stack.enter_context(
                _process(
                    folder,
                    f"{DEPLOY}.worker.Worker",
                    *(*more, "--work-dir", str(folder / f"worker-{number}"), master),
                )
            )
            for number in range(workers)
        ]
        cluster = Cluster(master, f"http://127.0.0.1:{page_port}/json/", started)
        wait_for(lambda: _registered(cluster) == workers)
        yield cluster


def wait_for(condition: Callable[[], bool]) -> None:
    """Ask until it holds; AssertionError if it never does."""
    wait_until(condition, patience_s=PATIENCE_S, pause_s=0.02)


def _registered(cluster: Cluster) -> int:
    try:
        return len(cluster.alive())
    except (OSError, ValueError):
        return 0  # not up yet, or not so far that it serves JSON


@contextmanager
def _process(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    spark = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.find()),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [str(spark / "bin" / "spark-class"), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
        )
    try:
        yield process
    finally:
        # A worker ends its executors itself, if it is given the time.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
