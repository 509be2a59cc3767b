"""Metric families: name, type, labels, unit and meaning of a metric; those of every agent.

Names and units follow Prometheus: base units, `_total` on counters, one meaning for all labels.
`docs/run/metrics.md` is generated from this file and from those of each agent beside it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Family(NamedTuple):
    """One metric; `bounds` are a histogram's upper bounds in its unit, ascending."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    meaning: str
    bounds: tuple[float, ...] = ()


BUILD_INFO = Family("sanderling_build_info", "gauge", ("version",), "", "Always 1: what runs.")
MALFORMED_FRAMES = Family(
    "sanderling_malformed_frames_total", "counter", (), "frames", "Frames that could not be read."
)
MESSAGES_DROPPED = Family(
    "sanderling_messages_dropped_total",
    "counter",
    (),
    "messages",
    "Messages that their receivers were gone for, or did not read.",
)
KEY_EXPIRY = Family(
    "sanderling_key_expiry_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "When its current key should be replaced, since the epoch, as its key file says; absent where "
    "that does not, or there is no key. Nothing stops working then.",
)
COMMON: Final = (BUILD_INFO, MALFORMED_FRAMES, MESSAGES_DROPPED, KEY_EXPIRY)
