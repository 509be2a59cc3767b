"""Live moves of a topic between two real masters: with 1 MB of state and 200 messages a second, and
with 1 kB and 20, as a clone has.

Publisher and durable subscriber are at a third master between the two. Each message counts in the
processor's state and is put out with the count: so what is lost, doubled or reordered shows. The
pause is the source's measure, from the last message that it gives the processor to the moment from
which the target may put out; the gap is what the subscriber sees, the longest time without an
output around a move. Two writes are in a pause, one at each master, so the peer is two syncs of a
file, one after the other, on the same disk between the moves. On a machine that cannot process 200
messages a second the topic's inbox runs over: its master says how many messages it lost so.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import zmq

from agent.client import Operator
from agent.placement.lifecycle import ENDED
from agent.wire.codec import Decoder, encode
from agent.wire.handover import ListMoves, MoveUnit
from agent.wire.push import AcknowledgeNotifications, Gap, Notified, Subscribe, Subscribed
from agent.wire.topics import CreateTopic, Publish, Published, Topic
from agent.wire.unions import PublicReply
from bench.output import Result, report, result
from bench.processes import agent, process
from fleet.testbed.ports import free_address

MOVES = 50
GOAL_S = 20e-3  # p99
STATE_BYTES = 1_000_000
PER_S = 200.0
SMALL_STATE_BYTES = 1_000
SMALL_PER_S = 20.0
BETWEEN_S = 0.3
PATIENCE_S = 60.0
IADS = ("a", "b", "s")
SYNCS = 8  # pairs of them after each move
CODE = """
def counted(message, state):
    if not state:
        state["held"] = bytes(range(250)) * (STATE_BYTES // 250)
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]
"""


def configuration(iad: str, folder: Path, addresses: dict[str, str]) -> str:
    """`s` is between the other two."""
    text = (
        f'[iad]\nname = "{iad}"\n[sockets]\npublic = "{addresses[iad]}"\n'
        f'operator = "ipc://{folder}/{iad}-operator"\n[state]\npath = "{iad}-state.db"\n'
        "[clients]\nrate_per_s = 10000.0\n"
        f'[overlay]\nvertex = "{iad}"\nlinks = [["a", "s"], ["s", "b"]]\n'
    )
    for other in "ab" if iad == "s" else "s":
        text += f'[[overlay.neighbour]]\niad = "{other}"\nvertex = "{other}"\ncluster = 0\n'
        text += f'address = "{addresses[other]}"\n'
    for other, address in addresses.items():
        text += f'[[pool]]\niad = "{other}"\naddress = "{address}"\nareas = ["b1/{other}"]\n'
    return text


def package(folder: Path, state_bytes: int = STATE_BYTES) -> None:
    """A package with the processor."""
    info = folder / "counted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sanderling.processors]\ncounted = counted:counted\n")
    (folder / "counted.py").write_text(f"STATE_BYTES = {state_bytes}\n{CODE}")


class Stream:
    """The publisher and the subscriber, in one thread."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, per_s: float = PER_S
    ) -> None:
        self.per_s = per_s
        self.decoder: Decoder[object] = Decoder(PublicReply)
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)
        self.published = 0
        self.due_s = time.monotonic()
        self.got: list[tuple[float, float]] = []  # number and count
        self.came_s: list[float] = []
        self.iads: list[object] = []  # whose outputs these were
        self.opened = False
        self.refused: set[float] = set()  # the numbers of messages that its master did not take
        self.gaps = 0  # outputs that its inbox had no room for, as it was told
        wanted = 'topic = "counted" and kind = "output"'
        self.socket.send(encode(Subscribe("s", wanted, durable=True)))

    def run(self, seconds: float, until: float | None = None) -> None:
        """Let time pass; `until` so many outputs have come, without publishing more."""
        ends_s = time.monotonic() + seconds
        while (now := time.monotonic()) < ends_s:
            if until is not None and len(self.got) >= until:
                return
            if until is None and self.opened and now >= self.due_s:
                self.due_s = max(self.due_s + 1.0 / self.per_s, now - 0.1)
                number = self.published
                self.published += 1
                told = {"n": float(number)}
                self.socket.send(encode(Publish("p", "counted", told, number, oldest=number)))
                continue
            wait_s = min(ends_s, self.due_s if until is None else ends_s) - now
            if self.socket.poll(max(0.0, wait_s) * 1e3):
                self.take()

    def take(self) -> None:
        """Take what is there."""
        while self.socket.poll(0):
            message, _ = self.decoder.decode(self.socket.recv())
            if isinstance(message, Subscribed):
                self.opened = True
            elif isinstance(message, Published) and message.state == "refused":
                self.refused.add(float(message.sequence or 0))
            elif isinstance(message, Gap):
                self.gaps += (
                    message.lost.count if message.lost else message.last - message.first + 1
                )
            elif isinstance(message, Notified):
                told = message.notification.attributes
                self.got.append((float(told["n"]), float(told["seen"])))  # type: ignore[arg-type]
                self.came_s.append(time.monotonic())
                self.iads.append(told["iad"])
                self.socket.send(encode(AcknowledgeNotifications("s", message.position)))

    def gap_s(self, began_s: float, ended_s: float) -> float:
        """The longest time without an output that touches this one."""
        times = [each for each in self.came_s if began_s - 1.0 <= each <= ended_s + 1.0]
        gaps = [(b - a, a, b) for a, b in itertools.pairwise(times) if b >= began_s]
        return max([gap for gap, _, _ in gaps], default=0.0)


