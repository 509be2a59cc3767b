"""Gossip between masters: lost, doubled, late; what is out of date does not count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.master.placement.placement_facts import FEW_TOPICS, fitting
from agent.placement.membership.gossip import IDLE_S, LASTS, MAX_KNOWN, UNANSWERED, Gossip
from agent.wire import placement as w
from agent.wire.codec import MAX_REQUEST_BYTES, Decoder, encode
from agent.wire.messages import Slo
from agent.wire.placement import PlacementFacts, TopicFacts

ACTIVE = 5.0
BUSY = PlacementFacts("own", 0, 0, ACTIVE, topics=(TopicFacts("comfort"),))
IDLE = PlacementFacts("own", 0, 0, ACTIVE)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.integers(0, 1)),
        st.tuples(st.just("deliver"), st.integers(0, 30)),
        st.tuples(st.just("again"), st.integers(0, 30)),
        st.tuples(st.just("lose"), st.integers(0, 30)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=60,
)


def told(iad="b", epoch=1, number=1, next_s=ACTIVE, **more):
    return PlacementFacts(iad, epoch, number, next_s, **more)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_newest_facts_that_came_stand_whatever_is_lost_doubled_or_late(steps):
    names, now = ("a", "b"), 0.0
    epochs = {"a": 1, "b": 1}
    nodes = {iad: Gossip(iad, 1, now, ACTIVE, ACTIVE) for iad in names}
    wire, newest, came = [], {"a": None, "b": None}, {"a": 0.0, "b": 0.0}
    for what, number in steps:
        if what == "tell":
            iad = names[number]
            (other,) = set(names) - {iad}
            nodes[iad].due([other], True, now)
            wire.append((other, nodes[iad].tell(other, BUSY, now)))
        elif what == "restart":
            # What it had heard is gone, too.
            iad = names[number]
            epochs[iad] += 1
            nodes[iad] = Gossip(iad, epochs[iad], now, ACTIVE, ACTIVE)
            newest[iad] = None
        elif what == "wait":
            now += number
        elif wire:
            place = number % len(wire)
            other, facts = wire[place] if what == "again" else wire.pop(place)
            if what != "lose":
                version = facts.epoch, facts.number
                fresh = newest[other] is None or version > newest[other]
                # Late facts of an ended process may stand in for facts that are out of date.
                stale = (
                    not fresh
                    and now - came[other] > LASTS * ACTIVE
                    and facts.epoch != newest[other][0]
                )
                assert nodes[other].heard(facts, now) == (fresh or stale)
                if fresh or stale:
                    newest[other], came[other] = version, now
        for iad in names:
            counted = nodes[iad].fresh(now)
            if newest[iad] is None or now - came[iad] > LASTS * ACTIVE:
                assert not counted
            else:
                (facts,) = counted.values()
                assert (facts.epoch, facts.number) == newest[iad]


def test_a_silent_master_does_not_count_but_is_shown():
    gossip = Gossip("a", 1, 0.0)
    assert gossip.heard(told(), 10.0)
    assert [*gossip.fresh(10.0 + LASTS * ACTIVE)] == ["b"]
    late = 10.5 + LASTS * ACTIVE
    assert gossip.fresh(late) == {}
    (known,) = gossip.known(late)
    assert (known.facts.iad, known.silent, known.age_s) == ("b", True, LASTS * ACTIVE + 0.5)
    assert gossip.known(10_000.0) == []


def test_masters_that_were_idle_are_not_silent_until_they_had_time_to_tell():
    gossip = Gossip("a", 1, 0.0)
    gossip.heard(told(), 1.0)
    now = 5_000.0  # long idle, and still known
    for idle_s in range(0, 5_000, 5):
        assert gossip.due(["b"], False, idle_s) == []
    assert [each.silent for each in gossip.known(now)] == [False]
    gossip.wake(now)
    assert gossip.due(["b"], False, now) == ["b"]
    assert gossip.fresh(now) == {}  # nothing is placed there meanwhile
    assert [each.silent for each in gossip.known(now + 5.0)] == [False]
    gossip.heard(told(number=2), now + 6.0)
    assert [each.silent for each in gossip.known(now + 6.0 + LASTS * ACTIVE)] == [False]
    assert [each.silent for each in gossip.known(now + 6.5 + LASTS * ACTIVE)] == [True]


def test_a_master_that_tells_nothing_though_this_one_is_awake_is_silent():
    gossip = Gossip("a", 1, 0.0)
    gossip.heard(told(), 1.0)
    gossip.due(["b"], False, 100.0)
    gossip.wake(100.0)
    assert [each.silent for each in gossip.known(100.0 + LASTS * ACTIVE)] == [False]
    assert [each.silent for each in gossip.known(100.5 + LASTS * ACTIVE)] == [True]


def test_a_master_that_lost_its_disk_counts_again():
    gossip = Gossip("a", 1, 0.0)
    gossip.heard(told(epoch=9), 0.0)
    assert not gossip.heard(told(epoch=2), 1.0)
    assert gossip.heard(told(epoch=2), 1.0 + LASTS * ACTIVE)


def test_nobody_says_for_longer_than_an_idle_interval_that_he_is_there():
    gossip = Gossip("a", 1, 0.0)
    gossip.heard(told(next_s=86_400.0), 0.0)
    assert gossip.fresh(LASTS * IDLE_S)
    assert not gossip.fresh(LASTS * IDLE_S + 1.0)


def test_own_facts_that_come_back_and_masters_beyond_the_bound_are_not_heard():
    gossip = Gossip("a", 1, 0.0)
    assert not gossip.heard(told("a"), 0.0)
    for number in range(MAX_KNOWN):
        assert gossip.heard(told(f"m{number}"), 0.0)
    assert not gossip.heard(told("more"), 0.0)
    assert gossip.heard(told("m0", number=2), 0.0)


def test_the_largest_facts_fit_a_request():
    name, long = "n" * 64, "c" * 160
    rates = {f"{n:064}": 1.5 for n in range(w.MAX_CHOICES)}
    sources = tuple([w.Source(iad, 1.5) for iad in list(rates)[: w.MAX_SOURCES]])
    slo = Slo(90.0, 1_000.5)
    topic = TopicFacts(name, sources, name, 1.5, 1.5, 1.5, slo, 1.5)
    home = w.HomeFacts(long, rates, 1.5, rates, tuple(rates))
    facts = PlacementFacts(
        name, 2**52, 2**52, 60.5, 4, "draining", 1.5, 1.5, 9, 1.5,
        topics=(topic,) * FEW_TOPICS,
        listeners=(w.Listeners(name, 2**52),) * w.MAX_PLACED,
        homes=(home,) * w.MAX_HOMES,
        delays=(w.Delay(name, 1.5, 1.5, 1.5),) * w.MAX_TOLD_MASTERS,
        pins=(w.PinnedUnit(w.UnitName("processor", long), name),) * w.MAX_PINS,
    )  # fmt: skip
    frame = encode(facts)
    assert len(frame) <= MAX_REQUEST_BYTES, len(frame)
    assert Decoder(PlacementFacts).decode(frame)[0] == facts
    more = fitting(replace(facts, topics=(topic,) * w.MAX_TOPICS))
    assert 0 < len(more.topics) < w.MAX_TOPICS
    assert len(encode(more)) <= MAX_REQUEST_BYTES
    some = replace(facts, topics=(topic,) * w.MAX_TOPICS, homes=(), listeners=())
    assert 0 < len(fitting(some).topics) < w.MAX_TOPICS
    small = replace(some, topics=(TopicFacts("clone-0123456789abcdef"),) * w.MAX_TOPICS)
    assert fitting(small) == small


def test_what_is_not_told_of_homes_is_told_as_subscribers_of_what_they_hear():
    wall = w.HomeFacts("client//wall", {"a": 0.0, "b": 1.0}, hears=("comfort", "notes"))
    log = w.HomeFacts("client//log", {"a": 0.0, "c": 1.0}, hears=("comfort",))
    own = replace(BUSY, homes=(wall, log), listeners=(w.Listeners("notes", 2),))
    gossip = Gossip("a", 1, 0.0)
    assert gossip.due(["b", "c", "d"], True, 0.0) == ["b", "c", "d"]
    for iad, homes, listeners in (
        ("b", (wall,), {"comfort": 1, "notes": 2}),
        ("c", (log,), {"comfort": 1, "notes": 3}),
        ("d", (), {"comfort": 2, "notes": 3}),
    ):
        facts = gossip.tell(iad, own, 0.0)
        assert facts.homes == homes
        assert {each.topic: each.count for each in facts.listeners} == listeners


def test_masters_that_have_nothing_to_place_say_nothing_until_one_wants_to_hear():
    gossip = Gossip("a", 1, 0.0)
    assert gossip.due(["a", "b", "c"], False, 100.0) == []
    gossip.heard(told(wants=True), 100.0)
    assert gossip.due(["a", "b", "c"], False, 100.0) == ["b", "c"]
    facts = gossip.tell("b", IDLE, 100.0)
    assert (facts.next_s, facts.wants) == (ACTIVE, False)
    assert gossip.due(["a", "b"], False, 101.0) == []
    assert gossip.due(["a", "b"], False, 100.0 + ACTIVE) == ["b"]
    assert gossip.due(["a", "b"], False, 101.0 + LASTS * ACTIVE) == []
    assert gossip.due(["b"], True, 200.0) == ["b"]
    assert gossip.tell("b", BUSY, 200.0).wants


def test_an_operators_look_wakes_at_once_for_a_minute():
    gossip = Gossip("a", 1, 0.0)
    gossip.wake(1.0)
    assert gossip.due(["b"], False, 1.0) == ["b"]
    assert gossip.tell("b", IDLE, 1.0).wants
    assert gossip.due(["b"], False, 62.0) == []


def test_who_does_not_answer_is_told_seldom_until_heard_of():
    gossip = Gossip("a", 1, 0.0)
    now = 0.0
    for _ in range(UNANSWERED):
        assert gossip.due(["b"], True, now) == ["b"]
        gossip.sent("b", gossip.tell("b", BUSY, now).number, now)
        now += ACTIVE
    assert gossip.due(["b"], True, now) == ["b"]
    assert gossip.tell("b", BUSY, now).next_s == IDLE_S
    assert gossip.due(["b"], True, now + ACTIVE) == []
    gossip.heard(told(), now + ACTIVE)
    gossip.due(["b"], True, now + ACTIVE)
    assert gossip.due(["b"], True, now + 2 * ACTIVE) == ["b"]


def test_who_is_not_connected_yet_is_tried_again_soon():
    gossip = Gossip("a", 1, 0.0)
    gossip.due(["b"], True, ACTIVE)
    gossip.tell("b", BUSY, ACTIVE)
    gossip.not_sent("b", ACTIVE)
    assert gossip.due(["b"], True, 2 * ACTIVE) == ["b"]
    assert gossip.next_due(ACTIVE) == 2 * ACTIVE


def test_the_delay_is_half_a_round_trip_of_ones_own_clock():
    gossip = Gossip("a", 7, 0.0)
    for round_trip_ms in range(1, 21):
        now = float(round_trip_ms)
        assert gossip.due(["b"], True, now) in (["b"], [])
        number = gossip.tell("b", BUSY, now).number
        gossip.sent("b", number, now)
        gossip.echoed("b", 7, number, now + round_trip_ms / 1e3)
        gossip.echoed("b", 7, number, now + 500.0)  # again: it counts once
    gossip.echoed("b", 6, 1, 600.0)
    gossip.echoed("c", 7, 1, 600.0)
    (delay,) = gossip.tell("b", BUSY, 25.0).delays
    assert delay.iad == "b"
    assert delay.p50_ms == pytest.approx(5.5, abs=0.01)
    assert delay.p90_ms == pytest.approx(9.5, abs=0.01)
    assert delay.age_s == pytest.approx(25.0 - 20.02, abs=0.01)
    assert gossip.due([], True, 30.0) == []
    assert gossip.delays(30.0) == []  # it is no peer any more


def test_masters_that_went_long_ago_make_room_for_new_ones():
    gossip = Gossip("a", 1, 0.0)
    for number in range(MAX_KNOWN):
        gossip.heard(told(f"m{number}"), 0.0)
    later = LASTS * ACTIVE + 1.0
    assert gossip.heard(told("new"), later)
    assert gossip.fresh(later).keys() == {"new"}
    assert len(gossip.known(later)) == MAX_KNOWN
