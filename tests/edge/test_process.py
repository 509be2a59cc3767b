"""The real process against a master played by the test."""

from __future__ import annotations

import csv
import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
import zmq

from agent.wire import codec
from agent.wire.base import Form
from agent.wire.messages import Window
from agent.wire.node_messages import (
    Goodbye,
    Heartbeat,
    Hello,
    HelloWanted,
    MasterMessage,
    NodeMessage,
    PodsSet,
    Rejected,
    SetPods,
    Subtask,
    SubtaskResult,
    Welcome,
)
from agent.wire.packed import Float32Column
from sensors import replay
from testkit.waiting import PATIENCE_MS, PATIENCE_S, wait_until

DATA = Path(replay.DATA)
ROOT = Path(__file__).parents[2]
AGENT = [
    sys.executable,
    "-c",
    "import sys; from agent.edge.main import main; sys.exit(main())",
]
HELD_AGENT = """
from agent.wire import emulation

def service_time_s(*_):
    open({fifo!r}).close()
    return 0.0

emulation.service_time_s = service_time_s
from agent.edge.main import main
main()
"""
START_ROW = 500
CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "replay"
interval_s = 0.05
options = {{ room = 413, start_row = {start}, preload_rows = {start} }}
[pods]
count = 2
emulate = "{emulate}"
"""
M = TypeVar("M")


class Master:
    """A ROUTER socket; frames are taken one by one, with patience."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)  # a ROUTER drops what is over the limit
        self.address = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.decoder: codec.Decoder[NodeMessage] = codec.Decoder(
            NodeMessage, codec.MAX_RESULT_BYTES
        )
        self.peer = b""

    def restart(self) -> None:
        """A new socket at the same address, which knows nobody."""
        self.socket.close()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        while True:  # the old one is closed in the background
            try:
                self.socket.bind(self.address)
            except zmq.ZMQError:
                os.sched_yield()
            else:
                return

    def find_again(self) -> Hello:
        """The next hello; what else comes is told that it is not known here."""
        while self.socket.poll(PATIENCE_MS):
            self.peer, frame = self.socket.recv_multipart()
            message, _ = self.decoder.decode(frame)
            if isinstance(message, Hello):
                return message
            self.send(HelloWanted())
        raise TimeoutError("no hello")

    def expect(self, kind: type[M]) -> M:
        """The next message of `kind`; others are passed over."""
        while self.socket.poll(PATIENCE_MS):
            self.peer, frame = self.socket.recv_multipart()
            message, _ = self.decoder.decode(frame)
            if isinstance(message, kind):
                return message
        raise TimeoutError(f"no {kind.__name__}")

    def send(self, message: MasterMessage, format_: bytes = codec.MESSAGEPACK) -> None:
        self.send_frame(codec.encode(message, format_))

    def send_frame(self, frame: bytes) -> None:
        self.socket.send_multipart([self.peer, frame])

    def welcome(self, heartbeat_s: float = 60.0) -> Hello:
        hello = self.expect(Hello)
        self.send(Welcome(hello.incarnation, heartbeat_s))
        return hello

    def ask(self, number: int, form: Form = "series", **settings: Any) -> SubtaskResult:
        self.send(Subtask(number, Window(last_s=3600.0), form=form, **settings))
        result = self.expect(SubtaskResult)
        assert result.id == number
        return result


@pytest.fixture
def master() -> Iterator[Master]:
    played = Master()
    yield played
    played.socket.close()
    played.context.term()


