"""Streams that nobody reads, and alerts without end: what they hold and cost is bounded."""

import asyncio
import contextlib
import socket

import pytest

from agent.gateway import tokens
from agent.gateway.feed.frames import Frame
from agent.gateway.http import connections, server, stream
from agent.gateway.http.send_budget import SendBudget
from agent.wire.overlay import Notification, Origin
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.conftest import Reader
from tests.gateway.fake import FakeFleet, FakeGateway
from tests.gateway.samples import notification

KERNEL_BYTES = 4_096
TEXTS = {f"text{number}": "x" * 500 for number in range(24)}
MESSAGES = 100


@pytest.fixture
def served(monkeypatch):
    """The connections of a gateway, for each of which the kernel keeps little."""
    made = []

    class Served(connections.Protocol):
        def connection_made(self, transport):
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES
            )
            super().connection_made(transport)
            made.append(transport)

    monkeypatch.setattr(server, "Protocol", Served)
    return made


@pytest.fixture
def made(tmp_path, served):
    with FakeGateway(tmp_path) as started:
        for number in range(MESSAGES):
            started.gateway.alerts.append(
                Notification(Origin("iad1", "h1", number + 1), 7, {"topic": "t", **TEXTS})
            )
        yield started


@contextlib.contextmanager
def unread(made, token, last_id):
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        reader.settimeout(PATIENCE_S)
        reader.connect(("127.0.0.1", made.port))
        reader.sendall(
            f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n"
            f"Authorization: Bearer {token}\r\nLast-Event-ID: {last_id}\r\n\r\n".encode()
        )
        yield reader


def test_what_a_stream_sends_is_held_once_however_many_do_not_read_it(made, served):
    token = made.token("viewer")
    sending = made.gateway.sending
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(unread(made, token, 1))
        wait_until(lambda: len(sending._holders), lambda number: number == 8)
        size = len(made.gateway.hub.alert_frame(made.gateway.alerts.read(1, 1)[0]).plain)
        assert size < sending._bytes < stream.MAX_ALERT_BYTES + size
        held = made.in_loop(lambda: [each.get_write_buffer_size() for each in served])
        assert max(held) <= connections.MAX_UNWRITTEN + 2 * stream.PIECE_BYTES
    wait_until(lambda: sending._bytes, lambda left: left == 0)


def test_every_alert_comes_however_large(made):
    with Reader(made, made.token("viewer"), Last_Event_ID="1") as events:
        got = [events.until("alert").data["origin"][2] for _ in range(MESSAGES - 1)]
    assert got == list(range(2, MESSAGES + 1))


def test_a_token_whose_unread_streams_hold_too_much_loses_the_oldest(made):
    made.gateway.sending = SendBudget(4 * stream.MAX_ALERT_BYTES)
    guest, viewer = made.token("viewer", "guest"), made.token("viewer")
    streams = made.gateway.streams
    with contextlib.ExitStack() as stack:
        stack.enter_context(unread(made, viewer, 1))
        wait_until(streams.total, lambda number: number == 1)
        for place in range(10, 90, 10):
            stack.enter_context(unread(made, guest, place))
        wait_until(lambda: dict(streams), lambda open_: 1 <= open_.get(guest_key(made), 0) <= 4)
        assert streams[made.gateway.access.find(viewer).key] == 1


def guest_key(made):
    [key] = [each.sha256 for each in tokens.read(made.access).tokens if each.name == "guest"]
    return key


def test_a_revoked_token_ends_a_stream_that_is_not_read(made, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE_S", 0.01)
    monkeypatch.setattr(stream, "PATIENCE_S", 1e6)
    guest = made.token("viewer", "guest")
    with unread(made, guest, 1):
        wait_until(lambda: made.gateway.sending._holders)
        tokens.revoke_token(made.access, "guest")
        wait_until(made.gateway.streams.total, lambda number: number == 0)


# --- alerts without end --------------------------------------------------------------------------


def test_many_alerts_wake_all_streams_a_few_times(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.gateway.feed.hub.ALERTED_EVERY_S", 1e6)
    with FakeGateway(tmp_path) as made:
        hub, woken = made.gateway.hub, []
        made.in_loop(lambda: hub.wake_on_change(lambda: woken.append(1)))

        def alerts():
            before = len(woken)
            for _ in range(100):
                hub.alerted()
            return len(woken) - before

        assert made.in_loop(alerts) == 1
        assert made.in_loop(alerts) == 0
        made.in_loop(hub._alerted_again)
        assert len(woken) == 2, "those that came meanwhile"


def test_alerts_that_follow_others_come_together(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "RAISED_EVERY_S", 1e6)
    monkeypatch.setattr(stream, "ALERTS_EVERY_S", 1e6)
    with FakeGateway(tmp_path, FakeFleet(1), console={"every_s": 3_600.0}) as made:
        caller = made.gateway.access.find(made.token("viewer"))

        async def due(its):
            return [b"event: alert" in each.plain for each in await its._due()].count(True)

        async def run():
            its = stream._Stream(made.gateway, caller, 0, takes_gzip=False)
            await its._due()
            sent = []
            for number in range(1, 12):
                made.gateway.alerts.append(notification(number))
                sent.append(await due(its))
            its._alerts_from_s = 0.0
            return [*sent, await due(its)]

        sent = asyncio.run_coroutine_threadsafe(run(), made.loop).result()
    assert sent == [1] + 10 * [0] + [10]


# --- the budget ----------------------------------------------------------------------------------


def test_a_frame_counts_once_until_its_last_reader_has_it():
    budget, frame = SendBudget(), Frame(b"x" * 10)
    with budget.holding("a", [frame], pytest.fail):
        with budget.holding("b", [frame, Frame(b"y")], pytest.fail):
            assert budget._bytes == 11
        assert budget._bytes == 10
    assert budget._bytes == 0


def test_who_holds_most_loses_its_oldest():
    budget, ended = SendBudget(30), []
    with contextlib.ExitStack() as stack:
        for caller, size in (("a", 9), ("b", 9), ("b", 8), ("a", 2), ("c", 10)):
            stack.enter_context(
                budget.holding(
                    caller, [Frame(b"x" * size)], lambda p=(caller, size): ended.append(p)
                )
            )
        assert ended == [("b", 9)]
        assert budget._bytes == 29
    assert budget._bytes == 0


def test_a_frame_that_is_alone_may_be_larger():
    with SendBudget(1).holding("a", [Frame(b"xyz")], pytest.fail):
        pass
