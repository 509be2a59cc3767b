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
    work = tail._reader(None, None, options, came, threading.Event())
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
