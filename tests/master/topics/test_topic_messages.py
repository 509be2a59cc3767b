"""Messages to topics of a master: published once, kept on disk, counted, bounded, refused."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from agent.alerts.notifications import history_of
from agent.master.push.subscriber_plane import client_of
from agent.master.requests.request_plane import RequestOrigin as Where
from agent.master.storage.group_commit import RETRY_S
from agent.master.topics.publishers import CROWDED
from agent.master.topics.topic_plane import MAX_COUNTED, NOT_NOW
from agent.topics import area_shares
from agent.wire.overlay import Notification, Origin
from agent.wire.principals import Sender
from agent.wire.push import Notified
from agent.wire.topics import CreateTopic, ListTopics, Publish, Published, RemoveTopic, Topic
from tests.master import topic_rig
from tests.master.push_plane_rig import ANYONE
from tests.master.topic_rig import CLONE, COUNT, NOTES

rig = topic_rig.rig


def test_a_message_goes_to_its_topic_and_out_to_subscribers(rig):
    assert rig.operate(CreateTopic("c", NOTES)).ok
    reply = rig.publish(Publish("p", "notes", {"area": "b1", "vote": 3.0}, 7))
    assert reply == Published("p", "accepted", 7)
    (out,) = rig.put_out()
    assert out.attributes == {
        "iad": "iad1", "topic": "notes", "kind": "output", "area": "b1", "vote": 3.0,
    }  # fmt: skip
    incarnation = rig.disk.topics["notes"].progress.incarnation
    assert out.origin == Origin("iad1", history_of("topic/notes", incarnation), 0)
    assert rig.plane.spooled == 0
    assert rig.disk.topics["notes"].progress.put_out == 1


def test_a_client_that_invents_areas_is_told(rig, monkeypatch):
    monkeypatch.setattr(area_shares, "MAX_OF_CLIENT", 2)
    rig.operate(CreateTopic("c", NOTES))
    replies = [rig.publish(Publish("p", "notes", {"area": f"b{n}"}, n)) for n in range(3)]
    assert [reply.state for reply in replies] == ["accepted", "accepted", "refused"]
    assert replies[2].message.startswith("this client published to notes for 2 areas")
    assert rig.publish(Publish("p", "notes", {"area": "b1"}, 4)).state == "accepted"


def test_messages_are_counted_by_where_they_were_published_and_who_names_the_topic(rig):
    rig.operate(CreateTopic("c", NOTES))
    for number in range(3):
        rig.publish(Publish("p", "notes", {"vote": 3.0}, number))
    assert rig.topics.arrivals == {"notes": {"iad1": 3}}
    rig.subscribe('topic = "notes" or topic in ("other", "notes") or value > 3', name="t")
    assert rig.plane.inboxes.topics_named() == {"notes": 1, "other": 1}
    removed = []
    rig.topics.on_removed = removed.append
    rig.operate(RemoveTopic("r", "notes"))
    assert rig.topics.arrivals == {}
    assert removed == ["notes"]


@pytest.mark.parametrize("kind", ["input", "output"])
def test_who_names_senders_at_will_takes_no_memory_for_their_counts(rig, kind):
    rig.operate(CreateTopic("c", CLONE))
    for n in range(MAX_COUNTED + 10):
        own = {"topic": f"t{n}", "kind": kind, "peer": ""}
        told = Notification(Origin(f"iad{n}", "h", 0), 1, own)
        rig.topics._said(CLONE.name, "another", Notified("another", n + 1, told))
    counts = rig.topics.arrivals if kind == "input" else rig.topics.peer_arrivals
    assert len(counts[CLONE.name]) == MAX_COUNTED


def test_a_topic_that_moved_away_leaves_no_counts(rig):
    rig.topics.arrivals["gone"] = Counter({"iad1": 3})
    rig.topics._left("gone")
    assert rig.topics.arrivals == {}


def test_a_sequence_is_published_once_for_each_client_and_id(rig):
    rig.operate(CreateTopic("c", NOTES))
    other = Where(b"d", b"M", Sender("client", "wall"))
    message = Publish("p", "notes", {"vote": 3.0}, 7)
    for origin, each in (
        (ANYONE, message),
        (ANYONE, message),
        (ANYONE, replace(message, sequence=8)),
        (other, message),
        (ANYONE, replace(message, id="q")),
    ):
        assert rig.publish(each, origin).state == "accepted"
    assert len(rig.put_out()) == 4
    assert rig.plane.counters["spooled_repeated"] == 1


def test_a_message_without_a_sequence_is_new_each_time(rig):
    rig.operate(CreateTopic("c", NOTES))
    for _ in range(3):
        assert rig.publish(Publish("p", "notes", {"vote": 3.0})) == Published("p", "accepted")
    assert len(rig.put_out()) == 3


def test_a_message_is_accepted_when_it_is_on_disk(rig):
    rig.operate(CreateTopic("c", NOTES))
    rig.writer.slow = True
    assert rig.publish(Publish("p", "notes", {"vote": 3.0}, 1)) is None
    rig.writer.slow = False
    rig.writer.drain()
    assert rig.received(Published) == [Published("p", "accepted", 1)]


def test_a_disk_that_refuses_takes_no_message_and_no_topic(rig):
    rig.operate(CreateTopic("c", NOTES))
    rig.disk.full = True
    reply = rig.publish(Publish("p", "notes", {"vote": 3.0}, 1))
    assert reply == Published("p", "refused", 1, NOT_NOW)
    assert rig.operate(CreateTopic("c", Topic("others"))).message == NOT_NOW
    [listed] = rig.operate(ListTopics("l")).topics
    assert listed.topic == NOTES
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    # It was in the spool; sent again it is no news.
    assert rig.publish(Publish("p", "notes", {"vote": 3.0}, 1)).state == "accepted"
    rig.let_pass(5.0)
    assert len(rig.put_out()) == 1


def test_topics_are_held_back_while_the_spool_is_half_full(rig, monkeypatch):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    monkeypatch.setattr(type(rig.plane._spool), "crowded", True)
    refused = rig.publish(Publish("p", "counted", {"vote": 3.0}, 2))
    assert refused == Published("p", "refused", 2, CROWDED)
    rig.processors.checkpoint()
    for _ in range(3):
        rig.let_pass(1.0)
    assert rig.put_out() == []
    monkeypatch.setattr(type(rig.plane._spool), "crowded", False)
    rig.let_pass(1.0)
    assert [each.attributes["at"] for each in rig.put_out()] == [1]


def test_a_client_of_which_much_waits_is_refused_and_others_are_not(rig, monkeypatch):
    rig.operate(CreateTopic("c", NOTES))
    greedy = f"client/{client_of(ANYONE.sender)}"
    monkeypatch.setattr(type(rig.plane._spool), "is_crowded_by", lambda _spool, who: who == greedy)
    refused = rig.publish(Publish("p", "notes", {"vote": 3.0}, 1))
    assert refused == Published("p", "refused", 1, CROWDED)
    other = Where(b"other", b"M", Sender("client", "bob"))
    assert rig.publish(Publish("p", "notes", {"vote": 3.0}, 1), other).state == "accepted"


def test_one_topic_without_room_in_the_spool_does_not_hold_up_others(rig, monkeypatch):
    rig.operate(CreateTopic("c", COUNT))
    rig.operate(CreateTopic("c", NOTES))

    def has_room_for(_spool, notifications):
        return all(each.attributes["topic"] != "counted" for each in notifications)

    monkeypatch.setattr(type(rig.plane._spool), "has_room_for", has_room_for)
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.publish(Publish("p", "notes", {"vote": 4.0}, 2))
    rig.let_pass(1.0)
    assert [each.attributes["topic"] for each in rig.put_out()] == ["notes"]
    monkeypatch.undo()
    rig.let_pass(1.0)
    assert [each.attributes["topic"] for each in rig.put_out()] == ["notes", "counted"]


@pytest.mark.parametrize(
    ("sender", "attributes", "says"),
    [
        (Sender("anyone", "1"), {"topic": "x"}, "attributes: topic is set by the master"),
        (Sender("operator", "op"), {"a": 1.0}, "a key of role operator may not publish"),
        (Sender("client", "wall", services=("climate",)), {"a": 1.0}, "who publishes needs"),
        (Sender("client", "wall", rate_per_s=1e-9), {"a": 1.0}, "may ask"),
    ],
)
def test_what_nobody_may_publish_is_refused_in_one_line(rig, sender, attributes, says):
    origin = Where(b"c", b"M", sender)
    for _ in range(20):
        reply = rig.publish(Publish("p", "notes", attributes, 1), origin)
    assert reply.state == "refused"
    assert says in reply.message
    assert "\n" not in reply.message
