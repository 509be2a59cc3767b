"""Masters that find each other, in virtual time: lossy, with deaths, returns and partitions."""

from __future__ import annotations

import heapq
import json
import sys
from itertools import count
from random import Random

from agent.placement.membership.gossip import Gossip
from agent.placement.membership.membership import Membership
from agent.wire.codec import encode
from agent.wire.membership import Members
from agent.wire.messages import Slo
from agent.wire.placement import (
    Listeners,
    PlacementEcho,
    PlacementFacts,
    SameFacts,
    Source,
    TopicFacts,
)

ROUND_S = 5.0
WAY_S = 0.02


def topic(number, random):
    """As real ones are: two sources, a processor, an objective."""
    sources = (Source("iad017", random.uniform(1, 20)), Source("iad042", random.uniform(1, 20)))
    return TopicFacts(
        f"clone-{number:016x}", sources, "comfort_index", random.uniform(0.1, 3.0),
        random.uniform(2.0, 90.0), 18_000.0, Slo(90.0, 1_000.0),
    )  # fmt: skip


class Site:
    """One master: its membership, and the facts that it tells its partners."""

    def __init__(self, world, iad, doors, epoch, fixed=()):
        self.world, self.iad, self.epoch = world, iad, epoch
        self.fixed = frozenset(fixed)
        self.needed = set()
        self.members = Membership(
            iad, world.address(iad), doors, self.fixed, view=world.view, round_s=ROUND_S,
            now=world.now, random=Random(f"{world.seed}/{iad}/{epoch}"),
        )  # fmt: skip
        self.gossip = Gossip(iad, epoch, world.now, ROUND_S)
        self.links = {}
        self.topics = ()
        self.changes = 0.0

    @property
    def partners(self):
        return {*self.members.partners, *self.fixed}

    def turn(self, now):
        names = {**self.links, **{iad: self.world.address(iad) for iad in self.fixed}}
        connected = {name for name, at in names.items() if self.world.reaches(self.iad, at)}
        made = self.members.turn(now, connected, self.needed)
        self.links = dict(made.links)
        for name, message in made.tell:
            self.world.send(self, name, names.get(name) or self.links[name], message)

    def tell_facts(self, now):
        own = PlacementFacts(
            self.iad, 0, 0, ROUND_S, cores=4, compute=4.0, topics=self.topics,
            listeners=tuple([Listeners(each.name, 1) for each in self.topics[:4]]),
        )  # fmt: skip
        for iad in self.gossip.due(self.partners, True, now):
            told = self.gossip.tell(iad, own, now)
            if self.world.reaches(self.iad, self.world.address(iad)):
                self.gossip.sent(iad, told.number, now)
                self.world.send(self, iad, self.world.address(iad), told)
            else:
                self.gossip.not_sent(iad, now)

    def takes(self, sender, message, now):
        """What is answered."""
        if isinstance(message, Members):
            return self.members.heard(message, now)
        if message.iad not in self.partners:
            return None
        if isinstance(message, SameFacts):
            if not self.gossip.heard_same(message, now):
                return None
        else:
            self.gossip.heard(message, now)
        return PlacementEcho(message.epoch, message.number, short=True)

    def answered(self, name, message, now):
        if isinstance(message, Members):
            self.members.answered(name, message, now)
        else:
            self.gossip.echoed(name, message.epoch, message.number, now, short=message.short)


