"""Runs the checks over a group of series, as a node or the pipeline does, and collects the
faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from sensors.quality import flags
from sensors.quality.channel import ChannelCheck
from sensors.quality.colocated import Colocated
from sensors.quality.episodes import Began, Ended, Episodes
from sensors.quality.limits import Limits


class Found(Struct, frozen=True):
    """One reported fault: `name` of the series, when it began, when it was reported and when it was
    over (the last reading, if it was not), in seconds; and its flags."""

    name: str
    began_s: float
    told_s: float
    ended_s: float
    flags: int

    @property
    def what(self) -> str:
        """Its flags in words."""
        return " ".join(flags.names(self.flags))

    def overlaps(self, start_s: float, end_s: float) -> bool:
        """Whether it overlaps that time, `end_s` not included."""
        return self.began_s < end_s and self.ended_s > start_s


def judge(
    group: Mapping[str, Sequence[float]],
    limits: Limits,
    first_s: float,
    step_s: float,
    wanted: Iterable[str] | None = None,
) -> list[Found]:
    """All faults reported for the co-located series of `group`, or for those named in `wanted` if
    that is given. All have a value each `step_s`; NaN is missing."""
    names = list(group)
    colocated = Colocated(names, [limits] * len(names), fresh_s=max(300.0, 3 * step_s))
    episodes = {name: Episodes() for name in (names if wanted is None else wanted)}
    members = [(name, ChannelCheck(limits).check, episodes.get(name)) for name in names]
    told: dict[str, float] = {}
    found: list[Found] = []
    time_s = first_s
    for values in zip(*group.values(), strict=True):
        for (name, check, episode), value in zip(members, values, strict=True):
            flagged = check(time_s, value)
            flagged |= colocated.check(name, time_s, value, flagged)
            change = episode.update(time_s, flagged) if episode is not None else None
            if isinstance(change, Began):
                told[name] = time_s
            elif isinstance(change, Ended):
                found.append(Found(name, change.began_s, told.pop(name), *change[1:]))
        time_s += step_s
    for name, episode in episodes.items():
        if (fault := episode.fault) is not None:
            found.append(Found(name, fault.began_s, told[name], time_s, fault.flags))
    return found
