"""The fleet of a history: real processes with a topic and a gateway, and what is between them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol, Self

from agent.client import Operator
from agent.overlay.scot import BrokerId
from agent.scheduling.admission import AGREED_BURST, RESERVED
from agent.wire.clones import CloneOf, CreateClone
from agent.wire.edge_config import EdgeChannel, EdgeHistory, EdgeSensor, EdgeTrigger
from agent.wire.master_config import MasterNotifications, MasterRecords, PoolMember
from agent.wire.messages import Slo
from agent.wire.operator import CreateService
from agent.wire.records import NodeEventRecord
from agent.wire.topics import CreateTopic, Topic
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.simulation.layout import FleetLayout, IadLayout
from fleet.testbed import page
from fleet.testbed.keyring import OPERATOR
from fleet.testbed.page import GATEWAY
from fleet.testbed.processes import agent_command
from fleet.testbed.run_records import read_records
from fleet.testbed.testbed import (
    FLUSHED,
    USUAL_HISTORY,
    USUAL_NOTIFICATIONS,
    Testbed,
    TestbedError,
)
from lab.chaos.clients import PERSONS, TOPIC, Reached
from lab.chaos.fault_plan import START_S
from lab.chaos.history import Agreed
from lab.chaos.kept_events import KeptEvents
from testkit.network import Network
from testkit.preload import Preload

HOT: Final = EdgeTrigger(name="hot", condition="temperature > 22", clear="temperature < 20")
# Readings from one time that it is hot to the next.
PERIOD: Final = 40
# The one of the overlay's acyclic factor.
VERTEX: Final = "a"
RATE_PER_S: Final = 20.0
SLO_MS: Final = 3_000.0
SERVICE: Final = "agreed"
PROCESSOR: Final = """\
def count(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]

def tell(message, state):
    state["n"] = state.get("n", 0) + 1
    return [{"n": state["n"], "temperature": message["temperature"]}]
"""


def sensor(interval_s: float) -> EdgeSensor:
    """A sensor that raises an alert every PERIOD readings, and clears it."""
    return EdgeSensor(
        driver="synthetic",
        interval_s=interval_s,
        options={"period_s": float(PERIOD), "noise": 0.0, "preload_rows": 600},
        channels={"temperature": EdgeChannel(max_step=10.0, max_rate_per_s=1_000.0)},
    )


class Elsewhere(Protocol):
    """One more IAD of a fleet, whose processes this does not run."""

    layout: IadLayout
    member: PoolMember

    def start(self, bed: Testbed) -> None:
        """Start it, beside `bed`, whose processes are not up yet. TestbedError."""

    def folder(self, name: str) -> Path:
        """The folder of its master, or of a node, with its state and records."""

    def pid(self, name: str) -> int:
        """The id of its master's process, or of a node's; RuntimeError if it is away."""


class Fleet:
    """A fleet that can be hurt, with a topic and a gateway; with `market` its masters agree on a
    rate, of a registration service. Each node has `of_nodes`, keeps readings as in `history`, and
    masters keep `records` and `notifications`, the gateway `log_entries`. With `clones` the first
    node of each IAD has one, that may leave. With `keyed` all have keys; not with `market`. One IAD
    may be `elsewhere`: its nodes are asked and its master asks, but no unit moves there. A context
    manager."""

    def __init__(
        self,
        layout: FleetLayout,
        folder: Path,
        of_nodes: EdgeSensor,
        *,
        market: bool = False,
        history: EdgeHistory = USUAL_HISTORY,
        records: MasterRecords = FLUSHED,
        notifications: MasterNotifications = USUAL_NOTIFICATIONS,
        log_entries: int | None = None,
        clones: bool = False,
        keyed: bool = False,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._clones = clones
        self._keyed = keyed
        self._layout = layout
        self._of_nodes = of_nodes
        self._history = history
        self._records = records
        self._notifications = notifications
        self._log_entries = log_entries
        self._folder = folder
        self._market = market
        iads = [*layout.iads, *([elsewhere.layout] if elsewhere else [])]
        self.homes = {node.area: (node.name, iad.name) for iad in iads for node in iad.nodes}
        self.agreed: Agreed | None = None

    def __enter__(self) -> Self:
        layout, folder, elsewhere = self._layout, self._folder, self._elsewhere
        with ExitStack() as stack:
            stack.enter_context(_processor(folder / "processor"))
            self.network = stack.enter_context(Network())
            names = [*(iad.name for iad in layout.iads), *(node.name for node in layout.nodes)]
            self.machine = Preload(folder, names)
            self.bed = stack.enter_context(
                Testbed(
                    layout,
                    folder,
                    market=self._market,
                    overlay=overlay_of(layout, *([elsewhere.layout] if elsewhere else [])),
                    triggers={iad.name: (HOT,) for iad in layout.iads},
                    sensors={node.name: self._of_nodes for node in layout.nodes},
                    history=self._history,
                    records=self._records,
                    notifications=self._notifications,
                    route=self.network.route,
                    under=lambda name: self.machine.command(name) if name in names else (),
                    clients=(*PERSONS, GATEWAY) if self._keyed else (),
                    elsewhere=[elsewhere.member] if elsewhere else (),
                )
            )
            if elsewhere is not None:
                elsewhere.start(self.bed)
            begun_s = time.monotonic()
            for _ in self.bed.start():
                pass
            # On a busy machine one takes as long as all of them on an idle one.
            self.start_s = max(START_S, time.monotonic() - begun_s)
            if self._market:
                self.agreed = Agreed(_agree(self.bed), AGREED_BURST, len(self.homes), RESERVED)
            _create_topic(self.bed)
            masters = [iad.name for iad in layout.iads]
            publics = {iad: self.bed.public(iad) for iad in masters}
            if elsewhere is not None:
                # Not one of those at which topics and subscriptions are.
                first, *rest = publics.items()
                publics = dict([first, rest[0], (elsewhere.member.iad, elsewhere.member.address)])
                publics |= dict(rest)
            self.kept = stack.enter_context(KeptEvents({e: self.records(e) for e in publics}))
            self.reached = Reached(
                publics,
                {iad: self.bed.operator(iad) for iad in masters},
                _start_gateway(self.bed, self._log_entries),
                SERVICE if self._market else "default",
                dict(_create_clones(self.bed)) if self._clones else {},
                self.bed.keys,
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of masters, nodes and the gateway."""
        return (*sorted({name for home in self.homes.values() for name in home}), GATEWAY)

    def folder(self, name: str) -> Path:
        """The folder of a master, or of a node: its state and records."""
        elsewhere = self._has(name)
        return elsewhere.folder(name) if elsewhere else self.bed.folder(name)

    def pid(self, name: str) -> int:
        """The id of a process; KeyError or RuntimeError if it is away."""
        elsewhere = self._has(name)
        return elsewhere.pid(name) if elsewhere else self.bed.child(name).pid

    def _has(self, name: str) -> Elsewhere | None:
        elsewhere = self._elsewhere
        if elsewhere and name in {elsewhere.layout.name, *(e.name for e in elsewhere.layout.nodes)}:
            return elsewhere
        return None

    def records(self, iad: str) -> Path:
        """The folder of a master's records."""
        return self.folder(iad) / "records"

    def events(self, iad: str) -> list[NodeEventRecord]:
        """What this master recorded of its nodes: all events that are no alerts, some twice, and
        the alerts of the files that it still has."""
        records = read_records(self.records(iad))
        left = [each for each in records if isinstance(each, NodeEventRecord)]
        return [*left, *self.kept.of(iad)]


