"""The real edge process gets derived values and is killed: each is there once, and acted on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.wire.derived import Derived, DerivedTaken, DerivedValues
from agent.wire.messages import Window
from agent.wire.node_messages import Hello, Subtask, SubtaskResult, Welcome
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import wait_until
from tests.edge.test_process import Master

CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "synthetic"
interval_s = 0.05
[history]
commit_s = 0.1
[derived]
channels = ["comfort"]
[actuator]
driver = "file"
options = {{ path = "valve", channel = "comfort" }}
"""


class Edge(AgentProcess):
    command = (installed("sanderling-edge"),)

    def __init__(self, folder: Path, address: str) -> None:
        self.config = folder / "edge.toml"
        self.config.write_text(CONFIG.format(address=address))
        self.start()


@pytest.fixture
def master() -> Iterator[Master]:
    played = Master()
    yield played
    played.socket.close()
    played.context.term()


@pytest.fixture
def edge(master: Master, tmp_path: Path) -> Iterator[Edge]:
    process = Edge(tmp_path, master.address)
    yield process
    process.stop(signal.SIGKILL)


def join(master: Master) -> Hello:
    hello = master.expect(Hello)
    master.send(Welcome(hello.incarnation, 60.0))
    return hello


def give(master: Master, hello: Hello, *positions: int) -> None:
    values = tuple(
        DerivedValues(p, 1_000 * (positions[-1] - p), {"comfort": float(p), "other": 1.0})
        for p in positions
    )
    master.send(Derived(hello.incarnation, "clone", values))


def found(master: Master) -> list[float]:
    window = Window(last_s=3_600.0)
    master.send(Subtask(1, window, channels=("comfort", "other")))
    series = master.expect(SubtaskResult).series
    assert series is not None
    assert list(series.values) == ["comfort"]
    return sorted(series.values["comfort"].numbers())


def test_after_a_kill_each_value_is_there_once_and_was_acted_on(
    master: Master, edge: Edge, tmp_path: Path
) -> None:
    hello = join(master)
    assert hello.takes_derived
    give(master, hello, 1, 2, 3)
    assert master.expect(DerivedTaken).position == 3
    give(master, hello, 4, 5)
    wait_until(lambda: found(master), lambda values: values == [1.0, 2.0, 3.0, 4.0, 5.0])
    edge.stop(signal.SIGKILL)
    edge.start()
    hello = join(master)
    give(master, hello, 3, 4, 5, 6)
    taken = master.expect(DerivedTaken)
    assert (taken.source, taken.position) == ("clone", 6)
    assert found(master) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    valve = tmp_path / "valve"
    wait_until(lambda: valve.exists() and valve.read_text(), lambda text: text == "6\n")
