"""Masters of an overlay that are killed at random while a node raises alerts: each durable
subscription gets each alert once. SANDERLING_PUSH_KILLS says how many kills; without it, 20, and
in CI 4."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from agent.wire.base import TRIGGER_RAISED
from agent.wire.node_messages import (
    EventsTaken,
    Hello,
    HelloWanted,
    MasterMessage,
    NodeEvent,
    NodeEvents,
)
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess
from tests.examples import share
from tests.master.party import Party, Subscriber, run
from tests.master.push_rig import PLACES, PushMaster, overlay_text

KILLS = int(os.environ.get("SANDERLING_PUSH_KILLS", share(20)))
PATIENCE_S = 120.0
HELLO = Hello("n1", "boot-n1", "history", ("b1/f4",), ("co2",), 1, "test")


class RestlessNode(Party):
    """Raises alerts, and tells them again until they are taken."""

    def __init__(self, context, master):
        self.waiting = {}
        self.raised = 0
        self.told_s = 0.0
        super().__init__(context, master.nodes, MasterMessage)

    def greeting(self):
        return HELLO

    def take(self, message):
        if isinstance(message, EventsTaken):
            for sequence in message.sequences:
                self.waiting.pop(sequence, None)
        elif isinstance(message, HelloWanted):  # a master that was started again
            self.say(self.greeting())

    def raise_one(self):
        self.raised += 1
        self.waiting[self.raised] = NodeEvent(
            self.raised, TRIGGER_RAISED, 1, True, "s", "co2", trigger="stale", value=950.0
        )

    def turn(self):
        super().turn()
        if self.waiting and time.monotonic() > self.told_s + 0.1:
            self.told_s = time.monotonic()
            events = tuple(self.waiting.values())[:100]
            self.say(NodeEvents("boot-n1", "history", events, oldest=min(self.waiting)))


class Durable(Subscriber):
    """Keeps the numbers of the alerts that come for it."""

    def __init__(self, context, master):
        super().__init__(context, master, 'metric = "co2"')

    def kept(self, notification):
        self.got.append(notification.origin.sequence)


class World:
    def __init__(self, context, masters, seed):
        self.random = random.Random(seed)
        self.masters = masters
        self.node = RestlessNode(context, masters["iad1"])
        self.subscribers = [Durable(context, masters[iad]) for iad in ("iad1", "iad2", "iad4")]

    def until(self, condition, seconds=PATIENCE_S):
        return run([self.node, *self.subscribers], condition, seconds)

    def kill_and_start(self):
        """One or two of them, for a moment or longer than a link bears silence."""
        gone = self.random.sample(list(self.masters.values()), self.random.choice([1, 1, 2]))
        for master in gone:
            master.stop(signal.SIGKILL)
        for _ in range(self.random.choice([1, 10, 40])):
            self.node.raise_one()
            self.until(lambda: False, 0.1)
        for master in gone:
            AgentProcess.start(master)


@pytest.mark.long
def test_masters_are_killed_and_every_alert_comes_once(tmp_path, context):
    addresses = {iad: free_address() for iad in PLACES}
    masters = {
        iad: PushMaster(tmp_path / iad, iad, address, overlay_text(iad, addresses, PLACES))
        for iad, address in addresses.items()
    }
    try:
        for master in masters.values():
            master.wait_for_links()
        world = World(context, masters, seed=KILLS)
        assert world.until(lambda: all(each.opened for each in world.subscribers))
        masters["iad1"].wait_until(
            lambda c: (c["overlay_targets"], c["overlay_subscriptions"]) == (1, 2)
        )
        for _ in range(KILLS):
            world.kill_and_start()
            world.node.raise_one()
            world.until(lambda: False, world.random.choice([0.1, 0.5, 2.0]))
        node = world.node
        assert world.until(lambda: not node.waiting)
        assert world.until(
            lambda: all(len(each.got) >= node.raised for each in world.subscribers)
        ), [len(each.got) for each in world.subscribers]
        for each in world.subscribers:
            assert sorted(each.got) == [16 * n for n in range(1, node.raised + 1)]
        masters["iad1"].wait_until(lambda c: c["spool"] == 0)
    finally:
        for master in masters.values():
            master.stop(signal.SIGKILL)
