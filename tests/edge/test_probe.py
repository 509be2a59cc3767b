"""The probe: a line a reading with what is wrong with it, in order from start to end. About 5 s."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from agent.edge.history.memtable import Sample
from agent.edge.probe import WAITING_S, Waiting, line
from agent.edge.sampling.counters import SensorCounters
from agent.edge.sampling.sensor import Sensor, StoredChannel
from sensors.quality.flags import NO_RESPONSE, SPIKE
from sensors.quality.limits import Limits
from sensors.synthetic import Synthetic

# A busy machine does this to a sensor that is read ten times a second.
LEFT_OUT = re.compile(r"^.*: readings left out: .*\n", re.MULTILINE)
PROBE = """
import sys
from sensors.registry import DRIVERS
DRIVERS["odd"] = "odd_driver"
from agent.edge.probe import main
main()
"""
DRIVER = """
import os
from sensors.base import Channel, Reading, SensorError

class Odd:
    channels = (Channel("level", "m", -40.0, 80.0),)
    def __init__(self, options):
        self.does = options.text("does")
        self.n = 0
        options.finish()
    def read(self):
        self.n += 1
        if self.does == "hangs":
            os.read(os.pipe()[0], 1)
        if self.does == "fails":
            raise SensorError(f"no pin, for the {self.n}th time")
        return Reading((20.0,))
    def preload(self):
        return ()
    def close(self):
        print("closed")

open_driver = Odd
"""
CONFIG = """
[node]
name = "n1"
areas = ["b1/r1"]
[master]
address = "tcp://127.0.0.1:5701"
"""
REPLAY = """
[[sensor]]
driver = "replay"
interval_s = 0.01
options = { room = 413 }
"""
CHANNELS = (
    StoredChannel("temperature", "temperature", "celsius", 1.0, 0.0, Limits()),
    StoredChannel("humidity", "humidity", "percent", 1.0, 0.5, Limits()),
)
DESK = Sensor("desk", "", Synthetic(0, 1.0, 0.0, 0), 1.0, CHANNELS)


def odd(does: str) -> str:
    return f'[[sensor]]\ndriver = "odd"\ninterval_s = 0.01\noptions = {{ does = "{does}" }}\n'


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the probe; what is left of it at the end is killed."""
    with ExitStack() as stack:

        def run(sensors: str, *arguments: str) -> subprocess.Popen[str]:
            (tmp_path / "odd_driver.py").write_text(DRIVER)
            (tmp_path / "edge.toml").write_text(CONFIG + sensors)
            process = subprocess.Popen(
                [sys.executable, "-c", PROBE, "--config", tmp_path / "edge.toml", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": str(tmp_path)},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield run


def output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, LEFT_OUT.sub("", err)


def test_a_line_says_what_is_wrong_and_why() -> None:
    good = Sample(66_601_000, 0, True, (21.4, 45.5), raw=(21.4, 45.0), age_ms=1_500)
    assert line(DESK, good, "") == (
        "18:30:01Z desk: temperature 21.4 celsius, humidity 45.5 percent (raw 45) (1.5 s old)\n"
    )
    spike = Sample(0, 0, True, (91.0, 45.5), quality=(SPIKE, 0))
    assert line(DESK, spike, "") == (
        "00:00:00Z desk: temperature 91 celsius [spike], humidity 45.5 percent\n"
    )
    none = Sample(0, 0, True, (math.nan, math.nan), quality=(NO_RESPONSE, NO_RESPONSE))
    assert line(DESK, none, "port is\nnot there") == (
        "00:00:00Z desk: temperature – [no_response], humidity – [no_response]: port is not there\n"
    )


def test_a_read_that_does_not_return_is_said_again_and_again() -> None:
    counters = SensorCounters("desk", ("temperature",), 2.0, 0.0)
    waiting = Waiting([counters])
    said = {now: waiting.look(now) for now in range(12)}
    at = [now for now, lines in said.items() if lines]
    assert at == [2 + WAITING_S, 2 + 2 * WAITING_S, 2 + 3 * WAITING_S]
    assert said[5] == ["desk: waiting: its read has not returned 5 s"]
    counters.ends((), 0, 12.0)
    assert waiting.look(12.0) == waiting.look(14.0) == []


def test_check_says_ok_and_reads_nothing(start: Start, tmp_path: Path) -> None:
    process = start(REPLAY, "--check")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, f"{tmp_path / 'edge.toml'}: ok\n", "")


def test_ctrl_c_ends_it_in_order_between_readings_of_a_generator(start: Start) -> None:
    process = start(REPLAY + odd("reads"))
    for _ in range(50):
        assert "Z " in output(process).readline()
    status, out, err = interrupted(process)
    assert (status, err) == (0, "")
    assert out.endswith("closed\n")


def test_each_reading_that_is_missing_says_why(start: Start) -> None:
    process = start(odd("fails"))
    lines = [output(process).readline() for _ in range(6)]
    assert [text.partition("odd: ")[2] for text in lines] == [
        f"level – [no_response]: no pin, for the {n}th time\n" for n in range(1, 7)
    ]
    assert interrupted(process)[::2] == (0, "")


@pytest.mark.long
def test_a_driver_that_hangs_is_waited_for_and_left_open(start: Start) -> None:
    process = start(odd("hangs"))
    assert "Z odd: waiting: its read has not returned " in output(process).readline()
    status, out, err = interrupted(process)
    assert (status, "closed" in out) == (0, False)
    assert err == "sanderling-probe n1: sensor odd does not return; it is left open\n"


@pytest.mark.parametrize("sensors", [REPLAY, odd("reads")])
def test_it_ends_when_nobody_reads_what_it_says(start: Start, sensors: str) -> None:
    process = start(sensors)
    output(process).readline()
    output(process).close()
    process.stdout = None
    _, err = process.communicate(timeout=30)
    # Every 10 ms: a busy processor may leave one out, and the probe says so.
    assert [line for line in err.splitlines() if "readings left out" not in line] == []
    assert process.returncode == 0
