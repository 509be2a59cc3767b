"""Masters that drive `Placer`, `Admission` and `Gossip` in virtual time, over a network that loses
messages and tells old facts, and that die and come back."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from agent.placement.admission import Admission
from agent.placement.membership.gossip import Gossip
from agent.placement.moves import Move
from agent.placement.placer import Placer
from agent.placement.view import View, believed
from agent.placement.world import PlacementError, Unit
from agent.wire.placement import (
    AskGrant,
    Delay,
    GrantTold,
    Listeners,
    PeerRate,
    PlacementFacts,
    Source,
    TopicFacts,
)

ROUND_S = 5.0
LOOK_S = 0.25
K = 0.01


class Clone(Struct):
    """What the world knows of a clone: where its device is, and what it hears from whom."""

    home: str
    rate: float
    cpu_ms: float
    hears: dict[str, float]


class Trouble(Struct):
    """What goes wrong."""

    loss: float = 0.0
    age: int = 0  # rounds that facts may be late: as many from one master to another
    mixed: bool = False  # or each as many as it likes, so that they overtake each other
    deaths: float = 0.0  # of all masters together, a round
    aborts: float = 0.0  # of moves that have begun
    longest_s: float = ROUND_S  # that a handover takes


class Master:
    """One process of a master after the other."""

    def __init__(self, world: Masters, iad: str) -> None:
        self.world, self.iad = world, iad
        self.epoch, self.up = 0, False
        self.start()

    def start(self) -> None:
        """With nothing in memory."""
        self.epoch, self.up = self.epoch + 1, True
        now = self.world.now
        self.gossip = Gossip(self.iad, self.epoch, now, ROUND_S, ROUND_S)
        self.placer = Placer(self.iad, drift=True, move_cost=K)
        self.admission = Admission(self.iad, self.epoch, self.placer, now)
        self.look_s = now + self.world.rng.uniform(0.0, ROUND_S)
        self.over: list[tuple[Unit, str]] = []
        self.begun: dict[Unit, Move] = {}

    def facts(self) -> PlacementFacts:
        return self.world.facts(self.iad)

    def view(self, first: Any = ()) -> View:
        fresh = self.gossip.fresh(self.world.now).values()
        return View([self.facts(), *believed(fresh, first)])

    def tick(self, now: float) -> None:
        others = [iad for iad in self.world.masters if iad != self.iad]
        for iad in self.gossip.due(others, True, now):
            told = self.gossip.tell(iad, self.facts(), now)
            self.world.send(self.iad, iad, replace(told, delays=self.world.delays[self.iad]))
        if self.look_s <= now:
            self.look(now)
        self.ask(now)

    def look(self, now: float) -> None:
        for unit, why in self.over:
            del self.begun[unit]
            self.placer.ended(unit, why, now)
            self.admission.over(unit, now)
        self.over.clear()
        self.look_s = now + (LOOK_S if self.begun else ROUND_S)
        unheard = self.gossip.unheard([iad for iad in self.world.masters if iad != self.iad])
        move = self.admission.next_move(self.view(), self.begun, now, unheard)
        if move is not None:
            self.begin(move)

    def ask(self, now: float) -> None:
        if self.admission.failed():
            self.look_s = now + LOOK_S
        for iad, ask in self.admission.due(now):
            self.world.send(self.iad, iad, ask)

    def begin(self, move: Move) -> None:
        self.begun[move.unit] = move
        self.look_s = min(self.look_s, self.world.now + LOOK_S)
        self.world.begin(move)

    def heard(self, source: str, message: Any) -> None:
        now = self.world.now
        match message:
            case PlacementFacts():
                self.gossip.heard(message, now)
            case AskGrant():
                answer = self.admission.asked(message, self.view, self.begun, now)
                facts = None
                if message.step == "ask":
                    facts = self.gossip.newest(source, self.facts(), now)
                    facts = replace(facts, delays=self.world.delays[self.iad])
                told = GrantTold(
                    self.iad, message.epoch, message.number, message.step, *answer, facts
                )
                self.world.send(self.iad, source, told)
            case GrantTold():
                if message.facts is not None:
                    self.gossip.heard(message.facts, now)
                self.admission.told(message, now)
                if self.admission.to_check:
                    self.admission.check(self.view(self.admission.to_check), now)
                    self.ask(now)
                if (move := self.admission.begins(now)) is not None:
                    self.begin(move)


class Masters:
    """The true world. Clones live at the masters of their devices at first."""

    def __init__(self, seed: int, masters: int, clones: int, trouble: Trouble) -> None:
        rng = self.rng = random.Random(seed)
        self.now, self.trouble = 1_000.0, trouble
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        names = [f"m{n}" for n in range(masters)]
        spots = {name: (rng.uniform(0, 90), rng.uniform(0, 90)) for name in names}
        self.delays = {
            one: tuple(
                Delay(other, 10.0 + abs(x - spots[other][0]) + abs(y - spots[other][1]), 100.0)
                for other in names
                if other != one
            )
            for one, (x, y) in spots.items()
        }
        self.clones: dict[str, Clone] = {}
        known: list[str] = []
        for n in range(clones):
            peers = rng.sample(known, min(len(known), rng.randrange(4)))
            hears = {each: rng.uniform(0.2, 2.0) for each in peers}
            name = f"c{n}"
            for each in peers:
                if rng.random() < 0.7:  # Others hear without being heard.
                    self.clones[each].hears[name] = rng.uniform(0.2, 2.0)
            at = rng.choice(names)
            self.clones[name] = Clone(at, rng.uniform(0.0, 0.4), rng.uniform(10.0, 60.0), hears)
            known.append(name)
        demand = sum(
            (each.rate + sum(each.hears.values())) * each.cpu_ms / 1e3
            for each in self.clones.values()
        )
        self.age = {(one, two): rng.randrange(trouble.age + 1) for one in names for two in names}
        self.compute = max(demand / masters / 0.5, 0.5)
        self.where = {name: each.home for name, each in self.clones.items()}
        self.under_way: dict[Unit, Move] = {}
        self.moves: list[tuple[float, Move]] = []
        self.rises: list[str] = []
        self.masters: dict[str, Master] = {}
        for name in names:
            self.masters[name] = Master(self, name)
        self.first = self.cost()

    # -- the truth -------------------------------------------------------------------------------

    def facts(self, iad: str) -> PlacementFacts:
        here = [name for name, at in self.where.items() if at == iad]
        topics = tuple([self.topic(name) for name in here])
        homes = [name for name, each in self.clones.items() if each.home == iad]
        return PlacementFacts(
            iad, 0, 0, ROUND_S, compute=self.compute, topics=topics,
            listeners=tuple([Listeners(name, 1) for name in homes]), delays=self.delays[iad],
        )  # fmt: skip

    def topic(self, name: str) -> TopicFacts:
        each = self.clones[name]
        peers = tuple([PeerRate(peer, rate, self.where[peer]) for peer, rate in each.hears.items()])
        return TopicFacts(name, (Source(each.home, each.rate),), cpu_ms=each.cpu_ms, peers=peers)

    def view(self) -> View:
        return View([self.facts(iad) for iad in self.masters])

    def cost(self) -> float:
        return self.view().price.total()

    # -- the network -----------------------------------------------------------------------------

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (when, next(self.order), what))

    def send(self, source: str, target: str, message: Any) -> None:
        if self.rng.random() < self.trouble.loss:
            return
        late = self.rng.uniform(0.005, 0.2)
        if isinstance(message, PlacementFacts):
            any_age = self.rng.randrange(self.trouble.age + 1)
            late += ROUND_S * (any_age if self.trouble.mixed else self.age[source, target])

        def arrive() -> None:
            if self.masters[target].up:
                self.masters[target].heard(source, message)

        self.at(self.now + late, arrive)

    # -- moves -----------------------------------------------------------------------------------

    def begin(self, move: Move) -> None:
        """As the handover does: the target admits it, and after a while it is there, or not."""
        assert self.where[move.unit.name] == move.source
        assert move.unit not in self.under_way
        self.under_way[move.unit] = move

        def admit() -> None:
            if self.under_way.get(move.unit) is not move:
                return
            target = self.masters[move.target]
            assert move.source is not None
            try:
                why = target.placer.admits(target.view(), move.unit, move.source, self.now)
            except PlacementError as error:
                why = str(error)
            if why:
                self.end(move, why)
            else:
                self.at(self.now + self.rng.uniform(0.1, self.trouble.longest_s), finish)

        def finish() -> None:
            if self.under_way.get(move.unit) is move:
                self.end(move, "aborted" if self.rng.random() < self.trouble.aborts else "")

        self.at(self.now + 0.05, admit)

    def end(self, move: Move, why: str) -> None:
        del self.under_way[move.unit]
        assert move.source is not None
        if not why:
            before = self.cost()
            self.where[move.unit.name] = move.target
            after = self.cost()
            self.moves.append((self.now, move))
            exact = before == inf or after == pytest.approx(before - move.gain, abs=1e-9)
            if after > before - K + 1e-9 or not exact:
                self.rises.append(
                    f"{self.now}: {move} changed the cost by {after - before}, not {-move.gain}"
                )
        source = self.masters[move.source]
        if source.up and move.unit in source.begun:
            source.over.append((move.unit, why))

    def die(self, iad: str) -> None:
        """A process ends; the moves that it has part in are over at once, one way or the other."""
        master = self.masters[iad]
        if not master.up:
            return
        master.up = False
        for move in list(self.under_way.values()):
            if iad in (move.source, move.target):
                self.end(move, self.rng.choice(("", "died")))
        self.at(self.now + self.rng.uniform(1.0, 20 * ROUND_S), master.start)

    # -- time ------------------------------------------------------------------------------------

    def run(self, rounds: float) -> None:
        until = self.now + rounds * ROUND_S
        while self.now < until:
            self.now += LOOK_S
            while self.events and self.events[0][0] <= self.now:
                heapq.heappop(self.events)[2]()
            for master in self.masters.values():
                if master.up:
                    master.tick(self.now)
            if self.rng.random() < self.trouble.deaths * LOOK_S / ROUND_S:
                self.die(self.rng.choice(list(self.masters)))

    def wants(self) -> list[Unit]:
        """The units that the truth would move on."""
        view = self.view()
        found = []
        for unit in view.units():
            best, here = view.price.best(unit), view.placement.where(unit)
            assert best is not None
            assert here is not None
            if view.price.at(unit, here) - view.price.at(unit, best) > K:
                found.append(unit)
        return found
