"""Pausing, loading and dropping topics: the cases that a schedule of two masters does not have."""

from __future__ import annotations

import msgspec
import pytest

from agent.alerts.inbox_handover import InboxCopy
from agent.topics.contents import inputs_of
from agent.topics.events import (
    AskReadings,
    Checkpointed,
    Emitted,
    Feed,
    InboxSaid,
    KeepTopic,
    Progress,
    Release,
    Released,
    RoundAnswered,
    StartProcessor,
    StopProcessor,
    TakeCheckpoint,
    TopicAsked,
    TopicHeld,
    TopicKept,
    TopicPaused,
    TopicsDue,
)
from agent.topics.movable_topics import MovableTopics, TopicCopy
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Notified, Subscribed
from agent.wire.topics import CreateTopic, ListTopics, RemoveTopic, Topic
from tests.topics.world import READ, aggregate

INBOX = InboxCopy(inputs_of("comfort"), 0, 0)


def kinds(instructions, *wanted):
    return [each for each in instructions if isinstance(each, wanted)]


class Rig:
    """One master's topics."""

    def __init__(self, iad="iad1", **options):
        self.topics, self.now = MovableTopics(iad, lambda: "f1", **options), 100.0

    def handle(self, event):
        done = self.topics.handle(event, self.now)
        self.topics.check_invariants()
        return done

    def create(self, topic=READ):
        self.handle(TopicAsked("op", CreateTopic("c", topic)))
        self.handle(InboxSaid(topic.name, "f1", Subscribed("f1", "open", 0, 60_000.0)))
        return self

    def told(self, request):
        return self.handle(TopicAsked("op", request))[-1].report

    def read(self):
        """A round of readings: the messages for the processor."""
        (asked,) = kinds(self.handle(TopicsDue()), AskReadings)
        answered = self.handle(RoundAnswered("comfort", asked.epoch, aggregate(), 1))
        return kinds(answered, Feed)

    def pause(self):
        paused = self.topics.pause("comfort", self.now)
        assert kinds(paused, StopProcessor)
        return paused

    def final(self):
        copy = self.topics.copy("comfort", INBOX)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(copy), type=TopicCopy)


def test_readings_that_were_not_processed_go_along_and_rounds_keep_their_time():
    a, b = Rig().create(), Rig("iad2")
    a.read()
    a.handle(Emitted("comfort", 1, 1, ({"n": 1},)))
    a.handle(Checkpointed("comfort", 1, 1, b"one"))
    a.handle(Released("comfort", 1))
    a.now += 5.0
    (second,) = a.read()
    a.now += 2.0
    assert kinds(a.pause(), TopicPaused)
    final = a.final()
    assert [each.body for each in final.readings] == [second.body]
    assert final.round_in_s == 3.0
    assert (final.progress.position, final.progress.state) == (1, b"one")
    (started,) = kinds(b.topics.load(final, b.now), StartProcessor)
    assert started.progress.state == b"one"
    assert b.topics.next_tick is None
    worked = b.topics.work("comfort", b.now)
    assert kinds(worked, Feed) == [Feed("comfort", 2, second.body)]
    assert b.topics.next_tick == b.now + 3.0


def test_a_round_that_is_out_is_asked_again_at_once():
    a = Rig().create()
    (asked,) = kinds(a.handle(TopicsDue()), AskReadings)
    a.pause()
    assert a.handle(RoundAnswered("comfort", asked.epoch, aggregate(), 1)) == []
    assert a.final().round_in_s == 0.0
    a.topics.work("comfort", a.now)
    assert a.topics.next_tick == a.now


def test_a_paused_topic_waits_for_the_disk_and_forgets_what_is_not_there():
    a = Rig().create()
    a.read()
    assert kinds(a.handle(Emitted("comfort", 1, 1, ({"n": 1},))), TakeCheckpoint)
    (release,) = kinds(a.handle(Checkpointed("comfort", 1, 1, b"one")), Release)
    assert len(release.notifications) == 1
    a.now += 5.0
    (second,) = a.read()
    a.handle(Emitted("comfort", 1, 2, ({"n": 2},)))
    assert a.topics.pause("comfort", a.now) == [StopProcessor("comfort")]
    assert a.handle(Checkpointed("comfort", 1, 2, b"two")) == []
    assert kinds(a.handle(Released("comfort", 1)), TopicPaused)
    assert a.told(ListTopics("l")).topics[0].state == "moving"
    final = a.final()
    assert (final.progress.position, final.progress.state) == (1, b"one")
    assert [each.body for each in final.readings] == [second.body]


def test_a_topic_that_is_held_puts_nothing_out_until_it_works_again():
    a = Rig().create()
    a.read()
    a.handle(Emitted("comfort", 1, 1, ({"n": 1},)))
    a.handle(Checkpointed("comfort", 1, 1, b"one"))
    assert a.topics.hold("comfort") == []  # something is on its way to the disk
    a.now += 5.0
    a.read()
    assert a.handle(Emitted("comfort", 1, 2, ({"n": 2},))) == []
    assert kinds(a.handle(Released("comfort", 1)), TopicHeld, TakeCheckpoint) == [
        TopicHeld("comfort")
    ]
    assert kinds(a.topics.work("comfort", a.now), TakeCheckpoint)
    assert a.topics.hold("comfort") == [TopicHeld("comfort")]
    # The checkpoint that was under way is not for the disk any more.
    assert a.handle(Checkpointed("comfort", 1, 2, b"two")) == []
    assert kinds(a.topics.work("comfort", a.now), TakeCheckpoint)
    assert kinds(a.handle(Checkpointed("comfort", 1, 2, b"two")), Release)


