"""What somebody may have meant who asked for an area that is not there."""

import pytest

from agent.scheduling.nearest import MAX_NAMED, nearest, without_node
from agent.wire.areas import AreaSet
from agent.wire.market import Member
from agent.wire.principals import Sender
from tests.scheduling.rigs import QueryRig, TaskRig

KNOWN = AreaSet(["b1/f4/r413", "b1/f4/r419", "b1/f5/r510", "b2/hall"])


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("b1/f4/r41", "b1/f4/r413"),
        ("b1/f4/r418", "b1/f4/r413"),
        ("b1/f9", ""),
        ("b1/f44", "b1/f4"),
        ("b2/hal/x", "b2/hall"),
        ("b11/f4/r413", "b1"),
        ("b1/f4/kitchen", ""),
        ("elsewhere", ""),
        ("b1/f4", ""),
    ],
)
def test_the_likest_beside_it_is_named(asked, meant):
    assert nearest(asked, KNOWN) == meant


def test_the_first_of_many_are_named():
    gaps = without_node([f"b1/f4/r41{letter}" for letter in "abcdef"], KNOWN)
    assert [bool(gap.nearest) for gap in gaps] == [n < MAX_NAMED for n in range(6)]


def test_a_query_scheduler_names_what_its_service_announces():
    rig = QueryRig((Member("iad1", "tcp://127.0.0.1:1", ("b1/f4/r413",)),))
    rig.ask("b1/f4/r431")
    [gap] = rig.answers[0].missing
    assert (gap.reason, gap.nearest) == ("no_node", ("b1/f4/r413",))


@pytest.mark.parametrize(("iad", "meant"), [("iad1", ("b1/f4/r413",)), ("iad2", ())])
def test_another_iad_learns_nothing_that_is_not_announced(iad, meant):
    pool = (
        Member("iad1", "tcp://127.0.0.1:1", ("b1/f4",)),
        Member("iad2", "tcp://127.0.0.1:2", ("b1/f5",)),
    )
    rig = TaskRig(pool=pool)
    rig.join("n1", areas=("b1/f4/r413",))
    rig.ask(1, ("b1/f4/r41",), sender=Sender("iad", iad))
    [gap] = rig.results[0].missing
    assert gap.nearest == meant
