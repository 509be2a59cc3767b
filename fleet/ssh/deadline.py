"""Deadlines for what paramiko waits for without end: a reply to `exec`, a host that reads a byte
now and then, a network that takes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko

from fleet.ssh.errors import HostError


@contextmanager
def within(transport: paramiko.Transport, limit_s: float, told: str) -> Iterator[None]:
    """Close the connection after `limit_s`, which ends whatever waits for it. If that makes the
    block fail, HostError with `told`."""
    over = threading.Event()

    def end() -> None:
        over.set()
        transport.close()

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if over.is_set():
            raise HostError("lost", told) from error
        raise
    finally:
        timer.cancel()


def begin(
    transport: paramiko.Transport, channel: paramiko.Channel, command: str, patience_s: float
) -> None:
    """Run a command in a channel of a connection; HostError if the host does not say within
    `patience_s` that it does."""
    with within(transport, patience_s, f"not a word for {patience_s:g} s"):
        channel.exec_command(command)
