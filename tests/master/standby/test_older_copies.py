"""A topic that lives at two masters, since the state of one was put back from an older copy."""

from __future__ import annotations

import pytest

from agent.master.standby.older_copies import MOST_TOLD, OlderCopies, proof
from agent.placement.world import Unit
from agent.wire.handover import StandbyTook
from agent.wire.placement import PlacementFacts, TopicFacts

UNIT = Unit("processor", "counted")


class Master:
    """One master with that topic, since this epoch, and what `OlderCopies` uses of it."""

    def __init__(self, iad, epoch, incarnation="i", count=1):
        self.iad, self.since, self.inbox = iad, epoch, incarnation
        self.names = {"counted", *(f"t{n}" for n in range(1, count))}
        self.on_the_move = False
        self.told, self.done, self.said = [], [], []
        self.older = OlderCopies(iad, self, self, self, lambda: 0.0, self.said.append)

    @property
    def facts(self):
        return PlacementFacts(self.iad, 1, 1, 5.0, topics=tuple(map(TopicFacts, self.names)))

    def lives(self, unit):
        return unit.name in self.names

    def moving(self, _unit):
        return self.on_the_move

    def epoch(self, _unit):
        return self.since

    def incarnation(self, name):
        return self.inbox if name in self.names else ""

    def tell(self, to, unit, message):
        self.told.append((to, unit, message))

    def disown(self, name, incarnation):
        self.done.append(("disown", name, incarnation))

    def lost(self, unit, epoch, to):
        self.done.append(("lost", unit, epoch, to))
        self.names.remove(unit.name)


def meet(one, other):
    """Both tell what they have, and hear what the other says of it."""
    for a, b in ((one, other), (other, one)):
        b.older.claimed(a.facts)
        for to, unit, took in b.told:
            assert to == a.iad
            a.older.heard(unit, b.iad, took)
        b.told.clear()


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_who_has_it_since_an_earlier_epoch_lets_it_go(epoch):
    old, new = Master("a", epoch), Master("b", 3)
    meet(old, new)
    assert old.done == [("disown", "counted", "i"), ("lost", UNIT, 3, "b")]
    (line,) = old.said
    assert "let go: it lives at b" in line
    meet(old, new)
    assert new.done == []
    assert new.names == {"counted"}


def test_another_topic_of_that_name_stays():
    old, new = Master("a", 0, "i"), Master("b", 3, "j")
    meet(old, new)
    assert old.done == new.done == []


def test_one_that_never_moved_is_claimed_by_nobody():
    one, other = Master("a", 0), Master("b", 0)
    one.older.claimed(other.facts)
    assert one.told == []


def test_one_that_is_on_the_move_stays():
    old, new = Master("a", 1), Master("b", 3)
    old.on_the_move = True
    meet(old, new)
    assert old.done == []


@pytest.mark.parametrize(
    "took",
    [
        StandbyTook(3),
        StandbyTook(3, "é" * 32),
        StandbyTook(3, proof("j", "b", "a", 3)),
        StandbyTook(3, proof("i", "b", "c", 3)),  # said to another
        StandbyTook(3, proof("i", "c", "a", 3)),  # by another
        StandbyTook(3, proof("i", "b", "a", 4)),  # of another epoch
        StandbyTook(1, proof("i", "b", "a", 1)),  # of this one
        StandbyTook(1 << 52, proof("i", "b", "a", 1 << 52)),  # which none has reached
    ],
)
def test_it_is_let_go_for_nobody_who_cannot_have_it(took):
    old = Master("a", 1)
    old.older.heard(UNIT, "b", took)
    assert old.done == []


def test_one_master_is_told_of_so_many_topics_at_once():
    new = Master("b", 3, count=2 * MOST_TOLD)
    new.older.claimed(Master("a", 1, count=2 * MOST_TOLD).facts)
    assert len(new.told) == MOST_TOLD
