"""Configuration of a master: every key of its file, with unit and default."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from agent.wire.about import RoomName
from agent.wire.base import MAX_AREAS, TIMEOUT_FACTOR, Area, Channel, Name, Policy
from agent.wire.config import (
    Count,
    File,
    Metrics,
    Positive,
    Section,
    Trust,
    require_guarded,
    require_keys,
    require_reachable,
    require_usable,
)
from agent.wire.overlay_config import MasterOverlay
from agent.wire.pods_config import MasterPods
from agent.wire.webhook_config import MAX_WEBHOOKS, MasterWebhook


class PoolMember(Section, frozen=True):
    """An IAD of the pool: which areas it offers and where its master is."""

    iad: Annotated[Name, Meta(description="Name of the IAD.")]
    address: Annotated[str, Meta(description="Its master's public socket.")]
    areas: Annotated[
        tuple[Area, ...],
        Meta(min_length=1, description="Areas it offers, as fine as queries should distinguish."),
    ]
    keys: Annotated[
        File,
        Meta(
            description="File with its public keys, one a line, at most two; read again at every "
            "reconnection."
        ),
    ] = ""


class MasterSockets(Section, frozen=True):
    """Address at which the master listens: tcp://host:port or ipc://path."""

    public: Annotated[str, Meta(description="For clients and for other masters.")]
    operator: Annotated[str, Meta(description="For this IAD's operator.")]
    nodes: Annotated[
        str, Meta(description="For this IAD's edge nodes; empty: this IAD only schedules.")
    ] = ""
    advertise: Annotated[
        str,
        Meta(description="Where other masters reach the public socket; empty: as in public."),
    ] = ""

    @property
    def reached_at(self) -> str:
        """Where other masters reach the public socket."""
        return self.advertise or self.public


class MasterScheduling(Section, frozen=True):
    """Deadlines and queues."""

    policy: Annotated[
        Policy, Meta(description="Queue order: edfq, sanderling, tedfq, spr or fifo.")
    ] = "edfq"
    window_samples: Annotated[
        Count, Meta(le=65_535, description="Unloaded response times kept per node.")
    ] = 10_000
    # The bounds of window_s and cold_start_ms are those of _core's UnloadedModel.
    window_s: Annotated[
        float, Meta(ge=0.001, le=2_000_000.0, description="Seconds that such a time is kept.")
    ] = 3_600.0
    cold_start_ms: Annotated[
        float,
        Meta(
            ge=0.01,
            le=600_000.0,
            description="Mean unloaded response time assumed before anything was measured, ms.",
        ),
    ] = 100.0
    timeout_factor: Annotated[
        Positive,
        Meta(le=1_000.0, description="Default answer timeout as a multiple of the SLO latency."),
    ] = TIMEOUT_FACTOR


class MasterLiveness(Section, frozen=True):
    """When a node counts as lost."""

    heartbeat_s: Annotated[
        float, Meta(ge=0.01, le=3_600.0, description="Seconds between a node's heartbeats.")
    ] = 1.0
    lost_after: Annotated[
        Count, Meta(le=1_000, description="Heartbeats missed in a row before a node is lost.")
    ] = 3


class MasterProcessing(Section, frozen=True):
    """Message processors of topics."""

    workers: Annotated[
        int,
        Meta(ge=0, le=1_024, description="Worker processes; 0: one for each core."),
    ] = 0
    record_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=86_400.0,
            description="Seconds between records of processors and of placement.",
        ),
    ] = 60.0


class MasterRecords(Section, frozen=True):
    """JSON-lines records of queries, tasks, subtasks, events, processors and moves."""

    directory: Annotated[
        File,
        Meta(description="Folder of the records (relative: to the config file); empty: none."),
    ] = "records"
    rotate_bytes: Annotated[
        int, Meta(ge=4_096, le=2**40, description="A file is closed at this size, in bytes.")
    ] = 16_777_216
    keep_files: Annotated[
        Count, Meta(le=100_000, description="Closed files kept; the oldest go.")
    ] = 16
    flush_s: Annotated[
        Positive, Meta(le=3_600.0, description="Seconds that a record may wait in memory.")
    ] = 1.0


