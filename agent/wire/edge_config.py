"""Configuration of an edge node: every key of its file, with unit and default."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from agent.wire.base import MAX_AREAS, Area, Name
from agent.wire.config import (
    DAY_S,
    Count,
    File,
    Positive,
    Section,
    Trust,
    require_usable,
)


class EdgeIdentity(Section, frozen=True):
    """Who this node is."""

    name: Annotated[Name, Meta(description="Name of the node, unique in its IAD.")]
    areas: Annotated[
        tuple[Area, ...],
        Meta(
            min_length=1,
            max_length=MAX_AREAS,
            description="Areas that this node's readings stand for.",
        ),
    ]


class EdgeMaster(Section, frozen=True):
    """Where the IAD's master is."""

    address: Annotated[
        str, Meta(description="The master's node socket, such as tcp://127.0.0.1:5701.")
    ]
    keys: Annotated[
        File,
        Meta(
            description="File with the master's public keys, one a line, at most two; read again "
            "at every reconnection."
        ),
    ] = ""
    reconnect_first_s: Annotated[
        float,
        Meta(ge=0.01, le=3_600.0, description="Seconds to the first reconnection; doubles."),
    ] = 0.2
    reconnect_longest_s: Annotated[
        float,
        Meta(ge=0.01, le=DAY_S, description="Longest pause between reconnections, in seconds."),
    ] = 30.0


class EdgeSensor(Section, frozen=True):
    """What is read, and how often."""

    driver: Annotated[
        str, Meta(description="Name of a sensor driver: a folder of sensors/.", min_length=1)
    ]
    interval_s: Annotated[
        float, Meta(ge=0.01, le=DAY_S, description="Seconds between two readings.")
    ] = 1.0
    options: Annotated[
        dict[str, Any], Meta(description="The driver's own options; see its README.")
    ] = field(default_factory=dict)


class EdgeHistory(Section, frozen=True):
    """The local history of readings."""

    path: Annotated[
        File,
        Meta(
            min_length=1,
            description="SQLite file; a relative path is taken from the config file's folder.",
        ),
    ] = "history.sqlite"
    retention_s: Annotated[
        Positive, Meta(le=3_660 * DAY_S, description="Seconds that a reading is kept.")
    ] = 3 * DAY_S
    group_readings: Annotated[Count, Meta(le=100_000, description="Readings in one row group.")] = (
        600
    )
    commit_s: Annotated[
        Positive, Meta(le=DAY_S, description="Seconds of readings a power cut may lose.")
    ] = 10.0


class EdgePods(Section, frozen=True):
    """Processing units: worker threads that serve one subtask each at a time."""

    count: Annotated[
        int, Meta(ge=1, le=256, description="Number of pods until the master sets another.")
    ] = 1
    containers: Annotated[
        bool,
        Meta(
            description="Whether pods that the master adds are containers on this host "
            "(docs/kubernetes.md) rather than threads."
        ),
    ] = False
    emulate: Annotated[
        str,
        Meta(
            description="Hardware profile whose service time is added to each subtask (pi4, "
            "pi4-powersave, pi3, pi3-boxed; with -sized after it the time grows with the window); "
            "empty: none."
        ),
    ] = ""


class EdgeConfig(Section, frozen=True):
    """An edge node's file (`sanderling-edge --config`)."""

    node: EdgeIdentity
    master: EdgeMaster
    sensor: EdgeSensor
    history: EdgeHistory = EdgeHistory()
    pods: EdgePods = EdgePods()
    trust: Trust = Trust()

    def __post_init__(self) -> None:
        require_usable(self.master.address, "master.address", keyed=bool(self.trust.key))
        if bool(self.trust.key) != bool(self.master.keys):
            raise ValueError("trust.key and master.keys come together: one has no use alone")
