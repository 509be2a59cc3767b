"""Small answers that are not read are counted in bytes, and too many close a connection."""

import contextlib
import random
import threading

import pytest
import zmq

from agent.net.held_bytes import MAX_UNREAD_BY_ONE_BYTES, MAX_UNREAD_BYTES
from agent.net.intake import Intake, Room
from agent.net.keys import new
from agent.net.router import router
from agent.net.unsent import LARGE, LONG_HEADER, SHORT_BYTES, SHORT_HEADER, SmallUnsent
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS, PATIENCE_S, wait_until
from tests.net import raw_zmtp
from tests.net.conftest import ask, destroyed

FD, WHO = 9, b"peer"
MIB = 1 << 20
ANSWER = b"a" * 60_000


def framed(size):
    return size + (SHORT_HEADER if size <= SHORT_BYTES else LONG_HEADER)


def test_what_is_held_follows_from_what_the_kernel_took():
    """Beside a list of all frames."""
    draw = random.Random(5)
    for _ in range(50):
        small, ends, end = SmallUnsent(), [], 0
        small.heard(WHO, FD)
        for _ in range(draw.randrange(1, 40)):
            size = draw.choice((0, 100, SHORT_BYTES, SHORT_BYTES + 1, 60_000, LARGE, 3 * MIB))
            small.sent(WHO, size, keyed=False, large=size >= LARGE)
            ends.append((end, end := end + framed(size), size >= LARGE))
        written = 0
        while written < end:
            held = sum(e - max(b, written) for b, e, large in ends if e > written and not large)
            assert small.held(FD, written, empty=False) == held
            written += draw.randrange(1, MIB)
        assert small.held(FD, end, empty=False) == 0


def test_overhead_is_not_held_once_all_has_left():
    small = SmallUnsent()
    small.heard(WHO, FD)
    small.sent(WHO, 100, keyed=False)
    assert small.held(FD, 300, empty=False) == 0  # with a handshake
    # Handed over, and nothing of it written: only the second look at an empty buffer settles it.
    small.sent(WHO, 1_000, keyed=False)
    assert small.held(FD, 402, empty=True) > 0
    assert small.held(FD, 402, empty=True) == 0
    small.sent(WHO, 1_000, keyed=False)
    assert small.held(FD, 402, empty=False) == framed(1_000)


def test_a_descriptor_and_a_name_may_come_again():
    small = SmallUnsent()
    small.heard(b"first", FD)
    small.sent(b"first", 1_000, keyed=False)
    small.heard(b"second", FD)
    small.sent(b"first", 1_000, keyed=False)  # it is gone
    assert small.held(FD, 1, empty=False) == 0
    small.heard(b"second", FD + 1)
    small.sent(b"second", 1_000, keyed=False)
    small.closed(FD)
    assert small.held(FD + 1, 9, empty=False) == 1_000
    small.closed(FD + 1)
    assert small.held(FD + 1, 9, empty=False) == 0
    assert (small._streams, small._identities) == ({}, {})


def position(intake):
    """What was handed over less what the kernel took, of the only connection, when all is read."""
    wait_until(lambda: intake._hosts)
    (fd,) = intake._hosts
    wait_until(lambda: not intake._tcp.written(fd)[1])
    (stream,) = intake.small_unsent._streams.values()
    return stream.handed - intake._tcp.written(fd)[0]


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.REQ])
@pytest.mark.parametrize("keyed", [False, True])
def test_every_byte_is_counted(serve, clients, tmp_path, keyed, kind):
    """A header that is not counted would add up over a connection's life."""
    with contextlib.ExitStack() as stack:
        if keyed:
            own = new(str(tmp_path / "app"))
            allow = f'[[client]]\nname = "app"\nkeys = ["{own.public}"]\n'
            served = serve(allow=allow, most_connections=10)
            client = clients(served.address, own, served.key.public, kind=kind)
            (intake,) = served.secure_sockets._intakes
        else:
            server = stack.enter_context(contextlib.closing(Answering(lambda asked: asked)))
            client, intake = clients(server.address, kind=kind), server.intake
        ask(client)
        before = position(intake)
        for size in (0, 1, 200, 255, 256, 60_000, LARGE, 200_000):
            for _ in range(3):
                assert len(ask(client, bytes(size))) >= size
        # An answer may be read before the thread that sent it has counted it.
        wait_until(lambda: position(intake), lambda now: now == before)


