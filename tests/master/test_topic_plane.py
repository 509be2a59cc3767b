"""Topics in the hands of a master: sockets, disk, inboxes."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace

from agent.alerts.notifications import history_of
from agent.alerts.spool_events import StoreSpooled
from agent.master.group_commit import RETRY_S
from agent.master.push_plane import TURN
from agent.master.request_plane import RequestOrigin as Where
from agent.master.state import State
from agent.master.subscriber_plane import client_of
from agent.master.topic_plane import CROWDED, MAX_COUNTED, NOT_NOW, TopicPlane
from agent.topics.events import Checkpointed, Emitted, SaveProgress
from agent.wire.messages import Slo
from agent.wire.overlay import Notification, Origin
from agent.wire.principals import Sender
from agent.wire.push import Notified, Subscribe
from agent.wire.topics import (
    Clone,
    CreateTopic,
    EnableTopic,
    ListTopics,
    Publish,
    Published,
    RemoveTopic,
    Topic,
    TopicReport,
)
from tests.master.push_plane_rig import ANYONE, Public, Rig

NOTES = Topic("notes")
COUNT = Topic("counted", processor="count", slo=Slo(90.0, 1_000.0))
CLONE = Topic("clone-a", processor="count", clone=Clone("iad1", leaves=True))
COUNTED = msgspec.msgpack.encode(COUNT)


class Documents(State):
    """What a state file had."""

    def __init__(self, now, body=COUNTED):
        super().__init__(None, lambda: now)
        self.body, self.removed = body, []

    def all(self, kind):
        return {"counted": self.body} if kind == "topic" else {}

    def remove(self, kind, key):
        self.removed.append((kind, key))


class Processors:
    """One processor, which gives each message back when the test says so."""

    def __init__(self):
        self.started, self.fed, self.asked, self.stopped = [], [], 0, []
        self.state = "ready"

    def why_not(self, topic):
        return "" if topic.processor == "count" else f"no processor {topic.processor} here"

    def channels(self, topic):
        return topic.parameters.get("channels", ())

    def described(self, status):
        return replace(status, state=self.state, waiting=len(self.fed))

    def start(self, started, tell):
        self.started.append(started)
        self.epoch, self.tell = started.epoch, tell

    def stop(self, name):
        self.stopped.append(name)

    def enable(self, name):
        self.enabled = name

    def feed(self, message):
        self.fed.append(message)

    def take_checkpoint(self, _name):
        self.asked += 1

    def process(self, count=1, outputs=1):
        for _ in range(count):
            message = self.fed.pop(0)
            self.done = message.position
            made = tuple([{"at": message.position, "n": n} for n in range(outputs)])
            self.tell(Emitted(message.name, self.epoch, message.position, made))

    def checkpoint(self):
        self.tell(Checkpointed("counted", self.epoch, self.done, b"state"))


class Queries:
    def capability(self, service):
        return {"default": "", "climate": "temperature"}.get(service)

    def handle(self, _event, _now):
        return []


class TopicRig(Rig):
    def start(self, state=None):
        super().start(state)
        reactor = self.plane._reactor
        self.operator, self.processors = Public(), Processors()
        self.topics = TopicPlane(
            reactor, "iad1", self.state, self.public, self.operator, Queries(), self.plane,
            self.disk.load_topics(), lambda: 1_000.0, self.said.append, self.processors,
            channels=lambda areas: ("co2", "humidity"),
        )  # fmt: skip

    def let_pass(self, seconds=0.0):
        super().let_pass(seconds)
        while (due := self.topics.next_due) is not None and due <= self.now:
            self.topics.tick(self.now)
            super().let_pass()

    def operate(self, request):
        self.operator.handlers[type(request)](ANYONE, request, self.now)
        self.let_pass()
        return self.operator.replies.pop() if self.operator.replies else None

    def publish(self, message, origin=ANYONE):
        self.public.handlers[Publish](origin, message, self.now)
        self.let_pass()
        return self.received(Published)[-1] if self.received(Published) else None

    def put_out(self):
        return [each.notification for each in self.received(Notified)]


@pytest.fixture
def rig():
    rig = TopicRig()
    rig.subscribe('kind = "output"')
    return rig


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


def test_what_a_new_topic_costs_elsewhere_is_told_with_its_creation(rig):
    rig.topics.on_created = lambda name: f"{name} moves to iad2"
    assert rig.operate(CreateTopic("c", NOTES)).message == "notes moves to iad2"
    assert rig.operate(CreateTopic("c", NOTES)).message == ""  # the same again
    assert rig.operate(CreateTopic("c", replace(NOTES, name="others"))).message != ""
    refused = rig.operate(CreateTopic("c", replace(COUNT, name="x", processor="none")))
    assert "no processor none" in refused.message


def test_messages_are_counted_by_where_they_were_published_and_who_names_the_topic(rig):
    rig.operate(CreateTopic("c", NOTES))
    for number in range(3):
        rig.publish(Publish("p", "notes", {"vote": 3.0}, number))
    assert rig.topics.arrivals == {"notes": {"iad1": 3}}
    rig.subscribe('topic = "notes" or topic in ("other", "notes") or value > 3', name="t")
    assert rig.plane.topics_named() == {"notes": 1, "other": 1}
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
    assert rig.operate(ListTopics("l")) is None, "nothing is told that is not durable"
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


def test_outputs_are_published_after_their_transaction(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    assert rig.processors.asked == 1
    assert rig.put_out() == []
    rig.writer.slow = True
    rig.processors.checkpoint()
    rig.let_pass()
    assert rig.put_out() == []
    rig.writer.slow = False
    rig.writer.drain()
    rig.let_pass()
    assert [each.attributes["at"] for each in rig.put_out()] == [1]
    progress = rig.disk.topics["counted"].progress
    assert (progress.position, progress.inbox, progress.state) == (1, 1, b"state")


def test_outputs_and_state_are_one_transaction(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process(outputs=3)
    rig.let_pass()
    written = []
    write = rig.disk.write
    rig.disk.write = lambda changes: written.append(changes) or write(changes)
    rig.processors.checkpoint()
    rig.let_pass()
    (batch,) = [each for each in written if any(isinstance(c, SaveProgress) for c in each)]
    assert sum(isinstance(change, StoreSpooled) for change in batch) == 3


def test_many_outputs_take_many_turns(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process(outputs=2 * TURN + 1)
    rig.topics.tick(rig.now)
    rig.processors.checkpoint()
    rig.topics.tick(rig.now)
    rig.topics.tick(rig.now)
    delivered = rig.plane.counters["overlay_delivered"]
    turns = 0
    while rig.plane.counters["overlay_delivered"] < delivered + 2 * TURN + 1:
        rig.plane.tick(rig.now)
        turns += 1
    assert turns >= 3
    rig.let_pass(1.0)  # beyond a window nothing waits for the disk
    assert len(rig.disk.positions) == 2 * TURN + 2


def test_outputs_that_the_disk_refuses_are_put_out_later_once(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.disk.full = True
    rig.processors.checkpoint()
    rig.let_pass()
    rig.let_pass(3 * RETRY_S)
    assert rig.put_out() == []
    rig.disk.full = False
    for _ in range(4):
        rig.let_pass(RETRY_S)
    assert [each.attributes["at"] for each in rig.put_out()] == [1]


def test_after_a_kill_the_processor_goes_on_from_its_state(rig):
    rig.operate(CreateTopic("c", COUNT))
    for sequence in (1, 2):
        rig.publish(Publish("p", "counted", {"vote": sequence}, sequence))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.processors.process()  # and nothing of it was written
    rig.start(Documents(rig.now))
    rig.let_pass()
    (started,) = rig.processors.started
    assert (started.progress.position, started.progress.state) == (1, b"state")
    assert [each.position for each in rig.processors.fed] == [2]
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.ask(Subscribe("s", 'kind = "output"', durable=True, after=0))
    rig.let_pass()
    assert [each.attributes["at"] for each in rig.put_out()] == [1, 2]
    assert rig.disk.topics["counted"].progress.put_out == 2


def test_a_removed_topic_leaves_nothing(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    assert rig.plane.kept_for("topic/")
    assert rig.operate(RemoveTopic("r", "counted")) == TopicReport("r", ok=True)
    rig.let_pass(2.0)
    assert rig.processors.stopped == ["counted"]
    assert rig.plane.kept_for("topic/") == []
    assert rig.disk.topics == {}
    # What its processor still said does not count.
    rig.processors.process()
    rig.let_pass()


def test_a_topic_on_its_way_is_not_removed(rig):
    class Mover:
        bound = "iad2"

        def bound_for(self, unit):
            return self.bound if unit.name == "notes" else ""

        def departed(self, _kind):
            return {}

    rig.topics.mover = Mover()
    rig.operate(CreateTopic("c", NOTES))
    report = rig.operate(RemoveTopic("r", "notes"))
    line = "topic notes is on its way to iad2; try again in a moment"
    assert (report.ok, report.message) == (False, line)
    Mover.bound = ""
    assert rig.operate(RemoveTopic("r", "notes")).ok


def test_what_a_removed_topic_still_had_to_put_out_leaves_its_successor_alone(rig, monkeypatch):
    rig.operate(CreateTopic("c", COUNT))
    monkeypatch.setattr(type(rig.plane._spool), "has_room_for", lambda *_: False)
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.operate(RemoveTopic("r", "counted"))
    rig.operate(CreateTopic("c", COUNT))
    created = rig.disk.topics["counted"].progress
    monkeypatch.undo()
    for _ in range(3):
        rig.let_pass(1.0)
    assert rig.put_out() == []
    assert rig.disk.topics["counted"].progress == created


def test_a_processor_is_enabled_again(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.operate(CreateTopic("c", NOTES))
    told = rig.operate(EnableTopic("e", "counted")).message
    assert told == "the processor of counted is ready: it was not stopped"
    rig.processors.state = "disabled"
    assert rig.operate(EnableTopic("e", "counted")) == TopicReport("e", ok=True)
    assert rig.processors.enabled == "counted"
    assert rig.operate(EnableTopic("e", "notes")).message == "topic notes has no processor"
    refused = rig.operate(EnableTopic("e", "nots")).message
    assert refused == "no topic nots is kept here; those that are: counted, notes"


def test_an_inbox_that_a_kill_left_is_ended_at_the_start(rig):
    rig.operate(CreateTopic("c", NOTES))
    assert rig.plane.kept_for("topic/")
    rig.start()  # without its document
    rig.let_pass(2.0)
    assert rig.plane.kept_for("topic/") == []
    assert rig.disk.topics == {}


def test_a_topic_of_a_later_version_stays_as_it_is(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    kept = rig.disk.topics["counted"], rig.plane.kept_for("topic/")
    documents = Documents(rig.now, b"\xc1")
    rig.start(documents)
    rig.let_pass(2.0)
    assert rig.topics.counters["unreadable_topics"] == 1
    assert documents.removed == []
    assert (rig.disk.topics["counted"], rig.plane.kept_for("topic/")) == kept
    rig.publish(Publish("p", "counted", {"vote": 4.0}, 2))
    # The version that can read it goes on from there, with what came meanwhile.
    rig.start(Documents(rig.now))
    rig.let_pass()
    (started,) = rig.processors.started
    assert (started.progress.position, started.progress.state) == (1, b"state")
    assert [each.position for each in rig.processors.fed] == [2]


def test_what_cannot_be_read_is_refused(rig):
    reading = {"areas": ("b1",), "every_s": 5.0, "processor": "count"}
    for fields, says in (
        ({"service": "x"}, "service x is unknown here"),
        (
            {"service": "climate", "channels": ("co2",)},
            "service climate gives temperature, not co2",
        ),
        ({"processor": "cuont"}, "no processor cuont here"),
    ):
        report = rig.operate(CreateTopic("c", Topic("a", **{**reading, **fields})))
        assert not report.ok
        assert says in report.message


def test_channels_that_readings_do_not_have_are_named_when_a_topic_is_created(rig):
    """A misspelt channel would otherwise never be noticed: the processor waits for it in vain."""
    climate = {"service": "climate"}
    misspelt = "count uses temprature; service climate gives only temperature; did you mean "
    near = "count uses humidty; nodes here give co2, humidity; did you mean humidity?"
    other = "count uses co2; its readings have only humidity"
    for number, (fields, uses, says) in enumerate(
        (
            (climate, ("temperature",), ""),
            (climate, (), ""),
            (climate, ("temprature",), f"{misspelt}temperature?"),
            ({"channels": ("humidity",)}, ("co2",), other),
            ({}, ("co2",), ""),
            ({}, ("humidty", "co2"), near),
            ({"areas": (), "every_s": None}, ("humidty",), ""),
        )
    ):
        reading = {"areas": ("b1",), "every_s": 5.0, "processor": "count"}
        given = {"parameters": {"channels": uses}, **reading, **fields}
        for _ in range(2):  # the same again says it again
            report = rig.operate(CreateTopic("c", Topic(f"a{number}", **given)))
            assert (report.ok, report.message) == (True, says)


def test_which_master_keeps_a_topic_is_said_when_it_is_known(rig):
    assert "is kept here" in rig.operate(RemoveTopic("r", "means")).message
    rig.topics.elsewhere = lambda: {"means": "iad2"}
    assert rig.operate(RemoveTopic("r", "means")).message == (
        "topic means is kept by iad2; ask its master (--iad iad2)"
    )


def test_the_names_of_topics_that_are_known_are_not_those_of_clones(rig):
    for topic in (NOTES, CLONE):
        assert rig.operate(CreateTopic("c", topic)).ok
    rig.topics.elsewhere = lambda: {"means": "iad2", "clone-b": "iad2", "notes": "iad3"}
    assert rig.topics.names == {"notes", "means"}


def test_a_status_has_the_processor_s_part(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    (status,) = rig.operate(ListTopics("l")).topics
    assert (status.state, status.received, status.waiting) == ("ready", 1, 1)
    assert rig.topics.statuses == (status,)
    assert rig.topics.counters == {"topics": 1, "unreadable_topics": 0, "published": 1}
