"""Event streams: a snapshot, then what changes, then alerts from a position on.

A stream has no queue. It remembers the version of the rooms and the position of the alerts that it
has sent, and sends what is newer whenever its reader takes something: so a slow one gets the newest
of each area, and every alert.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from agent.gateway.feed import frames
from agent.gateway.feed.frames import Frame, Packing
from agent.gateway.http.problems import Problem
from agent.gateway.http.requests import Asked, Gateway, Stream
from agent.gateway.tokens import Caller

# Something is sent at least so often, which shows that a reader has gone.
KEEP_ALIVE_S: Final = 15.0
# A reader that takes nothing for so long is let go; it resumes when it comes again.
PATIENCE_S: Final = 60.0
ALERTS_AT_ONCE: Final = 100
# The list of all that is raised follows alerts at most so often.
RAISED_EVERY_S: Final = 1.0
RETRY: Final = Frame(b"retry: 2000\n\n")
NEWEST_ID: Final = 2**53


async def open_stream(asked: Asked) -> Stream:
    """The endpoint; Problem if there are too many streams."""
    gateway, caller = asked.gateway, asked.caller
    assert caller is not None
    access = gateway.config.access
    if gateway.streams[caller.key] >= access.most_streams_each:
        most = f"{access.most_streams_each} event streams of this token are open"
        raise Problem(429, "over_rate", most, retry_after_s=5)
    if gateway.streams.total() >= access.most_streams:
        raise Problem(503, "busy", "too many event streams are open", retry_after_s=5)
    last_id = asked.request.headers.get("last-event-id", "") or asked.text("last_event_id")
    position = gateway.alerts.newest
    if last_id.isascii() and last_id.isdigit() and len(last_id) <= 16:
        position = min(int(last_id), NEWEST_ID)
    takes_gzip = "gzip" in asked.request.headers.get("accept-encoding", "")
    return Stream(_Stream(gateway, caller, position, takes_gzip).serve)


class _Stream:
    def __init__(self, gateway: Gateway, caller: Caller, position: int, takes_gzip: bool) -> None:
        self._gateway = gateway
        self._caller = caller
        self._position = position
        self._packing = Packing() if takes_gzip else None
        self._version = self._shape = -1
        self._source = gateway.hub.source
        self._raised_due = False
        self._raised_from_s = 0.0  # not before, by the loop's clock
        self._wake = asyncio.Event()

    async def serve(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Serve until the reader goes, the caller may no longer, or the gateway stops."""
        gateway = self._gateway

        gone = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(lambda _: self._wake.set())
        gateway.streams[self._caller.key] += 1
        with ExitStack() as held:
            held.callback(self._count_down)
            held.callback(gone.cancel)
            held.callback(gateway.hub.look())
            held.callback(gateway.hub.wake_on_change(self._wake.set))
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            if self._packing is not None:
                headers += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with suppress(TimeoutError):
                await self._follow(send, gone)

    def _count_down(self) -> None:
        streams, key = self._gateway.streams, self._caller.key
        streams[key] -= 1
        if not streams[key]:
            del streams[key]

    async def _follow(self, send: Send, gone: asyncio.Future[None]) -> None:
        begin = self._packing.begin if self._packing is not None else b""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        await self._send(send, begin, [RETRY, *await self._first()])
        while not (gone.done() or self._gateway.is_stopping):
            # By the clock: rooms that change all the time leave no quiet moment for it.
            if loop.time() - asked_s >= KEEP_ALIVE_S:
                asked_s = loop.time()
                if not self._gateway.access.still(self._caller):
                    break
            self._wake.clear()
            due = await self._due()
            if due:
                await self._send(send, b"", due)
                continue
            wait_s = self._raised_from_s - loop.time() if self._raised_due else KEEP_ALIVE_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                if not self._raised_due:
                    await self._send(send, b"", [Frame(frames.KEEP_ALIVE)])
        if not gone.done():
            end = self._packing.end if self._packing is not None else b""
            await send({"type": "http.response.body", "body": end, "more_body": False})

    async def _send(self, send: Send, begin: bytes, due: list[Frame]) -> None:
        packing = self._packing
        body = begin + b"".join(
            [each.plain if packing is None else packing.add(each) for each in due]
        )
        message: Message = {"type": "http.response.body", "body": body, "more_body": True}
        async with asyncio.timeout(PATIENCE_S):
            await send(message)

    # --- what is due ----------------------------------------------------------------------------

    async def _first(self) -> list[Frame]:
        """All rooms. The id lets a browser resume even if no alert comes."""
        found = await self._rooms()
        return [*found, Frame(b"id: %d\n\n" % self._position)]

    async def _due(self) -> list[Frame]:
        hub = self._gateway.hub
        due = await self._rooms() if hub.rooms.version != self._version else []
        if hub.source != self._source:
            self._source = hub.source
            due.append(frames.event("source", hub.source))
        log = self._gateway.alerts
        entries = log.read_recent(self._position, ALERTS_AT_ONCE)
        if entries is None:
            entries = await asyncio.to_thread(log.read, self._position, ALERTS_AT_ONCE)
        if entries:
            self._position = entries[-1].position
            due += [hub.alert_frame(each) for each in entries]
            self._raised_due = True
        now_s = asyncio.get_running_loop().time()
        if self._raised_due and now_s >= self._raised_from_s:
            self._raised_due, self._raised_from_s = False, now_s + RAISED_EVERY_S
            due.append(hub.raised_frame())
        return due

    async def _rooms(self) -> list[Frame]:
        hub = self._gateway.hub
        rooms = hub.rooms
        if rooms.shape == self._shape:
            before, self._version = self._version, rooms.version
            return [hub.changes_frame(before)]
        # It may be older than the rooms are by now: what changed since follows.
        self._version, self._shape, self._source, frame = await hub.snapshot()
        return [frame]


async def _gone(receive: Receive) -> None:
    """Returns when the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
