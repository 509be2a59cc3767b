"""A sensor's faults as events: one when it begins, one when it is over; its helper's restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from agent.edge.groups import Sample
from agent.edge.node_time import Moment
from agent.edge.sensor import StoredChannel
from sensors.quality.episodes import Began, Episodes
from sensors.quality.flags import GOOD, names

BEGAN: Final = "fault_began"
ENDED: Final = "fault_ended"
RESTARTED: Final = "helper_restarted"


class Happening(NamedTuple):
    """Something to raise an event about; `time_ms` is wall time."""

    kind: str
    moment: Moment
    time_ms: int
    sensor: str
    channel: str
    text: str


class Faults:
    """Follows the readings of one sensor; `raised` is called by the thread that does."""

    def __init__(
        self,
        sensor: str,
        channels: tuple[StoredChannel, ...],
        raised: Callable[[Happening], object],
    ) -> None:
        self._sensor = sensor
        self._channels = channels
        self._raised = raised
        self._episodes = [Episodes() for _ in channels]

    @property
    def open(self) -> tuple[bool, ...]:
        """Whether a fault is there, by channel."""
        return tuple([episodes.fault is not None for episodes in self._episodes])

    def follow(self, moment: Moment, sample: Sample) -> None:
        """Take in the next reading."""
        now_s = moment.monotonic_ms / 1000
        for i, episodes in enumerate(self._episodes):
            flags = sample.quality[i] if sample.quality else GOOD
            change = episodes.update(now_s, flags)
            if change is None:
                continue
            channel = self._channels[i]
            kinds = ", ".join(names(change.flags))
            if isinstance(change, Began):
                at_s, kind = change.began_s, BEGAN
                value = sample.values[i]
                text = f"{kinds}: {value:g} {channel.unit}" if value == value else kinds
            else:
                at_s, kind = change.ended_s, ENDED
                text = f"{kinds}: over after {change.ended_s - change.began_s:.0f} s"
            time_ms = moment.time_ms - round((now_s - at_s) * 1000)
            self._raised(Happening(kind, moment, time_ms, self._sensor, channel.name, text))

    def restarted(self, moment: Moment, text: str) -> None:
        """The driver's helper process was started again before `moment`."""
        self._raised(Happening(RESTARTED, moment, moment.time_ms, self._sensor, "", text))
