"""One history: a fleet of real processes, faults drawn from a seed, clients, and a verdict."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import msgspec

from agent.alerts.dedup_window import Taken
from agent.alerts.notifications import history_of
from agent.wire.clones import CloneStatus
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.page import GATEWAY
from fleet.testbed.testbed import DRS, TestbedError
from lab.chaos.checker import broken
from lab.chaos.clients import ASK_EVERY_S, Clients, clones_of, has_topic
from lab.chaos.fault_plan import Fault, plan
from lab.chaos.fleet import Fleet, sensor
from lab.chaos.history import CloneCount, Events, History
from lab.chaos.injector import Injector, at_once
from lab.chaos.starvation import Starvation
from testkit.damage import HISTORY

IADS, NODES = 3, 2
# An alert of each node every two seconds.
SENSOR: Final = sensor(0.05)
# What has not come, and of which nothing has come for so long, is lost. A busy machine is slow, but
# not for ever.
HEAL_S: Final = 60.0
MAX_HEAL_S: Final = 300.0
OWNER_MS: Final = 5_000.0
# Broken promises that time may mend: outputs of a clone that moved may come to its home in another
# order, and an earlier one is the latest for a moment.
LATE: Final = ("lost", "came to its master", "not put out", "owners", "came", "took")
LOOK_S: Final = 0.3


def run(seed: int, folder: Path, seconds: float, say: Callable[[str], None]) -> History:
    """The history of `seed`. TestbedError if the fleet does not start."""
    layout = part_of(building_fleet(emulate=False), IADS, NODES)
    masters = [iad.name for iad in layout.iads]
    nodes = [node.name for node in layout.nodes]
    with Fleet(
        layout,
        folder,
        SENSOR,
        market=bool(seed % 2),
        keyed=seed % 4 == 2,
        clones=seed % 3 == 0,
    ) as fleet:
        others = [GATEWAY, *([DRS] if fleet.agreed else [])]
        return live(fleet, seed, plan(seed, masters, nodes, others, seconds), 0.0, say)


def live(
    fleet: Fleet,
    seed: int,
    planned: Sequence[Fault],
    seconds: float,
    say: Callable[[str], None],
    ask_every_s: float = ASK_EVERY_S,
    wait: Callable[[Fault], None] = at_once,
) -> History:
    """What clients saw of the fleet while these faults came, at least for so long. All masters are
    asked so often. Before a fault begins, `wait` returns."""
    history = History(
        seed,
        homes=fleet.homes,
        agreed=fleet.agreed,
        start_s=fleet.start_s,
    )
    with (
        Clients(history, fleet.reached, [*fleet.homes], ask_every_s) as clients,
        Starvation(fleet.processes, fleet.pid, clients.now_s) as starvation,
    ):
        history.starved = starvation.found
        history.began_s = time.time() - clients.now_s()
        first = _first_heard(history, clients)
        injector = Injector(fleet.bed, fleet.network, fleet.machine, seed, wait)
        for fault in injector.carry_out(planned, clients.now_s):
            history.faults.append(fault)
            say(str(fault))
        time.sleep(max(0.0, seconds - clients.now_s()))
        clients.ask_no_more()
        history.ended = [" ".join(child.how_it_ended().split()) for child in fleet.bed.let_go()]
        _heal(fleet, history, first)
    if clients.failed:
        raise clients.failed[0]
    return history


def _first_heard(history: History, clients: Clients) -> dict[tuple[str, str], int]:
    """Wait until an alert of each area has come: everything after those is owed."""
    give_up_s = time.monotonic() + HEAL_S
    while {each.area for each in history.alerts} != {*history.homes}:
        if clients.failed:
            raise clients.failed[0]
        if time.monotonic() > give_up_s:
            raise TestbedError("no alert of some area came before any fault")
        time.sleep(LOOK_S)
    first: dict[tuple[str, str], int] = {}
    for each in [*history.alerts]:
        key = each.area, each.history
        first[key] = min(each.number, first.get(key, each.number))
    return first


def _heal(fleet: Fleet, history: History, first: dict[tuple[str, str], int]) -> None:
    """Until everything that was published and raised before has come, or no more of it comes."""
    give_up_s = time.monotonic() + HEAL_S
    end_s = time.monotonic() + MAX_HEAL_S
    owed = {area: _last_event(fleet, node) for area, (node, _) in fleet.homes.items()}
    taken = {topic: status.outputs for topic, status in _clones(fleet).items()}
    missing: list[str] = []
    while True:
        clones = _clones(fleet)
        history.clones = [
            CloneCount(topic, each.outputs, int(each.output.get("n", 0)), taken.get(topic, 0))
            for topic, each in clones.items()
        ]
        history.events = [*_events(fleet, history, owed, first)]
        masters = fleet.reached.operators
        history.owners = [name for name in masters if has_topic(fleet.reached, name, OWNER_MS)]
        left = [each for each in broken(history) if any(late in each for late in LATE)]
        now_s = time.monotonic()
        if left != missing:
            missing, give_up_s = left, min(end_s, now_s + HEAL_S)
        if not left or now_s > give_up_s:
            return
        time.sleep(LOOK_S)


def _clones(fleet: Fleet) -> dict[str, CloneStatus]:
    """All clones, by topic; TestbedError if a home does not tell of its own for long."""
    give_up_s = time.monotonic() + HEAL_S
    while True:
        found: dict[str, CloneStatus] = {}
        for home in {*fleet.reached.clones.values()}:
            found |= clones_of(fleet.reached, home, OWNER_MS)
        if found.keys() == fleet.reached.clones.keys():
            return found
        if time.monotonic() > give_up_s:
            raise TestbedError("a master tells nothing of its device's clone")
        time.sleep(LOOK_S)


def _last_event(fleet: Fleet, node: str) -> tuple[str, int]:
    """The id of the node's history, and the number of its last event. TestbedError if there is none
    for long: an agent that found it damaged makes a new one."""
    path = fleet.folder(node) / HISTORY
    last = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
    give_up_s = time.monotonic() + HEAL_S
    while True:
        with suppress(sqlite3.OperationalError):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                found = database.execute("SELECT value FROM meta WHERE key = 'history'").fetchone()
                row = database.execute(last).fetchone()
            if found:
                return found[0], row[0] if row else 0
        if time.monotonic() > give_up_s:
            raise TestbedError(f"{node} has no history")
        time.sleep(LOOK_S)


def _events(
    fleet: Fleet,
    history: History,
    owed: dict[str, tuple[str, int]],
    first: dict[tuple[str, str], int],
) -> Iterator[Events]:
    """Histories of nodes, as their masters know them: of a damaged one, what was recorded."""
    hurt = {name for each in history.faults if each.kind == "damage" for name in each.targets}
    of_masters = {iad: fleet.events(iad) for iad in {iad for _, iad in fleet.homes.values()}}
    for area, (node, iad) in fleet.homes.items():
        records = [each for each in of_masters[iad] if each.node == node]
        known = _taken(fleet.folder(iad), node)
        name, last = owed[area]
        for each in {name, *known}:
            of_it = [record for record in records if record.history == each]
            told = history_of(node, each)
            damaged = node in hurt
            window = known.get(each, Taken())
            recorded = tuple([record.sequence for record in of_it if record.trigger])
            yield Events(
                area,
                told,
                first.get((area, told), 1),
                last if each == name else max(recorded, default=0),
                tuple([record.sequence for record in of_it if not record.trigger]),
                0 if damaged else window.mark,
                recorded if damaged else window.sequences,
                damaged=damaged,
            )


def _taken(folder: Path, node: str) -> dict[str, Taken]:
    """What the master's alert store has of each of the node's histories."""
    path = folder / "state-notifications.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT history, body FROM taken WHERE node = ?", (node,))
        return {name: msgspec.msgpack.decode(body, type=Taken) for name, body in rows}
