"""Clients that come, go and move: the product's price and drift mend who lives where, beside a plan
made anew."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
from msgspec import Struct

from agent.placement.congestion import Limits
from agent.placement.drift import Drift
from agent.placement.moves import Move
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Client, Link, Master, Topic, Unit, World
from fleet.placement.homes.case import Bools, Case, Floats
from fleet.placement.homes.planner import Homes
from lab.placement.homes.draw import Setting, draw

PEERS: Final = 2
AWAY: Final = 0.2  # of all clients, at the begin
LOOKS: Final = 5  # comparisons with a plan made anew
# Drawn under hard limits.
SETTING: Final = Setting(spool_factor=1.5)
# A client that moves gets noise on its delay to each server, as of a way with this deviation.
NOISE_KM: Final = 1.25
CLOUD: Final = "cloud"
MOVING: Final = 1e-9  # what a move has to gain: more than rounding may pretend


class Online:
    """A placement that follows events: the client is priced, and at most two of its peers."""

    def __init__(self, case: Case, there: Bools, seed: int) -> None:
        """Those who are `there` live where a plan puts them. `seed` is of the draw of peers."""
        self.case = case
        self.placement = Placement(world_of(case, there))
        self.planner = Homes(case.cloud, kicks=0)
        _follow(self.placement, self.planner.plan(self.placement))
        self.price = Price(self.placement, Limits(CLOUD, case.cloud))
        self.migrations = 0
        self._drift = Drift(self.price, lambda _: MOVING)
        self._draw = np.random.default_rng(seed)

    def join(self, client: int) -> None:
        """A client comes."""
        part = self.case.part(client)
        topics = [f"t{topic}" for topic in self.case.topic[part]]
        publishes = dict(zip(topics, self.case.rate[part].tolist(), strict=True))
        new = _client(client, self.case.delay[client])
        self.price.arrive(self.placement.join(new, publishes, topics))
        self._peers(client)

    def leave(self, client: int) -> None:
        """A client goes."""
        self.placement.leave(f"c{client}")
        self._peers(client)

    def moved(self, client: int, delay: Floats) -> None:
        """A client is elsewhere, with these delays to the servers."""
        self.case.delay[client] = delay
        self.placement.world.put_client(_client(client, delay))
        self._reprice(home(client))
        self._peers(client)

    def off(self) -> float:
        """By which share this is dearer than a plan made anew."""
        anew = self.placement.copy()
        _follow(anew, self.planner.plan(anew))
        return self.price.total() / Price(anew, self.price.congestion).total() - 1.0

    def _peers(self, client: int) -> None:
        related = map(home, self.case.co_membership[client][0].tolist())
        there = [unit for unit in related if self.placement.where(unit) is not None]
        for at in self._draw.permutation(len(there))[:PEERS].tolist():
            self._reprice(there[at])

    def _reprice(self, unit: Unit) -> None:
        move = self._drift.wanted(unit)
        if move is not None:
            _follow(self.placement, [move])
            self.migrations += 1


class Look(Struct, frozen=True):
    """What events have done so far, and how much dearer the placement is than a plan made anew."""

    overlap: bool
    seed: int
    events: int
    migrations: float  # an event
    off_percent: float
    event_ms: float  # CPU time, mean


def follow(
    setting: Setting, seed: int, events: int, *, looks: int = LOOKS, storage: float | None = None
) -> list[Look]:
    """Random joins, leaves and moves. `storage`: of all servers together, in all spools once."""
    case, _ = draw(setting, seed)
    if storage is not None:
        case.storage[:] = storage * case.spool.sum() / case.servers
    of = np.random.default_rng(seed + 1_000)
    there = of.random(case.clients) >= AWAY
    online = Online(case, there, seed)
    found, spent = [], 0.0
    for event in range(1, events + 1):
        kind = of.integers(3)
        client = int(of.choice(np.flatnonzero(there if kind else ~there)))
        noise = of.normal(size=case.servers) * NOISE_KM * setting.per_km
        delay = np.abs(case.delay[client] + noise)
        began = time.process_time()
        if kind == 0:
            online.join(client)
        elif kind == 1:
            online.leave(client)
        else:
            online.moved(client, delay)
        spent += time.process_time() - began
        there[client] = kind != 1
        if event % max(1, events // looks) == 0:
            rate, off = online.migrations / event, 100 * online.off()
            found.append(Look(setting.overlap, seed, event, rate, off, 1e3 * spent / event))
    return found


def home(client: int) -> Unit:
    """The unit of a client."""
    return Unit("home", f"c{client}")


def world_of(case: Case, there: Bools) -> World:
    """The case as masters s0, s1 … and the cloud, which takes no homes; of its clients c0, c1 …
    those who are there. Everybody hears the topics t0, t1 … that it is a member of."""
    servers = [f"s{n}" for n in range(case.servers)]
    limits = zip(servers, case.storage, case.compute, strict=True)
    links = [Link(name, CLOUD, case.cloud) for name in servers]
    links += [
        Link(one, servers[at], float(case.between[n, at]))
        for n, one in enumerate(servers)
        for at in range(n)
    ]
    members: list[dict[str, float]] = [{} for _ in range(case.topics)]
    for client, topic, rate in zip(case.client, case.topic, case.rate, strict=True):
        if there[client]:
            members[topic][f"c{client}"] = float(rate)
    world = World(
        [*(Master(name, float(m), float(c)) for name, m, c in limits), Master(CLOUD)],
        links,
        [_client(client, case.delay[client]) for client in np.flatnonzero(there).tolist()],
        [
            Topic(f"t{n}", of, frozenset(of), float(case.spool[n]), float(case.load_of_message[n]))
            for n, of in enumerate(members)
        ],
    )
    world.freeze(CLOUD)
    return world


def _client(client: int, delay: Floats) -> Client:
    return Client(f"c{client}", {f"s{n}": seconds for n, seconds in enumerate(delay.tolist())})


def _follow(placement: Placement, moves: list[Move]) -> None:
    for move in moves:
        if move.source is None:
            placement.place(move.unit, move.target)
        else:
            placement.move(move.unit, placement.world.master(move.target))
