"""The inventory: every key of ``fleet.toml``, with unit and default."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from agent.wire.about import RoomName
from agent.wire.base import (
    MAX_AREAS,
    MAX_CHANNELS,
    MAX_MASTERS,
    MAX_TIMEOUT_MS,
    Area,
    Channel,
    Finite,
    Name,
    SloPercentile,
    Text,
)
from agent.wire.clones import Device
from agent.wire.config import DAY_S, File, Metrics, Section
from agent.wire.edge_config import (
    MAX_TRIGGERS,
    EdgeHistory,
    EdgePods,
    EdgeSensor,
    EdgeTrigger,
)
from agent.wire.master_config import (
    Cost,
    MasterAutoscale,
    MasterClients,
    MasterLiveness,
    MasterNotifications,
    MasterRecords,
    MasterScheduling,
    MostProcessors,
    Offered,
    Partners,
    UnitBytes,
    UnitCompute,
)
from agent.wire.overlay_config import Cluster, OverlayAdvertisement
from agent.wire.topics import MAX_PARAMETERS, MAX_PEERS, Interval, Parameter
from agent.wire.webhook_config import MAX_WEBHOOKS, Receiver

Model = Literal["pi3", "pi4", "zero2w", "host"]
MODELS: Final[tuple[Model, ...]] = ("pi3", "pi4", "zero2w", "host")
# A host name or address without a port; DNS label rules are left to the resolver.
Host = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?$(?!\n)")]
User = Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_-]{0,31}$(?!\n)")]
Routing = Literal["idr", "snr"]
Port = Annotated[int, Meta(ge=1, le=65_535)]
JumpName = Annotated[str, Meta(pattern=r"^([A-Za-z0-9_.-]{1,64})?$(?!\n)")]
RELEASE_ID: Final = r"^([A-Za-z0-9][A-Za-z0-9_.+-]{0,63})?$(?!\n)"
ReleaseId = Annotated[str, Meta(pattern=RELEASE_ID)]


class Ssh(Section, frozen=True):
    """How hosts are logged in to. Host keys are pinned before a host is flashed."""

    user: Annotated[User, Meta(description="Who logs in; may use sudo without a password.")] = (
        "fleet"
    )
    port: Annotated[Port, Meta(description="Port of sshd.")] = 22
    key: Annotated[
        File,
        Meta(
            description="Private SSH key; empty: the one that `fleet keys init` makes. The SSH "
            "agent signs for one with a passphrase, or of which only KEY.pub is there."
        ),
    ] = ""
    connect_s: Annotated[
        float, Meta(gt=0.0, le=600.0, description="Seconds until a host that is silent is dead.")
    ] = 10.0


class JumpHost(Section, frozen=True):
    """A machine through which hosts are logged in to (SSH's ProxyJump). Its host key is pinned by
    `fleet keys adopt NAME`, unless it is a host of the fleet."""

    name: Annotated[Name, Meta(description="Its name in `jump` of an IAD or host.")]
    address: Annotated[Host, Meta(description="Host name or address, for SSH.")]
    user: Annotated[User | None, Meta(description="Who logs in; left out: ssh.user.")] = None
    port: Annotated[Port | None, Meta(description="Port of sshd; left out: ssh.port.")] = None


class Releases(Section, frozen=True):
    """The releases of hosts, and how many a host keeps."""

    pin: Annotated[
        ReleaseId,
        Meta(description="Release of the whole fleet; empty: the one built from these sources."),
    ] = ""
    keep: Annotated[int, Meta(ge=2, le=50, description="Releases kept on a host.")] = 3


class Person(Section, frozen=True):
    """Somebody, or an application, with keys of their own."""

    name: Annotated[Name, Meta(description="Name in allow-lists.")]
    roles: Annotated[
        tuple[Literal["client", "operator"], ...],
        Meta(min_length=1, description="client may send queries, operator sees an IAD's state."),
    ]
    ssh_keys: Annotated[
        tuple[str, ...],
        Meta(max_length=16, description="Public SSH keys that may log in to every host."),
    ] = ()
    services: Annotated[
        tuple[Name, ...] | None, Meta(description="Services they may query; left out: every one.")
    ] = None
    rate_per_s: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e6)] | None,
        Meta(description="Queries a second; left out: the master's default."),
    ] = None


class Homes(Section, frozen=True):
    """Masters beside that of its own IAD that may become a node's home
    (docs/understand/edge.md)."""

    other: Annotated[
        tuple[Name, ...],
        Meta(
            min_length=1,
            max_length=MAX_MASTERS - 1,
            description="IADs whose masters may be its home, too. They let it in, and offer its "
            "areas.",
        ),
    ]
    follow_s: Annotated[
        float,
        Meta(
            ge=0.0,
            le=30 * DAY_S,
            description="Seconds without its home after which it goes to the next master on its "
            "own; some events may be recorded twice then. 0: it waits.",
        ),
    ] = 0.0


class CloneObjective(Section, frozen=True):
    """Objective for the time from a message's arrival until the clone has processed it."""

    percentile: Annotated[
        SloPercentile, Meta(description="The percentile of these times, such as 90.")
    ]
    latency_ms: Annotated[
        float, Meta(gt=0.0, le=MAX_TIMEOUT_MS, description="At most so many milliseconds.")
    ]


class DeviceClone(Section, frozen=True):
    """A node's clone (docs/use/clones.md), which `fleet clone apply` has made."""

    processor: Annotated[Name, Meta(description="What each message goes through.")]
    set: Annotated[
        dict[Channel, Parameter],
        Meta(max_length=MAX_PARAMETERS, description="The processor's parameters."),
    ] = msgspec.field(default_factory=dict)
    every_s: Annotated[Interval, Meta(description="Seconds between two readings of the node.")] = (
        1.0
    )
    channels: Annotated[
        tuple[Channel, ...],
        Meta(max_length=MAX_CHANNELS, description="Channels that it gets; none: all."),
    ] = ()
    peers: Annotated[
        tuple[Device, ...],
        Meta(
            max_length=MAX_PEERS,
            description="Devices whose clones it hears: IAD/NODE. Of a group's, a node leaves "
            "itself out.",
        ),
    ] = ()
    peers_where: Annotated[
        Text,
        Meta(
            description="A filter, such as 'temperature > 30': it hears clones whose outputs match."
        ),
    ] = ""
    service: Annotated[Name, Meta(description="The service that reads the node.")] = "default"
    slo: Annotated[
        CloneObjective | None, Meta(description="How fast it is to be; left out: no objective.")
    ] = None
    limits: Annotated[
        dict[Channel, Finite],
        Meta(
            max_length=MAX_PARAMETERS,
            description="What its processor may take, where that is not the usual: cpu_s, "
            "memory_bytes, waiting and others (docs/use/processors.md).",
        ),
    ] = msgspec.field(default_factory=dict)
    leaves: Annotated[
        bool,
        Meta(description="Whether it may live at other IADs' masters, under a pseudonym."),
    ] = False
    standby: Annotated[
        bool,
        Meta(
            description="Whether another IAD's master takes it over if its own dies; with leaves."
        ),
    ] = False


class Group(Section, frozen=True):
    """Settings that several nodes have in common; a node's own settings go before them."""

    name: Annotated[Name, Meta(description="Name of the group.")]
    release: Annotated[
        ReleaseId, Meta(description="Release of these nodes; empty: releases.pin.")
    ] = ""
    canary: Annotated[
        bool, Meta(description="Whether a rollout starts with one of these nodes.")
    ] = False
    sensor: Annotated[tuple[EdgeSensor, ...], Meta(max_length=32)] = ()
    trigger: Annotated[tuple[EdgeTrigger, ...], Meta(max_length=MAX_TRIGGERS)] = ()
    history: EdgeHistory | None = None
    pods: EdgePods | None = None
    homes: Homes | None = None
    clone: DeviceClone | None = None


class Node(Section, frozen=True):
    """An edge node."""

    name: Annotated[Name, Meta(description="Name, unique in its IAD.")]
    address: Annotated[Host, Meta(description="Host name or address, for SSH.")]
    areas: Annotated[
        tuple[Area, ...],
        Meta(min_length=1, max_length=MAX_AREAS, description="Areas its readings stand for."),
    ]
    model: Annotated[
        Model, Meta(description="pi3, pi4, zero2w; host: any other machine with Debian.")
    ] = "pi4"
    groups: Annotated[tuple[Name, ...], Meta(max_length=16, description="Its groups.")] = ()
    release: Annotated[
        ReleaseId, Meta(description="Its release; empty: its group's, or releases.pin.")
    ] = ""
    user: Annotated[User | None, Meta(description="Who logs in; left out: ssh.user.")] = None
    port: Annotated[Port | None, Meta(description="Port of sshd; left out: ssh.port.")] = None
    jump: Annotated[
        JumpName | None,
        Meta(description="Its `[[jump]]`; empty: none; left out: its IAD's."),
    ] = None
    sensor: Annotated[tuple[EdgeSensor, ...], Meta(max_length=32)] = ()
    trigger: Annotated[tuple[EdgeTrigger, ...], Meta(max_length=MAX_TRIGGERS)] = ()
    history: EdgeHistory | None = None
    pods: EdgePods | None = None
    homes: Homes | None = None
    clone: DeviceClone | None = None
    metrics: Metrics | None = None


class Units(Section, frozen=True):
    """Limits of a master for units, such as topics and clones, and whether they move by themselves
    (docs/run/placement.md). What is left out of `[iad.master.placement]` is as `[placement]` has
    it; what is left out there, too, is the master's own default."""

    model: Annotated[
        str | None,
        Meta(
            description="Latency model, a file that `fleet placement train` has written, from the "
            "fleet's folder: it is deployed with the configuration.",
        ),
    ] = None
    drift: Annotated[
        bool | None,
        Meta(description="Whether units move by themselves when another master is cheaper."),
    ] = None
    move_cost: Annotated[
        Cost | None,
        Meta(description="They move only if that saves more, in seconds of delay a second."),
    ] = None
    opening_cost: Annotated[
        Cost | None,
        Meta(description="Price of having any unit at all, in seconds of delay a second."),
    ] = None
    compute: Annotated[
        UnitCompute | None, Meta(description="CPU-seconds a second for units; 0: all cores.")
    ] = None
    storage_bytes: Annotated[
        UnitBytes | None, Meta(description="Bytes for states and inboxes; 0: no limit.")
    ] = None
    most_processors: Annotated[
        MostProcessors | None, Meta(description="Topics and clones that may come to live there.")
    ] = None
    partners: Annotated[
        Partners | None,
        Meta(
            description="IADs to whose masters units may move beside those of the pool: neighbours "
            "in the overlay. In `[placement]` each master takes those that are its neighbours."
        ),
    ] = None
    alone: Annotated[
        bool | None,
        Meta(description="Tell no other master what is measured, give and take no units."),
    ] = None


class Master(Section, frozen=True):
    """An IAD's master: where it runs and listens."""

    address: Annotated[
        Host, Meta(description="Host name or address, for nodes, clients, masters and SSH.")
    ]
    local: Annotated[
        bool,
        Meta(
            description="It runs on the operator's own machine: its files are written to the "
            "fleet's folder, and nobody logs in."
        ),
    ] = False
    listen: Annotated[Host, Meta(description="Address that its sockets are bound to.")] = "0.0.0.0"  # noqa: S104 - keyed: docs/understand/trust.md
    nodes_address: Annotated[
        Host | None,
        Meta(
            description="Where its nodes reach it, if elsewhere than everybody; left out: address."
        ),
    ] = None
    public_port: Annotated[Port, Meta(description="For clients and other masters.")] = 5700
    nodes_port: Annotated[Port, Meta(description="For edge nodes.")] = 5701
    operator_port: Annotated[Port, Meta(description="For operators.")] = 5702
    release: Annotated[ReleaseId, Meta(description="Its release; empty: releases.pin.")] = ""
    user: Annotated[User | None, Meta(description="Who logs in; left out: ssh.user.")] = None
    port: Annotated[Port | None, Meta(description="Port of sshd; left out: ssh.port.")] = None
    jump: Annotated[
        JumpName | None,
        Meta(description="Its `[[jump]]`; empty: none; left out: its IAD's."),
    ] = None
    scheduling: MasterScheduling = MasterScheduling()
    liveness: MasterLiveness = MasterLiveness()
    autoscale: MasterAutoscale = MasterAutoscale()
    clients: MasterClients = MasterClients()
    records: MasterRecords = MasterRecords()
    notifications: MasterNotifications = MasterNotifications()
    placement: Units = Units()
    metrics: Metrics = Metrics()
    webhook: Annotated[
        tuple[Receiver, ...],
        Meta(
            max_length=MAX_WEBHOOKS,
            description="Receivers of notifications (webhooks.md); `fleet keys init` makes the "
            "secret of each. `ca` is a path on the master's host.",
        ),
    ] = ()


class Place(Section, frozen=True):
    """An IAD's place in the overlay of masters, which `[overlay]` describes."""

    vertex: Annotated[Name, Meta(description="Its vertex of the acyclic factor.")]
    cluster: Annotated[Cluster, Meta(description="Its cluster, from 0.")] = 0
    advertise: Annotated[
        tuple[OverlayAdvertisement, ...],
        Meta(max_length=64, description='What is published; none: iad = "<this IAD>".'),
    ] = ()


class Iad(Section, frozen=True):
    """An independent sensing administrative domain: a master and its edge nodes."""

    name: Annotated[Name, Meta(description="Name, unique in the fleet.")]
    master: Master
    areas: Annotated[
        tuple[Area, ...],
        Meta(
            max_length=MAX_AREAS,
            description="What it offers in the pool of the service `default`, as fine as queries "
            "should distinguish; left out: the areas of its nodes.",
        ),
    ] = ()
    offers: Annotated[tuple[Offered, ...], Meta(max_length=64)] = ()
    jump: Annotated[
        JumpName,
        Meta(description="The `[[jump]]` that its hosts are behind; empty: none."),
    ] = ""
    overlay: Place | None = None
    node: Annotated[tuple[Node, ...], Meta(max_length=10_000)] = ()


class Overlay(Section, frozen=True):
    """The overlay of masters on which alerts travel: each of its places has one IAD. Left out:
    alerts stay in their IADs."""

    links: Annotated[
        tuple[tuple[Name, Name], ...],
        Meta(max_length=500, description="The acyclic factor: pairs of vertices, a tree."),
    ] = ()
    clusters: Annotated[
        int,
        Meta(ge=1, le=500, description="Vertices of the complete factor: how many clusters."),
    ] = 1
    routing: Annotated[
        Routing, Meta(description="idr goes round congested links, snr does not.")
    ] = "idr"


class Placement(Units, frozen=True):
    """Limits of all masters for units, and whether these move by themselves; whether masters find
    each other; and what `fleet placement follow` does with what they recorded
    (docs/run/placement.md)."""

    find: Annotated[
        bool,
        Meta(
            description="Whether masters find each other, all of them partners: their files get "
            "`placement.bootstrap`, their allow-lists `partner`."
        ),
    ] = False
    delegate: Annotated[
        Name | None,
        Meta(
            description="IAD of the master that takes topics for which no other has room within "
            "its limits; left out: none."
        ),
    ] = None
    follow: Annotated[
        bool,
        Meta(description="Whether it makes the moves that it plans; if not, it only names them."),
    ] = False
    every_s: Annotated[
        float, Meta(ge=1.0, le=604_800.0, description="Seconds between two looks.")
    ] = 3_600.0
    window_s: Annotated[
        float,
        Meta(ge=1.0, le=2_678_400.0, description="Records count that are at most so old, seconds."),
    ] = 3_600.0


class Inventory(Section, frozen=True):
    """Description of a fleet; `fleet init` writes one to begin with."""

    name: Annotated[Name, Meta(description="Name of the fleet.")]
    iad: Annotated[tuple[Iad, ...], Meta(min_length=1, max_length=500)]
    ssh: Ssh = Ssh()
    releases: Releases = Releases()
    overlay: Overlay | None = None
    person: Annotated[tuple[Person, ...], Meta(max_length=1_000)] = ()
    group: Annotated[tuple[Group, ...], Meta(max_length=1_000)] = ()
    jump: Annotated[tuple[JumpHost, ...], Meta(max_length=1_000)] = ()
    placement: Placement = Placement()
    rooms: Annotated[
        dict[Area, RoomName],
        Meta(
            max_length=100_000,
            description='What people call rooms, by area: "b1/f4/r413" = "Meeting 4.13". Answers '
            "show it beside the path.",
        ),
    ] = msgspec.field(default_factory=dict)
