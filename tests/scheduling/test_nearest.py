"""What somebody may have meant who asked for an area that is not there."""

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling import nearest as nearest_module
from agent.scheduling.nearest import MAX_NAMED, nearest, without_node
from agent.wire.areas import MAX_NAMED_BELOW, AreaSet
from agent.wire.market import Member
from agent.wire.messages import Missing
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
        ("b11/f4/r413", "b1/f4/r413"),
        ("b11/f44/r418", "b1/f4/r413"),
        ("b11/f9/r413", "b1"),
        ("b1/f4/kitchen", ""),
        ("elsewhere", ""),
        ("b1/f4", ""),
        ("B1/F4", "b1/f4"),
        ("B1/F4/R419", "b1/f4/r419"),
        ("B1/kitchen", "b1"),
        ("b1/F4", "b1/f4"),
        ("b1/f4/R419", "b1/f4/r419"),
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


def test_only_what_nobody_names_is_unknown():
    """An area that is announced has a node that did not come: its name is no mistake."""
    pool = (Member("iad1", "tcp://127.0.0.1:1", ("b1/f4/r413", "b1/f4/r419", "b1/f6")),)
    rig = TaskRig(pool=pool)
    rig.join("n1", areas=("b1/f4/r413",))
    rig.join("n2", areas=("b1/f5/r510",))
    rig.ask(1, ("b1/f4/r41", "b1/f4/r419", "b1/f6", "b1/f6/r1", "b1/f5/r51"))
    gaps = {gap.area: (gap.unknown, gap.nearest) for gap in rig.results[0].missing}
    assert gaps == {
        "b1/f4/r41": (True, ("b1/f4/r413",)),
        "b1/f4/r419": (False, ()),
        "b1/f5/r51": (True, ()),  # the first two are compared with all
        "b1/f6": (False, ()),
        "b1/f6/r1": (True, ()),
    }


def test_of_a_fleet_without_nodes_nothing_is_unknown():
    rig = TaskRig()
    rig.ask(1, ("b1/f4/r41",))
    assert [gap.unknown for gap in rig.results[0].missing] == [False]


def test_what_one_iad_does_not_know_another_may_announce():
    pool = (
        Member("iad1", "tcp://127.0.0.1:1", ("b1",)),
        Member("iad2", "tcp://127.0.0.1:2", ("b1/f4",)),
    )
    rig = QueryRig(pool)
    rig.ask("b1/f4/r1")
    for unknown, (iad, task) in zip((True, False), rig.tasks, strict=True):
        gap = Missing("b1/f4/r1", "no_node", unknown=unknown)
        rig.give(iad, task, 0.1, areas=(), missing=(gap,))
    assert [gap.unknown for gap in rig.answers[0].missing] == [False]


@given(st.lists(st.text("ab1", min_size=1, max_size=5), unique=True), st.text("ab1", max_size=6))
def test_those_that_begin_alike_are_compared(names, wanted):
    def rank(name):
        alike = [n for n in range(7) if name[:n] == wanted[:n]]
        return -min(max(alike), len(name), len(wanted)), name

    assert nearest_module._begin_alike(sorted(names), wanted) == sorted(names, key=rank)[:8]


def test_long_names_cost_no_more_than_short_ones(monkeypatch):
    compared = []

    def matcher(_junk, one, other):
        compared.append((one, other))
        return SequenceMatcher(None, one, other)

    monkeypatch.setattr(nearest_module, "SequenceMatcher", matcher)
    known = AreaSet(f"b1/{'a' * 50}{n}" for n in range(300))
    assert nearest(f"b1/{'a' * 60}", known) == f"b1/{'a' * 50}0"
    assert nearest(f"b1/{'ab' * 30}", known) == ""
    assert max(len(one + other) for one, other in compared) <= 2 * nearest_module.MAX_DIFFERENT


def test_names_below_a_parent_are_sorted_once():
    known = AreaSet(f"b{n % 20}/r{n}" for n in range(100))
    first = known.names_below("b1", 256)
    assert first == ["r1", "r21", "r41", "r61", "r81"]
    assert known.names_below("b1", 256) is first
    known.add("b1/r0")
    assert known.names_below("b1", 256) == ["r0", *first]
    for n in range(100):
        known.names_below(f"b{n}", 256)
    assert len(known._named[1]) <= MAX_NAMED_BELOW