class Offered(Section, frozen=True):
    """An offer of this IAD: a sensing capability and the areas where it is. The DRS learns no
    more."""

    capability: Annotated[
        Channel, Meta(description="What is sensed, named like its channel: temperature.")
    ]
    areas: Annotated[
        tuple[Area, ...],
        Meta(min_length=1, max_length=MAX_AREAS, description="Areas, as coarse as you like."),
    ]


class MasterMarket(Section, frozen=True):
    """The market: where the registration service is, and what this IAD sells."""

    directories: Annotated[
        tuple[str, ...],
        Meta(
            max_length=8,
            description="Addresses of the DRS: the primary, then its mirrors; none: no market.",
        ),
    ] = ()
    directory_keys: Annotated[
        File, Meta(description="File with the DRS's public keys, one a line; mirrors' included.")
    ] = ""
    role: Annotated[
        Literal["iad", "csp"],
        Meta(description="iad registers what it offers; csp only buys, with an account."),
    ] = "iad"
    lease_s: Annotated[
        float, Meta(ge=1.0, le=86_400.0, description="Seconds that a registration lasts.")
    ] = 60.0
    sell: Annotated[
        bool, Meta(description="Whether proposals for what is offered are considered.")
    ] = True
    hold_s: Annotated[
        Positive, Meta(le=3_600.0, description="Seconds that an acceptance holds pods.")
    ] = 30.0


class MasterAutoscale(Section, frozen=True):
    """Pods per node by the percentage of its subtasks that miss their deadline."""

    enabled: Annotated[bool, Meta(description="Whether pods are added and removed.")] = False
    window_s: Annotated[
        float,
        Meta(ge=0.1, le=3_600.0, description="Seconds over which violations are counted."),
    ] = 10.0
    above_percent: Annotated[
        float, Meta(gt=0.0, le=100.0, description="More violations than this: add pods.")
    ] = 2.0
    hysteresis: Annotated[
        float,
        Meta(
            ge=0.01,
            le=1.0,
            description="At most this fraction of above_percent, also with one fewer: remove one.",
        ),
    ] = 0.25
    cool_down_s: Annotated[
        Positive, Meta(le=3_600.0, description="Seconds from a change to the next of that node.")
    ] = 10.0


class MasterClients(Section, frozen=True):
    """Limits of one client."""

    rate_per_s: Annotated[
        Positive,
        Meta(
            le=1e6,
            description="Queries per second of one client, changes of watches and subscriptions "
            "included; the allow-list may differ. Also the tasks per second of another master for "
            "a service without an agreed rate.",
        ),
    ] = 1_000.0
    burst_s: Annotated[
        Positive, Meta(le=3_600.0, description="Seconds of that rate that may come at once.")
    ] = 2.0
    most_connections: Annotated[
        Count,
        Meta(
            le=1_000_000,
            description="Connections that the public socket may have; fewer if the system's "
            "limit of open files is lower. Beyond it the host that has most loses its newest.",
        ),
    ] = 16_384
    most_watches: Annotated[
        Count, Meta(le=10_000, description="Standing queries that one client may have open.")
    ] = 100
    watched_readings_per_s: Annotated[
        Positive,
        Meta(
            le=1e9,
            description="Readings per second that the standing queries of one client may read, "
            "without keys those of all clients of a host, a sensor giving one a second; a round of "
            "a room counts for ten more. All clients: 4 times as many.",
        ),
    ] = 100_000.0
    most_subscriptions: Annotated[
        Count, Meta(le=10_000, description="Subscriptions that one client may have open.")
    ] = 100


class MasterState(Section, frozen=True):
    """State that survives a restart: services, pools, pods, standing queries, and notifications."""

    path: Annotated[
        File,
        Meta(
            description="SQLite file (relative: to the config file); empty: none. Notifications, "
            "durable subscriptions and what is kept of nodes' events are beside it, in a file "
            "whose name has -notifications."
        ),
    ] = "state.sqlite"


