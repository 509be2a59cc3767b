"""Nobody lies, but masters get no processor for a while, are killed or restarted, their disks are
slow or full, connections are cut, and clocks are set. Nothing raises; afterwards each thing is at
one place, all masters agree on that, nothing is under way, and each query has had its one answer.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Final

from agent.wire import messages as m
from agent.wire import topics as t
from agent.wire.clones import CloneReport, ListClones
from agent.wire.handover import ListMoves, MoveReport
from agent.wire.market import Service
from agent.wire.operator import IadStatus, ListServices, ServiceReport, StatusRequest
from agent.wire.placement import PlacementReport, ShowPlacement
from tests.fuzz.campaign import Finding
from tests.fuzz.honest import AGGREGATE, TOPICS, Pair, Script, serves
from tests.fuzz.parties import IADS
from tests.fuzz.watcher import Watcher
from tests.fuzz.world import DRS, World

NODES: Final = ("good", "bad", "roam", "far")
PAIRS: Final = (*combinations((*IADS, DRS), 2), *product(NODES, IADS))
STEPS: Final = (20, 200, 800, 3_000)
"""Of an outage: a tenth of a second to fifteen."""
CLOCK_MS: Final = (1_000, 30_000, 3_600_000)
SHARE: Final = 0.1
"""Of actions that an outage precedes."""
REST: Final = 16_000
"""Steps after which all is at rest: the longest wait is for a silent client, a minute."""
REST_EACH: Final = 100
OVER: Final = ("settled", "aborted")
OLD_MS: Final = 60_000
"""Of a move that should be over."""
OUTAGES: Final = (
    "cut",
    "alone",
    "freeze",
    "clock",
    "restart",
    "kill",
    "registration",
    "slow",
    "full",
)
SLOW_S: Final = (0.0, 0.05, 0.5, 2.0)


class Outages(Script):
    """A script with outages. Each topic is made at one master only, and removed where it lives. The
    pair's subscription moves, too."""

    homes = (*Script.homes, *["client/subscriber/s"] * 6)

    def __init__(self, world: World, seed: str, share: float = SHARE) -> None:
        super().__init__(world, seed)
        self._share = share
        self.outages = 0
        self.clocks = self._draw.random() < 0.5
        """Whether clocks may be set."""
        self.asked: dict[str, str] = {}
        """The master that each query was sent to, without those that were lost with a master."""

    def act(self) -> None:
        """One action, and perhaps an outage before it."""
        if self._draw.random() < self._share:
            self._outage()
        super().act()

    def _outage(self) -> None:
        self.outages += 1
        draw, world = self._draw, self._world
        kind, steps = draw.choice(OUTAGES), draw.choice(STEPS)
        one = draw.choice((*IADS, *IADS, *NODES))
        match kind:
            case "cut":
                world.cut(*draw.choice(PAIRS), steps)
            case "alone":
                for other in {*IADS, DRS} - {one}:
                    world.cut(one, other, steps)
            case "freeze":
                world.freeze(draw.choice((one, one, one, DRS)), steps)
            case "registration":
                world.restart(DRS)
            case "clock" if self.clocks:
                world.wall_ms += draw.choice((-1, 1)) * draw.choice(CLOCK_MS)
            case "slow":
                world.slow_down(one, draw.choice(SLOW_S))
            case "full":
                world.fill(one, steps)
            case "restart" | "kill" if world.durable or one in NODES:
                world.restart(one, kill=kind == "kill")
                self.asked = {id_: iad for id_, iad in self.asked.items() if iad != one}

    def _restart(self) -> None:
        pass  # an outage

    def _client(self) -> tuple[str, str]:
        return "app", self._draw.choice(IADS)

    def _sent(self, iad: str, query: m.Query) -> None:
        self.asked[query.id] = iad

    def _topic(self) -> None:
        draw, name = self._draw, self._draw.choice(TOPICS)
        topics = {
            "notes": t.Topic("notes"),
            "kept": t.Topic("kept", standby=True),
            "floor": t.Topic(
                "floor", ("iad1", "iad2"), ("temperature",), 1.0, "aggregate", AGGREGATE
            ),
            "climate": t.Topic(
                "climate", processor="threshold", parameters={"when": "value > 3"}, standby=True
            ),
        }
        if draw.random() < 0.8:
            home = IADS[TOPICS.index(name) % len(IADS)]
            self._world.masters[home].ask(t.CreateTopic("c", topics[name]))
            return
        for iad, status in statuses(self._world):
            if status.topic.name == name:
                told = self._world.masters[iad].ask(t.RemoveTopic("r", name))
                assert isinstance(told, t.TopicReport)
                if told.ok and not told.message:  # else it went on, and lives elsewhere now
                    for other in IADS:
                        self._world.masters[other].ask(t.RemoveTopic("r", name))
                return


def statuses(world: World) -> Iterator[tuple[str, t.TopicStatus]]:
    """All topics, each with the master that says it has it."""
    for iad, master in world.masters.items():
        told = master.ask(t.ListTopics("l"))
        assert isinstance(told, t.TopicReport)
        for status in told.topics:
            yield iad, status


