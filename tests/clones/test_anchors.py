"""The anchors of clones: a device is given what its clone puts out once, whatever is killed."""

from __future__ import annotations

import random

import msgspec
import pytest
from msgspec.structs import replace

from agent.clones.events import CloneAsked, InboxSaid, PeersResolved, TopicEnded, TopicMade
from agent.clones.names import digest_of, topic_of
from agent.topics.flow import TELL_LOSS_S
from agent.wire.base import MAX_AREAS
from agent.wire.clones import CreateClone, ListClones
from agent.wire.push import Gap, Subscribed
from tests.clones.world import CLONE, DEVICE, SECRET, World

NAME = topic_of(SECRET, digest_of(DEVICE), leaves=False)


@pytest.fixture
def world():
    world = World()
    world.create()
    world.commit()
    world.inbox_says()
    return world


def test_readings_go_to_the_clone_without_the_name_of_the_device_or_its_areas(world):
    assert world.reports.pop().clones[0].topic == NAME
    world.let_pass(5.0)
    (asked,) = world.tasks
    assert asked.task.areas == ("b1/r3",)
    world.answer()
    assert (world.published.topic, world.published.attributes) == (NAME, {"temperature": 21.5})
    told = str(world.topics[NAME]) + str(world.published.attributes)
    assert "n3" not in told
    assert "b1" not in told


def test_a_clone_of_a_device_with_as_many_areas_as_nodes_may_have_is_readable_again():
    world = World()
    world.areas = tuple(f"b1/r{n}" for n in range(MAX_AREAS))
    world.create()
    world.commit()
    world.inbox_says()
    for message in (world.disk["clone", DEVICE], world.reports.pop()):
        data = msgspec.msgpack.encode(message)
        assert msgspec.msgpack.decode(data, type=type(message)) == message


def test_the_same_again_changes_nothing_and_another_is_refused(world):
    world.reports.clear()
    world.create()
    assert world.reports.pop().ok
    world.create(replace(CLONE, processor="other"))
    assert world.reports.pop().message == f"{DEVICE} has another clone; remove that first"
    world.create(replace(CLONE, device="iad1/n3"))
    assert "this is the master of iad4: ask --iad iad1" in world.reports.pop().message


def test_each_output_is_given_once_and_acknowledged_when_that_is_on_disk(world):
    world.put_out()
    world.send()
    inbox = world.inboxes[world.attached]
    assert inbox["had"] == 0
    world.commit()
    assert (inbox["had"], world.device) == (1, (1.0,))


@pytest.mark.parametrize("seed", range(60))
def test_kills_between_any_two_writes_neither_lose_nor_double_an_output(seed):
    draw = random.Random(seed)
    world = World()
    world.create()
    steps = [
        world.put_out, world.put_out, world.send, world.send, world.commit, world.inbox_says,
        lambda: world.let_pass(draw.choice([0.1, 1.0, 21.0])), world.kill,
        lambda: world.tasks and world.answer(),
    ]  # fmt: skip
    world.commit()
    world.inbox_says()
    for _ in range(300):
        draw.choice(steps)()
    for _ in range(3 * world.made + 10):
        world.let_pass(31.0)
        world.inbox_says()
        world.send()
        world.commit()
    assert world.made > 40
    assert world.device == tuple(range(1, world.made + 1))
    assert world.lines == []
    assert next(iter(world.inboxes.values()))["had"] == world.made


@pytest.mark.parametrize("seed", range(30))
def test_a_clone_that_is_made_and_ended_under_kills_is_whole_or_gone(seed):
    draw = random.Random(seed)
    world = World()
    for _ in range(40):
        step = draw.choice(["create", "remove", "commit", "commit", "say", "kill", "pass"])
        match step:
            case "create":
                world.create()
            case "remove":
                world.remove()
            case "commit":
                world.commit()
            case "say":
                world.inbox_says()
            case "kill":
                world.kill()
            case "pass":
                world.let_pass(31.0)
    for _ in range(5):
        world.let_pass(31.0)
        world.commit()
        world.inbox_says()
    here = ("clone", DEVICE) in world.disk
    assert (NAME in world.topics) or not here
    assert len(world.anchors) == here == len(world.inboxes)


def test_readings_are_counted_on_after_a_restart_as_outputs_are(world):
    world.let_pass(5.0)
    world.answer()
    world.put_out()
    world.send()
    world.commit()
    world.kill()
    world.inbox_says()
    world.handle(CloneAsked("op", ListClones("l")))
    (clone,) = world.reports.pop().clones
    assert (clone.rounds, clone.rounds_failed, clone.outputs) == (1, 0, 1)


def test_a_subscription_that_is_lost_begins_anew_and_it_is_told(world):
    world.put_out()
    world.send()
    world.commit()
    world.inboxes.clear()
    world.handle(InboxSaid(DEVICE, world.attached, Subscribed(world.attached, "unknown")))
    world.inbox_says()
    world.commit()
    world.inbox_says()
    assert "its subscription is lost" in world.lines[0]
    world.put_out()
    world.send()
    world.commit()
    assert world.device == (1.0, 2.0)


