"""Derived intake: stores what the node's clone computes, once, and acknowledges it.

The disk writer stores; the loop acknowledges when the history has put the values on stable storage,
with the readings around them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from agent.edge.derived.channels import DerivedChannels
from agent.edge.history.derived_positions import MAX_REMEMBERED
from agent.edge.history.file import HistoryError
from agent.edge.history.memtable import CLOCK_STEP_MS, Sample
from agent.edge.node_time import Moment
from agent.runtime.disk_writer import DiskWriter
from agent.wire.derived import Derived, DerivedTaken, DerivedValues

# The history's name for them: no sensor is called so.
STREAM: Final = "(derived)"
# Sources of which it is known here how far they came.
MAX_SOURCES: Final = 16
# Messages under way to the disk writer. A master sends one of a source, and again half a minute
# later.
MAX_UNDER_WAY: Final = MAX_SOURCES
# Acknowledgements that wait for what they are about.
MAX_OWED: Final = MAX_REMEMBERED
# Between two looks at whether the history has been committed.
LOOK_S: Final = 1.0


class DerivedStream(Protocol):
    """The part of `Stream` that the intake uses."""

    channels: tuple[str, ...]

    def append(self, sample: Sample) -> None: ...


class DerivedHistory(Protocol):
    """The part of `History` that the intake uses."""

    @property
    def derived(self) -> Mapping[str, int]: ...
    @property
    def writable(self) -> bool: ...
    def commit(self) -> None: ...


class _Came(Struct, frozen=True):
    """How far a source's values came: those handled, and those of them that are in the history,
    on stable storage or not yet."""

    handled: int
    stored: int


class _Owed(NamedTuple):
    """An acknowledgement."""

    incarnation: str
    came: _Came


class DerivedIntake:
    """Takes the derived values of one node. `commit_s` is how long they may wait for the history's
    own commit; what is older than `retention_s` is not kept. `act` gets the values of each message
    that were not there before, in the disk writer's thread; all else is for the loop's."""

    def __init__(
        self,
        history: DerivedHistory,
        stream: DerivedStream,
        wanted: tuple[str, ...],
        taken: Collection[str],
        *,
        commit_s: float,
        retention_s: float,
        moment: Callable[[], Moment],
        disk: DiskWriter,
        acknowledge: Callable[[DerivedTaken], object],
        complain: Callable[[str], object],
        act: Callable[[tuple[DerivedValues, ...]], object] = lambda _: None,
    ) -> None:
        self._history = history
        self._stream = stream
        self._channels = DerivedChannels(wanted, taken)
        self._commit_s = commit_s
        self._retention_ms = retention_s * 1000
        self._moment = moment
        self._disk = disk
        self._acknowledge = acknowledge
        self._complain = complain
        self._act = act
        self._sources: dict[str, _Came] = {}  # the disk writer's
        self._last_ms: int | None = None
        self._owed: dict[str, _Owed] = {}  # by source
        self._commit_at = float("inf")
        self._committing = False
        self._under_way = 0
        self.wake_at = float("inf")  # when `turn` is due, in seconds on the monotonic clock

    def arrived(self, message: Derived, now: float) -> None:
        """Store what is new of a message, unless too many are under way: the master sends it
        again."""
        if self._under_way >= MAX_UNDER_WAY:
            return
        self._under_way += 1

        def then(came: _Came | None) -> None:
            self._under_way -= 1
            if came is not None:
                self._owed.pop(message.source, None)
                self._owed[message.source] = _Owed(message.incarnation, came)
                if len(self._owed) > MAX_OWED:
                    del self._owed[next(iter(self._owed))]
                self._commit_at = min(self._commit_at, now + self._commit_s)
                self.wake_at = min(self.wake_at, now + LOOK_S)

        self._disk.submit(partial(self._store, message), then)

    def turn(self, now: float) -> None:
        """Acknowledge what is on stable storage; commit what has waited long enough."""
        if now < self.wake_at:
            return
        durable = self._history.derived
        for source, (incarnation, came) in list(self._owed.items()):
            if durable.get(source, 0) >= came.stored:
                del self._owed[source]
                self._acknowledge(DerivedTaken(incarnation, source, came.handled))
        self.wake_at = now + LOOK_S
        if not self._owed:
            self._commit_at = self.wake_at = float("inf")
        elif now >= self._commit_at and not self._committing:
            self._committing = True
            self._commit_at = now + self._commit_s
            self._disk.submit(self._commit, self._committed)

    def _committed(self, problem: str) -> None:
        self._committing = False
        if problem:
            self._complain(problem)

    # --- in the disk writer's thread ---

    def _commit(self) -> str:
        try:
            self._history.commit()
        except HistoryError as error:
            return str(error)
        return ""

    def _store(self, message: Derived) -> _Came | None:
        """How far the source came with this message. None: nothing was done, since the file cannot
        be opened, and so it is not known what is in it; the master sends the message again."""
        source = message.source
        if not self._history.writable or not self._has_room(source):
            return None
        there = self._history.derived.get(source, 0)
        came = self._sources.get(source, _Came(there, there))
        new = tuple([each for each in message.values if each.position > came.handled])
        if new:
            moment = self._moment()
            for each in new:
                kept = self._append(source, each, moment)
                came = _Came(each.position, each.position if kept else came.stored)
            self._act(new)
        self._sources[source] = came
        return came

    def _has_room(self, source: str) -> bool:
        if source in self._sources or len(self._sources) < MAX_SOURCES:
            return True
        durable = self._history.derived
        for other, came in self._sources.items():
            if durable.get(other, 0) >= came.stored:
                del self._sources[other]
                return True
        return False

    def _append(self, source: str, derived: DerivedValues, moment: Moment) -> bool:
        """Put values into the history; False if none of them is to be kept."""
        row = self._channels.row(derived.values)
        if not row or derived.age_ms > self._retention_ms:
            return False
        self._stream.channels = self._channels.names
        # Messages take different times: values that seem to be a little older than the last ones
        # follow these.
        ago_ms = derived.age_ms
        if self._last_ms is not None:
            behind_ms = self._last_ms - (moment.monotonic_ms - ago_ms)
            if 0 <= behind_ms < CLOCK_STEP_MS:
                ago_ms -= behind_ms + 1
        self._last_ms = moment.monotonic_ms - ago_ms
        sample = Sample(
            moment.time_ms - ago_ms,
            self._last_ms,
            moment.synchronised,
            row,
            source=source,
            position=derived.position,
        )
        try:
            self._stream.append(sample)
        except HistoryError as error:
            # They are in memory, with the readings that wait for the file.
            self._complain(str(error))
        return True
