"""Topics: creation, what is put out, exactly once, whatever is killed when."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.alerts.notifications import history_of
from agent.topics import entry
from agent.topics.contents import why_not
from agent.topics.entry import MANY
from agent.topics.events import (
    Emitted,
    InboxSaid,
    RoundAnswered,
    TopicAsked,
    TopicsDue,
)
from agent.topics.flow import AHEAD
from agent.topics.topics import MAX_TOPICS, RENEW_S
from agent.wire.areas import AreaSet
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.messages import Answer, Coverage, Slo
from agent.wire.overlay import Notification, Origin
from agent.wire.processor_limits import MAX_AHEAD_MS
from agent.wire.push import Gap, Lost, Notified, Subscribed
from agent.wire.topics import EnableTopic, ListTopics, Topic, TopicReport
from agent.wire.unions import OperatorReply
from tests.topics.world import BARE, READ, World, aggregate

STEPS = ("publish", "deliver", "process", "checkpoint", "write", "fill", "resume", "detach", "kill")


def test_without_a_processor_what_is_published_is_put_out():
    world = World()
    assert world.create().ok
    for number in range(3):
        world.publish(number)
    world.settle()
    assert [each.attributes["n"] for each in world.told] == [0, 1, 2]
    first = world.told[0]
    assert first.attributes == {"iad": "iad1", "topic": "notes", "kind": "output", "n": 0}
    history = history_of("topic/notes", world.incarnation)
    origins = [(o.publisher, o.history, o.sequence) for o in (each.origin for each in world.told)]
    assert origins == [("iad1", history, n) for n in range(3)]
    assert world.acknowledged == 3


@given(st.lists(st.sampled_from(STEPS), max_size=60), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_message_is_put_out_once_whatever_is_killed(steps, with_processor):
    topic = Topic("comfort", processor="count") if with_processor else BARE
    world = World(topic)
    world.create()
    for step in steps:
        if step == "publish":
            world.publish(len(world.inbox))
        else:
            getattr(world, step)()
    world.settle()
    assert [each.attributes["n"] for each in world.told] == list(range(len(world.inbox)))
    assert [each.origin.sequence for each in world.told] == list(range(len(world.inbox)))
    if with_processor:
        # Its state, too, has each message once.
        assert [each.attributes["count"] for each in world.told] == [
            n + 1 for n in range(len(world.inbox))
        ]


def test_readings_go_through_the_processor():
    world = World(READ)
    world.create()
    for _ in range(4):
        world.read()
        world.process()
        world.checkpoint()
        world.write()
    assert [each.attributes["count"] for each in world.told] == [1, 2, 3, 4]
    (status,) = world.topics.statuses
    assert (status.rounds, status.rounds_failed, status.put_out) == (4, 0, 4)


def test_no_more_readings_are_asked_for_than_can_be_put_out(monkeypatch):
    """The disk, or masters that are away, hold a release up."""
    most = 20
    monkeypatch.setattr(entry, "MAX_WAITING", most)
    world = World(READ)
    world.create()
    asked = 0
    for _ in range(5 * most):
        world.now += 5.0
        world.handle(TopicsDue())
        asked += len(world.queries)
        for ask in world.queries:
            world.handle(RoundAnswered(ask.name, ask.epoch, aggregate(), 1))
        world.queries = []
        world.process()
        world.checkpoint()
    assert most <= asked <= most + 2
    (status,) = world.topics.statuses
    assert status.rounds_failed == 5 * most - asked
    assert status.trouble == "no readings are asked for: what it made waits for disk or spool"
    world.write()
    world.checkpoint()
    world.write()
    assert [each.attributes["count"] for each in world.told] == [n + 1 for n in range(asked)]
    world.read()
    assert len(world.fed) == 1
    assert world.topics.statuses[0].trouble == ""


def test_a_round_asks_for_the_mean_since_the_last_one():
    world = World(READ)
    world.create()
    world.handle(TopicsDue())
    (asked,) = world.queries
    assert (asked.query.areas, asked.query.channels, asked.query.form) == (
        ("b1/f4",), ("co2",), "aggregate",
    )  # fmt: skip
    assert asked.query.window.last_s == 5.0
    # One that is still open is not asked twice.
    world.now += 5.0
    world.handle(TopicsDue())
    assert len(world.queries) == 1
    refused = Answer("r", "refused", 1.0, False, Coverage(0, 1), message="no such service")
    world.handle(RoundAnswered("comfort", asked.epoch, refused, 1))
    (status,) = world.topics.statuses
    assert (status.rounds, status.rounds_failed) == (2, 2)
    assert status.trouble == "its last round brought nothing: no such service"


def test_rounds_that_were_due_while_nothing_ran_are_not_made_up_for():
    world = World(READ)
    world.create()
    world.now += 1_000.0
    world.handle(TopicsDue())
    assert len(world.queries) == 1
    assert world.now < world.topics.next_tick <= world.now + 5.0


def test_outputs_of_two_creations_have_different_origins():
    world = World()
    world.create()
    world.publish(1)
    world.settle()
    assert world.remove("notes").ok
    assert (world.documents, world.disk) == ({}, {})
    world.inbox, world.acknowledged = [], 0
    world.create()
    world.publish(1)
    world.settle()
    first, second = (each.origin for each in world.told)
    assert (first.sequence, second.sequence) == (0, 0)
    assert first.history != second.history


def test_the_inbox_is_acknowledged_only_when_the_outputs_are_durable():
    world = World()
    world.create()
    world.publish(1)
    world.deliver()
    assert world.acknowledged == 0
    world.now += RENEW_S
    world.handle(TopicsDue())  # renewing acknowledges nothing new
    assert world.acknowledged == 0
    world.write()
    assert world.acknowledged == 1


def test_subscribing_again_acknowledges_only_what_is_durable():
    world = World()
    world.create()
    world.publish(1)
    world.deliver()
    world.detach()
    assert world.acknowledged == 0
    world.kill()
    world.settle()
    assert [each.attributes["n"] for each in world.told] == [1]
    world.detach()
    assert world.acknowledged == 1


def test_messages_without_outputs_are_acknowledged_too():
    world = World(Topic("comfort", processor="count"))
    world.create()
    for number in range(MANY):
        world.publish(number)
        world.deliver()
        position, _ = world.fed.pop(0)
        world.done = position
        world.handle(Emitted("comfort", world.epoch, position, ()))
    assert world.snapshot
    world.checkpoint()
    world.write()
    assert (world.acknowledged, world.told) == (MANY, [])


def test_an_output_with_an_attribute_of_the_master_is_told_of():
    world = World(Topic("comfort", processor="count"))
    world.create()
    world.publish(1)
    world.deliver()
    world.handle(Emitted("comfort", world.epoch, 1, ({"kind": "warm"}, {"index": 3.0})))
    (line,) = world.lines
    assert line == (
        "topic comfort: an output is not put out: kind is set by the master; take another name"
    )
    world.done = 1
    world.checkpoint()
    world.write()
    assert [each.attributes["index"] for each in world.told] == [3.0]


def test_outputs_that_are_never_put_out_are_told_of_once():
    world = World(Topic("comfort", processor="count"))
    world.create()
    for number in range(1, 9):
        world.publish(number)
        world.deliver()
        wrong = {"kind": "warm"} if number % 2 else {f"a{n}": n for n in range(30)}
        world.handle(Emitted("comfort", world.epoch, number, (wrong, wrong)))
    assert len(world.lines) == 2
    assert world.topics.statuses[0].trouble.startswith("an output is not put out: 30 attributes")


@pytest.mark.parametrize(
    ("told", "at_ms"),
    [({}, 1), ({"time_ms": 77}, 77), ({"time_ms": 1.5}, 1), ({"time_ms": True}, 1)],
)
def test_an_output_may_say_when_it_was(told, at_ms):
    world = World(Topic("comfort", processor="count"))
    world.create()
    world.publish(1)
    world.deliver()
    world.handle(Emitted("comfort", world.epoch, 1, ({"index": 3.0, **told},)))
    world.done = 1
    world.checkpoint()
    world.write()
    (out,) = world.told
    assert (out.time_ms, out.attributes.get("time_ms")) == (at_ms, None)


def test_a_message_of_a_clock_that_is_ahead_counts_as_of_now():
    """Else those after it would be late until then; told once, however many there are."""
    world = World(Topic("comfort", processor="count"))
    world.create()
    now_ms, ahead_ms = 10 * MAX_AHEAD_MS, 12 * MAX_AHEAD_MS
    for position, time_ms in enumerate((now_ms - 7, now_ms + MAX_AHEAD_MS, ahead_ms, ahead_ms), 1):
        told = Notification(Origin("iad2", "h", position), time_ms, {"topic": "comfort"})
        said = Notified(world.incarnation, position, told)
        world.handle(InboxSaid("comfort", world.incarnation, said, now_ms))
    bodies = [msgspec.msgpack.decode(body) for _, body in world.fed]
    times = [now_ms - 7, now_ms + MAX_AHEAD_MS, now_ms, now_ms]
    assert [body["time_ms"] for body in bodies] == times
    assert {body["received_ms"] for body in bodies} == {now_ms}
    assert world.lines == [f"topic comfort: {AHEAD}"]


def test_what_the_inbox_lost_is_counted_and_told():
    world = World()
    world.create()
    world.handle(InboxSaid("notes", world.incarnation, Gap("i", 1, 4)))
    world.handle(InboxSaid("notes", world.incarnation, Gap("i", 1, 4)))  # sent again
    lost = Lost("iad2", "h", 3, 9, 1)
    world.handle(InboxSaid("notes", world.incarnation, Gap("i", 5, 5, lost)))
    (status,) = world.topics.statuses
    assert status.missed == 5
    assert world.lines == [
        "topic notes: 4 messages that its inbox had no room for are lost",
        "topic notes: 1 message of iad2 is lost",
    ]
    # A flood is a line a minute.
    for position in range(6, 60):
        world.now += 10.0
        world.handle(InboxSaid("notes", world.incarnation, Gap("i", position, position)))
    (status,) = world.topics.statuses
    assert status.missed == 5 + 54
    assert world.lines[2:] == [
        "topic notes: 6 messages that its inbox had no room for are lost" for _ in range(9)
    ]


def test_losses_that_a_publisher_invents_leave_the_status_readable():
    world = World()
    world.create()
    for position in (1, 2):
        lost = Lost("iad2", "h", 0, 2**53 - 1, 2**53 - 1)
        world.handle(InboxSaid("notes", world.incarnation, Gap("i", position, position, lost)))
    [status] = world.topics.statuses
    report = TopicReport("t", ok=True, topics=(status,))
    assert Decoder(OperatorReply).decode(encode(report, MESSAGEPACK))[0] == report


def test_an_inbox_that_is_lost_begins_anew():
    world = World()
    world.create()
    world.publish(1)
    world.settle()
    world.inbox, world.acknowledged = [], 0
    world.handle(InboxSaid("notes", world.incarnation, Subscribed("i", "refused")))
    assert world.lines == ["topic notes: its inbox is lost; messages to it may be missing"]
    world.publish(2)
    world.settle()
    assert [each.attributes["n"] for each in world.told] == [1, 2]
    assert [each.origin.sequence for each in world.told] == [0, 1]


def test_an_inbox_that_is_refused_is_tried_again():
    world = World()
    world.create()
    world.attached = False
    world.handle(InboxSaid("notes", world.incarnation, Subscribed("i", "refused", message="full")))
    assert world.topics.statuses[0].trouble == "its inbox is refused: full"
    world.now = world.topics.next_tick
    world.handle(TopicsDue())
    assert world.attached
    assert world.topics.statuses[0].trouble == ""


def test_without_its_progress_a_topic_begins_anew():
    world = World()
    world.create()
    before = world.incarnation
    world.disk.clear()  # the store was broken, and put aside
    world.inbox, world.acknowledged = [], 0
    world.kill()
    assert world.incarnation != before
    assert world.disk["notes"].incarnation == world.incarnation


def test_progress_of_a_topic_that_is_no_more_is_forgotten():
    world = World()
    world.create()
    world.documents.clear()  # removed, and killed before the rest
    world.kill()
    assert world.disk == {}
    assert len(world.topics) == 0


def test_a_topic_of_a_later_version_is_replaced_by_nobody_unless_it_is_removed():
    world = World()
    world.create()
    world.publish(1)
    world.settle()
    kept = dict(world.disk)
    world.unreadable = {"notes"}
    world.kill()
    report = world.create()
    assert (report.ok, report.message) == (
        False, "topic notes is on this master's disk, of a later version; remove it first",
    )  # fmt: skip
    assert (world.disk, world.topics.unreadable) == (kept, 1)
    assert world.remove("notes").ok
    assert (world.documents, world.disk, world.topics.unreadable) == ({}, {}, 0)
    assert world.create().ok


def test_the_same_topic_again_changes_nothing():
    world = World()
    world.create()
    assert world.create().ok
    refused = world.create(Topic("notes", processor="count"))
    assert not refused.ok
    assert refused.message == "topic notes exists and is another; remove it first"
    world.handle(TopicAsked("op", ListTopics("l")))
    assert [each.topic for each in world.reports.pop().topics] == [BARE]


def test_a_topic_that_another_master_keeps_is_sought_there():
    world = World(elsewhere=lambda: {"means": "iad2"})
    world.handle(TopicAsked("op", EnableTopic("e", "means")))
    for said in (world.reports.pop(), world.remove("means")):
        assert not said.ok
        assert said.message == "topic means is kept by iad2; ask its master (--iad iad2)"


def test_what_cannot_be_created_is_one_clear_line():
    world = World(
        why_not_processed=lambda topic: f"no processor {topic.processor} here: known are count",
        why_not_read=lambda topic: "" if topic.service == "default" else "service x is unknown",
        areas=lambda: [AreaSet(("b1/f4/r1", "b1/f5"))],
        nearest=lambda area, known: "b1/f4",
    )
    count = {"channels": ("co2",), "every_s": 5.0, "processor": "cuont"}
    for topic, line in (
        (Topic("a", ("b1/f44",), **count), "nobody known here covers b1/f44; did you mean b1/f4?"),
        (Topic("a", ("b1",), service="x", **count), "service x is unknown"),
        (Topic("a", ("b1",), **count), "no processor cuont here: known are count"),
    ):
        report = world.create(topic)
        assert (report.ok, report.message) == (False, line)
    report = world.remove("nots")
    assert (report.ok, report.message) == (
        False,
        "no topic nots is kept here; those that are: none",
    )
    assert len(world.topics) == 0
    for n in range(9):
        world.create(Topic(f"floor{n}"))
    world.create(Topic("means"))
    assert world.remove("mean").message.endswith("floor7 and 2 more; did you mean means?")


def test_the_number_of_topics_is_bounded():
    world = World(most=2)
    world.create(Topic("a"))
    world.create(Topic("b"))
    report = world.create(Topic("c"))
    assert report.message == "2 topics are kept here; remove one, or take another master"
    assert MAX_TOPICS >= 100


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"areas": ("b1",)}, "both areas and every_s"),
        ({"every_s": 5.0, "processor": "p"}, "both areas and every_s"),
        ({"areas": ("b1",), "every_s": 5.0}, "readings need a processor"),
        ({"slo": Slo(90.0, 100.0)}, "parameters and slo are a processor's"),
    ],
)
def test_a_topic_that_makes_no_sense_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        Topic("a", **fields)


def test_attributes_of_the_master_are_nobody_elses():
    assert why_not({"area": "b1", "vote": 3}) == ""
    assert why_not({"topic": "a"}) == "topic is set by the master; take another name"
    assert why_not({"kind": "a", "iad": "b"}) == (
        "iad and kind are set by the master; take another name"
    )
    assert why_not({f"a{n}": n for n in range(30)}) == (
        "30 attributes; a topic's message has at most 29"
    )
