"""A buyer and its sellers under any order of messages, losses and restarts."""

import random

import pytest

from agent.market.rollout import MAX_RETRY_S, STAGE_S
from agent.market.seller import DRAIN_S
from agent.wire.operator import AddIad, DropService, RemoveIad
from tests.market.rig import BUYER, SELLERS, building, request

SERVICES = ("climate", "air")


class Walk:
    """People change services while messages are lost, late, out of order and doubled, masters are
    cut off and restart."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.market = building(3, nodes=1, mean_s=0.09, most_pods=2)
        self.asked = 0
        self.rules = {
            self.create: 3,
            self.add_or_remove: 3,
            self.drop: 1,
            self.deliver: 40,
            self.deliver_twice: 4,
            self.lose: 4,
            self.wait: 4,
            self.calm: 2,
            self.cut_off: 1,
            self.restart: 1,
        }

    def step(self):
        [rule] = self.draw.choices(list(self.rules), list(self.rules.values()))
        rule()
        self.market.check()

    def ask(self, wanted):
        self.asked += 1
        self.market.ask(wanted)

    def create(self):
        choose = self.draw.choice
        self.ask(
            request(
                choose(SERVICES),
                rate_per_s=choose([0.5, 3.0, 9.0]),
                fewest=choose([1, 2, 3]),
                relax=choose([1.0, 3.0]),
                timeout_ms=choose([1_000.0, 10_000.0, 60_000.0]),
            )
        )

    def add_or_remove(self):
        kind, name = self.draw.choice([AddIad, RemoveIad]), self.draw.choice(SERVICES)
        self.ask(kind("x", name, self.draw.choice([BUYER, *SELLERS])))

    def drop(self):
        self.ask(DropService("x", self.draw.choice(SERVICES)))

    def pick(self):
        """An early message, mostly; sometimes any."""
        waiting = len(self.market.network)
        return self.draw.randrange(self.draw.choice([1, min(3, waiting), waiting]))

    def deliver(self):
        if self.market.network:
            self.market.deliver(self.pick())

    def deliver_twice(self):
        if self.market.network:
            self.market.deliver(self.pick(), keep=True)

    def lose(self):
        if self.market.network:
            self.market.network.pop(self.pick())

    def wait(self):
        self.market.tick(self.market.now + self.draw.choice([0.05, 0.6, 3.0, 31.0]))

    def calm(self):
        self.market.run(self.draw.choice([0.2, 12.0]))

    def cut_off(self):
        self.market.unreachable = {iad for iad in SELLERS if self.draw.random() < 0.3}

    def restart(self):
        self.market.restart(self.draw.choice(SELLERS))

    def settle(self):
        """Everything arrives, beyond every timeout, hold, drain, stage and retry."""
        self.market.unreachable = set()
        self.market.run(60.0 + 4 * STAGE_S + 2 * MAX_RETRY_S + DRAIN_S)


@pytest.mark.parametrize(
    "seeds", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 8))]
)
def test_when_all_is_calm_again_every_pool_is_one(seeds):
    for seed in range(100 * seeds, 100 * (seeds + 1)):
        walk = Walk(seed)
        for _ in range(250):
            walk.step()
        walk.settle()
        market = walk.market
        market.check()
        assert len(market.reports) == walk.asked
        for name in SERVICES:
            versions = market.versions(name)
            owned = market.buyer.owned.get(name)
            if owned is None:
                assert not versions, seed
            else:
                members = {member.iad for member in owned.service.members}
                assert versions == dict.fromkeys(members, owned.service.version), seed
                assert not owned.deliveries
                assert not owned.forming
        for iad in market.iads.values():
            assert iad.seller.next_due is None
            assert {s for _, s in iad.pods} <= set(iad.seller.services)
