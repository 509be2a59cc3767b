"""A remote command whose output is streamed."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Final, Literal

from fleet.ssh.deadline import begin
from fleet.ssh.errors import HostError

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel

Stream = Literal["stdout", "stderr"]
CHUNK: Final = 32 * 1024
# Taken at once of each stream: a host that never ends may write faster than it is read.
CHUNKS_AT_ONCE: Final = 16
# Maximum delay until `stop` and the timeout are noticed.
LOOK_S: Final = 0.2
# Maximum time until a host has begun the command.
SILENCE_S: Final = 30.0
NO_STATUS: Final = -1  # exit status of a channel that was closed before its command had ended


class CommandTimeout(HostError):
    """The command took too long."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__("failed", f"no end after {timeout_s:g} s")


class Stopped(HostError):
    """The operator has interrupted the command."""

    def __init__(self) -> None:
        super().__init__("lost", "stopped before its end")


def stream(
    connection: Connection,
    command: str,
    take: Callable[[Stream, bytes], None],
    *,
    stop: Event,
    timeout_s: float | None = None,
) -> int:
    """Run `command` in the user's shell there and pass its output to `take`; returns its exit
    status.

    Standard input is empty. CommandTimeout; Stopped soon after `stop` is set; HostError if the
    connection is lost before the command's end. The command itself then continues on the host until
    it writes.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    channel = connection.transport.open_session()
    try:
        begin(connection.transport, channel, command, SILENCE_S)
        channel.shutdown_write()
        poll = select.poll()  # select() is limited to low file descriptors, too few for many hosts
        poll.register(channel.fileno(), select.POLLIN)
        while not _ended(channel):
            if stop.is_set():
                raise Stopped
            if deadline is not None and time.monotonic() >= deadline:
                raise CommandTimeout(timeout_s or 0.0)
            if channel.eof_received:  # the descriptor stays readable
                channel.status_event.wait(LOOK_S)
            else:
                poll.poll(LOOK_S * 1000)
            _take_some(channel, take)
        _take_some(channel, take)
        status = channel.recv_exit_status()
    finally:
        channel.close()
    if status == NO_STATUS:
        raise HostError("lost", "the connection was lost, or the command was ended by a signal")
    return int(status)


def _ended(channel: Channel) -> bool:
    if channel.recv_ready() or channel.recv_stderr_ready():
        return False
    return bool((channel.eof_received or channel.closed) and channel.exit_status_ready())


def _take_some(channel: Channel, take: Callable[[Stream, bytes], None]) -> None:
    for _ in range(CHUNKS_AT_ONCE):
        if not channel.recv_ready():
            break
        take("stdout", channel.recv(CHUNK))
    for _ in range(CHUNKS_AT_ONCE):
        if not channel.recv_stderr_ready():
            break
        take("stderr", channel.recv_stderr(CHUNK))
