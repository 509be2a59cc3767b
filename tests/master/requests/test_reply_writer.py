"""Large replies in JSON: written by a thread, sent by the loop, in order."""

import threading

import pytest

from agent.master.requests import reply_writer
from agent.master.requests.reply_writer import (
    LARGE_NUMBERS,
    REST_BYTES,
    ReplyWriter,
    most_bytes,
    numbers_in,
)
from agent.runtime.reactor import Reactor
from agent.wire import codec as codec_module
from agent.wire.codec import JSON, MESSAGEPACK, encode
from agent.wire.messages import Answer, AreaResult, Coverage, Series
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from agent.wire.too_large import bytes_of
from agent.wire.watches import Round


def answer(name, rows):
    times = Int64Column.of(range(rows))
    series = Series(
        times,
        {"temperature": Float32Column.of(n / 7 for n in range(rows))},
        quality={"temperature": UInt8Column(bytes(rows))},
    )
    areas = tuple(AreaResult(area, series) for area in ("b1/r1", "b1/r2"))
    return Answer(name, "complete", 1.0, True, Coverage(2, 2), areas)


LARGE, SMALL = answer("large", LARGE_NUMBERS // 6 + 1), answer("small", 10)


class Stop:
    """Asks the loop to stop, when the rig has what it waits for."""

    filenos = ()
    requested = False


class Rig:
    """A writer on a reactor, and what it sent."""

    def __init__(self):
        self.stop = Stop()
        self.wanted = 0
        self.sent = []
        self.threads = set()
        self.reactor = Reactor(lambda: 0.0)
        self.writer = ReplyWriter(self.reactor, self.send)

    def send(self, identity, _codec, _message, frame, _payer):
        self.sent.append((identity, bytes(frame)))
        self.threads.add(threading.current_thread())
        self.stop.requested = len(self.sent) >= self.wanted

    def serve_until(self, count):
        self.wanted, self.stop.requested = count, False
        self.reactor.serve(self.stop)


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.writer.close()


def test_it_counts_the_numbers_of_answers_and_rounds():
    assert numbers_in(SMALL) == 60
    assert numbers_in(Round("w", 1, 0, 0, 1, SMALL)) == 60
    assert numbers_in(LARGE) >= LARGE_NUMBERS


def test_a_large_reply_is_the_same_bytes_and_sent_by_the_loop(rig):
    assert rig.writer.takes(b"a", JSON, LARGE)
    rig.serve_until(1)
    assert rig.sent == [(b"a", encode(LARGE, JSON))]
    assert rig.threads == {threading.current_thread()}


def test_what_waits_to_be_written_counts_for_who_asked(rig):
    budget = rig.writer._budget
    assert rig.writer.takes(b"a", JSON, LARGE, "payer")
    assert budget.held("payer") == sum(bytes_of(result.series) for result in LARGE.results)
    rig.serve_until(1)
    assert budget.total == 0


def test_what_is_small_or_packed_is_not_taken(rig):
    assert not rig.writer.takes(b"a", JSON, SMALL)
    assert not rig.writer.takes(b"a", MESSAGEPACK, LARGE)


def test_nothing_overtakes_a_large_reply_to_the_same_peer(rig):
    assert rig.writer.takes(b"a", JSON, LARGE)
    assert rig.writer.takes(b"a", JSON, SMALL)
    assert rig.writer.takes(b"a", MESSAGEPACK, SMALL)
    assert not rig.writer.takes(b"b", JSON, SMALL), "another peer need not wait"
    rig.serve_until(3)
    frames = [encode(LARGE, JSON), encode(SMALL, JSON), encode(SMALL, MESSAGEPACK)]
    assert rig.sent == [(b"a", frame) for frame in frames]
    assert not rig.writer.takes(b"a", JSON, SMALL), "nothing of it waits any more"


def test_the_loop_writes_itself_where_too_much_waits(rig, monkeypatch):
    monkeypatch.setattr(reply_writer, "MAX_NUMBERS", numbers_in(LARGE))
    assert rig.writer.takes(b"a", JSON, LARGE)
    assert not rig.writer.takes(b"b", JSON, LARGE)
    assert rig.writer.takes(b"a", JSON, SMALL), "it stays behind what came before"
    rig.serve_until(2)
    assert rig.writer.takes(b"b", JSON, LARGE)
    rig.serve_until(3)


def test_what_cannot_be_written_stops_the_loop_as_if_it_had_written(rig, monkeypatch):
    def encode_into(_message, _codec, _frame):
        raise MemoryError

    monkeypatch.setattr(reply_writer, "encode_into", encode_into)
    assert rig.writer.takes(b"a", JSON, LARGE)
    with pytest.raises(MemoryError):
        rig.serve_until(1)


def test_what_waits_at_the_end_is_sent(rig):
    for _ in range(3):
        assert rig.writer.takes(b"a", JSON, LARGE)
    rig.writer.close()
    assert rig.sent == [(b"a", encode(LARGE, JSON))] * 3
    rig.writer = ReplyWriter(rig.reactor, rig.send)


@pytest.mark.parametrize(
    "value", [-1.234568e-38, 3.4028235e38, -1234567.0, -9.999999e15, float("nan"), 0.1]
)
def test_a_buffer_holds_all_that_is_written_and_never_grows(monkeypatch, value):
    rows = 50_000
    series = Series(
        Int64Column.of(range(1_999_999_999_000, 1_999_999_999_000 + rows)),
        {"temperature": Float32Column.of([value] * rows)},
        quality={"temperature": UInt8Column(bytes([255]) * rows)},
        source_time_ms=Int64Column.of([1_999_999_999_999] * rows),
        age_ms=UInt32Column.of([4_294_967_295] * rows),
    )
    reply = Answer("a", "complete", 1.0, True, Coverage(1, 1), (AreaResult("b1/r1", series),))
    sizes = []

    def encode_into(message, codec, frame):
        sizes.append(len(frame))
        codec_module.encode_into(message, codec, frame)

    monkeypatch.setattr(reply_writer, "encode_into", encode_into)
    frame = reply_writer._written(reply, JSON)
    assert frame == encode(reply, JSON)
    # It never grows. What is left over is given back at the end, which may move it once.
    assert sizes == [most_bytes(reply)]
    assert len(frame) <= most_bytes(reply)
    assert most_bytes(reply) >= len(encode(Round("w", 1, 0, 0, 1, reply), JSON)) - REST_BYTES


def test_a_reply_larger_than_expected_is_written_all_the_same(monkeypatch):
    monkeypatch.setattr(reply_writer, "most_bytes", lambda _: 8)
    assert reply_writer._written(LARGE, JSON) == encode(LARGE, JSON)
