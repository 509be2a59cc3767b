"""A fleet of real processes on loopback TCP: one master an IAD, one agent an edge node.

>>> with Testbed(part_of(building_fleet(), 2, 2), Path("var/lab")) as bed:  # doctest: +SKIP
...     for progress in bed.start():
...         print(progress.nodes_live, "of", progress.nodes)
...     with Client(bed.public("iad1")) as client:
...         print(client.query(["b1"], last_s=60))
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct, structs

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from agent.wire import config, drs_config, edge_config, master_config, overlay_config
from agent.wire.base import Policy
from agent.wire.operator import IadStatus
from fleet.common.toml import dump
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.simulation.layout import PRELOAD_ROWS, FleetLayout, IadLayout, NodeLayout
from fleet.testbed import processes
from fleet.testbed.keyring import OPERATOR, Keyring
from fleet.testbed.ports import USUAL, claimed, free_ports

READY_TIMEOUT_S: Final = 120.0
STOP_PATIENCE_S: Final = 4.0
LOOK_EVERY_S: Final = 0.1
ANSWER_S: Final = 2.0
HOST: Final = "tcp://127.0.0.1"
# The registration service's name among the processes.
DRS: Final = "drs"
CAPABILITIES: Final = ("temperature", "humidity")
DEFAULT_LIVENESS: Final = master_config.MasterLiveness()
# Written soon enough to show a query's records right after its answer.
FLUSHED: Final = master_config.MasterRecords(flush_s=0.2)
USUAL_NOTIFICATIONS: Final = master_config.MasterNotifications()
USUAL_HISTORY: Final = edge_config.EdgeHistory()
NO_AUTOSCALE: Final = master_config.MasterAutoscale()
Triggers = tuple[edge_config.EdgeTrigger, ...]
NO_TRIGGERS: Final[Mapping[str, Triggers]] = MappingProxyType({})
Sensors = Mapping[str, edge_config.EdgeSensor]
NO_SENSORS: Final[Sensors] = MappingProxyType({})
# The address at which a process (the first name; "*" is any) reaches another one (the second),
# which listens at the third.
Route = Callable[[str, str, str], str]
# The prefix of a process's command, by its name.
Under = Callable[[str], Sequence[str]]


class TestbedError(RuntimeError):
    """The fleet failed; the text says which process and why."""

    __test__ = False  # tells pytest that this is no test case, in spite of its name


class Progress(Struct, frozen=True):
    """How far a starting fleet is."""

    masters_ready: int
    masters: int
    nodes_live: int
    nodes: int


class _Sockets(Struct, frozen=True):
    public: str
    nodes: str
    operator: str


class Testbed:
    """The processes of `plan`, with configurations, logs and records under `directory`.

    Its IADs have a fixed pool, the service `default`; with `market` they register with a DRS
    instead, and services are set up between them. With `overlay` alerts travel between them, of the
    `triggers` that all nodes of an IAD have. A node replays its room, or reads what `sensors` has
    under its name; `history` is every node's, `records` and `notifications` every master's. With
    `usual_port` the first master listens for clients where pages say, if nobody else does. `route`
    puts something between processes, `under` before their commands. With the names of `clients`
    processes want keys, and these have some (`keyring`); not with `market`. IADs that run
    `elsewhere` are in the pool, too, and have places in the overlay.

    A context manager: leaving it stops every process. Should this process die without leaving it,
    the children stop too, because their standard input ends.
    """

    __test__ = False

    def __init__(
        self,
        plan: FleetLayout,
        directory: Path,
        *,
        policy: Policy = "edfq",
        liveness: master_config.MasterLiveness = DEFAULT_LIVENESS,
        preload_rows: int = PRELOAD_ROWS,
        market: bool = False,
        autoscale: master_config.MasterAutoscale = NO_AUTOSCALE,
        overlay: OverlayPlan | None = None,
        triggers: Mapping[str, Triggers] = NO_TRIGGERS,
        sensors: Sensors = NO_SENSORS,
        usual_port: bool = False,
        history: edge_config.EdgeHistory = USUAL_HISTORY,
        records: master_config.MasterRecords = FLUSHED,
        notifications: master_config.MasterNotifications = USUAL_NOTIFICATIONS,
        route: Route = lambda _source, _target, address: address,
        under: Under = lambda _name: (),
        clients: Sequence[str] = (),
        elsewhere: Sequence[master_config.PoolMember] = (),
    ) -> None:
        self.plan = plan
        self.directory = directory
        self._policy = policy
        self._liveness = liveness
        self._preload_rows = preload_rows
        self._market = market
        self._autoscale = autoscale
        self._overlay = overlay
        self._triggers = triggers
        self._sensors = sensors
        self._usual_port = usual_port
        self._history = history
        self._records = records
        self._notifications = notifications
        self._route = route
        self._under = under
        self._clients = clients
        self._elsewhere = {each.iad: each for each in elsewhere}
        self.keyring: Keyring | None = None
        self._claims: list[socket.socket] = []
        self._others: dict[str, list[str]] = {}
        self._children: dict[str, processes.Child] = {}
        self._operators: dict[str, Operator] = {}

    def __enter__(self) -> Self:
        self._leash = processes.Leash()
        self.directory.mkdir(parents=True, exist_ok=True)
        ports = iter(free_ports(3 * len(self.plan.iads) + 1))
        self.directory_address = f"{HOST}:{next(ports)}"
        self._sockets = {
            iad.name: _Sockets(*(f"{HOST}:{next(ports)}" for _ in range(3)))
            for iad in self.plan.iads
        }
        if self._usual_port:
            first = self.plan.iads[0].name
            public = f"{HOST}:{self.port(USUAL)}"
            self._sockets[first] = structs.replace(self._sockets[first], public=public)
        if self._clients:
            others = {iad: each.keys for iad, each in self._elsewhere.items()}
            self.keyring = Keyring(self.plan, self.directory / "keys", self._clients, others)
        if self._market:
            self._write(self._folder(DRS) / "config.toml", self._drs_config())
        for iad in self.plan.iads:
            self._write(self._folder(iad.name) / "config.toml", self._master_config(iad))
            for node in iad.nodes:
                self._write(self._folder(node.name) / "config.toml", self._edge_config(iad, node))
        return self

    def __exit__(self, *_: object) -> None:
        with processes.interrupts_deferred():
            for operator in self._operators.values():
                operator.close()
            self._operators.clear()
            masters = {iad.name for iad in self.plan.iads} | {DRS}
            # Nodes first, so that they can say goodbye.
            for some in (self._children.keys() - masters, self._children.keys() & masters):
                processes.stop([self._children[name] for name in some], STOP_PATIENCE_S)
            self._leash.drop()
            for claim in self._claims:
                claim.close()

    # --- where things are -----------------------------------------------------------------------

    def public(self, iad: str) -> str:
        """Address of a master's socket for clients."""
        return self._sockets[iad].public

    def operator(self, iad: str) -> str:
        """Address of a master's socket for its operator."""
        return self._sockets[iad].operator

    def nodes(self, iad: str) -> str:
        """Address of a master's socket for its nodes."""
        return self._sockets[iad].nodes

    def keys(self, person: str, iad: str) -> KeyFiles | None:
        """The keys of a client, or of the operator, for a master; None if it wants none."""
        return None if self.keyring is None else self.keyring.files(person, iad)

    def records(self, iad: str) -> Path:
        """Folder of a master's records."""
        return self._folder(iad) / "records"

    def child(self, name: str) -> processes.Child:
        """The process of an IAD's master (by the IAD's name) or of a node; KeyError if it was never
        started."""
        return self._children[name]

    @property
    def addresses(self) -> list[str]:
        """Every address on which the fleet listens."""
        return [
            address
            for sockets in self._sockets.values()
            for address in (sockets.public, sockets.nodes, sockets.operator)
        ] + [self.directory_address] * self._market

    def port(self, usual: int) -> int:
        """A port of this machine for a process of the fleet: `usual`, unless it is taken."""
        if (claim := claimed(usual)) is None:
            return free_ports(1)[0]
        self._claims.append(claim)
        return usual

    def _folder(self, name: str) -> Path:
        if name in self._sockets or name in self._others or name == DRS:
            return self.directory / name
        return self.directory / self.plan.iad_of(name).name / name

    # --- start ----------------------------------------------------------------------------------

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> Iterator[Progress]:
        """Start everything and yield how far it is, until every node is live and every master
        reaches the others, or is registered, and its neighbours in the overlay. `TestbedError` if
        a process ends or the time is over."""
        if self._market:
            self.spawn(DRS)
        for iad in self.plan.iads:
            self.spawn(iad.name)
        give_up_s = time.monotonic() + timeout_s
        progress = Progress(0, len(self.plan.iads), 0, len(self.plan.nodes))
        yield progress
        # Masters first: nodes that find no master would pause before they try again.
        yield from self._await(lambda p: p.masters_ready == p.masters, give_up_s, connected=False)
        for node in self.plan.nodes:
            self.spawn(node.name)
        yield from self._await(
            lambda p: (p.masters_ready, p.nodes_live) == (p.masters, p.nodes),
            give_up_s,
            connected=True,
        )

    def _await(
        self, ready: Callable[[Progress], bool], give_up_s: float, *, connected: bool
    ) -> Iterator[Progress]:
        while True:
            self.check()
            statuses = self.statuses()
            progress = Progress(
                sum(self._ready(status, connected=connected) for status in statuses.values()),
                len(self.plan.iads),
                sum(node.state == "live" for s in statuses.values() for node in s.nodes),
                len(self.plan.nodes),
            )
            yield progress
            if ready(progress):
                return
            if time.monotonic() > give_up_s:
                raise TestbedError(self._who_is_late(statuses))
            time.sleep(LOOK_EVERY_S)

    def _who_is_late(self, statuses: dict[str, IadStatus]) -> str:
        live = {n.node for s in statuses.values() for n in s.nodes if n.state == "live"}
        late = [iad.name for iad in self.plan.iads if iad.name not in statuses]
        late += [n.name for n in self.plan.nodes if n.name in self._children and n.name not in live]
        if not late:
            late = [iad for iad, s in statuses.items() if not self._ready(s, connected=True)]
        return f"the fleet is not up in time; waiting for {', '.join(late)}; logs: {self.directory}"

    def _ready(self, status: IadStatus, *, connected: bool) -> bool:
        """Whether a master answers and, with `connected`, is connected to the others."""
        if not connected:
            return True
        links = len(self._overlay.neighbours(status.iad)) if self._overlay else 0
        return not (
            status.unreachable_iads
            or status.registered is False
            or status.counters["overlay_links_up"] < links
        )

    def add(self, name: str, command: list[str]) -> processes.Child:
        """Start one more process, which ends with the fleet."""
        self._others[name] = command
        self._folder(name).mkdir(parents=True, exist_ok=True)
        self.spawn(name)
        return self._children[name]

    def spawn(self, name: str) -> None:
        """Start the master of an IAD, a node, the DRS or one that was added; also again after it
        ended."""
        command = [*self._under(name), *self.command(name), "--exit-on-stdin-eof"]
        log = self._folder(name) / "output.log"
        with processes.interrupts_deferred():
            self._children[name] = processes.Child(name, command, log, self._leash)

    def command(self, name: str) -> list[str]:
        """The command line of that process, also for starting it by hand."""
        if name in self._others:
            return self._others[name]
        kind = "sanderling-master" if name in self._sockets else "sanderling-edge"
        if name == DRS:
            kind = "sanderling-drs"
        config_file = self._folder(name) / "config.toml"
        return [*processes.agent_command(kind), "--config", str(config_file)]

    # --- while it runs --------------------------------------------------------------------------

    def check(self) -> None:
        """`TestbedError` with its last output if a process ended unexpectedly."""
        for child in self._children.values():
            if not child.running:
                raise TestbedError(child.how_it_ended())

    def let_go(self) -> list[processes.Child]:
        """Processes that ended by themselves since the last call. They are forgotten: the fleet
        continues without them."""
        gone = [child for child in self._children.values() if not child.running]
        for child in gone:
            del self._children[child.name]
        return gone

    def statuses(self) -> dict[str, IadStatus]:
        """The status of every IAD whose master answers."""
        statuses = {}
        for iad in self.plan.iads:
            child = self._children.get(iad.name)
            if child is None or not child.running:
                self._forget_operator(iad.name)
                continue
            try:
                statuses[iad.name] = self._operator(iad.name).status(ANSWER_S * 1e3)
            except NoReplyError:
                # Its late reply would be taken for that of the next request.
                self._forget_operator(iad.name)
        return statuses

    def set_policy(self, policy: Policy) -> None:
        """Order the queues of all IADs by `policy` from now on."""
        for iad in self.plan.iads:
            self._operator(iad.name).set_policy(policy)

    def wait_until(
        self,
        condition: Callable[[dict[str, IadStatus]], bool],
        timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        """Wait until `condition` holds for the IADs' statuses; `TestbedError` if that takes too
        long."""
        give_up_s = time.monotonic() + timeout_s
        while not condition(statuses := self.statuses()):
            if time.monotonic() > give_up_s:
                raise TestbedError(f"not in {timeout_s:g} s; the IADs are: {statuses}")
            time.sleep(LOOK_EVERY_S)

    def kill(self, name: str) -> None:
        """Kill a process, as a power cut would; `spawn` starts it again."""
        child = self._children.pop(name)
        child.signal(signal.SIGKILL)
        child.wait(STOP_PATIENCE_S)

    def stop(self, names: Iterable[str]) -> None:
        """End processes with SIGTERM; `spawn` starts them again."""
        processes.stop([self._children.pop(name) for name in names], STOP_PATIENCE_S)

    def folder(self, name: str) -> Path:
        """Folder of a process: its configuration, log and state."""
        return self._folder(name)

    def _operator(self, iad: str) -> Operator:
        if iad not in self._operators:
            self._operators[iad] = Operator(self.operator(iad), self.keys(OPERATOR, iad))
        return self._operators[iad]

    def _forget_operator(self, iad: str) -> None:
        operator = self._operators.pop(iad, None)
        if operator is not None:
            operator.close()

    # --- configurations -------------------------------------------------------------------------

    def _master_config(self, iad: IadLayout) -> master_config.MasterConfig:
        own = self._sockets[iad.name]
        members = () if self._market else self.plan.iads
        elsewhere = () if self._market else self._elsewhere.values()
        sold = CAPABILITIES if self._market else ()
        advertised = self._route("*", iad.name, own.public)
        directory = self._route(iad.name, DRS, self.directory_address)
        return master_config.MasterConfig(
            iad=master_config.MasterIdentity(name=iad.name),
            sockets=master_config.MasterSockets(
                public=own.public,
                nodes=own.nodes,
                operator=own.operator,
                advertise=advertised if advertised != own.public else "",
            ),
            pool=(
                *(
                    master_config.PoolMember(
                        iad=other.name,
                        address=self._reached(iad.name, other.name),
                        areas=other.areas,
                        keys=self._public_of(other.name) if other is not iad else "",
                    )
                    for other in members
                ),
                *elsewhere,
            ),
            offers=tuple(
                master_config.Offered(capability=capability, areas=iad.areas) for capability in sold
            ),
            market=master_config.MasterMarket(directories=(directory,) if self._market else ()),
            scheduling=master_config.MasterScheduling(policy=self._policy),
            liveness=self._liveness,
            autoscale=self._autoscale,
            overlay=self._overlay_section(iad),
            placement=master_config.MasterPlacement(partners=self._neighbours(iad)),
            records=self._records,
            notifications=self._notifications,
            trust=self._trust(iad.name),
        )

    def _trust(self, name: str) -> config.Trust:
        return config.Trust() if self.keyring is None else self.keyring.trust(name)

    def _public_of(self, name: str) -> str:
        """The file with its public keys; empty if it has none."""
        return "" if self.keyring is None else self.keyring.public(name)

    def _overlay_section(self, iad: IadLayout) -> overlay_config.MasterOverlay:
        if self._overlay is None:
            return overlay_config.MasterOverlay()
        return self._overlay.section(
            iad.name, lambda other: (self._reached(iad.name, other), self._public_of(other))
        )

    def _reached(self, source: str, target: str) -> str:
        if target in self._elsewhere:
            return self._elsewhere[target].address
        public = self.public(target)
        return public if source == target else self._route(source, target, public)

    def _neighbours(self, iad: IadLayout) -> tuple[str, ...]:
        """All masters here are one operator's."""
        found = self._overlay.neighbours(iad.name) if self._overlay else ()
        return tuple([name for name in found if name in self._sockets])

    def _drs_config(self) -> drs_config.DrsConfig:
        return drs_config.DrsConfig(sockets=drs_config.DrsSockets(public=self.directory_address))

    def _edge_config(self, iad: IadLayout, node: NodeLayout) -> edge_config.EdgeConfig:
        return edge_config.EdgeConfig(
            node=edge_config.EdgeIdentity(name=node.name, areas=(node.area,)),
            master=edge_config.EdgeMaster(
                address=self._route(node.name, iad.name, self._sockets[iad.name].nodes),
                reconnect_longest_s=2.0,
                keys=self._public_of(iad.name),
            ),
            sensor=(self._sensors.get(node.name) or self._replayed(node.room),),
            trigger=self._triggers.get(iad.name, ()),
            history=self._history,
            pods=edge_config.EdgePods(emulate=node.profile),
            trust=self._trust(node.name),
        )

    def _replayed(self, room: str) -> edge_config.EdgeSensor:
        rows = self._preload_rows
        options = {"room": room, "start_row": rows, "preload_rows": rows}
        return edge_config.EdgeSensor(driver="replay", options=options)

    def _write(self, path: Path, content: config.Section) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump(content), encoding="utf-8")
