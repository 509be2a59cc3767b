"""Which move a master begins next."""

from __future__ import annotations

import pytest

from agent.placement.moves import Move
from agent.placement.placer import ENOUGH, GRANT_S, STUCK_S, Placer
from agent.placement.view import View
from agent.placement.world import PlacementError, Unit
from agent.wire.placement import (
    Delay,
    Listeners,
    PinnedUnit,
    PlacementFacts,
    Source,
    TopicFacts,
    UnitName,
)

A, B = Unit("processor", "a"), Unit("processor", "b")


def topic(name, source="iad1"):
    return TopicFacts(name, (Source(source, 10.0),))


def view_of(placer, *, here=("a", "b"), source="iad1", iad2="open", pins=(), silent=False):
    """Both topics are heard at `source`, so they are cheapest there."""
    own = PlacementFacts(
        "iad1", 1, 1, 5.0,
        mode=placer.mode,
        topics=tuple([topic(name, source) for name in here]),
        listeners=(Listeners("a", 1),) if source == "iad1" else (),
        delays=(Delay("iad2", 10.0, 20.0), Delay("iad3", 30.0, 40.0)),
        pins=tuple([PinnedUnit(UnitName(u.kind, u.name), t) for u, t in placer.pins.items()]),
    )  # fmt: skip
    other = PlacementFacts(
        "iad2", 1, 1, 5.0, mode=iad2, pins=pins,
        listeners=() if source == "iad1" else tuple([Listeners(n, 1) for n in here]),
    )  # fmt: skip
    return View([own] if silent else [own, other, PlacementFacts("iad3", 1, 1, 5.0)])


@pytest.fixture
def placer():
    return Placer("iad1", drift=False, move_cost=0.01)


def begun(placer, now=0.0, moving=(), **more):
    move = placer.next_move(view_of(placer, **more), moving, now)
    return move and (move.unit.name, move.target, move.reason)


def test_nothing_moves_by_itself_unless_drift_is_on(placer):
    assert begun(placer, source="iad2") is None
    drifting = Placer("iad1", drift=True, move_cost=0.01)
    assert begun(drifting, source="iad2") == ("a", "iad2", "drift")
    dear = Placer("iad1", drift=True, move_cost=10.0)
    assert begun(dear, source="iad2") is None


def test_pins_come_before_plans_and_plans_before_drift():
    placer = Placer("iad1", drift=True, move_cost=0.01)
    placer.apply(view_of(placer), [Move(A, "iad1", "iad3"), Move(B, "iad1", "iad3")], ())
    placer.pin(B, "iad2")
    assert begun(placer, source="iad2") == ("b", "iad2", "pin")
    assert begun(placer, source="iad2", moving=[B]) is None  # one at a time
    placer.ended(B, "", 1.0)
    assert begun(placer, 1.0, here=("a",), source="iad2") == ("a", "iad3", "plan")
    placer.ended(A, "", 2.0)
    # What a plan has put somewhere is free once it was moved on.
    assert begun(placer, 2.0, source="iad2", here=("a",)) == ("a", "iad2", "drift")


def test_a_frozen_master_neither_gives_nor_takes(placer):
    placer.pin(A, "iad2")
    placer.mode = "frozen"
    view = view_of(placer)
    assert placer.next_move(view, (), 0.0) is None
    assert placer.admits(view, Unit("processor", "x"), "iad2", 0.0) == "iad1 is frozen"
    placer.mode = "open"
    assert begun(placer) == ("a", "iad2", "pin")
    frozen = Placer("iad1", drift=False, move_cost=0.01)
    frozen.pin(A, "iad2")
    assert begun(frozen, iad2="frozen") is None


def test_draining_moves_all_units_away_by_price_one_after_the_other(placer):
    placer.mode = "draining"
    assert begun(placer) == ("a", "iad2", "drain")
    placer.ended(A, "", 1.0)
    assert begun(placer, 1.0, here=("b",), iad2="frozen") == ("b", "iad3", "drain")
    placer.ended(B, "", 2.0)
    assert begun(placer, 2.0, here=()) is None
    assert begun(placer, 2.0, here=("b",), silent=True) is None  # there is nobody else


def test_a_move_that_fails_is_tried_again_later_and_a_plans_is_given_up(placer):
    placer.apply(view_of(placer), [Move(A, "iad1", "iad2")], ())
    now = 0.0
    for failures in range(1, ENOUGH + 1):
        assert begun(placer, now) == ("a", "iad2", "plan")
        placer.ended(A, "it does not load", now)
        assert placer.troubles == {A: "it does not load"}
        assert begun(placer, now + 1.0) is None
        assert len(placer.waiting) == (failures < ENOUGH)
        now += 1_000.0
    assert begun(placer, now) is None


