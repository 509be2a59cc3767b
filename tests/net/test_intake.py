"""What connections hold before their messages are complete is bounded."""

import contextlib
import fcntl
import itertools
import socket
import subprocess
import sys
import threading

import pytest
import zmq

from agent.net.held_bytes import MAX_HELD_BY_ONE_BYTES
from agent.net.intake import (
    FLOOD_BYTES,
    GROWN_BYTES,
    LOOK_AT_ALL_S,
    LOOK_AT_SOME_S,
    Intake,
    Room,
    crowding,
)
from agent.net.policing import BURST_BYTES
from agent.net.router import MAX_PARTS, Router, router
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS, PATIENCE_S, wait_until
from tests.net import raw_zmtp
from tests.net.conftest import destroyed, may_filter

MIB = 1 << 20


def test_the_newest_of_the_host_with_most_makes_room():
    hosts = {4: "a", 5: "b", 6: "a", 7: "c"}
    assert crowding(hosts, 4) is None
    assert crowding(hosts, 3) == 6
    assert crowding(hosts, 3, lambda fd: fd != 6) == 4
    assert crowding(hosts, 3, lambda fd: fd == 7) == 6


def test_the_sockets_of_a_process_share_its_room_and_the_flooded_one_loses_some(watched):
    room = Room()
    room.most = 4
    flooded, other = watched(room=room), watched(room=room)
    friend = other.raw()
    connections = [flooded.raw() for _ in range(3)]
    with (
        contextlib.suppress(ConnectionResetError),
        socket.create_connection(connections[0].getpeername(), timeout=PATIENCE_S) as late,
    ):
        assert is_cut(late, b"", 1)
    assert flooded.told.wait(PATIENCE_S)
    assert "more than 4 connections" in flooded.lines[0]
    # It loses one to make room for a stranger at the other socket.
    second = other.raw()
    assert is_cut(connections[-1], b"", 1)
    for connection in (friend, second):
        connection.sendall(b"\x00\x02hi")
        assert connection.recv(1)
    for connection in (*connections, friend, second):
        connection.close()


class Watched:
    """A plain ROUTER with an intake, read by a thread."""

    def __init__(self, most_connections=100, room=None):
        self.context = zmq.Context()
        self.address = free_address()
        self.router: Router = router(self.context, self.address, requests_only=True)
        self.lines = []
        self.kinds = set()
        self.told = threading.Event()
        self.intake = Intake(self.router.socket, most_connections, self.warn, room or Room())
        self.router.watch_intake(self.intake)
        self.end, self.stop = self.context.socket(zmq.PAIR), self.context.socket(zmq.PAIR)
        self.end.bind("inproc://end")
        self.stop.connect("inproc://end")
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def warn(self, line):
        self.lines.append(line)
        self.told.set()

    def serve(self):
        while True:
            ready = zmq.select([self.router.socket, self.end], [], [])[0]
            if self.end in ready:
                return
            while (received := self.router.receive()) is not None:
                self.kinds.add(type(received[1]))
                self.router.send(received[0], bytes(received[1][:64]))

    def close(self):
        self.stop.send(b"")
        self.thread.join()
        self.intake.close()
        self.context.destroy(linger=0)

    def raw(self):
        """A connection that speaks ZMTP by hand, its handshake done."""
        return raw_zmtp.shaken(self.address)


@pytest.fixture
def watched():
    made = []

    def watched(**options):
        made.append(Watched(**options))
        return made[-1]

    yield watched
    for each in made:
        each.close()


