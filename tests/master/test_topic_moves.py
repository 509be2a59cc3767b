"""Topics on their way here: what another master says of them, and what becomes of it."""

from __future__ import annotations

import msgspec
import pytest

from agent.alerts.inbox_handover import InboxCopy
from agent.master.movable import UNREADABLE
from agent.placement.world import Unit
from agent.topics.contents import inputs_of
from agent.topics.events import Progress
from agent.topics.movable_topics import TopicCopy
from agent.wire.topics import Topic
from tests.alerts.samples import notification
from tests.master.test_topic_plane import TopicRig

UNIT = Unit("processor", "notes")
INBOX = InboxCopy(inputs_of("notes"), 0, 0)
encode = msgspec.msgpack.encode


@pytest.fixture
def moves():
    return TopicRig().topics.moves


def copy(name="notes", inbox=INBOX):
    return encode(TopicCopy(Topic(name), Progress("f1"), inbox))


def test_a_copy_of_another_topic_or_with_contents_is_not_loaded(moves):
    said = []
    full = InboxCopy(inputs_of("notes"), 0, 1, (("a", "h"),), (0,), (1,), (), (notification(1),))
    for each in (copy("other"), copy(inbox=full)):
        moves.load(UNIT, each, said.append)
    assert said == ["its copy is not one of this topic"] * 2
    assert moves.next_due is None


@pytest.mark.parametrize("items", [b"\xc1", encode([[None], []])])
def test_late_items_that_cannot_be_read_are_said_to_be(moves, items):
    said = []
    moves.forwarded(UNIT, items, said.append)
    assert said == [UNREADABLE]
