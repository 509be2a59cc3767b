"""One history: a fleet of real processes, faults drawn from a seed, clients, and a verdict."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
from msgspec.structs import replace

from agent.client import NoReplyError, Operator
from agent.overlay.scot import BrokerId
from agent.wire.edge_config import EdgeChannel, EdgeSensor, EdgeTrigger
from agent.wire.operator import IadStatus
from agent.wire.records import NodeEventRecord
from agent.wire.topics import CreateTopic, ListTopics, Topic, TopicStatus
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.simulation.layout import FleetLayout, building_fleet, part_of
from fleet.testbed.processes import Child
from fleet.testbed.run_records import read_records
from fleet.testbed.testbed import Testbed, TestbedError
from lab.chaos.checker import broken
from lab.chaos.clients import TOPIC, Clients
from lab.chaos.fault_plan import Fault, plan
from lab.chaos.history import History

IADS, NODES = 3, 2
# Every master is every other one's neighbour.
CLUSTERS: Final = OverlayPlan(
    links=(),
    clusters=IADS,
    places={f"iad{n + 1}": BrokerId("a", n) for n in range(IADS)},
)
HOT: Final = EdgeTrigger(name="hot", condition="temperature > 22", clear="temperature < 20")
# Two seconds from one time that it is hot to the next.
SENSOR: Final = EdgeSensor(
    driver="synthetic",
    interval_s=0.05,
    options={"period_s": 40.0, "noise": 0.0, "preload_rows": 600},
    channels={"temperature": EdgeChannel(max_step=10.0, max_rate_per_s=1_000.0)},
)
# After the last fault everything has come within this time, or is lost.
HEAL_S: Final = 60.0
LOOK_S: Final = 0.3
STATES: Final = frozenset({"ready", "running"})
PROCESSOR: Final = """\
def count(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]
"""


def run(seed: int, folder: Path, seconds: float, say: Callable[[str], None]) -> list[str]:
    """The promises that were broken in the history of `seed`, in a line each. TestbedError if the
    fleet does not start."""
    layout = part_of(building_fleet(emulate=False), IADS, NODES)
    sensors = {node.name: SENSOR for node in layout.nodes}
    triggers = {iad.name: (HOT,) for iad in layout.iads}
    with (
        _processor(folder / "processor"),
        Testbed(layout, folder, overlay=CLUSTERS, triggers=triggers, sensors=sensors) as bed,
    ):
        for _ in bed.start():
            pass
        _create_topic(bed)
        masters = [iad.name for iad in layout.iads]
        nodes = [node.name for node in layout.nodes]
        history = History(seed)
        areas = [node.area for node in layout.nodes]
        publics = {iad: bed.public(iad) for iad in masters}
        with Clients(history, publics, areas) as clients:
            for planned in plan(seed, masters, nodes, seconds):
                fault = _carry_out(bed, planned, clients)
                history.faults.append(fault)
                say(str(fault))
            clients.ask_no_more()
            history.ended = [child.how_it_ended() for child in bed.let_go()]
            _heal(bed, layout, history)
        if clients.failed:
            raise clients.failed[0]
        return broken(history)


@contextmanager
def _processor(folder: Path) -> Iterator[None]:
    """A package with the topic's processor, on the path of the masters."""
    info = folder / "counted-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sanderling.processors]\ncount = counted:count\n")
    (folder / "counted.py").write_text(PROCESSOR)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder.absolute()), *filter(None, [before])])
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _create_topic(bed: Testbed) -> None:
    topic = Topic(TOPIC, processor="count", standby=True)
    with Operator(bed.operator(bed.plan.iads[0].name)) as operator:
        report = operator.ask_topic(CreateTopic("chaos", topic))
    if not report.ok:
        raise TestbedError(report.message)


def _carry_out(bed: Testbed, planned: Fault, clients: Clients) -> Fault:
    """The fault as it came, perhaps later than planned."""
    time.sleep(max(0.0, planned.from_s - clients.now_s()))
    if planned.kind == "full disk":
        bed.wait_until(lambda statuses: all(_works(each, statuses) for each in planned.targets))
    from_s = clients.now_s()
    for name in planned.targets:
        match planned.kind:
            case "kill":
                bed.kill(name)
            case "freeze":
                bed.child(name).signal(signal.SIGSTOP)
            case "full disk":
                _limit_files(bed.child(name), 0)
    time.sleep(planned.until_s - planned.from_s)
    for name in planned.targets:
        match planned.kind:
            case "kill":
                bed.spawn(name)
            case "freeze":
                bed.child(name).signal(signal.SIGCONT)
            case "full disk":
                _limit_files(bed.child(name), psutil.RLIM_INFINITY)
    return replace(planned, from_s=round(from_s, 2), until_s=round(clients.now_s(), 2))


def _works(name: str, statuses: dict[str, IadStatus]) -> bool:
    live = {each.node for iad in statuses.values() for each in iad.nodes if each.state == "live"}
    return name in statuses or name in live


def _limit_files(child: Child, most_bytes: int) -> None:
    """From now on the process can write no file beyond so many bytes; the system calls fail. If it
    has ended, that is found at the end of the history."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(child.pid)
        _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most_bytes, hard))


def _heal(bed: Testbed, layout: FleetLayout, history: History) -> None:
    """Until everything that was published and raised before has come, but at most HEAL_S."""
    give_up_s = time.monotonic() + HEAL_S
    for node in layout.nodes:
        path = bed.directory / bed.plan.iad_of(node.name).name / node.name / "history.sqlite"
        history.events[node.area] = _last_event(path)
    while True:
        history.others = _other_events(bed, layout)
        history.owners = _owners(bed)
        left = [each for each in broken(history) if "came twice" not in each]
        if not left or time.monotonic() > give_up_s:
            return
        time.sleep(LOOK_S)


def _last_event(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    return row[0] if row else 0


def _other_events(bed: Testbed, layout: FleetLayout) -> dict[str, list[int]]:
    """Events that are no alerts, by area."""
    found: dict[str, list[int]] = {}
    for iad in layout.iads:
        areas = {node.name: node.area for node in iad.nodes}
        for each in read_records(bed.records(iad.name)):
            if isinstance(each, NodeEventRecord) and not each.trigger:
                found.setdefault(areas[each.node], []).append(each.sequence)
    return found


def _owners(bed: Testbed) -> list[str]:
    found = []
    for iad in bed.plan.iads:
        with Operator(bed.operator(iad.name)) as operator, suppress(NoReplyError):
            topics = operator.ask_topic(ListTopics("chaos"), 1_000.0).topics
            if any(_has_topic(each) for each in topics):
                found.append(iad.name)
    return found


def _has_topic(status: TopicStatus) -> bool:
    return status.topic.name == TOPIC and status.state in STATES
