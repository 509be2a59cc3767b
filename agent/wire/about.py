"""Form `about` of a query: areas and services that a master knows without asking a node."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from _core.wire.areas import first_malformed
from agent.wire.areas import AREA_PATTERN
from agent.wire.base import (
    MAX_AREAS,
    MAX_CHANNELS,
    Area,
    Channel,
    Count,
    Finite,
    Name,
    QueryForm,
    Text,
    WallMs,
    WireStruct,
)

# All areas of a service, in form `about` only.
EVERYWHERE: Final = "*"
# Characters of a malformed area in an error.
MAX_SHOWN: Final = 64
ASKED_PATTERN: Final = rf"^\*$(?!\n)|{AREA_PATTERN}"
AskedAreas = Annotated[
    tuple[
        # Matched in `check_areas`: a pattern of msgspec's takes 1 µs for each of up to 1,024.
        Annotated[str, Meta(max_length=512, extra_json_schema={"pattern": ASKED_PATTERN})],
        ...,
    ],
    Meta(min_length=1, max_length=MAX_AREAS),
]
# What people call a room; without control characters.
RoomName = Annotated[
    str, Meta(pattern=r"^(?! )[^\x00-\x1f\x7f-\x9f]{1,64}(?<! )$(?!\n)", max_length=64)
]
Unit = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,32}$(?!\n)")]
Units = Annotated[dict[Channel, Unit], Meta(max_length=MAX_CHANNELS)]


class ChannelInfo(WireStruct, frozen=True, omit_defaults=True):
    """A channel of an area, and its unit as its driver names it: celsius, percent, ppm. Empty: it
    is not known."""

    name: Channel
    unit: Unit = ""


class Raised(WireStruct, frozen=True, omit_defaults=True):
    """A trigger that is raised now, since when, and why in words."""

    trigger: Annotated[str, Meta(max_length=64)]
    since_ms: WallMs
    text: Text = ""


class About(WireStruct, frozen=True, omit_defaults=True):
    """An area: its channels, the triggers that are raised there, and how long ago something was
    heard of a node there. `down`: no node of it can be asked now."""

    channels: tuple[ChannelInfo, ...]
    raised: tuple[Raised, ...] = ()
    heard_ms_ago: Count | None = None
    down: bool = False


class ServiceInfo(WireStruct, frozen=True, omit_defaults=True):
    """A service that the client may query: the one channel that it gives (empty: all), the
    percentile, latency and rate that each IAD keeps if they were negotiated, and its areas, without
    those below others of them, at most 1,024."""

    name: Name
    capability: Annotated[str, Meta(pattern=r"^([a-z][a-z0-9_]{0,31})?$(?!\n)")] = ""
    percentile: Finite | None = None
    latency_ms: Finite | None = None
    rate_per_s: Finite | None = None
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_AREAS)] = ()


def check_areas(areas: tuple[str, ...], form: QueryForm) -> None:
    """ValueError if one is malformed, or ``*`` is where it may not be. O(characters)."""
    malformed = first_malformed(areas)
    if malformed < 0 or (areas == (EVERYWHERE,) and form == "about"):
        return
    if EVERYWHERE in areas:
        raise ValueError('the area * stands alone, and only in form "about"')
    raise ValueError(
        f"areas[{malformed}] is no area: {areas[malformed][:MAX_SHOWN]!r}; write names of letters, "
        "digits, _ . and -, separated by /"
    )