class MasterNotifications(Section, frozen=True):
    """Memory for notifications, of alerts and of topics."""

    remembered: Annotated[
        int,
        Meta(
            ge=1_000,
            le=1_000_000,
            description="Notifications that the overlay, and each subscription up to 10,000, "
            "recognise if they come again; all subscriptions together twice as many. Some 120 and "
            "340 bytes each.",
        ),
    ] = 65_536


# Where a socket listens, but nobody can connect to.
ANY_HOST: Final = ("tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:")


# For states and inboxes of units; CPU-seconds a second; seconds of delay a second.
UnitBytes = Annotated[float, Meta(ge=0.0, le=1e15)]
UnitCompute = Annotated[float, Meta(ge=0.0, le=65_536.0)]
MostProcessors = Annotated[Count, Meta(le=256)]
Cost = Annotated[float, Meta(ge=0.0, le=1e6)]
Partners = Annotated[tuple[Name, ...], Meta(max_length=1024)]


class MasterPlacement(Section, frozen=True):
    """This master's capacity for units that may live on any master, such as topics."""

    storage_bytes: Annotated[
        UnitBytes,
        Meta(
            description="Bytes for states and inboxes of topics; 0: no limit. Not counted: "
            "outputs on their way, and inboxes of subscribers."
        ),
    ] = 0.0
    compute: Annotated[
        UnitCompute, Meta(description="CPU-seconds a second for them; 0: all cores.")
    ] = 0.0
    most_processors: Annotated[
        MostProcessors, Meta(description="Topics that may come to live here.")
    ] = 32
    opening_cost: Annotated[
        Cost,
        Meta(description="Price of having any unit at all, in seconds of delay a second."),
    ] = 0.0
    move_cost: Annotated[
        Cost,
        Meta(
            description="A new topic moves, and drift moves a unit, only if that saves more, in "
            "seconds of delay a second.",
        ),
    ] = 0.01
    drift: Annotated[
        bool, Meta(description="Whether units move by themselves when another master is cheaper.")
    ] = False
    alone: Annotated[
        bool,
        Meta(
            description="Tell no other master what is measured here, and give and take no units: "
            "for a pool with masters of other operators."
        ),
    ] = False
    partners: Annotated[
        Partners,
        Meta(
            description="IADs of the overlay's neighbours that are this operator's, too: units "
            "move to their masters as to those of the pool, which know what is measured here.",
        ),
    ] = ()
    bootstrap: Annotated[
        tuple[str, ...],
        Meta(
            max_length=32,
            description="Public sockets of some masters of this operator, this one's own included "
            "or not: masters that have this find each other through them, and are partners. With "
            "keys only those whom the allow-list calls `partner`.",
        ),
    ] = ()
    bootstrap_keys: Annotated[
        str,
        Meta(description="File with the public keys of those masters, if they are reached by TCP."),
    ] = ""
    view: Annotated[
        int,
        Meta(
            ge=2,
            le=48,
            description="Partners that a master finds for itself; further ones only for units "
            "that are pinned or move.",
        ),
    ] = 12
    delegate: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9_.-]{1,64})?$(?!\n)",
            description="IAD of the master that takes topics for which no other has room within "
            "its limits, this one or a partner; the same at all masters. Empty: none.",
        ),
    ] = ""
    model: Annotated[
        str,
        Meta(
            description="File with a latency model (`fleet placement train`): whether topics "
            "keep their objectives on a master is judged by it. Empty: by untrained formulas."
        ),
    ] = ""
    frozen: Annotated[
        bool,
        Meta(description="Neither take nor give units, unless an operator has said otherwise."),
    ] = False
    every_s: Annotated[
        float,
        Meta(
            ge=0.05,
            le=60.0,
            description="Seconds between two messages with what is measured to another master.",
        ),
    ] = 5.0


