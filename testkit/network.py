"""TCP relays between processes of one machine: links with a delay, with losses, with resets, or
cut, as `tc netem` makes them where the kernel has it; and one who answers in place of another.

TCP hides a lost segment behind a retransmission, so what a process sees of one is that bytes come
later; what it sees of a cut is that none come, on connections that stay open. A reset is one: each
end gets an RST, after a part of what was on its way.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final, Self

LOST: Final = 0.1  # of what is read at a time
RESET: Final = 0.1  # of what is written at a time: the connection is reset within it
# Linux repeats a segment after 200 ms, then after twice as long, and so on.
RETRANSMIT_S: Final = 0.2
PIECE_BYTES: Final = 65_536
# Pieces on their way on a connection; beyond them nothing is read.
MAX_PIECES: Final = 1_024
HOST: Final = "127.0.0.1"
ANYBODY: Final = "*"
# SO_LINGER: what was not sent is dropped, and the close is a reset.
AT_ONCE: Final = struct.pack("ii", 1, 0)

# Speaks with whoever connected; the connection is closed when it returns.
Impostor = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
# When each piece is due at the other end; an empty one is the end.
_Line = asyncio.Queue[tuple[float, bytes]]


def reset(connection: asyncio.StreamWriter) -> None:
    """End a connection by a reset."""
    with suppress(OSError):  # it is closed already
        socket_of = connection.get_extra_info("socket")
        socket_of.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    connection.transport.abort()


class _Link:
    """A way from one process to another: how long bytes take, whether they pass, whether some
    are lost, whether they reset their connection, and who answers in place of the other end."""

    def __init__(self, ends: tuple[str, str], way_s: float) -> None:
        self.ends = ends
        self.way_s = way_s
        self.passes = asyncio.Event()
        self.passes.set()
        self.loses = False
        self.resets = False
        self.impostor: Impostor | None = None
        self._open: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []

    def reset(self) -> None:
        """Reset what is open, unless nothing passes, nor a reset."""
        if self.passes.is_set():
            for ends in self._open:
                for each in ends:
                    reset(each)

    def crosses(self, side: Collection[str]) -> bool:
        """Whether one end is on that side, and the other is not."""
        source, target = self.ends
        if source == ANYBODY:
            return target in side
        return (source in side) != (target in side)

    async def take(self, source: asyncio.StreamReader, line: _Line) -> None:
        """Read until the end, and note when each piece arrives."""
        data = b"none yet"
        while data:
            try:
                data = await source.read(PIECE_BYTES)
            except OSError:
                data = b""
            await line.put((time.monotonic() + self.way_s, data))

    async def give(self, line: _Line, sink: asyncio.StreamWriter) -> None:
        """Write each piece when it arrives, and the end."""
        while True:
            due_s, data = await line.get()
            await asyncio.sleep(due_s - time.monotonic())
            again_s = RETRANSMIT_S
            while self.loses and random.random() < LOST:
                await asyncio.sleep(again_s)
                again_s *= 2
            await self.passes.wait()
            if not data:
                sink.write_eof()
                return
            if self.resets and random.random() < RESET:
                sink.write(data[: random.randrange(len(data))])
                raise ConnectionResetError
            sink.write(data)
            await sink.drain()

    async def carry(
        self,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Pass bytes on, both ways, until both have ended, one end is gone or they are reset."""
        ends = near[1], far[1]
        self._open.append(ends)
        try:
            async with asyncio.TaskGroup() as tasks:
                for (source, _), (_, sink) in ((near, far), (far, near)):
                    line: _Line = asyncio.Queue(MAX_PIECES)
                    tasks.create_task(self.take(source, line))
                    tasks.create_task(self.give(line, sink))
        except* ConnectionResetError:
            for each in ends:
                reset(each)
        except* OSError:
            pass  # one of both ends is gone
        finally:
            self._open.remove(ends)
            far[1].close()


