"""Configuration of an edge node: every key of its file, with unit and default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, field

from agent.wire.areas import AreaSet
from agent.wire.base import (
    MAX_AREAS,
    MAX_DERIVED,
    MAX_EVENT_AREAS,
    MAX_MASTERS,
    Area,
    Channel,
    Name,
)
from agent.wire.config import (
    DAY_S,
    Count,
    File,
    Metrics,
    Positive,
    Section,
    Trust,
    require_usable,
)

LEAST_RETENTION_BYTES: Final = 1 << 20
MAX_CONDITION: Final = 256
MAX_TRIGGERS: Final = 64
Limit = Annotated[float, Meta(ge=-1e9, le=1e9)]


class EdgeIdentity(Section, frozen=True):
    """The identity of this node."""

    name: Annotated[Name, Meta(description="Name of the node, unique in its IAD.")]
    areas: Annotated[
        tuple[Area, ...],
        Meta(
            min_length=1,
            max_length=MAX_AREAS,
            description="Areas that this node's readings stand for.",
        ),
    ]


class OtherMaster(Section, frozen=True):
    """A master that may become this node's home, too: its home moves there when its master says so
    (docs/understand/edge.md). One such table each."""

    iad: Annotated[Name, Meta(description="The master's IAD.")]
    address: Annotated[str, Meta(description="The master's node socket.")]
    keys: Annotated[
        File, Meta(description="File with the master's public keys, as in [master].")
    ] = ""


class EdgeMaster(Section, frozen=True):
    """Address of the IAD's master: the node's first home, if it has others to choose from."""

    address: Annotated[
        str, Meta(description="The master's node socket, such as tcp://127.0.0.1:5701.")
    ]
    iad: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9_.-]{1,64})?$(?!\n)",
            description="The master's IAD; needed if there are others to choose from.",
        ),
    ] = ""
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
    follow_s: Annotated[
        float,
        Meta(
            ge=0.0,
            le=30 * DAY_S,
            description="Seconds without its home after which the node goes to the next of its "
            "masters on its own; some events may be recorded twice then. 0: it waits.",
        ),
    ] = 0.0
    other: Annotated[tuple[OtherMaster, ...], Meta(max_length=MAX_MASTERS - 1)] = ()

    @property
    def all(self) -> dict[str, EdgeMaster | OtherMaster]:
        """Every master that may be this node's home, by IAD."""
        masters: tuple[EdgeMaster | OtherMaster, ...] = (self, *self.other)
        return {each.iad: each for each in masters}


class EdgeChannel(Section, frozen=True):
    """Settings of one channel of a sensor's driver: ``[sensor.channels.temperature]`` belongs to
    the ``[[sensor]]`` before it. The driver's value r is kept; the value stored, checked and
    answered is gain · r + offset. Omitted limits default to those of the quantity
    (docs/understand/quality.md).
    """

    name: Annotated[
        str,
        Meta(
            pattern=r"^([a-z][a-z0-9_]{0,31})?$(?!\n)",
            description="The channel's name on this node; empty: the driver's.",
        ),
    ] = ""
    unit: Annotated[
        str, Meta(max_length=32, description="Unit of what is stored; empty: the driver's.")
    ] = ""
    offset: Annotated[
        float, Meta(ge=-1e9, le=1e9, description="Added to the value, in the unit stored.")
    ] = 0.0
    gain: Annotated[
        float, Meta(ge=-1e9, le=1e9, description="The value is multiplied by it first.")
    ] = 1.0
    low: Annotated[Limit | None, Meta(description="Lowest plausible value here.")] = None
    high: Annotated[Limit | None, Meta(description="Highest plausible value here.")] = None
    max_step: Annotated[
        Limit | None, Meta(description="A jump of no more than this is never a spike.")
    ] = None
    max_rate_per_s: Annotated[
        Limit | None, Meta(description="Largest plausible change of the quantity per second.")
    ] = None
    flat_s: Annotated[
        Limit | None, Meta(description="Seconds of an unchanged value that count as a flatline.")
    ] = None
    drift: Annotated[
        Limit | None,
        Meta(description="Largest plausible deviation from co-located channels."),
    ] = None

    def __post_init__(self) -> None:
        if self.gain == 0.0:
            raise ValueError("gain must not be 0: every value would be the same")


