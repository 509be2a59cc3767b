"""Hub: one watch of the fleet for all who look, begun by the first and ended after the last.

All methods are for the gateway's loop. Nobody has a queue here: who is slow asks later what changed
since the version that it has, and gets the newest of each area.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agent.gateway.feed import frames
from agent.gateway.feed.alert_log import AlertLog, Logged
from agent.gateway.feed.deadlines import Deadlines
from agent.gateway.feed.frames import Frame, Link, Snapshot, Source
from agent.gateway.feed.log_bounds import wall_ms
from agent.gateway.feed.raised import AskedRaised, RaisedNow, asked_raised, raised_now, with_words
from agent.gateway.feed.rooms import Room, Rooms, facts_of
from agent.gateway.feed.shared_answers import SharedAnswers
from agent.wire.about import ServiceInfo
from agent.wire.messages import Answer, Slo

# How long a request waits for the first answers after a pause.
FIRST_S: Final = 5.0
# A watch goes on for so long after the last who looked, as a page that is loaded again looks again.
LINGER_S: Final = 15.0
TICK_S: Final = 1.0
MAX_ALERT_FRAMES: Final = 128
ALERTED_EVERY_S: Final = 0.1
WORDS_AFTER_S: Final = 0.5
LABEL: Final = "console"

T = TypeVar("T")
# Called in the gateway's loop, so it must hand over and return.
Listener = Callable[[Sequence[Room]], None]


class Watcher(Protocol):
    """Has the fleet watched, in a thread of its own."""

    def start(self) -> None:
        """Begin; again after `stop`, too."""

    def stop(self) -> None:
        """End soon; without waiting."""

    def ask_words(self, areas: Iterable[str]) -> None:
        """Ask soon what is raised in these areas."""


class Shown(NamedTuple):
    """A snapshot: event `frame`, and the rooms' version and shape and the source that it shows."""

    version: int
    shape: int
    source: Source
    frame: Frame


class _Making(NamedTuple, Generic[T]):
    """What a thread makes, or has made; `key` says of what."""

    key: object
    version: int
    made: asyncio.Future[T]


def _failed(made: asyncio.Future[Any]) -> bool:
    return made.done() and (made.cancelled() or made.exception() is not None)