class Starter:
    """Starts agents with the configuration above, all of them for `master`."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        self.released: list[int] = []

    def __call__(
        self, *options: str, emulate: str = "", agent: list[str] = AGENT
    ) -> subprocess.Popen[str]:
        file = self.folder / "edge.toml"
        file.write_text(CONFIG.format(address=self.address, start=START_ROW, emulate=emulate))
        self.started.append(
            subprocess.Popen(
                [*agent, "--config", str(file), *options],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.started[-1]

    def held(self) -> Callable[[], None]:
        """Start an agent whose pods work on every subtask until the function returned is called."""
        fifo = self.folder / "release"
        os.mkfifo(fifo)
        self(emulate="pi4", agent=[sys.executable, "-c", HELD_AGENT.format(fifo=str(fifo))])

        def release() -> None:
            # A FIFO opens for reading as soon as, and as long as, there is a writer.
            self.released.append(os.open(fifo, os.O_RDWR))

        return release

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for fd in self.released:
            os.close(fd)


@pytest.fixture
def start(master: Master, tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(master.address, tmp_path)
    yield starter
    starter.close()


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the end, which must be a good one; returns what the process wrote."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "Traceback" not in errors
    return errors


def recorded() -> dict[int, tuple[float, ...]]:
    """The recording by time in ms, values as 32-bit floats, read without the driver."""
    with gzip.open(DATA / "room-413.csv.gz", "rt", newline="") as file:
        return {
            round(
                datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S")
                .replace(tzinfo=UTC)
                .timestamp()
                * 1000
            ): tuple(
                Float32Column.of([float(row["temperature"]), float(row["humidity"])]).numbers()
            )
            for row in csv.DictReader(file)
        }


def test_hello_names_the_node(master: Master, start: Starter) -> None:
    start(emulate="pi3")
    hello = master.welcome()
    assert (hello.node, hello.areas, hello.pods) == ("n1", ("b1/f4/r413",), 2)
    assert (hello.channels, hello.emulates) == (("temperature", "humidity"), "pi3")
    assert len(hello.incarnation) == len(hello.history) == 32


def test_a_subtask_gets_the_recorded_values(master: Master, start: Starter) -> None:
    start()
    master.welcome()
    found: list[int] = []
    while len(found) < START_ROW + 2:  # what was preloaded, and two taken live
        result = master.ask(1)
        assert result.outcome == "ok"
        series = result.series
        assert series is not None
        assert series.source_time_ms is not None
        found = series.source_time_ms.numbers().tolist()
    truth = recorded()
    times = sorted(truth)
    assert found == times[: len(found)]
    values = zip(
        *(series.values[name].numbers() for name in ("temperature", "humidity")), strict=True
    )
    assert list(values) == [truth[time] for time in found]
    # Restamped to now, the interval apart.
    taken = series.time_ms.numbers()[:START_ROW]
    assert {later - earlier for earlier, later in pairwise(taken)} == {50}

    aggregate = master.ask(2, "aggregate", channels=("humidity",)).aggregate
    assert aggregate is not None
    assert set(aggregate.channels) == {"humidity"}
    humidity = aggregate.channels["humidity"]
    column = [truth[time][1] for time in times[: humidity.count]]
    assert humidity.count >= len(found)
    assert (humidity.min, humidity.max) == (min(column), max(column))
    assert humidity.mean == pytest.approx(sum(column) / len(column))


def test_json_is_understood_too(master: Master, start: Starter) -> None:
    start()
    hello = master.expect(Hello)
    master.send(Welcome(hello.incarnation, 60.0), codec.JSON)
    assert master.ask(1, "aggregate").outcome == "ok"


def test_heartbeats_go_on_and_silence_ends_in_a_new_hello(master: Master, start: Starter) -> None:
    start()
    # The test has three of these to answer; it never needs that long.
    first = master.welcome(heartbeat_s=2.0)
    for _ in range(4):  # longer than three heartbeats: what the master sends keeps it alive
        assert master.expect(Heartbeat).incarnation == first.incarnation
        master.send(Heartbeat(first.incarnation))
    # From now on nobody answers any.
    master.send(HelloWanted())
    master.welcome(heartbeat_s=0.3)
    old = master.peer
    again = master.welcome()
    assert again == first
    assert master.peer != old
    assert master.ask(1).outcome == "ok"


def test_what_a_pod_is_at_is_named_and_answered_after_a_new_hello(
    master: Master, start: Starter
) -> None:
    release = start.held()
    first = master.welcome()
    master.send(Subtask(5, Window(last_s=60.0)))
    master.send(HelloWanted())
    again = master.welcome()
    assert (again.incarnation, again.running) == (first.incarnation, (5,))
    release()
    result = master.expect(SubtaskResult)
    assert (result.id, result.outcome) == (5, "ok")


def test_a_node_finds_its_restarted_master(master: Master, start: Starter) -> None:
    start()
    master.welcome()
    assert master.ask(1).outcome == "ok"
    master.send(HelloWanted())
    first = master.welcome(heartbeat_s=0.3)
    master.restart()
    again = master.find_again()
    assert again == first
    master.send(Welcome(again.incarnation, 60.0))
    assert master.ask(2).outcome == "ok"


def test_a_rejected_node_tries_again(master: Master, start: Starter) -> None:
    process = start()
    master.expect(Hello)
    master.send(Rejected("the name n1 is taken"))
    master.welcome()
    assert master.ask(1).outcome == "ok"
    process.terminate()
    assert "the master rejected this node: the name n1 is taken" in finish(process)


def test_a_subtask_too_many_is_refused_at_once(master: Master, start: Starter) -> None:
    release = start.held()
    master.welcome()
    for number in range(3):
        master.send(Subtask(number, Window(last_s=60.0)))
    refused = master.expect(SubtaskResult)
    assert (refused.id, refused.outcome) == (2, "error")
    assert "busy" in refused.message
    release()
    results = [master.expect(SubtaskResult) for _ in range(2)]
    assert {(result.id, result.outcome) for result in results} == {(0, "ok"), (1, "ok")}


def test_garbage_is_ignored_with_one_line(master: Master, start: Starter) -> None:
    process = start()
    hello = master.welcome()
    draw = random.Random(5)
    good = codec.encode(Subtask(1, Window(last_s=60.0)))
    for n in range(2_000):
        frame = bytearray(good if n % 2 else draw.randbytes(draw.randrange(60)))
        if n % 2:
            del frame[draw.randrange(3, len(frame)) :]
        master.send_frame(bytes(frame))
    master.send_frame(codec.encode(Goodbye(hello.incarnation)))  # good, but not for a node
    assert master.ask(99).outcome == "ok"
    process.terminate()
    assert finish(process).count("ignored a frame from the master") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_goodbye_and_everything_stored(
    number: signal.Signals, master: Master, start: Starter
) -> None:
    process = start()
    hello = master.welcome()
    result = master.ask(1)
    assert result.series is not None
    process.send_signal(number)
    assert master.expect(Goodbye).incarnation == hello.incarnation
    finish(process)
    start()
    assert master.welcome().history == hello.history
    again = master.ask(2).series
    assert again is not None
    kept = again.time_ms.numbers().tolist()
    assert kept[: len(result.series.time_ms)] == result.series.time_ms.numbers().tolist()


def test_the_end_of_standard_input_ends_it(master: Master, start: Starter) -> None:
    process = start("--exit-on-stdin-eof")
    master.welcome()
    assert process.stdin is not None
    process.stdin.write("anything\n")
    process.stdin.flush()
    assert master.ask(1).outcome == "ok"
    process.stdin.close()
    process.stdin = None
    master.expect(Goodbye)
    finish(process)


def test_standard_input_does_not_matter_otherwise(master: Master, start: Starter) -> None:
    process = start()
    master.welcome()
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert master.ask(1).outcome == "ok"
    process.terminate()
    finish(process)


def test_the_agent_starts_before_its_master(tmp_path: Path) -> None:
    context = zmq.Context()
    address = f"ipc://{tmp_path}/nodes"
    file = tmp_path / "edge.toml"
    file.write_text(CONFIG.format(address=address, start=0, emulate=""))
    with subprocess.Popen(
        [*AGENT, "--config", str(file)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        history = tmp_path / "history.sqlite"
        wait_until(history.exists, processes=[process])
        router = context.socket(zmq.ROUTER)
        router.bind(address)
        assert router.poll(PATIENCE_MS)
        process.terminate()
        finish(process)
    router.close(0)
    context.term()


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENT, *options], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", None),
        ("127.0.0.1", "10.0.0.7", "leaves this host without keys"),
        ("127.0.0.1:5701", "127.0.0.1:none", "a port from 1 to 65535"),
        ("interval_s", "intervall_s", "did you mean interval_s?"),
        ('"replay"', '"repaly"', "did you mean replay?"),
        ("room = 413", "room = 4130", "no recording of room 4130 is shipped; known: 413,"),
        ("start_row", "strat_row", "did you mean start_row?"),
        ('emulate = ""', 'emulate = "pi5"', "unknown hardware profile pi5"),
        ("[node]", "[node", "not valid TOML"),
        ("[node]", "history.path = 'no/h'\n[node]", "/no/h: there is no folder "),
        ("[node]", "history.path = '.'\n[node]", "it is a folder"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    old: str, new: str, problem: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(
        CONFIG.format(address="tcp://127.0.0.1:5701", start=0, emulate="").replace(old, new)
    )
    for options in (["--check"], []) if problem else (["--check"],):
        found = run("--config", str(file), *options)
        assert found.returncode == (2 if problem else 0)
        assert found.stderr.count("\n") == (1 if problem else 0)
        assert found.stderr.startswith(f"error: {file}: " if problem else "")
        assert (problem or "") in found.stderr


def test_a_history_that_another_agent_has_is_one_line(
    master: Master, start: Starter, tmp_path: Path
) -> None:
    start()
    master.welcome()
    found = run("--config", str(tmp_path / "edge.toml"))
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert found.stderr.startswith("error: history ")
    assert "another agent is using it" in found.stderr


def test_the_number_of_pods_changes_while_subtasks_are_at_work(
    master: Master, start: Starter
) -> None:
    release = start.held()
    master.welcome()
    window = Window(last_s=3600.0)
    master.send(Subtask(1, window))
    master.send(Subtask(2, window))
    master.send(SetPods(3))
    assert master.expect(PodsSet).count == 3
    master.send(Subtask(3, window))
    master.send(SetPods(1))
    assert master.expect(PodsSet).count == 1
    master.send(Subtask(4, window))
    refused = master.expect(SubtaskResult)
    assert (refused.id, refused.outcome) == (4, "error")
    release()
    results = [master.expect(SubtaskResult) for _ in range(3)]
    assert {(result.id, result.outcome) for result in results} == {(n, "ok") for n in (1, 2, 3)}
    master.send(HelloWanted())
    assert master.welcome().pods == 1
    assert master.ask(5).outcome == "ok"
