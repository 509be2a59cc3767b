"""The environment of Spark's Java, and what of its words is told."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.spark import java
from fleet.spark.errors import EngineError
from fleet.spark.process import (
    GIB,
    LOG,
    ONE_COLLECTOR,
    applied,
    complaint,
    environment,
    java_options,
    log_file,
)

JAVA = Path("/java")


def test_everywhere_the_running_interpreter_computes():
    needed = environment("spark://h:7077", JAVA, {"PYSPARK_PYTHON": "other"}, 64 * GIB)
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert needed == {"JAVA_HOME": "/java", **python}


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,512]"])
def test_a_local_master_listens_on_loopback_only(master: str):
    assert environment(master, JAVA, {}, GIB)["SPARK_LOCAL_IP"] == "127.0.0.1"
    given = {"SPARK_LOCAL_IP": "10.0.0.1"}
    assert environment(master, JAVA, given, GIB)["SPARK_LOCAL_IP"] == "10.0.0.1"


@pytest.mark.parametrize(
    ("machine", "driver"),
    [(GIB, "1024m"), (4 * GIB, "1024m"), (16 * GIB, "4096m"), (256 * GIB, "8192m")],
)
def test_a_local_driver_has_a_quarter_of_the_machine(machine: int, driver: str):
    assert environment("local[2]", JAVA, {}, machine)["SPARK_DRIVER_MEMORY"] == driver


def test_what_the_user_gives_the_driver_stays():
    given = {"SPARK_DRIVER_MEMORY": "3g"}
    assert environment("local[2]", JAVA, given, 64 * GIB)["SPARK_DRIVER_MEMORY"] == "3g"


def test_the_environment_is_as_before_whatever_happens(monkeypatch):
    monkeypatch.setenv("SET", "before")
    before = dict(os.environ)
    with suppress(KeyError), applied({"SET": "inside", "NEW": "one"}):
        assert (os.environ["SET"], os.environ["NEW"]) == ("inside", "one")
        raise KeyError
    assert dict(os.environ) == before


def test_java_s_words_go_to_the_named_file_only(tmp_path, monkeypatch):
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    for word in (b"one\n", b"two\n"):
        with log_file() as file:
            os.write(file.fileno(), word)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    monkeypatch.setenv(LOG, str(tmp_path / "none" / "log"))
    with pytest.raises(EngineError, match=r"none/log: No such file or directory$"), log_file():
        pass


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("WARNING: x\nInvalid maximum heap size: -Xmxx\nError: Could not", "Invalid maximum heap "),
        ('WARN\nException in thread "main" org.a.B: Master must be\n\tat x.Y', "Master must be"),
        ("Using a profile\n\n/usr/bin/java: 3: nothing\n", "/usr/bin/java: 3: nothing"),
        ("", "it said nothing"),
    ],
)
def test_the_line_that_tells_what_is_wrong(said: str, told: str):
    assert complaint(said).startswith(told)


@pytest.mark.parametrize(("processors", "alone"), [(1, True), (2, True), (4, False)])
def test_java_takes_its_options_without_a_word(processors: int, alone: bool):
    options = java_options(processors)
    assert (ONE_COLLECTOR in options) == alone
    program = java.find() / "bin" / "java"
    done = subprocess.run([program, *options, "-version"], capture_output=True, check=True)
    assert done.stdout == b""
    assert b"warning" not in done.stderr.lower()