def test_what_is_lost_on_the_way_is_told_and_passed_over(world):
    world.handle(InboxSaid(DEVICE, world.attached, Gap(world.attached, 1, 3)))
    assert "3 of what it put out are lost" in world.lines[0]
    world.commit()
    assert world.inboxes[world.attached]["had"] == 3


def test_the_operator_is_told_of_losses_now_and_then(world):
    for position in range(1, 100):
        world.handle(InboxSaid(DEVICE, world.attached, Gap(world.attached, position, position)))
    assert len(world.lines) == 1
    world.now += TELL_LOSS_S
    world.handle(InboxSaid(DEVICE, world.attached, Gap(world.attached, 100, 100)))
    assert "99 of what it put out are lost" in world.lines[1]


def peer_asked(leaves=True, **options):
    world = World()
    world.create(replace(CLONE, leaves=leaves, peers=("iad1/n2", "iad4/n4"), **options))
    return world


def test_peers_are_resolved_before_the_topic_is_made():
    world = peer_asked()
    (asked,) = world.asked
    assert (asked.iad, asked.devices) == ("iad1", ("iad1/n2",))
    assert not world.topics
    world.handle(PeersResolved(DEVICE, "iad1", ("clone-12",)))
    (topic,) = world.topics.values()
    own = topic_of(SECRET, digest_of("iad4/n4"), leaves=True)
    assert topic.clone.peers == tuple(sorted(("clone-12", own)))


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (PeersResolved(DEVICE, "iad1", ("",)), "the clone of iad1/n2 does not leave iad1"),
        (PeersResolved(DEVICE, "iad1", (), "iad1 is away"), "iad1 is away"),
    ],
)
def test_a_peer_that_cannot_be_heard_refuses_the_clone(told, line):
    world = peer_asked()
    world.handle(told)
    assert world.reports.pop().message == line
    assert len(world.anchors) == 0
    world.let_pass(60.0)


def test_a_silent_master_of_peers_refuses_the_clone():
    world = peer_asked()
    world.let_pass(2.0)
    assert "no answer of the master of iad1" in world.reports.pop().message


def test_names_tell_nothing_and_those_of_clones_that_stay_are_not_told(world):
    known, unknown = digest_of(DEVICE), digest_of("iad4/n9")
    named = world.anchors.resolve([known, unknown])
    assert named == ("", topic_of(SECRET, unknown, leaves=True))
    assert topic_of(bytes(31) + b"x", known, leaves=False) != NAME


def test_a_topic_that_is_refused_ends_the_clone():
    world = World()
    world.create()
    world.waiting.clear()
    world.handle(TopicMade(DEVICE, ok=False, message="no processor echo here"))
    assert world.reports.pop().message == "no processor echo here"
    assert ("clone", DEVICE) not in world.dirty


def test_a_clone_that_cannot_be_ended_yet_is_ended_later(world):
    world.reports.clear()
    world.remove()
    world.ending.clear()
    world.handle(TopicEnded(DEVICE, ok=False, message="iad2 is away"))
    report = world.reports.pop()
    assert (report.ok, report.message) == (
        True,
        "it ends as soon as that is possible: iad2 is away",
    )
    world.create()
    told = world.reports.pop().message
    assert told == f"the clone of {DEVICE} is being ended: iad2 is away"
    world.let_pass(31.0)
    world.commit()
    world.commit()
    assert len(world.anchors) == 0


def test_a_clone_that_is_being_ended_is_not_made_anew_meanwhile(world):
    world.remove()
    world.ending.clear()
    world.create()
    told = world.reports.pop().message
    assert told == f"the clone of {DEVICE} is being ended; try again later"


def test_a_filter_that_cannot_be_read_is_refused(world):
    world.handle(
        CloneAsked("op", CreateClone("c", replace(CLONE, device="iad4/n5", peers_where="x >")))
    )
    assert world.reports.pop().message.startswith("peers_where: ")
    world.handle(CloneAsked("op", ListClones("l")))
    assert [each.clone.device for each in world.reports.pop().clones] == [DEVICE]


def test_a_clone_that_may_leave_where_there_is_no_other_master_is_made_and_says_so():
    world = World(stays=lambda: "no other master is known here", waiting={DEVICE: 17}.get)
    leaving = replace(CLONE, leaves=True)
    for _ in range(2):
        world.create(leaving)
        world.commit()
        world.inbox_says()
        report = world.reports[-1]
        assert report.ok
        assert report.message == "it may leave, but no other master is known here"
        assert report.clones[0].waiting == 17
    told = World(
        stays=lambda: "no other master is known here",
        unmet=lambda clone, topic: f"{topic.processor} lacks co2",
    )
    told.create(leaving)
    told.commit()
    assert told.reports[-1].message == (
        f"{CLONE.processor} lacks co2; it may leave, but no other master is known here"
    )
    stays = World(stays=lambda: "no other master is known here")
    stays.create()
    stays.commit()
    assert stays.reports[-1].message == ""