def test_what_an_inbox_or_an_earlier_processor_says_to_a_paused_topic_is_nothing():
    a = Rig().create()
    a.pause()
    own = {"iad": "iad9", "topic": "comfort", "kind": "input", "n": 1}
    told = Notified("f1", 1, Notification(Origin("iad9", "h", 1), 1, own))
    assert a.handle(InboxSaid("comfort", "f1", told)) == []
    assert a.handle(InboxSaid("comfort", "f1", Subscribed("f1", "unknown"))) == []
    assert a.handle(InboxSaid("comfort", "f1", None)) == []
    (started,) = kinds(a.topics.work("comfort", a.now), StartProcessor)
    assert started.epoch == 2
    assert a.handle(Emitted("comfort", 1, 1, ({"n": 1},))) == []
    assert a.handle(InboxSaid("comfort", "f1", told)) == []  # of before it was asked again
    a.handle(InboxSaid("comfort", "f1", Subscribed("f1", "open", 0, 60_000.0)))
    assert kinds(a.handle(InboxSaid("comfort", "f1", told)), Feed)


def test_what_a_processor_had_said_before_it_ended_is_done_again():
    a = Rig().create()
    (reading,) = a.read()
    a.pause()
    assert a.handle(Emitted("comfort", 1, 1, ({"n": 1},))) == []
    assert a.handle(Checkpointed("comfort", 1, 1, b"one")) == []
    final = a.final()
    assert final.progress.position == 0
    assert [each.body for each in final.readings] == [reading.body]
    assert kinds(a.topics.work("comfort", a.now), Feed) == [reading]


def test_nothing_is_put_out_before_it_is_owned():
    b = Rig("iad2")
    b.topics.load(TopicCopy(READ, Progress("f1", 7, 3, 5, b"seven"), INBOX), b.now)
    b.topics.work("comfort", b.now)
    (fed,) = b.read()
    assert b.handle(Emitted("comfort", 1, fed.position, ({"n": 1},))) == []
    assert not b.topics.lives("comfort")
    assert b.topics.statuses == ()
    owned = b.topics.own("comfort")
    assert [type(each) for each in owned] == [KeepTopic, TakeCheckpoint]
    (release,) = kinds(b.handle(Checkpointed("comfort", 1, 8, b"eight")), Release)
    (told,) = release.notifications
    assert (told.origin.publisher, told.origin.sequence) == ("iad2", 3)
    # Its definition stays with its progress until it is kept elsewhere.
    assert msgspec.msgpack.decode(release.progress.definition, type=Topic) == READ
    b.handle(TopicKept("comfort", 1))
    (again,) = kinds(
        [*b.handle(Released("comfort", 1)), *b.handle(TopicKept("comfort", 1))], Release
    )
    assert again.progress.definition == b""


def test_the_target_stops_and_goes_on_or_forgets():
    b = Rig("iad2")
    b.topics.load(TopicCopy(READ, Progress("f1", 7, 3, 5, b"seven"), INBOX), b.now)
    b.topics.work("comfort", b.now)
    b.read()
    assert b.topics.halt("comfort", b.now) == [StopProcessor("comfort")]
    assert b.topics.halt("comfort", b.now) == []
    worked = b.topics.work("comfort", b.now)
    assert [each.progress.position for each in kinds(worked, StartProcessor)] == [7]
    assert len(kinds(worked, Feed)) == 1
    assert b.topics.work("comfort", b.now) == []
    assert b.topics.drop("comfort") == [StopProcessor("comfort")]
    assert "comfort" not in b.topics
    assert b.topics.next_tick is None


def test_a_topic_on_its_way_is_not_removed_and_none_of_its_name_is_made():
    a, b = Rig().create(), Rig("iad2")
    a.pause()
    line = "topic comfort is on its way between masters; try again in a moment"
    assert a.told(RemoveTopic("r", "comfort")).message == line
    b.topics.load(a.final(), b.now)
    assert b.told(RemoveTopic("r", "comfort")).message == line
    assert not b.told(CreateTopic("c", Topic("comfort"))).ok
    assert b.topics.why_not_load(Topic("comfort")) != ""


def test_a_topic_that_came_is_restored_from_its_progress():
    definition = msgspec.msgpack.encode(READ)
    kept = [("comfort", Progress("f1", 7, 3, 5, b"seven", definition))]
    b = Rig("iad2")
    restored = b.topics.restore([], kept, b.now)
    assert [type(each) for each in kinds(restored, StartProcessor, KeepTopic)] == [
        StartProcessor, KeepTopic,
    ]  # fmt: skip
    for standing in ("offered", "taken"):
        c = Rig("iad2")
        assert c.topics.restore([], kept, c.now, **{standing: ["comfort"]}) == []
        assert c.topics.lives("comfort") == (standing == "offered")
        assert kinds(c.topics.work("comfort", c.now), StartProcessor)
    later = [("comfort", Progress("f1", 7, 3, 5, b"seven", b"\xc1 of a later version"))]
    d = Rig("iad2")
    assert d.topics.restore([], later, d.now) == []
    assert d.topics.unreadable == 1


def test_an_earlier_version_reads_the_progress_of_a_topic_that_came():
    class Earlier(msgspec.Struct, array_like=True):
        incarnation: str
        position: int = 0
        put_out: int = 0
        inbox: int = 0
        state: bytes = b""

    written = msgspec.msgpack.encode(Progress("f1", 7, 3, 5, b"seven", b"definition"))
    assert msgspec.msgpack.decode(written, type=Earlier).state == b"seven"


def test_a_topic_that_is_not_here_is_its_callers_mistake():
    with pytest.raises(KeyError):
        Rig().topics.pause("comfort", 0.0)
