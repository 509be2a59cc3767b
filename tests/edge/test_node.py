"""The shell around the link: its socket, and what becomes of what cannot be sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from agent.edge import link as links
from agent.edge.history.history import History
from agent.edge.node import EdgeNode
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.sensor import open_sensors
from agent.wire import codec
from agent.wire.edge_config import EdgeConfig, EdgeIdentity, EdgeMaster, EdgeSensor
from agent.wire.messages import Window
from agent.wire.node_messages import (
    EventsTaken,
    Heartbeat,
    NodeMessage,
    Subtask,
    SubtaskResult,
    Welcome,
)

DECODER: codec.Decoder[NodeMessage] = codec.Decoder(NodeMessage, codec.MAX_SUBTASK_RESULT_BYTES)


class Full:
    """A socket whose other end takes nothing."""

    def __init__(self) -> None:
        self.refused = 0
        self.frames: list[bytes] = []

    def send(self, *_: object) -> None:
        self.refused += 1
        raise zmq.Again

    def getsockopt(self, option: int) -> int:
        return zmq.POLLIN if option == zmq.EVENTS and self.frames else 0

    def recv(self, _: int) -> bytes:
        return self.frames.pop()


class Open(Full):
    """A socket whose other end takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []

    def send(self, *frame: Any) -> None:
        self.sent.append(DECODER.decode(frame[0])[0])

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]


class NeverStop:
    filenos = ()
    requested = False


class Bench:
    """A node in this process, driven by hand; its master never answers."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        self.history = History(
            folder / "h.sqlite", "boot", group_readings=600, commit_s=10, retention_s=1e6
        )
        settings = EdgeConfig(
            node=EdgeIdentity(name="n1", areas=("b1/r1",)),
            master=EdgeMaster(
                address=f"ipc://{folder}/m", reconnect_first_s=0.3, reconnect_longest_s=7.0
            ),
            sensor=(EdgeSensor(driver="synthetic"),),
        )
        self.node = EdgeNode(
            settings,
            open_sensors(settings.sensor, folder),
            self.history,
            Reporter(self.lines.append, "n1", lambda: 0.0),
        )
        self.node._samplers[0].sample()
        self.node._handle(links.Start())
        assert self.node._socket._socket is not None
        self.socket = self.node._socket._socket

    def join(self) -> None:
        self.node._handle(Welcome(self.node._link._hello.incarnation, 1.0))

    def fill(self) -> Full:
        full: Any = Full()
        self.node._socket._socket = full
        return full

    def open(self) -> Open:
        opened: Any = Open()
        self.node._socket._socket = opened
        return opened

    def turn(self) -> None:
        """One turn of the loop, with everything due."""
        never: Any = NeverStop()
        self.node._link._beat_at = self.node._link.wake_at = 0.0
        self.node._supervision._watchdog.wake_at = 0.0
        self.node._forwarding._outbox.wake_at = 0.0
        self.node._wait_once(never)

    def close(self) -> None:
        self.node._socket._socket = self.socket
        self.node._socket.close(0.0)
        self.node._pods.stop()
        self.node._disk.close()
        self.node._socket.end()
        self.history.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_zeromq_reconnects_within_the_configured_pauses(bench: Bench) -> None:
    assert bench.socket.getsockopt(zmq.RECONNECT_IVL) == 300
    assert bench.socket.getsockopt(zmq.RECONNECT_IVL_MAX) == 7_000


def nothing_is_claimed(node: EdgeNode) -> bool:
    return not node._link.running and not node._link.held and not node._results


def test_a_result_that_cannot_be_sent_is_claimed_no_more(bench: Bench) -> None:
    bench.join()
    full = bench.fill()
    for number in range(3):
        bench.node._handle(Subtask(number, Window(last_s=60.0)))
        assert nothing_is_claimed(bench.node)
    assert full.refused == 3
    assert sum("one was dropped" in line for line in bench.lines) == 1


def test_a_held_result_that_cannot_be_sent_is_claimed_no_more(bench: Bench) -> None:
    bench.node._link.running.add(5)
    bench.node._results[5] = b"result"
    bench.node._handle(links.Finished(5))
    assert bench.node._link.held == [5]
    full = bench.fill()
    bench.join()
    assert full.refused == 1
    assert nothing_is_claimed(bench.node)


def test_a_subtask_in_an_unreadable_frame_is_not_claimed(bench: Bench) -> None:
    bench.join()
    full = bench.fill()
    good = codec.encode(Subtask(1, Window(last_s=60.0)))
    full.frames = [good[:-1], b"", b"10M"]
    bench.node._receive_all()
    assert full.refused == 0
    assert nothing_is_claimed(bench.node)
    assert sum("ignored a frame from the master" in line for line in bench.lines) == 1


def test_the_loop_does_not_wait_for_a_disk_that_hangs(bench: Bench) -> None:
    """A commit holds the history's file, as that of a worn card does for half a minute."""
    history, node = bench.history, bench.node
    events = [
        history.events.add(monotonic_ms=number, kind="test", time_ms=number, synchronised=True)
        for number in range(3)
    ]
    alerts: Any = Follow(history)
    node._alerts = alerts
    opened = bench.open()
    node._handle(Welcome(node._link._hello.incarnation, 1.0, takes_events=True))
    incarnation = node._link._hello.incarnation
    with history._writer:
        for turn, event in enumerate(events, 1):
            node._forwarding._outbox._batch_at = 0.0
            node._handle(EventsTaken(incarnation, history.id, (event.sequence,)))
            node._handle(Subtask(turn, Window(last_s=60.0)))
            bench.turn()
            assert len(opened.of(Heartbeat)) == turn
            assert [result.outcome for result in opened.of(SubtaskResult)] == ["ok"] * turn
        assert history.events.count == 3
        assert node._disk.under_way <= 3
    node._disk.drain()
    assert history.events.count == 0
    assert alerts.turns > 0


class Follow:
    """Triggers that need the history's file in each turn."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.turns = 0

    def turn(self, _moment: object) -> None:
        self.history.events.raised()
        self.turns += 1


def test_its_hello_names_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "RELEASE").write_text("0.1.0-3f9c2a1b\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    bench = Bench(tmp_path)
    assert bench.node._link._hello.release == "0.1.0-3f9c2a1b"
    bench.close()


def test_its_hello_names_the_units_of_its_channels(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    hello = bench.node._link._hello
    assert hello.units.keys() == set(hello.channels)
    assert set(hello.units.values()) <= {"celsius", "percent", "ppm", "lux"}
    assert hello.makes_buckets
    bench.close()
