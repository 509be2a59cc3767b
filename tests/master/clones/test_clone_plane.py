"""Clones on a master's disk that a later version wrote: the master starts, and they stay."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from agent.clones.events import Kept, Taken
from agent.derived.last_values import LastValues
from agent.master.clones.clone_plane import CLONE, TAKEN, ClonePlane
from agent.master.clones.derived_plane import LAST, WAITING, DerivedPlane
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.wire.clones import CloneOf
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Notified
from agent.wire.topics import Clone, Topic

DEVICE, ID = "a/n1", "0" * 32
TOPIC = Topic("clone.x", processor="p", clone=Clone("a"))
KEPT = msgspec.msgpack.encode(Kept(CloneOf(DEVICE, "p", areas=("b1",)), TOPIC, ID, made=True))
TOOK = msgspec.msgpack.encode(Taken(ID, 1))
VALUES = msgspec.msgpack.encode([1, {"x": 1.0}])
LATER = msgspec.msgpack.encode({"of": "a later version"})


class Others:
    """The other planes of the master."""

    def __init__(self) -> None:
        self.inboxes = self
        self.ended: list[str] = []

    def takes(self, *_) -> None:
        pass

    takes_refusals = takes

    def kept_for(self, prefix):
        return [(f"{prefix}{DEVICE}", ID)]

    def ask(self, _peer, _client, message) -> bool:
        self.ended += [message.id] if type(message).__name__ == "Unsubscribe" else []
        return True


@pytest.mark.parametrize("documents", [(LATER, TOOK), (KEPT, LATER)])
def test_a_clone_of_a_later_version_stays_with_all_that_belongs_to_it(documents):
    reactor, state, others, said = Reactor(lambda: 1.0), State(None, lambda: 1.0), Others(), []
    key = f"{DEVICE} {ID} {1:016d}"
    on_disk = {CLONE: {DEVICE: documents[0]}, TAKEN: {DEVICE: documents[1]}}
    on_disk |= {WAITING: {key: VALUES, "a/gone x 1": VALUES}, LAST: {DEVICE: LATER}}
    state.all = lambda kind: on_disk.get(kind, {})
    removed = []
    state.remove = lambda *document: removed.append(document)
    devices = DerivedPlane(reactor, state, others, LastValues(), lambda: 1.0, said.append)
    plane = ClonePlane(
        reactor, "a", state, others, others, others, others, others, others,
        lambda: 1.0, said.append, devices=devices,
    )  # fmt: skip
    assert len(plane) == 0
    assert f"clone of {DEVICE} on disk cannot be read" in said[0]
    assert removed == [(WAITING, "a/gone x 1")]
    assert others.ended == []


class Node:
    """A joined node; also what a master's topics say of a processor that uses `uses`."""

    def __init__(self, *uses):
        self.uses = uses
        self.readings = self
        self.known_nodes = frozenset({"n1", "n3", "kitchen"})

    def node_at(self, name):
        return SimpleNamespace(channels=("humidity", "temperature")) if name == "n1" else None

    def unmet(self, _topic, given, those):
        lacking = [each for each in self.uses if each not in given]
        return f"{lacking} {those} {[*given]}" if lacking and given else ""


@pytest.mark.parametrize(
    ("device", "fields", "says"),
    [
        ("a/n1", {}, "['co2'] a/n1 gives only ['humidity', 'temperature']"),
        ("a/n2", {}, ""),  # it is not joined: nobody knows
        ("a/n1", {"peers": ("a/n3", "b/n9")}, ""),  # perhaps what peers put out has it
        (
            "a/n1",
            {"peers": ("a/n3", "a/kitchn")},
            "peer a/kitchn is no node that is known here; did you mean a/kitchen?",
        ),
        ("a/n1", {"peers": ("a/zzz",)}, "peer a/zzz is no node that is known here"),
        ("a/n1", {"channels": ("humidity",)}, "['co2'] its readings have only ['humidity']"),
        (
            "a/n1",
            {"channels": ("temprature",)},
            "a/n1 gives humidity, temperature, not temprature; did you mean temperature?",
        ),
    ],
)
def test_channels_and_peers_that_are_not_there_are_named(device, fields, says):
    reactor, state, others = Reactor(lambda: 1.0), State(None, lambda: 1.0), Others()
    plane = ClonePlane(
        reactor, "a", state, others, others, others, others, others, others,
        lambda: 1.0, lambda _: None,
    )  # fmt: skip
    plane._tasks = plane._topics = Node("co2")
    assert plane._unmet(CloneOf(device, "p", **fields), TOPIC) == says


def test_only_masters_that_may_have_a_clone_put_out_for_its_device():
    reactor, state, others = Reactor(lambda: 1.0), State(None, lambda: 1.0), Others()
    partners = {"b": "tcp://b"}
    plane = ClonePlane(
        reactor, "a", state, others, others, others, others, others, others,
        lambda: 1.0, lambda _: None, partners=partners,
    )  # fmt: skip

    def came(publisher: str) -> bool:
        attributes = {"iad": publisher, "topic": TOPIC.name, "kind": "output", "x": 1.0}
        origin = Origin(publisher, "history", 1)
        plane._came.clear()
        plane._said(DEVICE, ID, Notified(ID, 1, Notification(origin, 0, attributes)))
        return bool(plane._came)

    assert came("a")
    assert came("b")
    assert not came("c")
    partners["c"] = "tcp://c"  # found by gossip
    assert came("c")


@pytest.mark.parametrize(
    ("partners", "drifts", "says"),
    [
        ({}, True, "no other master is known here"),
        ({"b": "tcp://b"}, False, "does not move by itself: placement.drift is false here"),
        ({"b": "tcp://b"}, True, ""),
    ],
)
def test_why_no_clone_moves_by_itself_is_said(partners, drifts, says):
    others = Others()
    plane = ClonePlane(
        Reactor(lambda: 1.0), "a", State(None, lambda: 1.0), others, others, others, others, others,
        others, lambda: 1.0, lambda _: None, partners=partners, drifts=drifts,
    )  # fmt: skip
    assert plane._stays() == says
