"""Topics on their way here: what another master says of them, and what becomes of it."""

from __future__ import annotations

import msgspec
import pytest

from agent.alerts.inbox_handover import MAX_REACHED, InboxCopy
from agent.master.moves.movable import UNREADABLE
from agent.placement.world import Unit
from agent.topics.contents import inputs_of
from agent.topics.events import Progress
from agent.topics.movable_topics import TopicCopy
from agent.topics.shadow import Named
from agent.wire.topics import Topic
from tests.alerts.samples import notification
from tests.master.topic_rig import TopicRig

UNIT = Unit("processor", "notes")
INBOX = InboxCopy(inputs_of("notes"), 0, 0)
encode = msgspec.msgpack.encode


@pytest.fixture
def rig():
    return TopicRig()


@pytest.fixture
def moves(rig):
    return rig.topics.moves


def copy(name="notes", inbox=INBOX):
    return encode(TopicCopy(Topic(name), Progress("f1"), inbox))


def test_a_copy_of_another_topic_or_with_contents_is_not_loaded(moves):
    said = []
    full = InboxCopy(inputs_of("notes"), 0, 1, (("a", "h"),), (0,), (1,), (), (notification(1),))
    for each in (copy("other"), copy(inbox=full)):
        moves.load(UNIT, each, said.append)
    assert said == ["its copy is not one of this topic"] * 2
    assert moves.next_due is None


BEYOND = MAX_REACHED + 1


@pytest.mark.parametrize(
    ("progress", "inbox"),
    [
        (Progress("f1", position=BEYOND), INBOX),
        (Progress("f1", put_out=BEYOND), INBOX),
        (Progress("f1", inbox=BEYOND), INBOX),
        (Progress("f1"), InboxCopy(inputs_of("notes"), 0, BEYOND)),
    ],
)
def test_a_topic_that_has_counted_further_than_any_does_is_not_taken(moves, progress, inbox):
    """The next outputs had numbers that no message carries: the links to all neighbours went down
    each time that they were sent, and clients ended."""
    said, told = [], encode(TopicCopy(Topic("notes"), progress, inbox))
    moves.load(UNIT, told, said.append)
    why = f"it has counted to {BEYOND}, which nothing does"
    assert said == [f"its copy cannot be read: {why}"]
    moves.load(UNIT, copy(), said.append)
    assert moves.accept(UNIT, told) == f"its state cannot be read: {why}"


@pytest.mark.parametrize("items", [b"\xc1", encode([[None], []])])
def test_late_items_that_cannot_be_read_are_said_to_be(moves, items):
    said = []
    moves.forwarded(UNIT, items, said.append)
    assert said == [UNREADABLE]


def load(rig):
    """A move of the topic to here is ready."""
    moves, said = rig.topics.moves, []
    moves.load(UNIT, copy(), said.append)
    for _ in range(20):
        moves.tick(rig.now)
        rig.let_pass(0.1)
    assert said == [""]


def test_a_standby_that_ends_leaves_its_inbox_to_a_move_to_here(rig, moves):
    """Both have the same: its owner may be silent until its lease ends, and go on with the move."""
    named = Named(Topic("notes"), "f1")
    rig.topics.shadows.begin(named, rig.now)
    load(rig)
    rig.topics.shadows.end(named)
    assert moves.accept(UNIT, copy()) == ""
    rig.plane.write(moves.adopt(UNIT), lambda: None)
    assert rig.plane.inboxes.has("topic/notes", "f1")


def test_a_move_that_is_given_up_ends_its_inbox(rig, moves):
    load(rig)
    moves.stop(UNIT)
    assert not rig.plane.inboxes.has("standby/notes", "f1")


def test_a_move_that_is_given_up_leaves_its_inbox_to_a_standby_here(rig, moves):
    moves.stands_by = lambda name, incarnation: (name, incarnation) == ("notes", "f1")
    load(rig)
    moves.stop(UNIT)
    assert rig.plane.inboxes.has("standby/notes", "f1")


def taken(rig):
    """The topic has come, and its source may still take it back."""
    moves = rig.topics.moves
    load(rig)
    assert moves.accept(UNIT, copy()) == ""
    rig.plane.write(moves.adopt(UNIT), lambda: None)
    rig.let_pass()
    assert rig.plane.inboxes.has("topic/notes", "f1")


def test_the_inbox_of_a_topic_that_came_stays_however_long_its_source_is_silent(rig):
    taken(rig)
    for _ in range(3):
        rig.let_pass(8 * 86_400.0)
    assert rig.plane.inboxes.has("topic/notes", "f1")
    rig.topics.moves.own(UNIT)


def test_a_topic_that_came_lives_on_without_its_inbox(rig):
    taken(rig)
    rig.plane.take(rig.plane.inboxes.end("topic/notes", "f1"))
    rig.topics.moves.own(UNIT)
    assert rig.topics.moves.lives(UNIT)