class EdgeSensor(Section, frozen=True):
    """A sensor and its interval. A node may have several sensors: one such table each."""

    driver: Annotated[
        str, Meta(description="Name of a sensor driver (docs/use/sensors.md).", min_length=1)
    ]
    name: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9_.-]{1,64})?$(?!\n)",
            description="The sensor's name, unique on the node; empty: the driver's.",
        ),
    ] = ""
    interval_s: Annotated[
        float, Meta(ge=0.01, le=DAY_S, description="Seconds between two readings.")
    ] = 1.0
    place: Annotated[
        str,
        Meta(
            max_length=64,
            description="Where it hangs, such as desk. Channels of one quantity and unit in the "
            "same place are compared with each other, to detect drift; empty: not compared.",
        ),
    ] = ""
    options: Annotated[
        dict[str, Any], Meta(description="The driver's own options; see its README.")
    ] = field(default_factory=dict)
    channels: Annotated[
        dict[str, EdgeChannel], Meta(description="By the driver's channel: see below.")
    ] = field(default_factory=dict)

    @property
    def called(self) -> str:
        """The sensor's name."""
        return self.name or self.driver


class EdgeTrigger(Section, frozen=True):
    """When an alert is raised, and when it is cleared: each is an event (docs/use/triggers.md)."""

    name: Annotated[Name, Meta(description="The trigger's name, unique on the node.")]
    condition: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_CONDITION,
            description="What raises it, such as temperature > 30 or rate(temperature) > 2/min; "
            "and, or and parentheses join comparisons of one sensor's channels.",
        ),
    ]
    clear: Annotated[
        str,
        Meta(
            max_length=MAX_CONDITION,
            description="What clears it, such as temperature < 28; empty: that the condition does "
            "not hold.",
        ),
    ] = ""
    for_s: Annotated[
        float, Meta(ge=0, le=DAY_S, description="Seconds that the condition must hold for.")
    ] = 0.0
    clear_for_s: Annotated[
        float, Meta(ge=0, le=DAY_S, description="Seconds that what clears it must hold for.")
    ] = 0.0
    window_s: Annotated[
        Positive, Meta(le=DAY_S, description="Seconds that a rate is taken over.")
    ] = 60.0
    unknown_s: Annotated[
        Positive,
        Meta(
            le=30 * DAY_S,
            description="Seconds without a usable reading of the sensor after which it is cleared.",
        ),
    ] = 300.0
    areas: Annotated[
        tuple[Area, ...],
        Meta(
            max_length=MAX_EVENT_AREAS,
            description="Areas that its events are about, the node's or below; empty: the node's.",
        ),
    ] = ()


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
    retention_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 50,
            description="Most bytes of readings; the oldest are deleted first. 0: only "
            "retention_s limits them.",
        ),
    ] = 0
    group_readings: Annotated[Count, Meta(le=100_000, description="Readings in one row group.")] = (
        600
    )
    commit_s: Annotated[
        Positive,
        Meta(
            le=DAY_S,
            description="Seconds of readings that a power cut may lose; the shorter, the more is "
            "written to the card (docs/understand/history.md).",
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        if 0 < self.retention_bytes < LEAST_RETENTION_BYTES:
            raise ValueError(
                f"retention_bytes must be at least {LEAST_RETENTION_BYTES}, or 0 for no bound"
            )


class EdgeEvents(Section, frozen=True):
    """Events that wait for the master (docs/use/events.md)."""

    most: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Events kept while no master acknowledges them; the oldest are dropped "
            "first, and counted.",
        ),
    ] = 10_000
    backlog_per_s: Annotated[
        float,
        Meta(ge=0.1, le=10_000.0, description="Old events sent per second; new ones go at once."),
    ] = 20.0


