"""Sessions of a process of their own: quiet, ended by Ctrl-C, and failing in one line."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from fleet.common import extras
from fleet.common.exits import FAILED, USAGE, CommandError
from fleet.spark import masters
from fleet.spark.errors import EngineError
from fleet.spark.session import open_session

JOB = """\
import os, sys
import psutil
from fleet.cli import commands, main
from fleet.common import exits
from fleet.spark.session import open_session

def hold(path):
    import time
    file = open(path, "w")
    time.sleep(600)

def job(arguments):
    before = dict(os.environ)
    try:
        with open_session("test", "local[1]") as spark:
            added = {name for name in os.environ if os.environ.get(name) != before.get(name)}
            print(sorted(added - {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}))
            java = psutil.Process(spark.sparkContext._gateway.proc.pid)
            ports = [c for c in java.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
            print(sorted({port.laddr.ip.removeprefix("::ffff:") for port in ports}), flush=True)
            if arguments:
                spark.sparkContext.parallelize(arguments, 1).foreach(hold)
            else:
                java = spark.sparkContext._gateway.proc
                java.kill()
                java.wait()
                spark.range(3).count()
    except exits.CommandError as error:
        return exits.fail(str(error), error.status)

commands.run = job
sys.exit(main())
"""


def started(*arguments: str, cwd) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", JOB, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
    )


@pytest.mark.long
def test_ctrl_c_in_a_job_is_one_line_and_nothing_is_left(tmp_path):
    """Nor has anything appeared on the terminal or in the current folder, nor a port for others."""
    fifo = tmp_path / "at work"
    os.mkfifo(fifo)
    (tmp_path / "cwd").mkdir()
    with started(str(fifo), cwd=tmp_path / "cwd") as process:
        # A FIFO opens for reading when the job's task has it open for writing.
        reader = fifo.open()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        reader.close()
    assert (process.returncode, err) == (130, "fleet: interrupted\n")
    assert out.splitlines() == ["[]", "['127.0.0.1']"]
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.mark.long
def test_a_java_that_dies_is_one_line(tmp_path):
    with started(cwd=tmp_path) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == FAILED
    assert err == (
        "fleet: Spark's Java process ended, perhaps for want of memory: SPARK_DRIVER_MEMORY=4g "
        "gives it more\n"
    )


def test_a_master_that_is_not_there_is_told_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError) as caught, open_session("test", master):
            pass
    assert str(caught.value) == f"{master}: no Spark master answers: Connection refused"
    assert caught.value.status == FAILED


@pytest.mark.parametrize("master", ["spark://host", "spark://:7077", "spark://host:x", "spark://"])
def test_a_master_that_cannot_be_one_is_wrong_usage(master: str):
    with pytest.raises(EngineError, match=r"not spark://HOST:PORT$") as caught:
        masters.reach(master)
    assert caught.value.status == USAGE


def test_of_several_masters_one_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as there:
        masters.reach(f"spark://127.0.0.1:1,127.0.0.1:{there.getsockname()[1]}")


def test_without_pyspark_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with (
        pytest.raises(CommandError, match=r"^pyspark, py4j are missing; `make pipeline` inst"),
        open_session("test"),
    ):
        pass