def is_cut(connection, data, times):
    """Send so often; whether the other end closed."""
    try:
        for _ in range(times):
            connection.sendall(data)
        while connection.recv(4_096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_a_message_that_does_not_end_is_cut(watched):
    server = watched()
    part = b"\x03" + (MIB // 2).to_bytes(8) + b"x" * (MIB // 2)
    with server.raw() as connection:
        assert is_cut(connection, part, 2_000)
    assert server.told.wait(PATIENCE_S)
    assert "unfinished messages" in server.lines[0]


# ZMTP 1.0 and 2.0: a greeting, no name, and messages of one part and of two.
OLD = {
    "1.0": b"\x01\x00" + b"\x03\x00hi" + b"\x02\x01a\x03\x00hi",
    "2.0": raw_zmtp.GREETING[:10] + b"\x01\x05\x00\x00" + b"\x00\x02hi" + b"\x01\x01a\x00\x02hi",
}


@pytest.mark.parametrize("version", OLD)
def test_a_peer_of_an_older_zmtp_is_not_served_and_ends_nothing(watched, version):
    # libzmq does not tell on which connection its messages came.
    server = watched()
    host, port = server.address.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as old:
        old.sendall(OLD[version])
        with server.raw() as connection:
            connection.sendall(b"\x00\x02hi")
            came = b""
            while b"hi" not in came:
                came += connection.recv(100)
        old.shutdown(socket.SHUT_WR)
        came = b""
        while part := old.recv(100):
            came += part
        assert b"hi" not in came


def test_a_message_of_very_many_parts_is_cut_and_one_of_a_few_is_refused(watched):
    server = watched()
    client = server.context.socket(zmq.DEALER)
    client.linger = 0
    client.connect(server.address)
    for parts in (2, MAX_PARTS, 3):
        client.send_multipart([b"hi"] * parts)
        assert client.poll(20_000)
        assert client.recv() == b""  # no decoder takes an empty payload
    assert not server.lines
    client.close()
    wait_until(lambda: not server.intake.taken)
    with server.raw() as connection:
        wait_until(lambda: server.intake.taken)
        assert is_cut(connection, b"\x01\x00" * 60_000 + b"\x00\x00", 1)
    assert server.told.wait(20.0)
    assert "a message of very many parts" in server.lines[0]


def test_many_halves_of_frames_are_cut_and_others_are_served(watched):
    server = watched()
    honest = server.context.socket(zmq.DEALER)
    honest.linger = 0
    honest.connect(server.address)
    half = b"\x02" + MIB.to_bytes(8) + b"x" * (MIB - 1_000)
    halves = [server.raw() for _ in range(50)]
    for connection in halves:
        connection.sendall(half)
    assert server.told.wait(PATIENCE_S)
    honest.send(b"hello")
    assert honest.poll(PATIENCE_MS)
    assert honest.recv() == b"hello"
    for connection in halves:
        connection.close()
    honest.close()


def test_large_messages_in_order_are_none_of_these(watched):
    server = watched()
    client = server.context.socket(zmq.DEALER)
    client.linger = 0
    client.connect(server.address)
    payload = b"x" * MIB
    for _ in range(100):
        client.send(payload, copy=False)
        assert client.poll(PATIENCE_MS)
        client.recv()
    client.close()
    # They may be held up, as they are many, and are not closed.
    assert not [line for line in server.lines if line.startswith("closed")]
    assert server.intake.cut == 0
    assert server.kinds == {memoryview}, "a large frame was copied"


def test_a_host_that_sends_too_much_waits_and_loses_nothing_and_its_small_requests_pass(watched):
    server = watched()
    flood, honest = (server.context.socket(zmq.DEALER) for _ in range(2))
    count = 3 * BURST_BYTES // MIB
    for each in (flood, honest):
        each.linger = 0
        each.setsockopt(zmq.SNDHWM, 0)
    flood.connect(server.address)
    payload = b"x" * MIB
    for _ in range(count):
        # Not copied: what waits here is in the memory that the guard watches.
        flood.send(payload, copy=False)
    assert server.told.wait(PATIENCE_S)
    verb = "held up" if may_filter() else "cannot hold up (that takes CAP_NET_ADMIN)"
    assert server.lines[0] == f"{verb} connections of 127.0.0.1: more than 16 MiB a second\n"
    honest.connect(server.address)
    honest.send(b"hello")
    assert honest.poll(PATIENCE_MS)
    assert honest.recv() == b"hello"
    for _ in range(count):
        assert flood.poll(PATIENCE_MS), server.lines
        flood.recv()
    assert server.intake.cut == 0
    flood.close()
    honest.close()


class Looks:
    """A clock by which the guard looks at all connections each time; `enough` after so many."""

    def __init__(self, times):
        self.times = times
        self.now = 0.0
        self.enough = threading.Event()

    def __call__(self):
        self.now += LOOK_AT_ALL_S
        if self.now >= self.times * LOOK_AT_ALL_S:
            self.enough.set()
        return self.now


@pytest.mark.parametrize(("count", "size"), [(30, MIB), (240, MIB // 8)])
def test_whole_messages_that_wait_for_a_busy_process_are_no_reason_to_cut(count, size):
    """Another master's tasks may have half a megabyte, and many may come while the loop is busy."""
    lines, looks = [], Looks(100)
    with destroyed(zmq.Context()) as context:
        address = free_address()
        busy = router(context, address, requests_only=True)
        with contextlib.closing(
            Intake(busy.socket, 100, lines.append, Room(), clock=looks)
        ) as intake:
            busy.watch_intake(intake)
            sender = context.socket(zmq.DEALER)
            sender.setsockopt(zmq.SNDHWM, 0)
            sender.connect(address)
            for _ in range(count):
                sender.send(b"x" * size)
            assert looks.enough.wait(PATIENCE_S)
            assert lines == []
            for _ in range(count):
                assert busy.socket.poll(PATIENCE_MS)
                assert len(busy.receive()[1]) == size
        assert (intake.cut, lines) == (0, [])


def message(*parts):
    """These parts as ZMTP has them."""
    return b"".join(
        bytes([2 | (at < len(parts))]) + len(part).to_bytes(8) + part
        for at, part in enumerate(parts, 1)
    )


@pytest.mark.parametrize("parts", [1, 3])
def test_what_is_left_of_a_connection_that_was_closed_for_it_is_passed_over(parts):
    """Else it would be held beside as much of the next connection, and of those after it."""
    lines, closed = [], threading.Event()

    def warn(line):
        lines.append(line)
        if line.startswith("closed"):
            closed.set()

    with destroyed(zmq.Context()) as context:
        address = free_address()
        busy = router(context, address, requests_only=True)
        with contextlib.closing(Intake(busy.socket, 100, warn, Room())) as intake:
            busy.watch_intake(intake)
            flood, honest = raw_zmtp.shaken(address), context.socket(zmq.DEALER)
            flood.sendall(message(b"first"))
            assert busy.socket.poll(PATIENCE_MS)
            assert busy.receive()[1] == b"first"
            part = b"x" * (MIB // parts)
            with contextlib.suppress(OSError):  # it is closed by then
                for _ in range(200):
                    flood.sendall(message(*[part] * parts))
            assert closed.wait(PATIENCE_S)
            honest.connect(address)
            honest.send(b"hello")
            received = []
            while b"hello" not in received:
                assert busy.socket.poll(PATIENCE_MS)
                while (found := busy.receive()) is not None:
                    received.append(found[1])
            assert received == [b"hello"]
            for _ in range(1_000):
                busy.receive()
            assert busy.empty
            flood.close()
            honest.close(0)


class Parts(Intake):
    """Its memory is `used`; says which connections it checked, at what time. One of these holds too
    much, if `held` says so."""

    def __init__(self, socket):
        self.now, self.checks, self.cuts, self.held = 0.0, [], [], 0
        self.used = 50 * MIB
        super().__init__(socket, 100, lambda _line: None, Room(), clock=self.tenth)

    def tenth(self):
        self.now += LOOK_AT_SOME_S
        return self.now

    @property
    def resident(self):
        return self.used

    def _read_of(self, fd):
        self.checks.append((fd, self.now))
        return self.held if self._names and fd == min(self._names) else 0

    def _cut(self, fd, *, abort=False):
        self.cuts.append(fd)
        self._closed(fd)


@pytest.fixture
def parts():
    with destroyed(zmq.Context()) as context:
        address = free_address()
        there = router(context, address, requests_only=True)
        host, port = address.removeprefix("tcp://").split(":")
        with contextlib.closing(Parts(there.socket)) as intake, contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(socket.create_connection((host, int(port))))
            wait_until(lambda: len(intake._hosts) == 20)
            yield intake


def test_each_connection_is_checked_once_in_an_interval_and_few_at_a_time(parts):
    began = len(parts.checks)
    wait_until(lambda: len(parts.checks) > began + 100)
    checks = parts.checks[began:]
    times = sorted({now for _, now in checks})[1:-1]
    assert {sum(now == at for _, now in checks) for at in times} <= {1, 2, 3}
    for fd in {fd for fd, _ in checks}:
        own = [now for each, now in checks if each == fd][1:]
        rounds = [after - before for before, after in itertools.pairwise(own)]
        # The last of a round may be the first of the next.
        assert all(LOOK_AT_ALL_S / 2 < each < LOOK_AT_ALL_S * 2 for each in rounds) or rounds == []


def test_memory_that_python_keeps_for_small_objects_is_given_back_too(parts, monkeypatch):
    monkeypatch.setattr("agent.net.intake.gc.collect", lambda: setattr(parts, "used", 50 * MIB))
    parts.used = 200 * MIB
    wait_until(lambda: parts.used == 50 * MIB)


@pytest.fixture
def floods(parts, monkeypatch):
    """Each change of what blocks are returned at once, in order; without effect."""
    found = []
    monkeypatch.setattr(
        "agent.net.intake.return_freed", lambda _libc, *, flood: found.append(flood)
    )
    monkeypatch.setattr("agent.net.intake.trim", lambda _libc: None)
    return found


def test_in_a_flood_freed_memory_is_returned_at_once_and_afterwards_kept_for_reuse(
    parts, floods, monkeypatch
):
    trims = []
    monkeypatch.setattr("agent.net.intake.trim", trims.append)
    parts.held = FLOOD_BYTES + 1
    wait_until(lambda: floods == [True])
    assert trims == []
    parts.held = 0
    wait_until(lambda: trims)
    assert floods == [True, False]


def test_a_flood_goes_on_after_a_look_at_all_that_came_in_between(parts, floods):
    parts.held = FLOOD_BYTES + 1
    for _ in range(5):
        began = len(parts.checks)
        parts.used += GROWN_BYTES + MIB
        wait_until(lambda began=began: len(parts.checks) > began + 60)
    assert floods == [True]


def test_a_socket_that_is_closed_in_a_flood_ends_it(parts, floods):
    parts.held = FLOOD_BYTES + 1
    wait_until(lambda: floods)
    parts.close()
    assert floods == [True, False]


def test_a_suspicion_is_decided_by_a_look_at_all_at_once(parts):
    suspect = min(parts._hosts)
    parts.held = MAX_HELD_BY_ONE_BYTES + MIB
    wait_until(lambda: parts.cuts)
    assert parts.cuts == [suspect]
    by_time = {now: [fd for fd, at in parts.checks if at == now] for _, now in parts.checks}
    assert any(len(set(fds)) == 20 for fds in by_time.values())


def test_a_file_with_the_number_of_a_connection_that_is_gone_keeps_its_locks(watched, tmp_path):
    """Closing any copy of a file's number drops the locks that SQLite has on it."""
    server = watched()
    take = "import fcntl,sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with (tmp_path / "state").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        for _ in range(2):
            with (
                pytest.raises(OSError, match="a file has its number"),
                server.intake._pinned(file.fileno()),
            ):
                pass
        other = subprocess.run(
            [sys.executable, "-c", take, file.name], capture_output=True, text=True, check=False
        )
    assert "BlockingIOError" in other.stderr


def test_a_pipe_with_the_number_of_a_connection_that_is_gone_is_no_connection(watched):
    """The event that it was accepted is read when a worker's pipe has its number already."""
    server = watched()
    for each in socket.socketpair():
        with each, server.intake._room.lock:
            server.intake._accepted(each.fileno())
    assert server.intake._hosts == {}


def test_connections_beyond_the_limit_are_closed_and_told(watched):
    server = watched(most_connections=3)
    connections = [server.raw() for _ in range(3)]
    # Perhaps it is reset before it is even there.
    with (
        contextlib.suppress(ConnectionResetError),
        socket.create_connection(connections[0].getpeername(), timeout=PATIENCE_S) as late,
    ):
        assert is_cut(late, b"", 1)
    assert server.told.wait(PATIENCE_S)
    assert "more than 3 connections" in server.lines[0]
    for connection in connections:
        connection.close()