def test_what_concerned_a_unit_that_is_no_more_is_forgotten(placer):
    placer.apply(view_of(placer), [Move(A, "iad1", "iad2")], ())
    assert placer.waiting == [(A, "iad2", "plan")]
    assert begun(placer, here=("b",)) is None
    assert placer.waiting == []


@pytest.mark.parametrize(
    ("moves", "says"),
    [
        ([Move(A, "iad1", "iad9")], "no master iad9 is known here"),
        ([Move(A, "iad1", "gone")], "master gone is silent, and takes no units"),
        ([Move(A, "iad2", "iad3")], "but it is at iad1: plan anew"),
        ([Move(Unit("processor", "c"), "iad1", "iad3")], "there is no processor c"),
        ([Move(A, "iad1", "iad2"), Move(A, "iad1", "iad3")], "moves processor a twice"),
        ([Move(B, "iad1", "iad2"), Move(A, "iad1", "iad1")], "where it is"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_as_a_whole(placer, moves, says):
    with pytest.raises(PlacementError, match=says):
        placer.apply(view_of(placer), moves, ["gone"])
    assert placer.waiting == []


def test_pins_are_checked(placer):
    with pytest.raises(PlacementError, match=r"^no master iad22 is known here; did you mean iad2"):
        placer.check_pin(view_of(placer), A, "iad22", ())
    with pytest.raises(PlacementError, match="is pinned to iad2, which is draining"):
        placer.check_pin(view_of(placer, iad2="draining"), A, "iad2", ())
    with pytest.raises(PlacementError, match="cannot live at iad2: it is frozen"):
        placer.check_pin(view_of(placer, iad2="frozen"), A, "iad2", ())
    placer.check_pin(view_of(placer), A, "iad2", ())
    placer.pin(A, "iad2")
    placer.check_pin(view_of(placer), A, "iad3", ())
    with pytest.raises(PlacementError, match="processor b is not pinned here; pinned is proc"):
        placer.unpin(B)
    placer.unpin(A)
    other = Placer("iad2", drift=False, move_cost=0.01)
    with pytest.raises(PlacementError, match="lives at iad1: ask that master"):
        other.check_pin(view_of(placer), A, "iad2", ())


def test_a_new_unit_moves_at_once_if_another_master_is_cheaper_by_more_than_a_move(placer):
    assert placer.arrived(view_of(placer), A) is None
    move = placer.arrived(view_of(placer, source="iad2"), A)
    assert (move.target, move.reason) == ("iad2", "arrival")
    assert move.gain == pytest.approx(10 * 0.010 * 2)
    assert begun(placer, source="iad2") == ("a", "iad2", "arrival")


def test_a_master_grants_one_move_at_a_time_and_only_what_it_may_have(placer):
    view = view_of(placer)
    stranger = Unit("processor", "x")
    assert placer.admits(view, stranger, "iad2", 0.0) == ""
    assert placer.admits(view, stranger, "iad2", 1.0) == ""  # asked again
    assert (
        placer.admits(view, Unit("processor", "y"), "iad3", 2.0) == "iad1 is part of another move"
    )
    assert placer.admits(view, Unit("processor", "y"), "iad3", 2.0 + GRANT_S) == ""
    # What has come is not on its way any more.
    assert placer.admits(view_of(placer, here=("y",)), stranger, "iad3", 3.0 + GRANT_S) == ""
    other = Placer("iad2", drift=False, move_cost=0.01)
    placer.pin(A, "iad3")
    assert other.admits(view_of(placer), A, "iad1", 0.0) == "iad2 is not iad3, where it is pinned"


def test_a_unit_that_came_does_not_hold_back_those_that_go(placer):
    view = view_of(placer)
    placer.apply(view, [Move(A, "iad1", "iad2")], ())
    assert placer.admits(view, Unit("processor", "x"), "iad3", 0.0) == ""
    assert begun(placer, 1.0) is None
    assert begun(placer, 1.0, here=("a", "x")) == ("a", "iad2", "plan")


def pins_of(iad, placer):
    told = [PinnedUnit(UnitName(u.kind, u.name), to) for u, to in placer.pins.items()]
    return PlacementFacts(iad, 1, 1, 5.0, pins=tuple(told))


def test_pins_go_along_with_their_units():
    old, new = (Placer(iad, drift=False, move_cost=0.0) for iad in ("iad1", "iad2"))
    old.pin(A, "iad2")
    assert new.heard(pins_of("iad1", old), []) == []  # it has not come yet
    assert new.heard(pins_of("iad1", old), [A]) == [A]
    assert new.pins == {A: "iad2"}
    assert new.heard(pins_of("iad1", old), [A]) == []
    assert old.heard(pins_of("iad2", new), [A]) == []  # it is still here
    assert old.heard(pins_of("iad2", new), []) == [A]
    assert old.pins == {}


def test_a_pin_that_was_taken_away_does_not_come_back_with_old_news():
    old, new = (Placer(iad, drift=False, move_cost=0.0) for iad in ("iad1", "iad2"))
    old.pin(A, "iad2")
    late = pins_of("iad1", old)
    new.heard(late, [A])
    new.unpin(A)
    assert new.heard(late, [A]) == []
    assert new.pins == {A: ""}
    old.heard(pins_of("iad2", new), [])
    assert old.pins == {}
    with pytest.raises(PlacementError, match="processor a is not pinned here; pinned is nothing"):
        new.unpin(A)
    # Once it has gone nothing is known of it.
    assert new.heard(pins_of("iad1", old), []) == [A]
    assert new.pins == {}


def limited(most, *, here=("a", "b"), there=("c",)):
    """iad2 takes at most so many processors."""
    return View(
        [
            PlacementFacts("iad1", 1, 1, 5.0, topics=tuple([topic(name) for name in here])),
            PlacementFacts(
                "iad2", 1, 1, 5.0,
                topics=tuple([topic(name) for name in there]), most_processors=most,
            ),
        ]
    )  # fmt: skip


def test_a_plan_is_refused_if_a_master_could_not_have_its_units_when_all_moves_are_over(placer):
    c = Unit("processor", "c")
    with pytest.raises(PlacementError) as refused:
        placer.apply(limited(1), [Move(A, "iad1", "iad2")], ())
    assert str(refused.value) == (
        "iad2 cannot have processor a: it would have 2 processors, at most 1"
    )
    assert placer.waiting == []
    # One comes as another goes.
    moves = [Move(A, "iad1", "iad2"), Move(c, "iad2", "iad1")]
    assert placer.apply(limited(1), moves, ()) == moves[:1]
    with pytest.raises(PlacementError, match="it would have 3 processors, at most 2"):
        placer.apply(limited(2), [Move(A, "iad1", "iad2"), Move(B, "iad1", "iad2")], ())


def test_a_plans_move_that_cannot_begin_says_why_and_is_given_up_in_the_end(placer):
    placer.apply(limited(2), [Move(A, "iad1", "iad2")], ())
    assert placer.next_move(limited(1), (), 0.0) is None
    assert placer.troubles == {A: "iad2 would have 2 processors, at most 1"}
    assert placer.next_move(limited(1), (), STUCK_S - 1.0) is None
    assert placer.waiting == [(A, "iad2", "plan")]
    # As soon as there is room, however late, it begins.
    assert placer.next_move(limited(2), (), STUCK_S - 0.5).target == "iad2"
    assert placer.troubles == {}
    placer.ended(A, "it does not load", STUCK_S)
    later = 1_000.0
    assert placer.next_move(limited(1), (), later) is None
    assert placer.next_move(limited(1), (), later + STUCK_S) is None
    assert placer.waiting == []
    assert placer.troubles == {A: "iad2 would have 2 processors, at most 1"}


def test_a_plans_move_to_a_silent_master_says_so(placer):
    placer.apply(view_of(placer), [Move(A, "iad1", "iad2")], ())
    assert begun(placer, silent=True) is None
    assert placer.troubles == {A: "iad2 is silent"}
    assert begun(placer) == ("a", "iad2", "plan")


def test_a_pin_holds_while_its_master_is_silent():
    def view():
        told = view_of(placer, source="iad3", silent=True)
        near = PlacementFacts("iad3", 1, 1, 5.0, listeners=(Listeners("a", 1),))
        return View([told.facts["iad1"], near])

    placer = Placer("iad1", drift=True, move_cost=0.01)
    placer.pin(A, "iad2")
    assert placer.next_move(view(), (), 0.0) is None
    with pytest.raises(PlacementError) as refused:
        placer.apply(view(), [Move(A, "iad1", "iad3")], ["iad2"])
    assert str(refused.value) == "processor a is to move to iad3, but it is pinned to iad2"
    assert placer.arrived(view(), A) is None
    placer.mode = "draining"
    assert placer.next_move(view(), (), 0.0).reason == "drain"
    placer.mode = "open"
    free = Placer("iad1", drift=True, move_cost=0.01)
    assert free.next_move(view(), (), 0.0).target == "iad3"
