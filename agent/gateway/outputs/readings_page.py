"""The readings of all rooms as a page for Prometheus: ``/metrics/readings``.

Values have no timestamps, as Prometheus would take them for stale: their age stands beside them.
What is bad or not measured now is absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from agent.gateway.feed.rooms import Room
from agent.metrics.gateway_families import READINGS


def page(rooms: Iterable[Room], raised: Iterable[tuple[str, str]], now_ms: int) -> str:
    """The page; O(channels of all rooms)."""
    reading: list[str] = []
    ages: list[str] = []
    up: list[str] = []
    for room in rooms:
        area = _quoted(room.area)
        up.append(f"{{area={area},name={_quoted(room.name)}}} {int(room.state == 'live')}")
        if room.state != "live":
            continue
        for channel, each in room.channels.items():
            if each.quality == "bad" or each.value is None or not math.isfinite(each.value):
                continue
            labels = f"{{area={area},channel={_quoted(channel)},unit={_quoted(each.unit)}}}"
            reading.append(f"{labels} {each.value!r}")
            ages.append(f"{labels} {max(0, now_ms - each.time_ms) / 1e3!r}")
    alerts = [f"{{area={_quoted(area)},trigger={_quoted(trigger)}}} 1" for trigger, area in raised]
    parts: list[str] = []
    for family, samples in zip(READINGS, (reading, ages, up, alerts), strict=True):
        parts += [f"# HELP {family.name} {family.meaning}\n", f"# TYPE {family.name} gauge\n"]
        parts += [f"{family.name}{sample}\n" for sample in samples]
    return "".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
