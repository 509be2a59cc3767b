"""Pods in processes of their own, as in containers: the same answers, and nothing lost with one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.pods.containers import SOCKET, PodSocket
from agent.edge.pods.pods import Pods, ReceivedSubtask
from agent.runtime.command_line import UNUSABLE
from agent.wire import codec
from agent.wire.base import Form
from agent.wire.messages import Window
from agent.wire.node_messages import NodeMessage, PodsSet, SetPods, Subtask, SubtaskResult
from testkit.waiting import PATIENCE_S, wait_until
from tests.edge.test_process import AGENT, CONFIG, START_ROW, Master

START_MS = 1_700_000_000_000
NOW_MS = START_MS + 99_000
POD = [sys.executable, "-c", "from agent.edge.pods.pod_container import main; main()"]
DECODER: codec.Decoder[NodeMessage] = codec.Decoder(NodeMessage, 1 << 24)


class Node:
    """Pods without a thread of their own: only containers serve."""

    def __init__(
        self, folder: Path, service_time_s: Callable[[int | None, float], float] | None = None
    ) -> None:
        self.folder = folder
        self.history = History(
            folder / "climate.sqlite",
            "boot",
            group_readings=30,
            commit_s=10.0,
            retention_s=1e6,
        )
        self.stream = self.history.stream("sensor", ("temperature",))
        for i in range(100):
            self.stream.append(Sample(START_MS + i * 1000, i * 1000, False, (float(i),)))
        self.woken = threading.Semaphore(0)
        self.pods = Pods(self.history, 0, self.woken.release, service_time_s, threads_follow=False)
        self.socket = PodSocket(self.pods)
        self.containers: list[subprocess.Popen[bytes]] = []

    def start_container(self, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        environment = os.environ | {"SANDERLING_DIRECTORY": str(self.folder)}
        process = subprocess.Popen([*prefix, *POD], env=environment, stderr=subprocess.PIPE)
        self.containers.append(process)
        return process

    def submit(self, number: int, last_s: float = 99.0, form: Form = "series") -> Subtask:
        subtask = Subtask(number, Window(last_s=last_s), (), form, number)
        at_once = self.pods.submit(ReceivedSubtask(subtask, time.monotonic(), NOW_MS))
        assert not at_once
        return subtask

    def result(self) -> SubtaskResult:
        assert self.woken.acquire(timeout=PATIENCE_S), "no container answers"
        (done,) = self.pods.take()
        message, _ = DECODER.decode(done.frame)
        assert isinstance(message, SubtaskResult)
        return message

    def close(self) -> None:
        self.socket.close()
        self.pods.stop()
        for process in self.containers:
            process.kill()
            process.communicate()
        self.history.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


@pytest.mark.parametrize("last_s", [99.0, 75.5, 40.0])
def test_a_container_answers_what_a_thread_would(node: Node, last_s: float) -> None:
    node.start_container()
    reader = Reader(node.history)
    start_ms, end_ms = Window(last_s=last_s).bounds_ms(NOW_MS)
    node.submit(1, last_s)
    result = node.result()
    assert (result.id, result.outcome) == (1, "ok")
    assert result.series == reader.series(start_ms, end_ms)
    node.submit(2, last_s, "aggregate")
    assert node.result().aggregate == reader.aggregate(start_ms, end_ms)
    reader.close()


def test_readings_that_are_in_memory_only_are_in_the_answer(node: Node) -> None:
    node.start_container()
    node.submit(1)
    node.result()
    node.stream.append(Sample(NOW_MS - 1, 99_999, False, (123.0,)))
    node.submit(2)
    series = node.result().series
    assert series is not None
    assert 123.0 in series.values["temperature"].numbers()


def test_what_a_killed_container_had_goes_to_another(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    asked = threading.Event()
    times_s = iter([3_600.0])

    def service_time_s(_seed: int | None, _window_s: float) -> float:
        asked.set()
        return next(times_s, 0.0)

    node = Node(tmp_path, service_time_s)
    request.addfinalizer(node.close)
    first = node.start_container()
    node.submit(1)
    assert asked.wait(PATIENCE_S)
    first.kill()
    first.wait(PATIENCE_S)
    node.start_container()
    result = node.result()
    assert (result.id, result.outcome) == (1, "ok")


def test_containers_wait_for_an_agent_that_starts_anew(node: Node) -> None:
    node.start_container()
    node.submit(1)
    node.result()
    node.socket.close()
    assert not (node.folder / SOCKET).exists()
    (node.folder / SOCKET).touch()  # what a killed agent leaves is no obstacle either
    node.socket = PodSocket(node.pods)
    node.submit(2)
    assert node.result().id == 2


def test_a_container_ends_when_told_to(node: Node) -> None:
    process = node.start_container()
    node.submit(1)
    node.result()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, b"")


def test_an_agent_takes_containers(tmp_path: Path) -> None:
    master = Master()
    file = tmp_path / "edge.toml"
    text = CONFIG.format(address=master.address, start=START_ROW, emulate="")
    file.write_text(text + "containers = true\n")
    agent = subprocess.Popen([*AGENT, "--config", str(file)], stderr=subprocess.PIPE)
    environment = os.environ | {"SANDERLING_DIRECTORY": str(tmp_path)}
    with subprocess.Popen(POD, env=environment, stderr=subprocess.PIPE) as container:
        master.welcome()
        master.send(SetPods(4))
        assert master.expect(PodsSet).count == 4
        # The kernel's table: the socket that listens, and one for each that was accepted.
        table = Path("/proc/net/unix")
        wait_until(
            lambda: table.read_text().count(str(tmp_path / SOCKET)),
            lambda sockets: sockets >= 2,
            processes=[container],
        )
        assert [master.ask(number).outcome for number in range(1, 9)] == ["ok"] * 8
        agent.send_signal(signal.SIGTERM)
        _, errors = agent.communicate(timeout=PATIENCE_S)
        assert agent.returncode == 0, errors
        assert not (tmp_path / SOCKET).exists()
        container.terminate()
    assert container.returncode == 0
    master.socket.close()
    master.context.term()


def test_without_a_folder_it_says_so() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "SANDERLING_DIRECTORY"}
    done = subprocess.run(POD, env=environment, capture_output=True, check=False)
    assert done.returncode == UNUSABLE
    assert done.stderr.decode().startswith("error: SANDERLING_DIRECTORY is not set")


def _may_mount() -> bool:
    command = ["unshare", "--mount", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _may_mount(), reason="mounting a folder read-only needs root")
def test_a_folder_mounted_read_only_is_enough(node: Node) -> None:
    folder = str(node.folder)
    script = f'mount --bind -o ro "{folder}" "{folder}" && ! touch "{folder}/x" && exec "$@"'
    node.start_container(("unshare", "--mount", "sh", "-c", script, "sh"))
    node.submit(1)
    assert node.result().outcome == "ok"
