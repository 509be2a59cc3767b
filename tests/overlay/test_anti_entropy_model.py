"""Copies of sets along a tree of brokers, with messages lost, repeated and overtaken, links joined
at any time, homes that restart: whatever a broker has is what the home had at that version, and
after comparing once more everybody has what the homes have now."""

import os
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tests.overlay.anti_entropy_cluster import LOST_DISK_EPOCHS, NAMES, Cluster

SCHEDULES = int(os.environ.get("SANDERLING_REPLICAS", "400"))


class ReplicasMachine(RuleBasedStateMachine):
    @initialize(data=st.data())
    def start(self, data):
        count = data.draw(st.integers(1, 5))
        self.cluster = Cluster([data.draw(st.integers(0, i)) for i in range(count - 1)])
        self.brokers = st.sampled_from(self.cluster.tree.vertices)

    @rule(data=st.data(), name=st.sampled_from(NAMES), item=st.integers(0, 3))
    def put(self, data, name, item):
        self.cluster.put(data.draw(self.brokers), name, item)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def withdraw(self, data, name):
        self.cluster.withdraw(data.draw(self.brokers), name)

    def under_way(self):
        return any(self.cluster.queues.values())

    @precondition(under_way)
    @rule(data=st.data(), count=st.integers(1, 8))
    def in_order(self, data, count):
        self.cluster.deliver_some(data.draw(st.sampled_from(self.cluster.busy())), count)

    @precondition(under_way)
    @rule(data=st.data(), what=st.sampled_from(["overtakes", "lost", "repeated"]))
    def out_of_order(self, data, what):
        pair = data.draw(st.sampled_from(self.cluster.busy()))
        place = data.draw(st.integers(0, len(self.cluster.queues[pair]) - 1))
        self.cluster.disturb(pair, place, what)

    @precondition(lambda self: self.cluster.queues)
    @rule(data=st.data(), all_lost=st.booleans())
    def link_comes_up(self, data, all_lost):
        self.cluster.join(*data.draw(st.sampled_from(list(self.cluster.queues))), all_lost=all_lost)

    @rule(
        data=st.data(),
        kept=st.sets(st.sampled_from(NAMES)),
        epoch=st.sampled_from([None, *LOST_DISK_EPOCHS]),
    )
    def restart(self, data, kept, epoch):
        self.cluster.restart(data.draw(self.brokers), kept, epoch)

    @rule()
    def settle(self):
        self.cluster.settle()

    @invariant()
    def every_copy_is_what_the_home_had(self):
        self.cluster.check_copies()

    def teardown(self):
        if hasattr(self, "cluster"):
            self.cluster.settle()


TestReplicas = ReplicasMachine.TestCase
TestReplicas.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)


def one_step(cluster, draw):
    home, name = draw.choice(cluster.tree.vertices), draw.choice(NAMES)
    busy = cluster.busy()
    roll = draw.random()
    if roll < 0.3:
        cluster.put(home, name, draw.randrange(4))
    elif roll < 0.4:
        cluster.withdraw(home, name)
    elif roll < 0.43:
        kept = {name for name in NAMES if draw.random() < 0.7}
        cluster.restart(home, kept, draw.choice([None] * 5 + LOST_DISK_EPOCHS))
    elif roll < 0.48 and cluster.queues:
        cluster.join(*draw.choice(list(cluster.queues)), all_lost=draw.random() < 0.5)
    elif roll < 0.56 and busy:
        pair = draw.choice(busy)
        place = draw.randrange(len(cluster.queues[pair]))
        cluster.disturb(pair, place, draw.choice(["overtakes", "lost", "repeated"]))
    elif busy:
        cluster.deliver_some(draw.choice(busy), draw.randint(1, 6))


@pytest.mark.parametrize("part", range(4))
def test_random_schedules(part):
    for seed in range(part, SCHEDULES, 4):
        draw = random.Random(seed)
        cluster = Cluster([draw.randint(0, i) for i in range(draw.randrange(6))])
        for _ in range(draw.randrange(120)):
            one_step(cluster, draw)
            cluster.check_copies()
        cluster.settle()
