"""Whether the loop moves anything: never by what is old or little, never for less than it costs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from agent.wire.placement import MoveTold, PeerRate, PinnedUnit, UnitName
from fleet.placement.loop.decision import Caution, decide
from fleet.placement.loop.learned import groups, renewed
from tests.fleet.placement.loop.worlds import (
    IADS,
    NOW,
    arrivals,
    learned,
    recorded,
    reports,
    service,
)

CAUTION = Caution(stale_s=300.0, fewest=5)
UNIT = UnitName("processor", "comfort")
SHIFTED = (arrivals(source="iad2", per_s=10.0),)


def decided(told=None, silent=(), known=None, now=NOW, **more):
    told = reports(**more) if told is None else told
    known = learned(SHIFTED) if known is None else known
    return decide(told, silent, known, now, CAUTION)


def test_where_the_load_has_gone_the_topic_goes():
    (decision,) = decided()
    assert [(move.unit, move.source, move.target) for move in decision.plan.moves] == [
        (UNIT, "iad1", "iad2")
    ]
    # There and back: 10 messages a second, 10 ms each way.
    assert decision.plan.cost == pytest.approx((0.2, 0.0), abs=0.001)  # and it waits a little
    assert decision.why == "1 move, comfort iad1 → iad2: saves 200 ms/s, costs 10 ms/s"
    assert decision.masters == IADS


def test_nothing_moves_for_less_than_it_costs():
    (decision,) = decided(move_cost=0.25)
    assert (decision.plan, decision.why) == (None, "stays: nothing would be cheaper elsewhere")
    # The search's moves each gain more than they cost; a packing's may not.
    (decision,) = decided(known=learned(SHIFTED, delays_ms=0.01))
    assert decision.plan is None
    assert decision.why.startswith("stays: ")


def test_where_it_is_cheapest_already_it_stays():
    told = reports()
    heard = told[1].known[0].facts.listeners
    known = [
        replace(each, known=tuple(
            replace(one, facts=replace(
                one.facts, listeners=heard if one.facts.iad == "iad1" else ()
            )) for one in each.known
        )) for each in told
    ]  # fmt: skip
    (decision,) = decided(known, known=learned())
    assert (decision.plan, decision.why) == (None, "stays: nothing would be cheaper elsewhere")


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (
            learned(SHIFTED, masters=(recorded("iad1"), recorded("iad2"))),
            "iad3 has no record of this time",
        ),
        (
            learned(
                SHIFTED,
                masters=(recorded("iad1"), recorded("iad2", age_s=540.0), recorded("iad3")),
            ),
            "the newest record of iad2 is 9 min old",
        ),
        (
            learned(SHIFTED, masters=(*map(recorded, IADS[:2]), recorded("iad3", records=4))),
            "iad3 has 4 records of this time, 5 are needed",
        ),
        (
            learned((arrivals(records=2), arrivals(hour=13, records=2))),
            "topic comfort has 4 records of this time, 5 are needed",
        ),
    ],
)
def test_old_or_few_records_move_nothing(known, says):
    (decision,) = decided(known=known)
    assert (decision.plan, decision.why) == (None, f"does nothing: {says}")


def test_nothing_moves_while_a_master_is_silent_or_moves_something():
    (decision,) = decided(reports()[:2], silent=["iad3"])
    assert (decision.plan, decision.why) == (None, "does nothing: iad3 does not answer")
    moves = (MoveTold(UNIT, "iad1", "iad3", "drift", "shadowing"),)
    (decision,) = decided(moves=moves)
    assert decision.why == "does nothing: iad1 still moves processor comfort to iad3 (shadowing)"
    over = (replace(moves[0], state="settled"),)
    assert decided(moves=over)[0].plan is not None


def test_pins_of_now_are_kept_whatever_was_recorded():
    told = reports()
    pinned = replace(told[0].known[0].facts, pins=(PinnedUnit(UNIT, "iad1"),))
    told[0] = replace(told[0], known=(replace(told[0].known[0], facts=pinned), *told[0].known[1:]))
    assert decided(told)[0].plan is None


def test_an_objective_that_is_missed_is_worth_any_move():
    # Two topics with 0.9 CPU-seconds a second each do not keep 100 ms together on one core.
    pair = ("comfort", "calm")
    known = learned(
        [arrivals(each, per_s=30.0) for each in pair],
        [service(each, cpu_ms=33.0) for each in pair],
    )
    (decision,) = decided(topics=pair, known=known, move_cost=1e5)
    assert decision.plan is not None
    assert decision.why.endswith("now a limit or an objective is not kept")


def test_masters_that_do_not_talk_exchange_nothing():
    assert groups("abcde", [("a", "b"), ("b", "c"), ("d", "x")]) == [frozenset("abc")]
    alone = [replace(each, known=each.known[:1]) for each in reports()]
    assert decided(alone) == []


def test_rates_of_the_window_stand_before_those_of_the_last_minute():
    told = [each.known[0].facts for each in reports()]
    rates = (arrivals(hour=12, per_s=4.0, records=30), arrivals(hour=13, per_s=10.0, records=30))
    (first, *_) = renewed(told, learned(rates))
    (topic,) = first.topics
    assert [(each.iad, each.per_s) for each in topic.sources] == [("iad1", 7.0)]
    assert (topic.cpu_ms, topic.latency_ms) == (2.0, 12.0)
    assert {each.iad: each.p50_ms for each in first.delays} == {"iad2": 10.0, "iad3": 10.0}
    heard = arrivals(peer="clone-1", source="iad2", per_s=3.0, records=60)
    (first, *_) = renewed(told, learned([*rates[:1], heard]))
    assert first.topics[0].peers == (PeerRate("clone-1", 3.0, "iad2"),)
    (busiest, *_) = renewed(told, learned(rates), {12})
    assert [each.per_s for each in busiest.topics[0].sources] == [4.0]


def test_age_is_told_in_seconds_or_minutes():
    (decision,) = decided(now=NOW + timedelta(seconds=300))
    assert decision.why == "does nothing: the newest record of iad1 is 6 min old"


def test_a_record_of_the_future_says_nothing_of_now():
    masters = (recorded("iad1"), recorded("iad2", age_s=-7_200.0), recorded("iad3"))
    (decision,) = decided(known=learned(SHIFTED, masters=masters))
    assert decision.plan is None
    assert decision.why == (
        "does nothing: the newest record of iad2 is of 120 min from now: see its clock"
    )
