"""Alerts raised now: from the log of alerts, and from what the master says of areas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.gateway.feed import raised_table
from agent.gateway.feed.raised_table import MAX_RAISED, MAX_RAISED_OF_AREA, Cleared
from agent.wire.about import Raised
from agent.wire.areas import AREA_PATTERN
from agent.wire.messages import Answer

# An alert that came so shortly before the master was asked may be newer than what it said.
OVERLAP_MS: Final = 5_000
_AREA: Final = re.compile(AREA_PATTERN)


class RaisedNow(Struct, frozen=True):
    """A trigger that holds at an area. `position` is that of its alert in the log, 0 if it was
    raised before the log began; `text` is the node's, if the master told it."""

    trigger: str
    area: str
    since_ms: int
    iad: str = ""
    metric: str = ""
    value: float | None = None
    position: int = 0
    text: str = ""


class AskedRaised(Struct, frozen=True):
    """The master's statement about its areas when it was asked at `asked_ms`, by this clock. Of
    each trigger and area the texts, by the times since when; several nodes may have raised it."""

    asked_ms: int
    areas: frozenset[str]
    raised: dict[tuple[str, str], dict[int, str]]


class Log(Protocol):
    """What the log of alerts knows."""

    @property
    def raised(self) -> Sequence[raised_table.Raised]:
        """What is raised now, as far as alerts tell."""

    def cleared(self, trigger: str, area: str) -> Cleared | None:
        """The last end of a trigger."""


def asked_raised(about: Answer, asked_ms: int) -> AskedRaised:
    """Raised alerts in an answer of form `about`: as many as the log keeps, in equal shares for the
    areas of each level, since an IAD may name any number. Of an area of which some are left out the
    answer says nothing about the others. O(all that are told)."""
    told = {each.area: each.about.raised for each in about.results if each.about is not None}
    kept = {area: of[-MAX_RAISED_OF_AREA:] for area, of in told.items() if of}
    if sum(map(len, kept.values())) > MAX_RAISED:
        kept = _shares([(area, area.split("/"), of) for area, of in kept.items()], MAX_RAISED)
    raised: dict[tuple[str, str], dict[int, str]] = {}
    for area, of in kept.items():
        for each in of:
            raised.setdefault((each.trigger, area), {})[each.since_ms] = each.text
    whole = [area for area, of in told.items() if len(of) == len(kept.get(area, ()))]
    return AskedRaised(asked_ms, frozenset(whole), raised)


def _shares(
    areas: Sequence[tuple[str, Sequence[str], tuple[Raised, ...]]], most: int, level: int = 0
) -> dict[str, tuple[Raised, ...]]:
    """At most `most` of the alerts of these areas, equally many of each name at a level; what one
    does not use is left to the others."""
    if not most:
        return {}
    if len(areas) == 1:
        return {area: of[-most:] for area, _, of in areas}
    groups: dict[str, list[tuple[str, Sequence[str], tuple[Raised, ...]]]] = {}
    for each in areas:
        levels = each[1]
        groups.setdefault(levels[level] if level < len(levels) else "", []).append(each)
    found: dict[str, tuple[Raised, ...]] = {}
    sizes = {name: sum([len(of) for _, _, of in group]) for name, group in groups.items()}
    left = len(groups)
    for name in sorted(groups, key=lambda each: sizes[each]):
        shared = _shares(groups[name], min(sizes[name], most // left), level + 1)
        most -= sum(map(len, shared.values()))
        left -= 1
        found |= shared
    return found


def with_words(asked: AskedRaised, about: Answer) -> AskedRaised:
    """The statement about all areas with a newer one about some of them. The time stays that of
    all: what is not named is over only if it was not named then."""
    newer = asked_raised(about, asked.asked_ms)
    kept = {key: texts for key, texts in asked.raised.items() if key[1] not in newer.areas}
    return replace(asked, raised=kept | newer.raised)


def raised_now(log: Log, asked: AskedRaised | None) -> list[RaisedNow]:
    """Both together, the longest first: the log, which hears each change, and the master, which was
    asked some time ago and knows what was raised before the log began, and the words of a node. An
    alert whose end was lost does not stay for ever: the master, asked later, does not name it.

    What has names that no trigger or area can have is left out: a node, or a neighbour in the
    overlay, may send any, also those that are no topic of MQTT, or the same as another's."""
    told = {} if asked is None else dict(asked.raised)
    found = []
    for each in log.raised:
        key = each.trigger, each.area
        texts = told.get(key, {})
        if not _has_names(*key):
            continue
        if each.since_ms not in texts and asked is not None and _is_over(each, asked):
            continue
        told.pop(key, None)
        found.append(
            RaisedNow(
                each.trigger,
                each.area,
                each.since_ms,
                each.iad,
                each.metric,
                each.value,
                each.position,
                texts.get(each.since_ms, ""),  # of another time they are about other values
            )
        )
    for key, texts in told.items():
        if asked is None or not _has_names(*key):
            continue
        holds = [since_ms for since_ms in texts if not _was_cleared(log, key, since_ms, asked)]
        if holds:
            found.append(RaisedNow(*key, min(holds), text=texts[min(holds)]))
    return sorted(found, key=lambda each: (each.since_ms, each.area, each.trigger))


def _was_cleared(log: Log, key: tuple[str, str], since_ms: int, asked: AskedRaised) -> bool:
    """Whether the log heard that it ended since the master was asked."""
    trigger, area = key
    levels = area.split("/")
    # A node may raise a trigger for all its areas, or for one above them.
    for above in ("", *["/".join(levels[:count]) for count in range(1, len(levels) + 1)]):
        end = log.cleared(trigger, above)
        if (
            end is not None
            and end.time_ms >= since_ms
            and end.received_ms >= asked.asked_ms - OVERLAP_MS
        ):
            return True
    return False


def _has_names(trigger: str, area: str) -> bool:
    """Whether these are names; a trigger's is one level of an area's, which may be empty."""
    return "/" not in trigger and all(_AREA.search(each) for each in (trigger, area or trigger))


def _is_over(logged: raised_table.Raised, asked: AskedRaised) -> bool:
    """Whether the master, asked later, did not name it."""
    return logged.area in asked.areas and logged.received_ms < asked.asked_ms - OVERLAP_MS
