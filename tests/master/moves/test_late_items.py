"""Late items of units that are no more where they come."""

from __future__ import annotations

import msgspec

from agent.master.moves.late_inboxes import Batch
from agent.master.moves.movable import NOT_HERE
from agent.placement.world import Unit
from tests.master.moves.test_subscriber_homes_model import World
from tests.master.topic_rig import TopicRig

ITEMS = msgspec.msgpack.encode(Batch(()))


def test_no_topic_takes_late_items_of_one_that_is_not_here():
    said = []
    TopicRig().topics.moves.forwarded(Unit("processor", "notes"), ITEMS, said.append)
    assert said == [NOT_HERE]


def test_no_subscription_takes_late_items_of_one_that_is_not_here():
    said = []
    World(1).masters["b"].homes.forwarded("carla/other", ITEMS, said.append)
    assert said == [NOT_HERE]
