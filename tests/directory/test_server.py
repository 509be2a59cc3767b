"""The registration service's process from within, without anybody at its socket."""

import pytest

from agent.directory.server import UNREAD, Server
from agent.net.fair_turns import TOO_MANY
from agent.net.unsent import Unsent
from agent.wire import directory as d
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from agent.wire.config import parse
from agent.wire.drs_config import DrsConfig
from agent.wire.principals import Sender

PARTY, OTHER = Sender("iad", "iad1"), Sender("iad", "iad2")
AREAS = tuple(f"campus/building/{'floor' * 10}/r{n}" for n in range(1_024))
OFFERINGS = tuple(d.Offering(f"c{n}", AREAS) for n in range(2))


class Never:
    """A frame that its receiver does not read."""

    done = False


class Router:
    """A socket whose peers read nothing: replies wait for ever, large ones by their bytes."""

    dropped = 0

    def __init__(self):
        self.unsent = Unsent(most_a_peer=1 << 30, most=400_000)
        self.sent = []
        self.decode = Decoder(d.DirectoryReply, MAX_RESULT_BYTES).decode

    def send(self, identity, frame, payer=None):
        if len(frame) > 50_000:
            self.unsent.add(identity, Never(), len(frame), payer)
        self.sent.append(self.decode(frame)[0])
        return True


@pytest.fixture
def server(tmp_path):
    made = Server(
        parse({"sockets": {"public": f"ipc://{tmp_path}/drs"}}, DrsConfig, "test"), tmp_path
    )
    yield made
    made.close()


@pytest.fixture
def ask(server):
    router = server._router
    server._router = fake = Router()

    def ask(identity, request, sender):
        server._take(identity, encode(request), sender)
        return fake.sent.pop()

    yield ask
    server._router = router


def test_who_reads_nothing_leaves_room_for_the_replies_of_others(server, ask):
    record = d.Register("r", "iad1", "tcp://127.0.0.1:1", OFFERINGS, 60.0)
    assert isinstance(ask(b"a", record, PARTY), d.Registered)
    question = d.Discover("d", "c0", ("campus",))
    first = ask(b"0", question, PARTY)
    assert len(encode(first)) > 70_000
    replies = [ask(b"%d" % n, question, PARTY) for n in range(1, 20)]
    assert replies[-1] == d.Denied("d", "overloaded", UNREAD)
    assert sum(reply == first for reply in replies) == 1
    assert ask(b"other", question, OTHER) == first
    assert server.counters["denied_overloaded"] == sum(reply != first for reply in replies)


def test_who_has_too_much_waiting_is_told(server, ask):
    fake = server._router
    server._over_rate(b"a", b"M", "mine")
    assert fake.sent.pop() == d.Denied("mine", "overloaded", TOO_MANY)
    assert server.counters["denied_overloaded"] == 1


def test_a_disk_that_refuses_for_long_is_one_line_and_its_end_another(server, ask):
    said = []
    server._outage._report = said.append
    record = d.Register("r", "iad1", "tcp://127.0.0.1:1", OFFERINGS[:1], 60.0)
    server._store._file.execute("PRAGMA query_only = ON")
    for _ in range(10):
        assert ask(b"a", record, PARTY).reason == "not_ready"
    server._store._file.execute("PRAGMA query_only = OFF")
    for _ in range(2):
        assert isinstance(ask(b"a", record, PARTY), d.Registered)
    why, again = said
    assert "a change could not be written: attempt to write a readonly database; none is" in why
    assert again == "directory: changes are written again\n"