class Hub:
    """Rooms, whoever looks at them, and the watch. `watcher` is set before anybody looks.

    `now_ms` is the wall clock, for what is told and kept. Rooms grow stale by `clock`, which is
    monotonic, in seconds: a wall clock that is set makes no room older."""

    def __init__(
        self,
        rooms: Rooms,
        alerts: AlertLog,
        *,
        every_s: float,
        slo: Slo,
        now_ms: Callable[[], int] = wall_ms,
        clock: Callable[[], float] = time.monotonic,
        linger_s: float = LINGER_S,
    ) -> None:
        self.rooms = rooms
        self.source = Source("idle")
        self.deadlines = Deadlines()
        self.watcher: Watcher | None = None
        # The services that may be asked, as the master told them last.
        self.services: tuple[ServiceInfo, ...] = ()
        self.now_ms = now_ms
        self.clock = clock
        # Whether all services were heard since the watch began: before, rooms show what was.
        self.heard = asyncio.Event()
        self.shared = SharedAnswers()
        self._alerts = alerts
        self._alerts_away: str | UnsetType = UNSET
        self._every_s = every_s
        self._slo = slo
        self._linger_s = linger_s
        self.wait_s = FIRST_S
        self._lookers = 0
        self._asked_raised: AskedRaised | None = None
        self._asked_version = 0
        self._wording: asyncio.TimerHandle | None = None
        self._words_to = 0  # up to this position of the log words were asked for
        self._wakers: set[Callable[[], None]] = set()
        self._listeners: list[Listener] = []
        self._ending: asyncio.TimerHandle | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._alerting: asyncio.TimerHandle | None = None
        self._is_more = False  # came since all were woken
        self._snapshot: _Making[Frame] | None = None
        self._alert_frames: dict[int, Frame] = {}
        self._raised: tuple[tuple[int, int], list[RaisedNow]] | None = None
        self._raised_frame: tuple[list[RaisedNow], Frame] | None = None
        self._changes: dict[int, Frame] = {}
        self._changes_version = -1

    @property
    def _clock_ms(self) -> int:
        return round(self.clock() * 1e3)

    # --- who looks ------------------------------------------------------------------------------

    @property
    def lookers(self) -> int:
        """How many look now."""
        return self._lookers

    def look(self) -> Callable[[], None]:
        """Have the fleet watched until the function that is returned is called."""
        self._lookers += 1
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        elif self._lookers == 1:
            self._begin()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._lookers -= 1
                if not self._lookers:
                    loop = asyncio.get_running_loop()
                    self._ending = loop.call_later(self._linger_s, self._end)

        return end

    async def look_now(self, seconds: float) -> None:
        """Wait until the fleet was heard, as somebody asks how it is now, and have it watched for
        so long after that. Not for ever: rooms show what was then, and `source` says why."""
        end = self.look()
        try:
            await asyncio.wait_for(self.heard.wait(), self.wait_s)
        except TimeoutError:
            return
        finally:
            asyncio.get_running_loop().call_later(seconds, end)

    def rooms_heard(self) -> list[Room]:
        """Every room as it was heard: before the fleet answers, after a pause, those with old
        values are stale."""
        return self.all_rooms() if self.heard.is_set() else self.rooms.as_heard(self._clock_ms)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the rooms that changed, and have the fleet watched meanwhile; the
        function that is returned ends both."""
        end = self.look()
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
            end()

        return stop

    def wake_on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each change of rooms or source, until the returned one is called."""
        self._wakers.add(wake)
        return lambda: self._wakers.discard(wake)

    def all_rooms(self) -> list[Room]:
        """Every room as it shows now."""
        return list(self.rooms)

    def name_of(self, area: str) -> str:
        """The area's name for people, or nothing; for any thread."""
        room = self.rooms.get(area)
        return "" if room is None else room.name

    def raised(self) -> list[RaisedNow]:
        """Alerts that are raised now, put together once for all until that changes; for any
        thread. It is the same object as long as the same is raised."""
        of, made = self.raised_of, self._raised
        if made is None or made[0] != of:
            found = raised_now(self._alerts.triggers, self._asked_raised)
            made = self._raised = of, found if made is None or made[1] != found else made[1]
        return made[1]

    @property
    def raised_of(self) -> tuple[int, int]:
        """Version of what `raised` is made of: while it is the same, nothing has changed."""
        return self._alerts.triggers.version, self._asked_version

    def _asked(self, raised: AskedRaised | None) -> None:
        self._asked_raised = raised
        self._asked_version += 1

    def _begin(self) -> None:
        self.heard.clear()
        self._be(Source("starting"))
        self.rooms.ask(self._clock_ms)
        self._tick()
        if self.watcher is not None:
            self.watcher.start()

    def _end(self) -> None:
        self._ending = None
        if self.watcher is not None:
            self.watcher.stop()
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        self._asked(None)  # nobody asks again, so it would contradict newer alerts
        self._be(Source("idle"))

    def close(self) -> None:
        """End the watch, whoever looks."""
        if self._ending is not None:
            self._ending.cancel()
        self._end()

    def _tick(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        now_ms, asked = self.now_ms(), self._asked_raised
        if asked is not None and asked.asked_ms > now_ms:
            # The clock was set back: alerts that come now are newer than what the master said.
            self._asked(replace(asked, asked_ms=now_ms))
        self._changed(self.rooms.tick(self._clock_ms))

    # --- what the watcher tells -----------------------------------------------------------------

    def took(self, service: str, answer: Answer) -> None:
        """A round of the watch of a service."""
        self.deadlines.took(LABEL, service, self._slo, answer, self.now_ms())
        version = self.rooms.version
        changed = self.rooms.apply(answer, self._clock_ms, service)
        self._be(Source("up"))
        self._changed(changed, always=self.rooms.version != version)

    def learned(self, about: Answer) -> None:
        """The master's knowledge of areas."""
        self._asked(asked_raised(about, self.now_ms()))
        if about.services is not UNSET:
            self.services = about.services
        version, unknown = self.rooms.version, [gap.area for gap in about.missing]
        changed = self.rooms.learn(facts_of(about), self._clock_ms, unknown)
        before = self._raised and self._raised[1]
        self._changed(changed, always=self.rooms.version != version or self.raised() is not before)

    def asks(self, services: Collection[str]) -> None:
        """These services are watched from now on, and no others."""
        version = self.rooms.version
        changed = self.rooms.asks(services, self._clock_ms)
        self._changed(changed, always=self.rooms.version != version)

    def began(self) -> None:
        """Every service has given its first answer."""
        if self._lookers or self._ending is not None:
            self.heard.set()

    def learned_words(self, about: Answer) -> None:
        """The master's knowledge of areas where a trigger was raised since it was asked of all."""
        if self._asked_raised is not None:
            before = self._raised and self._raised[1]
            self._asked(with_words(self._asked_raised, about))
            self._changed((), always=self.raised() is not before)

    def told(self, state: Link, message: str = "") -> None:
        """How the link to the master is."""
        if self._lookers or self._ending is not None:
            if state == "away":
                self.heard.set()  # there is nothing to wait for
            self._be(Source(state, message))

    def lost(self, message: str) -> None:
        """The link to the master is gone: no room is live until it gives readings again."""
        self.told("away", message)
        self._changed(self.rooms.lose(self._clock_ms))

    def alerted(self) -> None:
        """An alert is in the log. After the first of many, all are woken for several together."""
        if self._alerting is None:
            loop = asyncio.get_running_loop()
            self._alerting = loop.call_later(ALERTED_EVERY_S, self._alerted_again)
            if self._wording is None:
                self._wording = loop.call_later(WORDS_AFTER_S, self._ask_words)
            self._wake()
        else:
            self._is_more = True

    def _ask_words(self) -> None:
        """Alerts have no words. The master has them; it is asked of all areas now and then only."""
        self._wording = None
        if self.watcher is None or self._asked_raised is None:
            return
        newest = max(self._words_to, self._alerts.newest)
        wordless = [
            each.area
            for each in self.raised()
            if each.position > self._words_to and each.area and not each.text
        ]
        self._words_to = newest
        if wordless:
            self.watcher.ask_words(wordless)

    def _alerted_again(self) -> None:
        self._alerting = None
        if self._is_more:
            self._is_more = False
            self.alerted()

    def alerts_away(self, message: str) -> None:
        """Why alerts do not come into the log; empty: they do."""
        self._alerts_away = message or UNSET
        self._be(self.source)

    def _be(self, source: Source) -> None:
        source = replace(source, alerts=self._alerts_away)
        if source != self.source:
            self.source = source
            self._wake()

    def _changed(self, changed: Sequence[Room], *, always: bool = False) -> None:
        if changed:
            for listener in tuple(self._listeners):
                listener(changed)
        if changed or always:
            self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._wakers):
            wake()

    # --- frames ---------------------------------------------------------------------------------

    async def snapshot(self) -> Shown:
        """All there is, encoded and compressed off the loop once for all who open a stream before
        something changes. Rooms may change meanwhile: whoever comes before it is made waits for it,
        too, and gets the changes after its version. O(rooms · channels) on the loop, to copy."""
        key = self.rooms.shape, self._alerts.newest, self._asked_version, self.source
        found = self._snapshot
        if (
            found is None
            or found.key != key
            or (found.made.done() and (found.version != self.rooms.version or _failed(found.made)))
        ):
            made = asyncio.get_running_loop().run_in_executor(None, self._snapshot_maker())
            found = self._snapshot = _Making(key, self.rooms.version, made)
        # One who goes meanwhile does not take it from the others.
        frame = await asyncio.shield(found.made)
        return Shown(found.version, key[0], key[3], frame)

    def _snapshot_maker(self) -> Callable[[], Frame]:
        """The work that is left for a thread: it has a copy of everything that changes."""
        rooms = self.rooms
        shown = rooms.shown()
        snapshot = Snapshot(
            rooms.version,
            self.now_ms(),
            self._every_s,
            self.source,
            [],
            frames.gaps_of(rooms),
            self.raised(),
            self._alerts.newest,
        )

        def make() -> Frame:
            items = [frames.room_item(room, sparks) for room, sparks in shown]
            frame = frames.event("snapshot", replace(snapshot, rooms=items))
            frame.pack()
            return frame

        return make

    async def rooms_json(self) -> msgspec.Raw:
        """Every room in JSON, without its last means; encoded off the loop once a version."""
        rooms = self.all_rooms()
        made = await self.shared.get(
            "rooms", self.rooms.version, lambda: msgspec.json.encode(rooms)
        )
        return msgspec.Raw(made)

    def changes_frame(self, since: int) -> Frame:
        """Changes after a version, made once for all readers of that one."""
        if self._changes_version != self.rooms.version:
            self._changes_version = self.rooms.version
            self._changes.clear()
        if (found := self._changes.get(since)) is None:
            made = frames.changes(self.rooms, since, self.now_ms())
            found = self._changes[since] = frames.event("rooms", made)
        return found

    def alert_frame(self, entry: Logged) -> Frame:
        """An entry of the log of alerts, made once for all who follow it. What is told to one
        reader alone is a loss."""
        if entry.notification is None:
            return frames.alert_frame(entry)
        if (found := self._alert_frames.get(entry.position)) is None:
            found = self._alert_frames[entry.position] = frames.alert_frame(entry)
            if len(self._alert_frames) > MAX_ALERT_FRAMES:
                del self._alert_frames[next(iter(self._alert_frames))]
        return found

    def raised_frame(self) -> Frame:
        """Alerts that are raised now, made once for all."""
        raised = self.raised()
        if self._raised_frame is None or self._raised_frame[0] is not raised:
            self._raised_frame = raised, frames.raised_frame(raised)
        return self._raised_frame[1]