def run(folder: Path, actions: int, seed: str, share: float = SHARE) -> int:
    """So many actions of honest parties, before `share` of which there is an outage; how many there
    were. Finding if a process raises, or if afterwards something is not as it should be."""
    draw = random.Random(f"{seed} world")
    world = World(folder, draw, lambda _, frame: [frame], agents=True)
    script = Outages(world, f"{seed} script", share)
    action = 0
    try:
        world.settle(200)
        pair, watcher = Pair(world, moves=True), Watcher(world)
        for action in range(1, actions + 1):  # noqa: B007 - told if it ends here
            script.act()
            world.settle(draw.choice((1, 5, 20, 100)))
            pair.act()
            watcher.act()
        world.end_outages()
        for _ in range(REST // REST_EACH):
            world.settle(REST_EACH)
            watcher.act()
        found = [*unrest(world), *unanswered(world, script)]
        assert not found, "\n".join(found)
        serves(world)
        pair.is_served()
        watcher.act()
        watcher.is_served(clocks=script.clocks)
    except Exception as error:
        raise Finding(
            f"action {action} of seed {seed!r}: {type(error).__name__}: {error}"
        ) from error
    finally:
        world.close()
    return script.outages


def unanswered(world: World, script: Outages) -> Iterator[str]:
    """Queries that had no answer, or several."""
    answers = Counter(
        each.id for _, each in world.heard.get("app", ()) if isinstance(each, m.Answer)
    )
    for id_, iad in script.asked.items():
        if answers[id_] != 1:
            yield f"query {id_} to {iad} has {answers[id_]} answers"


def unrest(world: World) -> Iterator[str]:
    """What is at no place or at several, of what masters differ, and what is still under way."""
    homes: dict[str, list[str]] = defaultdict(list)
    for iad, status in statuses(world):
        homes[status.topic.name].append(iad)
        # Frames come one by one here, so that time which a master was frozen counts as its nodes'.
        slow = "cannot be kept" in status.trouble
        if status.trouble and not slow and status.topic.clone is None:
            yield f"topic {status.topic.name} at {iad}: {status.trouble}"
    yield from (f"topic {name} is at {iads}" for name, iads in homes.items() if len(iads) > 1)
    yield from _clones_elsewhere(world, homes)
    yield from _pools_that_differ(world)
    yield from _views_that_differ(world)
    live: dict[str, list[str]] = defaultdict(list)
    for iad in IADS:
        yield from _at_work(world, iad, live)
    for name, node in world.nodes.items():
        if live[name] != [node.iad]:
            yield f"node {name} of {node.iad} is live at {live[name]}"


def _clones_elsewhere(world: World, homes: dict[str, list[str]]) -> Iterator[str]:
    for master in world.masters.values():
        told = master.ask(ListClones("l"))
        assert isinstance(told, CloneReport)
        for clone in told.clones:
            if homes[clone.topic] != [clone.iad]:
                yield f"clone {clone.topic} is at {homes[clone.topic]}, not at {clone.iad}"


def _pools_that_differ(world: World) -> Iterator[str]:
    services: dict[tuple[str, str], dict[str, Service]] = defaultdict(dict)
    for iad, master in world.masters.items():
        told = master.ask(ListServices("l"))
        assert isinstance(told, ServiceReport)
        for service in told.services:
            services[service.id, service.owner][iad] = service
    for (name, owner), at in services.items():
        pools = {(each.version, tuple(one.iad for one in each.members)) for each in at.values()}
        members = {owner, *(iad for _, iads in pools for iad in iads)}
        if name != "default" and (len(pools) > 1 or members != set(at)):
            yield f"service {name} of {owner}: {pools}, known at {sorted(at)}"


def _views_that_differ(world: World) -> Iterator[str]:
    """Of one master's mode and topics."""
    views: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for master in world.masters.values():
        told = master.ask(ShowPlacement("s"))
        assert isinstance(told, PlacementReport)
        for each in told.known:
            topics = tuple(sorted(topic.name for topic in each.facts.topics))
            views[each.facts.iad].add((each.facts.mode, topics, each.silent))
    yield from (f"{iad} is seen as {seen}" for iad, seen in views.items() if len(seen) > 1)


def _at_work(world: World, iad: str, live: dict[str, list[str]]) -> Iterator[str]:
    """What a master still works on, at each of several looks: rounds of watches come and go. Adds
    the nodes that it calls live."""
    for _ in range(40):
        status = world.masters[iad].ask(StatusRequest())
        assert isinstance(status, IadStatus)
        if not (status.open_queries or status.open_tasks):
            break
        world.settle(31)
    else:
        yield f"{iad} has {status.open_queries} queries and {status.open_tasks} tasks open"
    for node in status.nodes:
        if node.state == "live":
            live[node.node].append(iad)
    if status.unreachable_iads:
        yield f"{iad} does not reach {status.unreachable_iads}"
    if not status.registered:
        yield f"{iad} is not registered"
    told = world.masters[iad].ask(ListMoves("l"))
    assert isinstance(told, MoveReport)
    begun_ms = world.wall_ms - OLD_MS
    old = [each for each in told.moves if each.state not in OVER and each.since_ms < begun_ms]
    yield from (f"at {iad}: {each}" for each in old)
