"""Membership in the hands of a master: sockets, peers and keys are the test's."""

from __future__ import annotations

import pytest

from agent.master.placement.membership_plane import NOT_OURS, MembershipPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.runtime.reactor import Reactor
from agent.wire.config import ConfigError, parse
from agent.wire.master_config import MasterConfig
from agent.wire.membership import MemberAddress, Members
from agent.wire.principals import Sender

DOOR = "tcp://10.0.0.9:5700"
OURS = Sender("iad", "iad2", partner=True)
TRUST = {"key": "own.secret", "allow": "allow.toml"}


def config(**placement):
    keyed = {"bootstrap": [DOOR], "bootstrap_keys": "door.public", "every_s": 1.0}
    table = {
        "iad": {"name": "iad1"},
        "sockets": {"public": "tcp://10.0.0.1:5700", "operator": "ipc:///run/o"},
        "trust": TRUST,
        "placement": keyed | placement,
    }
    return parse(table, MasterConfig, "test")


class Rig:
    """As public socket, peers and keys."""

    def __init__(self, **placement):
        self.now, self.handlers, self.links, self.up = 0.0, {}, {}, set()
        self.sent, self.replies, self.refused = [], [], []
        self.keyed = True
        self.keys = {"iad2": ("2" * 40,), "iad3": ("3" * 40,)}
        self.plane = MembershipPlane(
            Reactor(lambda: self.now), config(**placement), self, self, self,
            {"iad7": "at iad7"}, tuple,
        )  # fmt: skip

    def takes(self, kind, handler):
        self.handlers.setdefault(kind, []).append(handler)

    def reply(self, _origin, message):
        self.replies.append(message)

    def refuse(self, *what):
        self.refused.append(what[-1])

    def connect(self, name, address, keys, *, by):
        self.links[name] = (address, keys, by)

    def drop(self, name, by):
        if name in self.links and self.links[name][2] == by:
            del self.links[name]

    def connected(self, name):
        return name in self.up

    def send(self, name, message):
        self.sent.append((name, message))
        return True

    def partner_keys(self, iad):
        return self.keys.get(iad, ())

    # For the test.

    def ask(self, message, sender=OURS):
        self.handlers[Members][0](RequestOrigin(b"o", b"M", sender), message, self.now)

    def answer(self, name, message):
        self.handlers[Members][1](name, message, self.now)

    def run(self, seconds):
        end = self.now + seconds
        while (due := self.plane.next_due) is not None and due <= end:
            self.now = max(self.now, due)
            self.plane.tick(self.now)
        self.now = end


def test_who_is_found_through_the_first_address_is_dialled_with_its_own_keys():
    rig = Rig()
    rig.run(0.0)
    assert rig.links == {DOOR: (DOOR, "door.public", "trial")}
    rig.up.add(DOOR)
    rig.run(1.0)
    assert [name for name, _ in rig.sent] == [DOOR]
    at = "tcp://10.0.0.2:5700"
    rig.answer(DOOR, Members("iad2", at))
    rig.run(1.0)
    assert rig.links == {"iad2": (at, ("2" * 40,), "trial")}
    assert [*rig.plane.partners] == ["iad7"]
    rig.up.add("iad2")
    rig.run(1.0)
    rig.answer("iad2", Members("iad2", at, view=True))
    rig.run(1.0)
    assert rig.links == {"iad2": (at, ("2" * 40,), "member")}
    assert dict(rig.plane.partners) == {"iad2": at, "iad7": "at iad7"}
    assert rig.plane.counters["members_partners"] == 2


@pytest.mark.parametrize(
    "sender",
    [
        Sender("iad", "iad2"),  # its key comes from a market
        Sender("iad", "iad3", partner=True),
        Sender("client", "iad2"),
        Sender("anyone", "x"),
    ],
)
def test_who_does_not_prove_that_it_is_the_operators_is_refused(sender):
    rig = Rig()
    rig.ask(Members("iad2", "tcp://10.0.0.2:5700", view=True), sender)
    assert rig.refused == [NOT_OURS]
    assert rig.replies == []
    assert [*rig.plane.partners] == ["iad7"]


def test_a_partner_that_asks_is_answered_until_its_key_is_taken_away():
    rig = Rig()
    rig.ask(Members("iad2", "tcp://10.0.0.2:5700", view=True))
    assert rig.replies[0].view
    rig.run(1.0)
    assert "iad2" in rig.links
    rig.keys.clear()
    rig.run(2.0)
    assert "iad2" not in rig.links
    assert "iad2" not in rig.plane.partners


@pytest.mark.parametrize("address", ["ipc:///run/liar", "nonsense", "tcp://10.0.0.3:0"])
def test_hearsay_that_proves_nothing_is_not_dialled(address):
    rig = Rig()
    told = Members(
        "iad2", "tcp://10.0.0.2:5700", view=True, known=(MemberAddress("iad3", address, 0),)
    )
    rig.ask(told)
    rig.up.add("iad2")
    rig.run(30.0)
    assert rig.plane.counters["members_failed"] > 0
    assert address not in {at for at, _, _ in rig.links.values()}


@pytest.mark.parametrize("placement", [{"bootstrap": []}, {"alone": True}])
def test_a_master_that_wants_none_neither_dials_nor_answers(placement):
    rig = Rig(**placement)
    rig.ask(Members("iad2", "tcp://10.0.0.2:5700", view=True))
    rig.run(60.0)
    assert (rig.links, rig.refused, rig.plane.counters) == ({}, [NOT_OURS], {})


@pytest.mark.parametrize(
    ("placement", "line"),
    [
        ({"bootstrap": ["10.0.0.9"]}, "placement.bootstrap = '10.0.0.9' is neither tcp://host"),
        ({"bootstrap": ["ipc:///run/p"]}, "has no keys that prove who is there"),
        ({"bootstrap_keys": ""}, "placement.bootstrap_keys is missing"),
        ({"view": 1}, "view"),
        ({"bootstrap": [DOOR] * 33}, "bootstrap"),
    ],
)
def test_one_line_says_what_is_wrong(placement, line):
    with pytest.raises(ConfigError) as caught:
        config(**placement)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    "told",
    [
        {"placement": {"bootstrap": [DOOR], "bootstrap_keys": "door.public"}},
        {"market": {"directories": [DOOR], "directory_keys": "drs.public"}},
    ],
)
def test_an_address_that_nobody_can_dial_is_refused(told):
    table = {
        "iad": {"name": "iad1"},
        "sockets": {"public": "tcp://*:5700", "operator": "ipc:///run/o"},
        "trust": TRUST,
        **told,
    }
    with pytest.raises(ConfigError, match=r"set sockets\.advertise"):
        parse(table, MasterConfig, "test")