class Answering:
    """A plain ROUTER with an intake, and a thread that answers what comes."""

    def __init__(self, answer):
        self.context = zmq.Context()
        self.address = free_address()
        self.router = router(self.context, self.address, requests_only=True)
        self.lines = []
        self.told = threading.Event()
        self.intake = Intake(self.router.socket, 1_000, self.warn, Room())
        self.router.watch_intake(self.intake)
        self.answer = answer
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def warn(self, line):
        self.lines.append(line)
        self.told.set()

    def serve(self):
        while not self.ended.is_set():
            self.router.socket.poll(5)
            while (received := self.router.receive()) is not None:
                self.router.send(received[0], self.answer(bytes(received[1])))

    def raw(self, *, unread=1 << 16):
        """A connection that speaks ZMTP by hand, and whose kernel keeps little unread."""
        return raw_zmtp.connected(self.address, kept_unread=unread)

    def close(self):
        self.ended.set()
        self.thread.join()
        self.intake.close()
        self.context.destroy(linger=0)


def ended(connection):
    """Read to the end; whether the other end reset the connection."""
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    return False


def test_who_leaves_many_small_answers_unread_is_closed_and_others_are_served(clients):
    with contextlib.closing(Answering(lambda _asked: ANSWER)) as server:
        honest = clients(server.address)
        with server.raw() as greedy:
            # Far below the high-water mark, which would let 60 MB wait.
            greedy.sendall(b"\x00\x02hi" * 400)
            assert server.told.wait(PATIENCE_S)
            assert "answers of " in server.lines[0]
            assert "that are not read" in server.lines[0]
            size_kib = int(server.lines[0].split("answers of ")[1].split()[0])
            assert size_kib > MAX_UNREAD_BY_ONE_BYTES >> 10
            assert ended(greedy)
        assert ask(honest) == ANSWER
        assert server.intake.cut == 1


def test_many_connections_that_leave_a_little_unread_are_closed_together(clients):
    with (
        contextlib.closing(Answering(lambda _asked: ANSWER)) as server,
        contextlib.ExitStack() as s,
    ):
        greedy = [s.enter_context(server.raw()) for _ in range(12)]
        for each in greedy:
            # Less than one may hold, more than all may.
            each.sendall(b"\x00\x02hi" * (MAX_UNREAD_BY_ONE_BYTES // 2 // len(ANSWER) + 50))
        assert server.told.wait(PATIENCE_S)
        assert "that are not read" in server.lines[0]
        assert ask(clients(server.address)) == ANSWER
        assert 0 < server.intake.cut < len(greedy)
    assert 12 * MAX_UNREAD_BY_ONE_BYTES // 2 > MAX_UNREAD_BYTES


def test_who_reads_late_and_who_asks_much_are_none_of_these(clients):
    with contextlib.closing(Answering(lambda _asked: ANSWER)) as server:
        client = clients(server.address)
        client.setsockopt(zmq.RCVHWM, 1)
        for _ in range(10):
            for _ in range(100):
                client.send(b"hi")
            for _ in range(100):
                assert client.poll(PATIENCE_MS)
                assert client.recv() == ANSWER
        assert server.lines == []


def test_large_answers_have_their_own_limit(clients):
    """What a client may leave unread of these is told to it, and closes nothing."""
    with contextlib.closing(Answering(lambda _asked: bytes(MIB))) as server:
        with destroyed(zmq.Context()) as context:
            client = context.socket(zmq.DEALER)
            client.setsockopt(zmq.RCVHWM, 1)
            client.setsockopt(zmq.RCVBUF, 1 << 16)
            client.connect(server.address)
            for _ in range(40):
                client.send(b"hi")
            wait_until(lambda: server.router.unsent.bytes > 3 * MAX_UNREAD_BY_ONE_BYTES)
            # Another thread is told of connections.
            wait_until(lambda: server.intake._hosts)
            (fd,) = server.intake._hosts
            assert sum(server.intake._held(fd, 0.0, server.intake.resident)) < MIB
            for _ in range(40):
                assert client.poll(PATIENCE_MS)
                assert len(client.recv()) == MIB
        assert server.lines == []
