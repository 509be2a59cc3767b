"""Alerts raised now: from the log of alerts, and from what the master says of areas."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from agent.gateway.feed.alert_log import Raised
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
    """The master's statement about its areas when it was asked at `asked_ms`, by this clock."""

    asked_ms: int
    areas: frozenset[str]
    raised: dict[tuple[str, str], tuple[int, str]]  # (trigger, area): since, text


def asked_raised(about: Answer, asked_ms: int) -> AskedRaised:
    """Raised alerts in an answer of form `about`."""
    raised, areas = {}, set()
    for result in about.results:
        if result.about is not None:
            areas.add(result.area)
            for each in result.about.raised:
                raised[each.trigger, result.area] = (each.since_ms, each.text)
    return AskedRaised(asked_ms, frozenset(areas), raised)


def raised_now(logged: Iterable[Raised], asked: AskedRaised | None) -> list[RaisedNow]:
    """Both together, the longest first. An alert whose end was lost does not stay for ever: the
    master, asked later, does not name it. What has names that no trigger or area can have is left
    out: a node, or a neighbour in the overlay, may send any, also those that are no topic of MQTT,
    or the same as another's."""
    told = {} if asked is None else dict(asked.raised)
    found = []
    for each in logged:
        if not _has_names(each.trigger, each.area):
            continue
        _, text = told.pop((each.trigger, each.area), (0, None))
        if text is None and asked is not None and _is_over(each, asked):
            continue
        found.append(
            RaisedNow(
                each.trigger,
                each.area,
                each.since_ms,
                each.iad,
                each.metric,
                each.value,
                each.position,
                text or "",
            )
        )
    found += [
        RaisedNow(trigger, area, since_ms, text=text)
        for (trigger, area), (since_ms, text) in told.items()
        if _has_names(trigger, area)
    ]
    return sorted(found, key=lambda each: (each.since_ms, each.area, each.trigger))


def _has_names(trigger: str, area: str) -> bool:
    """Whether these are names; a trigger's is one level of an area's, which may be empty."""
    return "/" not in trigger and all(_AREA.search(each) for each in (trigger, area or trigger))


def _is_over(logged: Raised, asked: AskedRaised) -> bool:
    """Whether the master, asked later, did not name it."""
    return logged.area in asked.areas and logged.received_ms < asked.asked_ms - OVERLAP_MS