class MasterIdentity(Section, frozen=True):
    """The IAD that this master runs."""

    name: Annotated[Name, Meta(description="Name of the IAD; the pool has an entry for it.")]
    rooms: Annotated[
        dict[Area, RoomName],
        Meta(max_length=100_000, description="What people call its rooms, by area."),
    ] = field(default_factory=dict)


class MasterConfig(Section, frozen=True):
    """A master's file (`sanderling-master --config`)."""

    iad: MasterIdentity
    sockets: MasterSockets
    pool: Annotated[
        tuple[PoolMember, ...],
        Meta(
            max_length=500,
            description="The IADs of the service `default`, this one included: a fixed pool.",
        ),
    ] = ()
    offers: Annotated[
        tuple[Offered, ...], Meta(max_length=64, description="What this IAD registers.")
    ] = ()
    market: MasterMarket = MasterMarket()
    pods: MasterPods = MasterPods()
    autoscale: MasterAutoscale = MasterAutoscale()
    clients: MasterClients = MasterClients()
    trust: Trust = Trust()
    metrics: Metrics = Metrics()
    state: MasterState = MasterState()
    notifications: MasterNotifications = MasterNotifications()
    overlay: MasterOverlay = MasterOverlay()
    placement: MasterPlacement = MasterPlacement()
    webhook: Annotated[
        tuple[MasterWebhook, ...],
        Meta(max_length=MAX_WEBHOOKS, description="Receivers of notifications."),
    ] = ()
    scheduling: MasterScheduling = MasterScheduling()
    liveness: MasterLiveness = MasterLiveness()
    records: MasterRecords = MasterRecords()
    processing: MasterProcessing = MasterProcessing()

    def __post_init__(self) -> None:
        names: set[str] = set()
        for member in self.pool:
            if member.iad in names:
                raise ValueError(f"the pool names {member.iad} more than once")
            names.add(member.iad)
        if names and self.iad.name not in names:
            raise ValueError(f"the pool has no entry for this IAD, {self.iad.name}")
        trust, keyed = self.trust, bool(self.trust.key)
        for kind in ("public", "nodes", "operator"):
            if (address := getattr(self.sockets, kind)) or kind != "nodes":
                require_guarded(address, f"sockets.{kind}", trust)
        if self.sockets.advertise:
            require_reachable(self.sockets.advertise, "sockets.advertise", keyed=keyed)
        for member in self.pool:
            require_usable(member.address, f"pool.address of {member.iad}", keyed=keyed)
            if member.iad != self.iad.name:
                require_keys(member.address, f"pool.keys of {member.iad}", member.keys, trust)
        for each in self.overlay.neighbour:
            require_usable(each.address, f"overlay.neighbour.address of {each.iad}", keyed=keyed)
            require_keys(each.address, f"overlay.neighbour.keys of {each.iad}", each.keys, trust)
        for address in self.market.directories:
            require_usable(address, "market.directories", keyed=keyed)
            require_keys(address, "market.directory_keys", self.market.directory_keys, trust)
        self._check_told()
        self._check_bootstrap()
        if self.offers and not self.sockets.nodes:
            raise ValueError("offers need edge nodes: set sockets.nodes")

    def _check_told(self) -> None:
        own = self.sockets.reached_at
        for key, told in (
            ("placement.bootstrap", self.placement.bootstrap),
            ("market.directories", self.market.directories),
        ):
            if told and own.startswith(ANY_HOST):
                raise ValueError(f"{key}: other masters cannot dial {own}; set sockets.advertise")

    def _check_bootstrap(self) -> None:
        placement, trust = self.placement, self.trust
        if not placement.bootstrap:
            return
        own = self.sockets.reached_at
        for address in placement.bootstrap:
            require_usable(address, "placement.bootstrap", keyed=bool(trust.key))
            if trust.key and not address.startswith("tcp://"):
                raise ValueError(
                    f"placement.bootstrap = {address!r} has no keys that prove who is there; with "
                    "trust.key, use tcp://"
                )
            if address != own:
                keys = placement.bootstrap_keys
                require_keys(address, "placement.bootstrap_keys", keys, trust)
