"""A mirror: what it takes of its primary, and when it asks again."""

import pytest
from msgspec.structs import replace

from agent.directory.directory import Directory
from agent.directory.replica import PATIENCE_S, ReadReplica
from agent.wire import directory as d

HELD = d.DirectoryEntry(3, d.Account("iad1", "iad", ()), "tcp://127.0.0.1:1", (), 60.0)


@pytest.mark.parametrize(
    ("version", "entry"),
    [
        (2**53 - 1, HELD),
        (2, HELD),
        (3, replace(HELD, version=0)),
        (3, replace(HELD, address="", offerings=(d.Offering("temperature", ("b1",)),))),
    ],
)
def test_a_mirror_keeps_its_copy_when_the_primary_says_what_none_says(version, entry):
    """The primary's file may be damaged; the copy would be as broken at the mirror's next start."""
    mirror = ReadReplica(Directory("e", 4, ()), "tcp://primary:1", every_s=1.0, now=0.0)
    mirror.tick(0.0)
    assert mirror.received(d.Changes("f1", "e", version, whole=True, entries=(entry,)), 1.0) is None
    assert (mirror.age_s(9.0), mirror.next_due) == (9.0, 2.0)


def test_a_mirror_asks_again_when_the_primary_is_silent_or_refuses():
    mirror = ReadReplica(Directory("e", 4, ()), "tcp://primary:1", every_s=1.0, now=0.0)
    first = mirror.tick(0.0)
    assert mirror.next_due == PATIENCE_S
    second = mirror.tick(PATIENCE_S)
    assert (second.epoch, second.version, second.id != first.id) == ("e", 4, True)
    denied = d.Denied(second.id, "not_authorised", "no")
    assert mirror.received(denied, 5.5) is None
    assert mirror.next_due == 6.5
    mirror.tick(6.5)
    mirror.undelivered(6.5)
    assert mirror.next_due == 7.5