def overlay_of(layout: FleetLayout, *elsewhere: IadLayout) -> OverlayPlan:
    """Every master is every other one's neighbour."""
    places = {iad.name: BrokerId(VERTEX, n) for n, iad in enumerate([*layout.iads, *elsewhere])}
    return OverlayPlan(links=(), clusters=len(places), places=places)


def _first_operator(bed: Testbed) -> Operator:
    iad = bed.plan.iads[0].name
    return Operator(bed.operator(iad), bed.keys(OPERATOR, iad))


def _agree(bed: Testbed) -> float:
    """The agreed rate: nodes of a busy machine may keep less than what is asked."""
    areas = tuple([node.area for node in bed.plan.nodes])
    request = CreateService(
        "chaos",
        SERVICE,
        "temperature",
        areas,
        Slo(99.0, SLO_MS),
        RATE_PER_S,
        fewest=len(bed.plan.iads),
    )
    with _first_operator(bed) as operator:
        report = operator.ask_service(request)
    terms = report.services[0].terms if report.ok else None
    if terms is None:
        raise TestbedError(report.message)
    return terms.rate_per_s


def _start_gateway(bed: Testbed, log_entries: int | None) -> tuple[str, str]:
    """Its host:port, and a token that may ask."""
    if why := page.start(bed, log_entries=log_entries):
        raise TestbedError(why)
    config = bed.directory / GATEWAY / page.CONFIG
    command = [*agent_command("fleet"), "gateway", "token", "create", "chaos"]
    command += ["--config", str(config), "--role", "asker"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return page.served_at(bed.directory)[7:-1], done.stdout.split()[-1]


@contextmanager
def _processor(folder: Path) -> Iterator[None]:
    """A package with the processors of topic and clones, on the path of the masters."""
    info = folder / "counted-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sanderling.processors]\ncount = counted:count\ntell = counted:tell\n"
    )
    (folder / "counted.py").write_text(PROCESSOR)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder.absolute()), *filter(None, [before])])
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _create_clones(bed: Testbed) -> Iterator[tuple[str, str]]:
    """The topic of each clone, and the home of its device."""
    for iad in bed.plan.iads:
        device = f"{iad.name}/{iad.nodes[0].name}"
        clone = CloneOf(device, "tell", channels=("temperature",), leaves=True, standby=True)
        with Operator(bed.operator(iad.name), bed.keys(OPERATOR, iad.name)) as operator:
            report = operator.ask_clone(CreateClone("soak", clone))
        if not report.ok:
            raise TestbedError(report.message)
        yield report.clones[0].topic, iad.name


def _create_topic(bed: Testbed) -> None:
    topic = Topic(TOPIC, processor="count", standby=True)
    with _first_operator(bed) as operator:
        report = operator.ask_topic(CreateTopic("chaos", topic))
    if not report.ok:
        raise TestbedError(report.message)