class EdgeDerived(Section, frozen=True):
    """Values that the node's clone computes for it: kept in the history, beside the readings
    (docs/understand/edge.md)."""

    channels: Annotated[
        tuple[Channel, ...],
        Meta(
            max_length=MAX_DERIVED,
            description="The values that are kept; empty: all that come, up to 16.",
        ),
    ] = ()


class EdgeActuator(Section, frozen=True):
    """Output for the newest values that the node's clone computes (docs/understand/edge.md)."""

    driver: Annotated[
        str, Meta(description="Name of an actuator driver, such as file; empty: none.")
    ] = ""
    stale_s: Annotated[
        Positive, Meta(le=DAY_S, description="Seconds after which a value is too old to act on.")
    ] = 60.0
    options: Annotated[dict[str, Any], Meta(description="The driver's own options.")] = field(
        default_factory=dict
    )


class EdgePods(Section, frozen=True):
    """Processing units: worker threads that serve one subtask each at a time."""

    count: Annotated[
        int, Meta(ge=1, le=256, description="Number of pods until the master sets another.")
    ] = 1
    containers: Annotated[
        bool,
        Meta(
            description="Whether pods that the master adds are containers on this host "
            "(docs/run/kubernetes.md) rather than threads."
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
    sensor: Annotated[tuple[EdgeSensor, ...], Meta(min_length=1, max_length=32)]
    trigger: Annotated[tuple[EdgeTrigger, ...], Meta(max_length=MAX_TRIGGERS)] = ()
    history: EdgeHistory = EdgeHistory()
    events: EdgeEvents = EdgeEvents()
    derived: EdgeDerived = EdgeDerived()
    actuator: EdgeActuator = EdgeActuator()
    pods: EdgePods = EdgePods()
    metrics: Metrics = Metrics()
    trust: Trust = Trust()

    def __post_init__(self) -> None:
        names = [sensor.called for sensor in self.sensor]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sensors are called {name}: give one of them another name")
        for problem in trigger_problems(self.trigger, self.node.areas):
            raise ValueError(problem)
        keyed = bool(self.trust.key)
        require_usable(self.master.address, "master.address", keyed=keyed)
        if keyed != bool(self.master.keys):
            raise ValueError("trust.key and master.keys come together: one has no use alone")
        for problem in self._problems_of_others(keyed=keyed):
            raise ValueError(problem)

    def _problems_of_others(self, *, keyed: bool) -> Iterator[str]:
        masters = (self.master, *self.master.other)
        if len(masters) > 1 and not self.master.iad:
            yield "master.iad is missing: with several masters each has the name of its IAD"
        for what in ("iad", "address"):
            values = [getattr(each, what) for each in masters]
            for value in values:
                if values.count(value) > 1:
                    yield f"two masters have the {what} {value}: one is enough"
        for other in self.master.other:
            require_usable(other.address, f"address of master {other.iad}", keyed=keyed)
            if keyed != bool(other.keys):
                yield f"master {other.iad}: trust.key and keys come together"


def trigger_problems(triggers: Sequence[EdgeTrigger], areas: Sequence[str]) -> Iterator[str]:
    """Errors in the triggers of a node that covers `areas`, one line each."""
    names = [trigger.name for trigger in triggers]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"two triggers are called {name}: give one of them another name"
    own = AreaSet(areas)
    for trigger in triggers:
        for area in trigger.areas:
            if not own.covers(area):
                yield (
                    f"trigger {trigger.name}: area {area} is none of this node's, nor below one: "
                    f"{', '.join(areas)}"
                )
        if not trigger.areas and len(areas) > MAX_EVENT_AREAS:
            yield (
                f"trigger {trigger.name}: its events cannot name all {len(areas)} areas of this "
                f"node; give it at most {MAX_EVENT_AREAS} as areas"
            )