class Network:
    """All links of a fleet; a context manager. `route` is what `Testbed` takes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._links: dict[tuple[str, str, str], tuple[_Link, str]] = {}
        self._servers: list[asyncio.Server] = []
        self._cut: list[tuple[str, ...]] = []
        self._losing: list[tuple[str, ...]] = []
        self._resetting: list[tuple[str, ...]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def route(self, source: str, target: str, address: str, way_s: float = 0.0) -> str:
        """The address of the relay from `source` to `target`, which listens at `address`. A byte
        takes `way_s` there, and as long back; bytes keep their order."""
        key = (source, target, address)
        if key not in self._links:
            opened = asyncio.run_coroutine_threadsafe(self._open(key, way_s), self._loop).result()
            self._links[key] = opened
        return self._links[key][1]

    def cut(self, side: Collection[str]) -> None:
        """Let nothing pass between that side and all others."""
        self._cut.append(tuple(side))
        self._loop.call_soon_threadsafe(self._apply)

    def join(self, side: Collection[str]) -> None:
        """Let it pass again, where no other cut goes through."""
        self._cut.remove(tuple(side))
        self._loop.call_soon_threadsafe(self._apply)

    def lose(self, side: Collection[str]) -> None:
        """Lose segments between that side and all others."""
        self._losing.append(tuple(side))
        self._loop.call_soon_threadsafe(self._apply)

    def lose_no_more(self, side: Collection[str]) -> None:
        """Lose them no more, but for others that do."""
        self._losing.remove(tuple(side))
        self._loop.call_soon_threadsafe(self._apply)

    def reset(self, side: Collection[str]) -> None:
        """Reset all connections between that side and all others, and from now on again and again,
        each within some of what passes there."""
        self._resetting.append(tuple(side))
        self._loop.call_soon_threadsafe(self._apply)
        self._loop.call_soon_threadsafe(self._reset, tuple(side))

    def reset_no_more(self, side: Collection[str]) -> None:
        """Reset them no more, but for others that do."""
        self._resetting.remove(tuple(side))
        self._loop.call_soon_threadsafe(self._apply)

    def impersonate(self, source: str, target: str, impostor: Impostor | None) -> None:
        """Whoever connects from `source` to `target` from now on speaks with the impostor, or with
        the target again; what is open is reset."""

        def change() -> None:
            for link, _ in self._links.values():
                if link.ends == (source, target):
                    link.impostor = impostor
                    link.reset()

        self._loop.call_soon_threadsafe(change)

    def _reset(self, side: Collection[str]) -> None:
        for link, _ in self._links.values():
            if link.crosses(side):
                link.reset()

    def _apply(self) -> None:
        for link, _ in self._links.values():
            link.loses = any(link.crosses(side) for side in self._losing)
            link.resets = any(link.crosses(side) for side in self._resetting)
            if any(link.crosses(side) for side in self._cut):
                link.passes.clear()
            else:
                link.passes.set()

    async def _open(self, key: tuple[str, str, str], way_s: float) -> tuple[_Link, str]:
        source, target, address = key
        link, (host, _, port) = _Link((source, target), way_s), address[6:].rpartition(":")

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await link.passes.wait()
                if link.impostor is None:
                    far = await asyncio.open_connection(host, int(port))
                    if link.impostor is None:  # also meanwhile
                        await link.carry((reader, writer), far)
                        return
                    far[1].close()
                await link.impostor(reader, writer)
            except OSError:
                pass  # nobody listens there
            except asyncio.CancelledError:
                pass  # by `_end`; asyncio of Python 3.11 writes a traceback of a cancelled relay
            finally:
                writer.close()

        server = await asyncio.start_server(relay, HOST, 0)
        self._servers.append(server)
        return link, f"tcp://{HOST}:{server.sockets[0].getsockname()[1]}"

    async def _end(self) -> None:
        """Every relay in progress ends, and is waited for."""
        for server in self._servers:
            server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for each in rest:
            each.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)  # closed sockets are released in the next turn
