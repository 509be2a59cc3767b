"""Fault events of one sensor: a fault begins, gains a kind or clears; the helper restarts."""

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
    """An event before it is stored; `time_ms` is wall time. The last four fields are set for
    triggers only; `EventStore.add` describes them."""

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
    """Tracks the faults of one sensor; calls `raised` in the thread that calls `follow`."""

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
        """Whether each channel has a fault."""
        return tuple([channel.episodes.fault is not None for channel in self._channels])

    def follow(self, moment: Moment, sample: Sample, why: str) -> None:
        """Process the next reading; `why` is the driver's error text if it gave none, else ""."""
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
        """The driver's helper process was restarted before `moment`."""
        self._raised(Happening(RESTARTED, moment, moment.time_ms, self._sensor, "", text))


class _Channel:
    """One channel's fault, and the kinds of it that were reported."""

    __slots__ = ("_lasting", "_told", "episodes", "name", "unit")

    def __init__(self, channel: StoredChannel) -> None:
        self.name = channel.name
        self.unit = channel.unit
        self.episodes = Episodes()
        # Counted separately: a missing reading does not make a spike worse.
        self._lasting = tuple([(flag, Episodes()) for flag in (NO_RESPONSE, CHECKSUM)])
        self._told = GOOD

    def grown(self, now_s: float, flags: int, change: Began | Ended | None) -> int:
        """The kinds that an existing fault gains with this reading."""
        new = flags & ~LASTING
        for flag, episodes in self._lasting:
            if isinstance(episodes.update(now_s, flags & flag), Began):
                new |= flag
        if isinstance(change, Began):
            # Missing values before a spike do not belong to it, unless they lasted.
            self._told = change.flags & ~LASTING or change.flags
            return GOOD
        if self.episodes.fault is None:
            return GOOD
        new &= ~self._told
        self._told |= new
        return new
