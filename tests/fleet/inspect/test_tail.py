"""Hosts that print more than they were asked for."""

import contextlib
import queue
import threading
from types import SimpleNamespace

import pytest

from fleet.inspect import tail
from fleet.inspect.tail import Options
from fleet.ssh.errors import HostError

LINE = b'{"MESSAGE": "hot", "PRIORITY": "6"}\n'


def read(monkeypatch, lines, *, follow):
    """How many lines were taken of a host that prints so many, three being asked for."""
    monkeypatch.setattr(tail, "open_host", lambda *_: contextlib.nullcontext())

    def stream(_connection, _command, take, *, stop):
        for _ in range(lines):
            take("stdout", LINE)
        return 0

    monkeypatch.setattr(tail, "stream", stream)
    came = queue.SimpleQueue()
    options = Options(follow, 3, "", "", ["sanderling-edge"], 1, as_json=False)
    work = tail._reader(None, None, options, came, threading.Event(), {})
    try:
        work(SimpleNamespace(name="iad4/n1", unit="sanderling-edge"))
    finally:
        assert came.qsize() == min(lines, 3 if not follow else lines)


def test_what_was_asked_for_is_taken(monkeypatch):
    read(monkeypatch, 3, follow=False)
    read(monkeypatch, 50, follow=True)


def test_a_host_that_prints_without_end_is_left(monkeypatch):
    with pytest.raises(HostError, match="it sends more than 3 lines"):
        read(monkeypatch, 1_000, follow=False)


def test_a_host_that_prints_faster_than_it_is_shown_is_held_up(monkeypatch):
    monkeypatch.setattr(tail, "open_host", lambda *_: contextlib.nullcontext())
    line = tail.entry("iad4/n1", LINE.decode())
    monkeypatch.setattr(tail, "MAX_WAITING", 10 * tail._size(line))

    def stream(_connection, _command, take, *, stop):
        for _ in range(500):
            take("stdout", LINE)
        return 0

    monkeypatch.setattr(tail, "stream", stream)
    came, rooms = queue.SimpleQueue(), {"iad4/n1": tail.Room()}
    options = Options(True, 3, "", "", ["sanderling-edge"], 1, as_json=False)
    work = tail._reader(None, None, options, came, threading.Event(), rooms)
    host = SimpleNamespace(name="iad4/n1", unit="sanderling-edge")
    thread = threading.Thread(target=work, args=(host,), daemon=True)
    thread.start()
    for _ in range(500):
        assert came.qsize() <= 10
        rooms["iad4/n1"].give_back(came.get(timeout=60))
    thread.join(60)
    assert not thread.is_alive()
