"""Connections that keep a place and do not get on are let go; all others stay."""

import socket
from contextlib import suppress

import pytest

from agent.gateway.http import patience, requests
from agent.gateway.http.patience import REQUEST_S, UNREAD_S, Patience
from tests.gateway.conftest import Reader, ask
from tests.gateway.fake import FakeFleet, FakeGateway


class Cycle:
    def __init__(self, *, is_complete):
        self.response_complete = is_complete


class Connection:
    def __init__(self, cycle=None):
        self.cycle = cycle
        self.unread = 0
        self.transport = self

    def get_write_buffer_size(self):
        return self.unread


def test_who_sends_no_request_is_let_go():
    kept, silent, between = Patience(), Connection(), Connection(Cycle(is_complete=True))
    for now in (0.0, REQUEST_S - 1):
        assert kept.over([silent, between], now) == []
    between.cycle = Cycle(is_complete=True)  # another request came, and was answered
    assert kept.over([silent, between], REQUEST_S) == [silent]
    assert kept.over([between], 2 * REQUEST_S) == [between]


def test_who_reads_nothing_is_let_go_and_who_reads_slowly_is_not():
    kept, stuck, slow = Patience(), Connection(), Connection()
    stuck.unread, slow.unread = 70_000, 70_000
    assert kept.over([stuck, slow], 0.0) == []
    slow.unread -= 1
    assert kept.over([stuck, slow], UNREAD_S) == [stuck]
    slow.unread -= 1
    assert kept.over([slow], 2 * UNREAD_S) == []


def test_a_quiet_stream_and_an_endpoint_at_work_stay():
    kept, at_work = Patience(), Connection(Cycle(is_complete=False))
    assert [kept.over([at_work], now) for now in (0.0, 1e6)] == [[], []]
    assert kept._since == {}


def test_nothing_is_kept_of_those_that_went():
    kept = Patience()
    kept.over([Connection() for _ in range(9)], 0.0)
    kept.over([], 1.0)
    assert kept._since == {}


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_request_that_never_ends_gives_its_place_back(tmp_path, monkeypatch, sent):
    monkeypatch.setattr(patience, "REQUEST_S", 0.0)
    monkeypatch.setattr("agent.gateway.http.server.LOOK_TICKS", 1)
    with (
        FakeGateway(tmp_path) as made,
        socket.create_connection(("127.0.0.1", made.port), timeout=60) as slow,
    ):
        slow.sendall(sent)
        with suppress(ConnectionResetError):
            assert slow.recv(1 << 16) == b""


def test_a_body_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "BODY_S", 0.0)
    with (
        FakeGateway(tmp_path) as made,
        socket.create_connection(("127.0.0.1", made.port), timeout=60) as slow,
    ):
        slow.sendall(
            f"POST /api/v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
            f"Authorization: Bearer {made.token('asker')}\r\n"
            "Content-Type: application/json\r\n\r\n{".encode()
        )
        assert slow.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


def test_streams_and_requests_stay_though_it_looks_all_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.gateway.http.server.LOOK_TICKS", 1)
    fleet = FakeFleet()
    fleet.every_s = 0.05
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")
        with Reader(made, token) as events:
            for _ in range(5):
                assert events.until("rooms")
        assert ask(made, "/api/v1/now", token=token).status == 200
