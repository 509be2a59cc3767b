"""A sensor's faults as events: when one begins, gets another kind and is over; helper restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from agent.edge.history.memtable import Sample
from agent.edge.node_time import Moment
from agent.edge.sampling.sensor import StoredChannel
from sensors.quality.episodes import LASTING, Began, Ended, Episodes
from sensors.quality.flags import CHECKSUM, GOOD, NO_RESPONSE, names

BEGAN: Final = "fault_began"
CHANGED: Final = "fault_changed"
ENDED: Final = "fault_ended"
RESTARTED: Final = "helper_restarted"


class Happening(NamedTuple):
    """Something to raise an event about; `time_ms` is wall time. The last four are a trigger's, as
    `EventStore.add` has them."""

    kind: str
    moment: Moment
    time_ms: int
    sensor: str
    channel: str
    text: str
    trigger: str = ""
    value: float | None = None
    areas: tuple[str, ...] = ()
    definition: str = ""


class Faults:
    """Follows the readings of one sensor; `raised` is called by the thread that does."""

    def __init__(
        self,
        sensor: str,
        channels: tuple[StoredChannel, ...],
        raised: Callable[[Happening], object],
    ) -> None:
        self._sensor = sensor
        self._raised = raised
        self._channels = tuple([_Channel(channel) for channel in channels])

    @property
    def open(self) -> tuple[bool, ...]:
        """Whether a fault is there, by channel."""
        return tuple([channel.episodes.fault is not None for channel in self._channels])

    def follow(self, moment: Moment, sample: Sample, why: str) -> None:
        """Take in the next reading; `why` is the driver's sentence where it gave none, else ""."""
        now_s = moment.monotonic_ms / 1000
        for i, channel in enumerate(self._channels):
            flags = sample.quality[i] if sample.quality else GOOD
            change = channel.episodes.update(now_s, flags)
            grown = channel.grown(now_s, flags, change)
            if isinstance(change, Ended):
                at_s, kind = change.ended_s, ENDED
                kinds = ", ".join(names(change.flags))
                text = f"{kinds}: over after {change.ended_s - change.began_s:.0f} s"
            elif change is not None or grown:
                at_s, kind = (now_s, CHANGED) if change is None else (change.began_s, BEGAN)
                text = ", ".join(names(grown if change is None else change.flags))
                value = sample.values[i]
                if value == value:
                    text += f": {value:g} {channel.unit}"
                elif why:
                    text += f": {why}"
            else:
                continue
            time_ms = moment.time_ms - round((now_s - at_s) * 1000)
            self._raised(Happening(kind, moment, time_ms, self._sensor, channel.name, text))

    def restarted(self, moment: Moment, text: str) -> None:
        """The driver's helper process was started again before `moment`."""
        self._raised(Happening(RESTARTED, moment, moment.time_ms, self._sensor, "", text))


class _Channel:
    """One channel's fault, and which of its kinds were told."""

    __slots__ = ("_lasting", "_told", "episodes", "name", "unit")

    def __init__(self, channel: StoredChannel) -> None:
        self.name = channel.name
        self.unit = channel.unit
        self.episodes = Episodes()
        # Each for itself: one reading that is missing makes a spike no worse.
        self._lasting = tuple([(flag, Episodes()) for flag in (NO_RESPONSE, CHECKSUM)])
        self._told = GOOD

    def grown(self, now_s: float, flags: int, change: Began | Ended | None) -> int:
        """The kinds that a fault, there since before this reading, has from now on."""
        new = flags & ~LASTING
        for flag, episodes in self._lasting:
            if isinstance(episodes.update(now_s, flags & flag), Began):
                new |= flag
        if isinstance(change, Began):
            # What was missing before a spike is no part of it, unless it lasted.
            self._told = change.flags & ~LASTING or change.flags
            return GOOD
        if self.episodes.fault is None:
            return GOOD
        new &= ~self._told
        self._told |= new
        return new
