"""Event streams: a snapshot, then what changes, then alerts from a position on.

A stream has no queue. It remembers the version of the rooms and the position of the alerts that it
has sent, and sends what is newer whenever its reader takes something: so a slow one gets the newest
of each area, and every alert. What all share goes out piece by piece, so that one who reads nothing
has no copy of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from agent.gateway.feed import frames
from agent.gateway.feed.frames import Frame, Packing
from agent.gateway.http.problems import Problem
from agent.gateway.http.requests import Asked, Gateway, Reply, Stream, takes_gzip
from agent.gateway.tokens import Caller

# Something is sent at least so often, which shows that a reader has gone.
KEEP_ALIVE_S: Final = 15.0
# A reader that takes nothing for so long is let go; it resumes when it comes again.
PATIENCE_S: Final = 60.0
ALERTS_AT_ONCE: Final = 100
MAX_ALERT_BYTES: Final = 64 << 10  # of these; one alone may be larger
PIECE_BYTES: Final = 32 << 10
# Alerts follow others at most so often: with hundreds of readers each send counts.
ALERTS_EVERY_S: Final = 0.25
# The list of all that is raised follows alerts at most so often.
RAISED_EVERY_S: Final = 1.0
RETRY: Final = Frame(b"retry: 2000\n\n")
NEWEST_ID: Final = 2**53
MEDIA_TYPE: Final = "text/event-stream; charset=utf-8"


async def open_stream(asked: Asked) -> Reply | Stream:
    """The endpoint; Problem if there are too many streams."""
    gateway, caller = asked.gateway, asked.caller
    if asked.request.method == "HEAD":  # it would have no end, and no body that tells of it
        return Reply(b"", MEDIA_TYPE)
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
    return Stream(_Stream(gateway, caller, position, takes_gzip(asked.request)).serve)


class _Stream:
    def __init__(self, gateway: Gateway, caller: Caller, position: int, takes_gzip: bool) -> None:
        self._gateway = gateway
        self._caller = caller
        self._position = position
        self._packing = Packing() if takes_gzip else None
        self._version = self._shape = -1
        self._source = gateway.hub.source
        self._alerts_due = self._raised_due = False
        self._raised_of = (-1, -1)
        self._raised: Frame | None = None
        self._alerts_from_s = 0.0  # not before, by the loop's clock
        self._raised_from_s = 0.0
        self._wake = asyncio.Event()
        self._may = True
        self._patience: asyncio.Timeout | None = None  # while something is being sent

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
            held.callback(self._look_at_access())
            headers = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),  # nginx would keep events until it has some KiB
            ]
            if self._packing is not None:
                headers += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with suppress(TimeoutError):
                await self._follow(send, gone)

    def _look_at_access(self) -> Callable[[], None]:
        """Have the stream ended once its caller may no longer, whether it sends, waits for its
        reader, or has nothing to send; until the function that is returned is called."""
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []

        def look() -> None:
            timers[:] = [loop.call_later(KEEP_ALIVE_S, look)]
            if not self._gateway.access.still(self._caller):
                self._may = False
                self._wake.set()
                self._end_sending()

        timers.append(loop.call_later(KEEP_ALIVE_S, look))
        return lambda: timers.pop().cancel()

    def _end_sending(self) -> None:
        """What its reader has not taken by now is not waited for."""
        if self._patience is not None:
            with suppress(RuntimeError):  # it is ending
                self._patience.reschedule(asyncio.get_running_loop().time())

    def _count_down(self) -> None:
        streams, key = self._gateway.streams, self._caller.key
        streams[key] -= 1
        if not streams[key]:
            del streams[key]

    async def _follow(self, send: Send, gone: asyncio.Future[None]) -> None:
        begin = self._packing.begin if self._packing is not None else b""
        loop = asyncio.get_running_loop()
        await self._send(send, begin, [RETRY, *await self._first()])
        while self._may and not (gone.done() or self._gateway.is_stopping):
            self._wake.clear()
            due = await self._due()
            if due:
                await self._send(send, b"", due)
                continue
            from_s = [
                at_s
                for is_due, at_s in (
                    (self._alerts_due, self._alerts_from_s),
                    (self._raised_due, self._raised_from_s),
                )
                if is_due
            ]
            try:
                async with asyncio.timeout_at(min(from_s, default=loop.time() + KEEP_ALIVE_S)):
                    await self._wake.wait()
            except TimeoutError:
                if not from_s:
                    await self._send(send, b"", [Frame(frames.KEEP_ALIVE)])
        if not gone.done():
            end = self._packing.end if self._packing is not None else b""
            await send({"type": "http.response.body", "body": end, "more_body": False})

    async def _send(self, send: Send, begin: bytes, due: list[Frame]) -> None:
        """Send it as the reader takes it. TimeoutError if it takes nothing for too long, holds too
        much, or may no longer have the rest."""
        is_ended = False

        def end() -> None:
            nonlocal is_ended
            is_ended = True
            self._end_sending()

        if not self._may:
            return
        with self._gateway.sending.holding(self._caller.key, due, end):
            for body in self._pieces(begin, due):
                if is_ended or not self._may:
                    raise TimeoutError
                message: Message = {"type": "http.response.body", "body": body, "more_body": True}
                async with asyncio.timeout(PATIENCE_S) as self._patience:
                    await send(message)
                if len(body) >= PIECE_BYTES:
                    await asyncio.sleep(0)  # others have their turn, and one who has gone is seen

    def _pieces(self, begin: bytes, due: Sequence[Frame]) -> Iterator[bytes]:
        """The frames in pieces of some `PIECE_BYTES`, small ones together."""
        parts, size = [begin], len(begin)
        for each in due:
            made = each.plain if self._packing is None else self._packing.add(each)
            for start in range(0, len(made), PIECE_BYTES):
                parts.append(made[start : start + PIECE_BYTES])
                size += len(parts[-1])
                if size >= PIECE_BYTES:
                    yield b"".join(parts)
                    parts, size = [], 0
        if size:
            yield b"".join(parts)

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
        now_s = asyncio.get_running_loop().time()
        self._alerts_due = self._gateway.alerts.newest != self._position
        if self._alerts_due and now_s >= self._alerts_from_s:
            due += await self._alerts()
        if not self._alerts_due and hub.raised_of != self._raised_of:
            self._raised_due = True  # without an alert it changes as the master tells more
        if self._raised_due and now_s >= self._raised_from_s:
            self._raised_due, self._raised_from_s = False, now_s + RAISED_EVERY_S
            self._raised_of = hub.raised_of
            if (frame := hub.raised_frame()) is not self._raised:
                self._raised = frame
                due.append(frame)
        return due

    async def _alerts(self) -> list[Frame]:
        log, found, size = self._gateway.alerts, list[Frame](), 0
        entries = log.read_recent(self._position, ALERTS_AT_ONCE)
        if entries is None:
            entries = await asyncio.to_thread(log.read, self._position, ALERTS_AT_ONCE)
        for each in entries:
            frame = self._gateway.hub.alert_frame(each)
            size += len(frame.plain)
            if found and size > MAX_ALERT_BYTES:
                break
            self._position = each.position
            self._raised_due = True
            found.append(frame)
        if self._position == log.newest:
            self._alerts_due = False
            self._alerts_from_s = asyncio.get_running_loop().time() + ALERTS_EVERY_S
        return found

    async def _rooms(self) -> list[Frame]:
        hub = self._gateway.hub
        rooms = hub.rooms
        if rooms.shape == self._shape:
            before, self._version = self._version, rooms.version
            return [hub.changes_frame(before)]
        self._raised_of = hub.raised_of
        # It may be older than the rooms are by now: what changed since follows.
        self._version, self._shape, self._source, frame = await hub.snapshot()
        return [frame]


async def _gone(receive: Receive) -> None:
    """Returns when the reader has gone, or sends a body, which would be parsed without end."""
    while (message := await receive())["type"] != "http.disconnect":
        if message.get("body"):
            return