@contextlib.contextmanager
def masters(folder: Path) -> Iterator[dict[str, str]]:
    """Three masters; the addresses of their public sockets."""
    addresses = {iad: free_address() for iad in IADS}
    with contextlib.ExitStack() as stack:
        for iad in IADS:
            path = folder / f"{iad}.toml"
            path.write_text(configuration(iad, folder, addresses))
            stack.enter_context(
                process(agent("master"), "--config", str(path), "--exit-on-stdin-eof")
            )
        for iad in IADS:
            await_links(folder, iad)
        yield addresses


def await_links(folder: Path, iad: str) -> None:
    """Until it is linked with its neighbours and its pool."""
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        with Operator(f"ipc://{folder}/{iad}-operator") as operator:
            status = operator.status(PATIENCE_S * 1e3)
        wanted = 2 if iad == "s" else 1
        if status.counters["overlay_links_up"] == wanted and not status.unreachable_iads:
            return
        time.sleep(0.05)
    raise RuntimeError(f"master {iad} has no links")


def move(stream: Stream, folder: Path, source: str, target: str) -> tuple[float, float, float]:
    """Move the topic; pause and time until it works again, in ms, and the subscriber's gap in s."""
    began_s = time.monotonic()
    with Operator(f"ipc://{folder}/{source}-operator") as operator:
        told = operator.ask_move(MoveUnit("m", "processor", "counted", target))
        assert told.ok, told.message
        while True:
            stream.run(0.1)
            (*_, last) = operator.ask_move(ListMoves("l")).moves
            if last.state in ENDED:
                break
    assert last.state == "settled", last.trouble
    ended_s = time.monotonic()
    stream.run(BETWEEN_S)
    assert last.pause_ms is not None
    assert last.idle_ms is not None
    return last.pause_ms, last.idle_ms, stream.gap_s(began_s, ended_s)


def run(moves: int = MOVES) -> Iterator[Result]:
    """Goal: a p99 of the pause of at most 20 ms; nothing lost, doubled or reordered."""
    yield _run("handover", moves, STATE_BYTES, PER_S)
    yield _run("handover-small", moves, SMALL_STATE_BYTES, SMALL_PER_S)


def _run(name: str, moves: int, state_bytes: int, per_s: float) -> Result:
    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context:
        package(Path(folder), state_bytes)
        os.environ["PYTHONPATH"] = folder
        try:
            with masters(Path(folder)) as addresses:
                stream = Stream(context, addresses["s"], per_s)
                return measure(name, Path(folder), stream, moves, state_bytes)
        finally:
            del os.environ["PYTHONPATH"]


def measure(name: str, folder: Path, stream: Stream, moves: int, state_bytes: int) -> Result:
    """There and back, so many times."""
    with Operator(f"ipc://{folder}/a-operator") as operator:
        created = operator.ask_topic(CreateTopic("c", Topic("counted", processor="counted")))
        assert created.ok, created.message
    stream.run(3.0)
    quiet_s = stream.gap_s(time.monotonic() - 1.5, time.monotonic())
    taken: list[tuple[float, float, float]] = []
    synced_s: list[float] = []
    for number in range(moves):
        taken.append(move(stream, folder, *(("a", "b"), ("b", "a"))[number % 2]))
        synced_s += two_syncs(folder / "synced")
        stream.run(BETWEEN_S)
    synced_s.sort()
    stream.run(PATIENCE_S, until=stream.published - len(stream.refused))
    stream.run(0.5, until=stream.published + 1)
    expected = {*map(float, range(stream.published))} - stream.refused
    numbers = [number for number, _ in stream.got]
    pauses, idles, gaps = (sorted(column) for column in zip(*taken, strict=True))
    lost, doubled = len(expected - {*numbers}), len(numbers) - len({*numbers})
    reordered = sum(a > b for a, b in itertools.pairwise(numbers))
    return result(
        name,
        p99(pauses) / 1e3,
        "ms",
        "two syncs of a file, p99",
        p99(synced_s),
        most=GOAL_S,
        also={"nothing lost, doubled or reordered": not (lost or doubled or reordered)},
        sync_p50_ms=round(statistics.median(synced_s) * 1e3, 2),
        moves=moves,
        state_bytes=state_bytes,
        messages_per_s=stream.per_s,
        messages=stream.published,
        refused=len(stream.refused),
        no_room=stream.gaps,
        p50_ms=round(statistics.median(pauses), 2),
        longest_ms=round(pauses[-1], 2),
        idle_p50_ms=round(statistics.median(idles), 2),
        idle_p99_ms=round(p99(idles), 2),
        gap_p50_ms=round(statistics.median(gaps) * 1e3, 2),
        gap_p99_ms=round(p99(gaps) * 1e3, 2),
        gap_without_ms=round(quiet_s * 1e3, 2),
        lost=lost,
        doubled=doubled,
        reordered=reordered,
        miscounted=sum(b - a != 1.0 for (_, a), (_, b) in itertools.pairwise(stream.got)),
    )


def two_syncs(path: Path) -> list[float]:
    """How long two writes of a page take that are synced one after the other, in s."""
    taken = []
    with path.open("ab", buffering=0) as file:
        for _ in range(SYNCS):
            began_s = time.monotonic()
            for _ in range(2):
                file.write(bytes(4_096))
                os.fdatasync(file)
            taken.append(time.monotonic() - began_s)
    return taken


def p99(ordered: list[float]) -> float:
    """Of an ascending list."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


if __name__ == "__main__":
    report(run(int(sys.argv[1]) if sys.argv[1:] else MOVES))