class MemberWorld:
    def __init__(self, seed=0, *, view=12, loss=0.0, topics=0, facts=True):
        self.seed, self.view, self.loss, self.topics, self.facts = seed, view, loss, topics, facts
        self.random = Random(seed)
        self.now = 0.0
        self.sites: dict[str, Site] = {}
        self.parts = None  # iad → part, while the network is parted
        self.queue, self.order = [], count()
        self.sent = {}  # bytes by master and kind
        self.epochs = count(1)

    @staticmethod
    def address(iad):
        return f"tcp://10.1.20.{iad[3:]}:5700"

    def start(self, iad, doors=("tcp://10.1.20.000:5700",), **more):
        site = self.sites[iad] = Site(self, iad, doors, next(self.epochs), **more)
        site.topics = tuple(
            [topic(self.random.getrandbits(60), self.random) for _ in range(self.topics)]
        )
        self.at(self.now + self.random.uniform(0, ROUND_S), self.turn, site)
        if self.facts:
            self.at(self.now + self.random.uniform(0, ROUND_S), self.tell, site)
        return site

    def stop(self, iad):
        del self.sites[iad]

    def at(self, when, what, *arguments):
        heapq.heappush(self.queue, (when, next(self.order), what, arguments))

    def run(self, seconds):
        end = self.now + seconds
        while self.queue and self.queue[0][0] <= end:
            self.now, _, what, arguments = heapq.heappop(self.queue)
            what(*arguments)
        self.now = end

    def turn(self, site):
        if self.sites.get(site.iad) is site:
            site.turn(self.now)
            self.at(max(site.members.next_due, self.now + 0.01), self.turn, site)

    def tell(self, site):
        if self.sites.get(site.iad) is site:
            site.tell_facts(self.now)
            self.at(max(site.gossip.next_due(self.now), self.now + 0.01), self.tell, site)

    # --- network -------------------------------------------------------------------------------

    def at_address(self, address):
        iad = f"iad{address[14:17]}"
        return self.sites.get(iad) if self.address(iad) == address else None

    def reaches(self, iad, address):
        site = self.at_address(address)
        return site is not None and (not self.parts or self.parts[iad] == self.parts[site.iad])

    def send(self, site, name, address, message):
        self._count(site, message)
        if self.random.random() >= self.loss:
            self.at(self.now + WAY_S, self._arrive, site, name, address, message)

    def _arrive(self, site, name, address, message):
        if not self.reaches(site.iad, address):
            return
        there = self.at_address(address)
        reply = there.takes(site.iad, message, self.now)
        if reply is not None:
            self._count(there, reply)
            if self.random.random() >= self.loss:
                self.at(self.now + WAY_S, self._answer, site, name, reply)

    def _answer(self, site, name, reply):
        if self.sites.get(site.iad) is site:
            site.answered(name, reply, self.now)

    def _count(self, site, message):
        kind = type(message).__name__
        by_kind = self.sent.setdefault(site.iad, {})
        by_kind[kind] = by_kind.get(kind, 0) + len(encode(message))

    # --- for tests -----------------------------------------------------------------------------

    def knowing(self, iad):
        """How many of the others know its address."""
        return sum(iad in site.members.addresses for site in self.sites.values())

    def graph_is_whole(self):
        """Whether facts could reach everybody from anybody."""
        names = set(self.sites)
        reached, edge = set(), {min(names)}
        while edge:
            reached |= edge
            edge = {p for iad in edge for p in self.sites[iad].partners if p in names} - reached
        return reached == names


def main():
    """Measure: masters, part of the messages that is lost, topics of each master."""
    masters, loss, topics = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    world = MemberWorld(1, loss=loss, topics=topics)
    for number in range(masters):
        world.start(f"iad{number:03}")
    rounds = [0, 0]
    while any(world.knowing(iad) < masters - 1 for iad in world.sites):
        world.run(ROUND_S)
        rounds[0] += 1
    world.run(300.0)
    world.sent.clear()
    world.run(300.0)
    spent = [sum(kinds.values()) / 300.0 for kinds in world.sent.values()]
    new = f"iad{masters:03}"
    world.start(new)
    while world.knowing(new) < masters:
        world.run(ROUND_S)
        rounds[1] += 1
    found = {
        "masters": masters,
        "loss": loss,
        "topics": topics,
        "rounds_until_all_know_all": rounds[0],
        "rounds_until_a_new_one_is_known": rounds[1],
        "bytes_per_s": round(sum(spent) / masters),
        "most_bytes_per_s": round(max(spent)),
    }
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
