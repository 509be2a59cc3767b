"""What others have to grant before a unit drifts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.placement.admission import (
    GIVE_UP_S,
    LOST_S,
    MAX_GIVEN,
    QUIET_S,
    UNHEARD_S,
    Admission,
)
from agent.placement.placer import GRANT_S, Placer
from agent.placement.view import View
from agent.placement.world import Unit
from agent.wire.placement import (
    AskGrant,
    Delay,
    GrantTold,
    Listeners,
    PeerRate,
    PinnedUnit,
    PlacementFacts,
    Source,
    TopicFacts,
    UnitName,
)

A, B = Unit("processor", "a"), Unit("processor", "b")
START = 1_000.0
LATER = START + QUIET_S


def topic(name, *hears, source="iad2"):
    peers = tuple([PeerRate(peer, 2.0, "iad3") for peer in hears])
    return TopicFacts(name, (Source(source, 10.0),), peers=peers)


def facts(iad, *topics, hears=()):
    listeners = tuple([Listeners(name, 1) for name in hears])
    delays = tuple([Delay(each, 20.0, 30.0) for each in ("iad1", "iad2", "iad3") if each != iad])
    return PlacementFacts(iad, 1, 1, 5.0, topics=topics, listeners=listeners, delays=delays)


# `a` lives at iad1, and would be cheaper at iad2; it hears `b`, which lives at iad3.
TWO, THREE = facts("iad2", hears=("a",)), facts("iad3", topic("b"))


def view_of(*others, own=("b",)):
    return View([facts("iad1", topic("a", *own)), *(others or (TWO, THREE))])


class Site:
    def __init__(self, iad="iad1"):
        self.placer = Placer(iad, drift=True, move_cost=0.01)
        self.admission = Admission(iad, 7, self.placer, START)

    def seek(self, view=None, now=LATER, **more):
        """The masters that are asked, with what."""
        assert self.admission.next_move(view or view_of(), (), now, **more) is None
        return dict(self.admission.due(now))

    def tell(self, iad, step, now=LATER, *, granted=True, token=3, why=""):
        ask = self.admission
        ask.told(GrantTold(iad, 7, ask._number, step, granted, token, why), now)


@pytest.fixture
def site():
    return Site()


def test_a_move_begins_when_its_target_and_its_peers_masters_keep_it(site):
    asked = site.seek()
    held = {iad: [each.name for each in ask.held] for iad, ask in asked.items()}
    assert held == {"iad2": [], "iad3": ["b"]}
    site.tell("iad2", "ask", token=4)
    assert site.admission.to_check == ()
    site.tell("iad3", "ask", token=5)
    assert site.admission.to_check == ("iad2", "iad3")
    site.admission.check(view_of(), LATER)
    keeps = dict(site.admission.due(LATER))
    assert {iad: (ask.step, ask.token) for iad, ask in keeps.items()} == {
        "iad2": ("keep", 4), "iad3": ("keep", 5),
    }  # fmt: skip
    site.tell("iad2", "keep")
    assert site.admission.begins(LATER) is None
    site.tell("iad3", "keep")
    move = site.admission.begins(LATER)
    assert (move.unit, move.target, move.reason) == (A, "iad2", "drift")
    assert move.gain > 0.01
    assert site.admission.begins(LATER) is None
    # It is told that it goes on, and that it is over until all know.
    again = dict(site.admission.due(LATER + GRANT_S / 4))
    assert {ask.step for ask in again.values()} == {"keep"}
    site.admission.over(A, LATER + 20.0)
    assert {ask.step for _, ask in site.admission.due(LATER + 20.0)} == {"end"}
    site.tell("iad2", "end", LATER + 21.0)
    assert [iad for iad, _ in site.admission.due(LATER + 30.0)] == ["iad3"]
    assert site.admission.due(LATER + 20.0 + GRANT_S) == []
    assert site.admission.next_due is None


def test_who_does_not_answer_is_asked_less_and_less_often(site):
    site.seek()
    assert dict(site.admission.due(LATER + 1.0)).keys() == {"iad2", "iad3"}
    site.tell("iad2", "ask", LATER + 2.0)
    ends = site.admission.due(LATER + GIVE_UP_S)
    assert {(iad, each.step) for iad, each in ends} == {("iad2", "end"), ("iad3", "end")}
    assert site.placer.troubles[A] == "no grant of iad3"
    assert site.seek(now=LATER + GIVE_UP_S + 1.0) == {}
    assert site.admission.seeking is None


def test_what_no_longer_pays_by_fresh_facts_does_not_begin(site):
    site.seek()
    for iad in ("iad2", "iad3"):
        site.tell(iad, "ask")
    site.admission.check(view_of(facts("iad2"), THREE, own=("b", "b")), LATER)
    assert site.placer.troubles[A] == "it gains too little by now"
    assert not site.placer.grants.busy(LATER)
    assert {ask.step for _, ask in site.admission.due(LATER)} == {"end"}


def test_a_peer_that_has_moved_is_asked_for_again(site):
    site.seek()
    for iad in ("iad2", "iad3"):
        site.tell(iad, "ask")
    site.admission.check(view_of(facts("iad2", topic("b"), hears=("a",)), facts("iad3")), LATER)
    assert site.placer.troubles[A] == "processor b has moved to iad2"


def test_a_pin_comes_before_drift_that_has_not_begun(site):
    site.seek()
    site.placer.pin(A, "iad3")
    view = View(
        [
            PlacementFacts(
                "iad1", 1, 2, 5.0, topics=(topic("a", "b"),),
                pins=(PinnedUnit(UnitName("processor", "a"), "iad3"),),
            ),
            TWO,
            THREE,
        ]
    )  # fmt: skip
    move = site.admission.next_move(view, (), LATER + 1.0)
    assert (move.target, move.reason) == ("iad3", "pin")
    assert site.admission.seeking is None
    assert site.placer.grants.granted(move, LATER + 1.0)
    assert {ask.step for _, ask in site.admission.due(LATER + 1.0)} == {"end"}


@pytest.mark.parametrize(
    ("view", "now", "more", "says"),
    [
        (view_of(), START + 1.0, {}, "this master has started a moment ago"),
        (view_of(), LATER, {"unheard": ["iad9"]}, "iad9 has told nothing yet"),
        (view_of(TWO), LATER, {}, "b is at no master that is known"),
    ],
)
def test_drift_leaves_a_unit_alone_whose_price_is_not_known(site, view, now, more, says):
    assert site.seek(view, now, **more) == {}
    assert site.placer.troubles[A] == says
    assert not site.placer.grants.busy(now)
    late = START + UNHEARD_S
    assert bool(site.seek(view, late, **more)) == ("known" not in says)


def test_whoever_was_seen_lately_and_hears_a_unit_is_missed(site):
    heard_by_b = facts("iad3", topic("b", "a"))
    assert site.seek(view_of(TWO, heard_by_b, own=()), START + 1.0) == {}  # just started
    site.placer._pauses.clear()
    gone = view_of(TWO, facts("iad3"), own=())
    assert site.seek(gone, LATER) == {}
    assert site.placer.troubles[A] == "b is at no master that is known"
    site.placer._pauses.clear()
    assert site.seek(gone, LATER + LOST_S + 1.0).keys() == {"iad2"}  # it is no more


# -- the masters that are asked -------------------------------------------------------------------


def ask(step="ask", token=0, number=1, held=(), unit=A, target="iad2"):
    names = tuple([UnitName(each.kind, each.name) for each in held])
    return AskGrant(
        "iad1", 7, number, UnitName(unit.kind, unit.name), target, step, names, token
    )  # fmt: skip


def at(iad):
    own, other = (TWO, THREE) if iad == "iad2" else (THREE, TWO)
    return lambda: View([own, facts("iad1", topic("a", "b")), other])


def test_a_grant_that_was_lost_and_given_again_is_another_one():
    site = Site("iad2")
    granted, token, _ = site.admission.asked(ask(), at("iad2"), (), LATER)
    assert granted
    assert site.admission.asked(ask(), at("iad2"), (), LATER + 1.0) == (True, token, "")
    # A plan's move takes the grant, comes, and goes.
    assert site.placer.admits(at("iad2")(), B, "iad3", LATER + 2.0) == ""
    refused = site.admission.asked(ask("keep", token), at("iad2"), (), LATER + 3.0)
    assert refused == (False, 0, "the grant has ended")
    site.placer.grants.release(B)
    granted, other, _ = site.admission.asked(ask(), at("iad2"), (), LATER + 4.0)
    assert granted
    assert other != token
    assert not site.admission.asked(ask("keep", token), at("iad2"), (), LATER + 5.0)[0]
    assert site.admission.asked(ask("keep", other), at("iad2"), (), LATER + 5.0)[0]
    assert site.placer.admits(at("iad2")(), B, "iad3", LATER + 6.0) == (
        "iad2 is part of another move"
    )


def test_held_units_stay_until_the_end_or_until_nobody_says_so():
    site = Site("iad3")
    granted, token, _ = site.admission.asked(ask(held=[B]), at("iad3"), (), LATER)
    assert granted
    assert site.admission.asked(ask("keep", token, held=[B]), at("iad3"), (), LATER)[0]
    hold = site.placer.grants.holds
    assert hold(A, LATER + GRANT_S - 1.0)
    assert site.admission.asked(ask("keep", token, held=[B]), at("iad3"), (), LATER + 50.0)[0]
    assert hold(A, LATER + GRANT_S + 1.0)
    site.admission.asked(ask("end", number=0), at("iad3"), (), LATER + 60.0)  # of an earlier one
    assert hold(A, LATER + 60.0)
    site.admission.asked(ask("end"), at("iad3"), (), LATER + 60.0)
    assert not hold(A, LATER + 60.0)
    assert site.admission.asked(ask(number=2, held=[B]), at("iad3"), (), LATER + 60.0)[0]
    assert not hold(A, LATER + 60.0 + GRANT_S)


@pytest.mark.parametrize(
    ("held", "moving", "now", "says"),
    [
        ([B], [B], LATER, "processor b is moving"),
        ([Unit("processor", "c")], [], LATER, "processor c does not live there"),
        ([B], [], START + 1.0, "it has started a moment ago"),
    ],
)
def test_what_cannot_stay_is_said(held, moving, now, says):
    site = Site("iad3")
    assert site.admission.asked(ask(held=held), at("iad3"), moving, now) == (False, 0, says)
    assert not site.placer.grants.holds(A, now)


def test_another_masters_word_takes_no_grant_of_a_move_that_has_begun():
    site = Site("iad3")
    _, token, _ = site.admission.asked(ask(held=[B]), at("iad3"), (), LATER)
    assert site.admission.asked(ask("keep", token, held=[B]), at("iad3"), (), LATER)[0]
    for held in ([B], [Unit("processor", "nosuch")]):
        for step in ("ask", "end"):
            other = replace(ask(step, held=held), iad="iad2")
            told = site.admission.asked(other, at("iad3"), (), LATER + 1.0)
            assert step == "end" or told == (False, 0, "iad1 moves it")
    assert site.admission.asked(ask("keep", token, held=[B]), at("iad3"), (), LATER + 2.0)[0]
    # Nobody said so again: another may have it.
    late = LATER + 2.0 + GRANT_S
    other = replace(ask(held=[B]), iad="iad2")
    assert site.admission.asked(other, at("iad3"), (), late)[0]


def test_who_asks_for_nothing_gets_nothing():
    site = Site("iad3")
    assert site.admission.asked(ask(), at("iad3"), (), LATER) == (
        False,
        0,
        "nothing is asked of it",
    )


def test_grants_that_are_asked_for_without_end_are_bounded():
    site = Site("iad3")
    view = at("iad3")()

    def granted(number, now):
        unit = Unit("processor", f"u{number}")
        return site.admission.asked(ask(unit=unit, held=[B]), lambda: view, (), now)

    for number in range(MAX_GIVEN):
        assert granted(number, LATER)[0]
    assert granted(MAX_GIVEN, LATER) == (False, 0, "it has granted too many moves")
    assert granted(0, LATER)[0]
    assert granted(MAX_GIVEN, LATER + GRANT_S)[0]
