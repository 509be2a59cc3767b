"""Topics of a master as they are created, listed, enabled, removed and found again."""

from __future__ import annotations

from msgspec.structs import replace

from agent.wire.topics import (
    CreateTopic,
    EnableTopic,
    ListTopics,
    Publish,
    RemoveTopic,
    Topic,
    TopicReport,
)
from tests.master import topic_rig
from tests.master.topic_rig import CLONE, COUNT, NOTES, Documents

rig = topic_rig.rig


def test_what_a_new_topic_costs_elsewhere_is_told_with_its_creation(rig):
    rig.topics.on_created = lambda name: f"{name} moves to iad2"
    assert rig.operate(CreateTopic("c", NOTES)).message == "notes moves to iad2"
    assert rig.operate(CreateTopic("c", NOTES)).message == ""  # the same again
    assert rig.operate(CreateTopic("c", replace(NOTES, name="others"))).message != ""
    refused = rig.operate(CreateTopic("c", replace(COUNT, name="x", processor="none")))
    assert "no processor none" in refused.message


def test_a_removed_topic_leaves_nothing(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    assert rig.plane.inboxes.kept_for("topic/")
    assert rig.operate(RemoveTopic("r", "counted")) == TopicReport("r", ok=True)
    rig.let_pass(2.0)
    assert rig.processors.stopped == ["counted"]
    assert rig.plane.inboxes.kept_for("topic/") == []
    assert rig.disk.topics == {}
    # What its processor still said does not count.
    rig.processors.process()
    rig.let_pass()


def test_a_topic_on_its_way_is_neither_removed_nor_made_anew(rig):
    class Mover:
        bound = ""

        def bound_for(self, unit):
            return self.bound if unit.name == "notes" else ""

        def departed(self, _kind):
            return {}

    rig.topics.mover = Mover()
    rig.operate(CreateTopic("c", NOTES))
    Mover.bound = "iad2"
    report = rig.operate(RemoveTopic("r", "notes"))
    line = "topic notes is on its way to iad2; try again in a moment"
    assert (report.ok, report.message) == (False, line)
    assert rig.operate(CreateTopic("c", NOTES)).ok  # It is here still.
    Mover.bound = ""
    assert rig.operate(RemoveTopic("r", "notes")).ok
    # It is here no more, and not on disk yet where it went.
    Mover.bound = "iad2"
    report = rig.operate(CreateTopic("c", NOTES))
    assert (report.ok, report.message) == (False, line)
    Mover.bound = ""
    assert rig.operate(CreateTopic("c", NOTES)).ok


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


def test_a_topic_of_a_later_version_stays_as_it_is(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    kept = rig.disk.topics["counted"], rig.plane.inboxes.kept_for("topic/")
    documents = Documents(rig.now, b"\xc1")
    rig.start(documents)
    rig.let_pass(2.0)
    assert rig.topics.counters["unreadable_topics"] == 1
    assert documents.removed == []
    assert (rig.disk.topics["counted"], rig.plane.inboxes.kept_for("topic/")) == kept
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
        ({"service": "x"}, "no service x here"),
        ({"service": "climat"}, "did you mean climate?"),
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
