"""Entry point of `sanderling-pod`: one pod in a container, serving from its edge agent's history.

SANDERLING_DIRECTORY names the folder with the agent's history and socket; it may be read-only.
If the agent stops, the container waits until it is back.
"""

# ruff: noqa: PTH118 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

import os
import select
import socket
import threading
import time
from typing import Final

import msgspec

from agent.edge.history.group_cache import GroupCache
from agent.edge.history.reader import Reader
from agent.edge.history.snapshot import Recent
from agent.edge.pods.containers import SOCKET, Request, receive, send
from agent.edge.pods.pods import ReceivedSubtask, execute
from agent.runtime import console
from agent.runtime.command_line import UNUSABLE, fail
from agent.runtime.signals import StopSignal

RETRY_MS: Final = 1_000


class Excerpt:
    """The history as sent with a subtask: its file, and the snapshot of the agent's memory."""

    def __init__(self) -> None:
        self.path = ""
        self.known = Recent([], (), None, immutable=False)
        self.cache = GroupCache()

    def recent(self, _start_ms: int, _end_ms: int) -> Recent:
        """As `History.recent`, always for the subtask's window."""
        return self.known

    def doubt(self, sequence: int, reason: str) -> None:
        """Log that a group is damaged; the agent finds out when it reads it or restarts."""
        console.write(f"group {sequence} is damaged ({reason}) and left out\n")


def serve(connection: socket.socket, folder: str, stop: StopSignal) -> None:
    """Answer the agent's requests until it closes the connection or the process is stopped."""
    excerpt = Excerpt()
    reader = Reader(excerpt)
    decode = msgspec.msgpack.Decoder(Request).decode
    stopping = threading.Event()
    try:
        while _readable(connection.fileno(), stop):
            request = decode(receive(connection))
            excerpt.path = os.path.join(folder, request.history)
            excerpt.known = request.recent
            at = time.monotonic() - request.waited_s
            received = ReceivedSubtask(request.subtask, at, request.wall_ms)
            send(connection, execute(reader, received, request.emulated_s, stopping))
    except ConnectionError:
        pass
    finally:
        reader.close()


def run(folder: str, stop: StopSignal) -> None:
    """Serve as a pod of the agent in `folder` whenever it runs, until stopped."""
    while not stop.requested:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(os.path.join(folder, SOCKET))
            except (FileNotFoundError, ConnectionRefusedError):
                _readable(-1, stop, RETRY_MS)
                continue
            serve(connection, folder, stop)


def _readable(fileno: int, stop: StopSignal, timeout_ms: int | None = None) -> bool:
    """Wait for the descriptor; False if the process is to stop."""
    poll = select.poll()
    for source in [*stop.filenos, *([fileno] if fileno >= 0 else [])]:
        poll.register(source, select.POLLIN)
    for source, _ in poll.poll(timeout_ms):
        if source in stop.filenos:
            stop.woken(source)
    return not stop.requested


def main() -> None:
    """Run the command."""
    folder = os.environ.get("SANDERLING_DIRECTORY", "")
    if not folder:
        fail("SANDERLING_DIRECTORY is not set: the folder of the edge agent's history", UNUSABLE)
    with StopSignal(on_stdin_eof=False) as stop:
        run(folder, stop)


if __name__ == "__main__":
    main()
