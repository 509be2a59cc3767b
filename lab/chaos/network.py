"""TCP relays between the processes of a fleet: a partition, or a link that loses segments.

TCP hides a lost segment behind a retransmission, so what a process sees of one is that bytes come
later; what it sees of a partition is that none come, on connections that stay open.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Collection
from typing import Final, Self

LOST: Final = 0.1  # of what is read at a time
# Linux repeats a segment after 200 ms, then after twice as long, and so on.
RETRANSMIT_S: Final = 0.2
CHUNK_BYTES: Final = 65_536
HOST: Final = "127.0.0.1"
ANYBODY: Final = "*"


class _Link:
    """A way from one process to another: whether bytes pass, and whether some are lost."""

    def __init__(self, ends: tuple[str, str]) -> None:
        self.ends = ends
        self.passes = asyncio.Event()
        self.passes.set()
        self.loses = False

    def crosses(self, side: Collection[str]) -> bool:
        """Whether one end is on that side, and the other is not."""
        source, target = self.ends
        if source == ANYBODY:
            return target in side
        return (source in side) != (target in side)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write what can be read, until the end of it."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                again_s = RETRANSMIT_S
                while self.loses and random.random() < LOST:
                    await asyncio.sleep(again_s)
                    again_s *= 2
                await self.passes.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one of both ends is gone
        finally:
            writer.close()


class Network:
    """All links of a fleet; a context manager. `route` is what `Testbed` takes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._links: dict[tuple[str, str, str], tuple[_Link, str]] = {}
        self._servers: list[asyncio.Server] = []
        self._cut: list[tuple[str, ...]] = []
        self._losing: list[tuple[str, ...]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def route(self, source: str, target: str, address: str) -> str:
        """The address of the relay from `source` to `target`, which listens at `address`."""
        key = (source, target, address)
        if key not in self._links:
            opened = asyncio.run_coroutine_threadsafe(self._open(key), self._loop).result()
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

    def _apply(self) -> None:
        for link, _ in self._links.values():
            link.loses = any(link.crosses(side) for side in self._losing)
            if any(link.crosses(side) for side in self._cut):
                link.passes.clear()
            else:
                link.passes.set()

    async def _open(self, key: tuple[str, str, str]) -> tuple[_Link, str]:
        source, target, address = key
        link, (host, _, port) = _Link((source, target)), address[6:].rpartition(":")

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await link.passes.wait()
                there, back = await asyncio.open_connection(host, int(port))
                await asyncio.gather(link.carry(reader, back), link.carry(there, writer))
            except OSError:
                pass  # nobody listens there
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
