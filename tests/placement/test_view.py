"""The world that a master makes of what masters told, and its questions."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from agent.placement.arrival_rates import Rates
from agent.placement.drift import Drift
from agent.placement.latency_model import untrained
from agent.placement.placer import Placer
from agent.placement.told import MAX_COUNTED, UNKNOWN_S
from agent.placement.view import View
from agent.placement.world import PlacementError, Unit
from agent.wire.messages import Slo
from agent.wire.placement import (
    Delay,
    HomeFacts,
    Listeners,
    PeerRate,
    PinnedUnit,
    PlacementFacts,
    Source,
    TopicFacts,
    UnitName,
)
from fleet.placement.processors import Packing

COMFORT = TopicFacts("comfort", (Source("iad2", 2.0),), "comfort_index", cpu_ms=2.0)
UNIT = Unit("processor", "comfort")


def facts(iad, **more):
    return PlacementFacts(iad, 1, 1, 5.0, **more)


def pin(name, iad, kind="processor"):
    return PinnedUnit(UnitName(kind, name), iad)


def test_a_topic_is_cheapest_where_its_messages_come_from_and_go_to():
    view = View(
        [
            facts("iad1", topics=(COMFORT,), delays=(Delay("iad2", 4.0, 9.0, 1.0),)),
            facts("iad2", listeners=(Listeners("comfort", 3),)),
            facts("iad3"),
        ]
    )
    assert view.units() == view.units("iad1") == [UNIT]
    assert view.where(UNIT) == "iad1"
    rows = {row.master: row for row in view.price.why(UNIT)}
    assert rows["iad2"].price == 0.0
    # Two messages a second, each for three subscribers, there and back.
    assert rows["iad1"].price == pytest.approx(2 * 3 * 0.004 * 2)
    assert rows["iad3"].price == pytest.approx(2 * 3 * UNKNOWN_S * 2)


def test_of_two_measured_delays_the_younger_counts():
    one = facts("iad1", delays=(Delay("iad2", 4.0, 9.0, 30.0), Delay("gone", 1.0, 1.0)))
    two = facts("iad2", delays=(Delay("iad1", 7.0, 9.0, 3.0), Delay("iad2", 7.0, 9.0)))
    assert View([one, two]).world.between[0][1] == 0.007


def test_a_home_that_may_live_elsewhere_is_a_unit_and_its_messages_count_once():
    node = HomeFacts("node/n1", {"iad1": 2.0, "iad2": 5.0, "gone": 1.0}, 3.0, {"comfort": 1.5})
    heard = HomeFacts("client/wall/s", {"iad1": 1.0}, hears=("comfort", "unknown"))
    view = View([facts("iad1", topics=(COMFORT,)), facts("iad2", homes=(node, heard))])
    assert [str(each) for each in view.units("iad2")] == ["home client/wall/s", "home node/n1"]
    assert view.world.topics["comfort"].publishers == {"node/n1": 1.5, "@iad2": 0.5}
    assert view.world.topics["comfort"].subscribers == {"client/wall/s"}
    assert view.unit("node/n1") == view.unit("home:node/n1") == Unit("home", "node/n1")
    assert View([facts("iad1", homes=(node,)), facts("iad2", homes=(node,))]).troubles == [
        "home node/n1 is at iad1 and at iad2"
    ]


def test_a_home_of_two_masters_is_where_the_first_told_it_with_that_ones_delays():
    one = facts("iad1", homes=(HomeFacts("node/n1", {"iad1": 1.0, "iad3": 3.0}),))
    two = facts("iad2", homes=(HomeFacts("node/n1", {"iad2": 2.0, "iad3": 4.0}),))
    for told, at in (([two, one], "iad2"), ([one, two], "iad1")):
        view = View([*told, facts("iad3")])
        home = Unit("home", "node/n1")
        assert view.where(home) == at
        assert view.price.at(home, view.master(at)) < inf
        assert len(view.troubles) == 1


def test_a_topic_of_two_masters_is_told_and_ones_own_counts():
    other = TopicFacts("comfort", processor="other")
    view = View([facts("iad2", topics=(other,)), facts("iad1", topics=(COMFORT,))])
    assert view.where(UNIT) == "iad2"
    assert view.troubles == [
        "topic comfort is kept by iad2 and by iad1; that of iad2 is counted",
    ]


def test_a_topic_that_was_taken_over_is_where_it_went_while_its_former_master_returns():
    taken = replace(COMFORT, taken_from="iad1", taken_ms=9)
    view = View([facts("iad3"), facts("iad1", topics=(COMFORT,)), facts("iad2", topics=(taken,))])
    assert (view.where(UNIT), view.troubles) == ("iad2", [])
    # One that has it by its own word does not follow another's.
    view = View([facts("iad1", topics=(COMFORT,)), facts("iad2", topics=(taken,))])
    assert view.where(UNIT) == "iad1"
    assert len(view.troubles) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_that_took_it_over_from_each_other_the_later_has_it(first):
    there = [
        facts("iad1", topics=(replace(COMFORT, taken_from="iad2", taken_ms=8),)),
        facts("iad2", topics=(replace(COMFORT, taken_from="iad1", taken_ms=9),)),
    ]
    view = View([facts("iad3"), there[first], there[1 - first]])
    assert (view.where(UNIT), view.troubles) == ("iad2", [])


def test_of_many_subscribers_some_are_counted():
    listeners = (Listeners("comfort", 1_000),)
    view = View([facts("iad1", topics=(COMFORT,)), facts("iad2", listeners=listeners)])
    assert len(view.world.topics["comfort"].subscribers) == MAX_COUNTED


def test_the_word_of_the_master_where_a_unit_lives_counts_and_contradictions_are_told():
    pins = (pin("comfort", "iad2"), pin("gone", "iad2"))
    view = View(
        [facts("iad2", pins=pins), facts("iad1", topics=(COMFORT,), pins=(pin("comfort", "iad1"),))]
    )
    assert view.world.pins == {UNIT: 0}
    view = View(
        [
            facts("iad1", topics=(COMFORT,), pins=(pin("comfort", "iad2"),)),
            facts("iad2", mode="draining"),
        ]
    )
    assert view.world.pins == {}
    assert view.troubles == ["processor comfort is pinned to iad2, which is draining"]


def test_a_pin_that_contradicts_storage_is_refused_and_nothing_changes():
    big = TopicFacts("comfort", state_bytes=4e6)
    view = View([facts("iad1", topics=(big,)), facts("iad2", storage_bytes=1e6)])
    with pytest.raises(PlacementError, match=r"pinned to iad2 needs 4e\+06 bytes of storage"):
        view.check_pin(UNIT, "iad2")
    assert view.world.pins == {}
    view.check_pin(UNIT, "iad1")
    (row,) = [row for row in view.price.why(UNIT) if row.master == "iad2"]
    assert (row.price, row.reason) == (inf, "needs 4e+06 bytes of storage, has 1e+06")


def test_names_that_are_not_known_come_with_the_nearest():
    view = View([facts("iad1", topics=(COMFORT,)), facts("iad2")])
    with pytest.raises(PlacementError, match=r"^no unit comfrt is known here; did you mean comf"):
        view.unit("comfrt")
    with pytest.raises(PlacementError, match=r"^no unit xyz is known here; known are comfort$"):
        view.unit("home:xyz")
    many = View([facts("iad1", topics=[replace(COMFORT, name=f"t{n}") for n in range(7)])])
    with pytest.raises(PlacementError, match=r"known are t0, t1, t2, t3, t4 and 2 more$"):
        many.unit("xyz")
    with pytest.raises(PlacementError, match=r"^no master iad22 is known here; did you mean iad2"):
        view.master("iad22")
    there = View([facts("iad1"), facts("iad3"), facts("iad2")])
    says = r"^no master iad4 is known .*; did you mean iad.\? iad1 moves units only to iad2, iad3$"
    with pytest.raises(PlacementError, match=says):
        there.master("iad4")
    with pytest.raises(PlacementError, match=r"^master iad9 is silent, and takes no units$"):
        view.master("iad9", ["iad9"])
    both = View([facts("iad1", topics=(COMFORT,), homes=(HomeFacts("comfort", {}),))])
    with pytest.raises(PlacementError, match=r"may be home:comfort and processor:comfort: say"):
        both.unit("comfort")


def test_a_topic_that_no_master_could_serve_alone_is_told_with_what_it_would_get():
    heavy = TopicFacts("comfort", (Source("iad1", 2.0),), cpu_ms=300.0, slo=Slo(90.0, 200.0))
    view = View([facts("iad1", topics=(heavy,), cores=4), facts("iad2", cores=8)])
    line = view.infeasible(UNIT)
    assert line.startswith("topic comfort is infeasible alone: it would get p90 = 9")
    assert line.endswith("ms, its objective is 200 ms")
    easy = TopicFacts("comfort", (Source("iad1", 2.0),), cpu_ms=3.0, slo=Slo(90.0, 200.0))
    assert View([facts("iad1", topics=(easy,))]).infeasible(UNIT) == ""


def test_topics_that_would_miss_their_objectives_together_do_not_share_a_master():
    def heavy(name):
        return TopicFacts(name, (Source("iad1", 9.0),), cpu_ms=90.0, slo=Slo(90.0, 300.0))

    view = View([facts("iad1", topics=(heavy("a"),)), facts("iad2", topics=(heavy("b"),))])
    (row,) = [row for row in view.price.why(Unit("processor", "a")) if row.master == "iad2"]
    assert row.reason == "a topic would miss its objective beside 1 other processors"


def test_what_nobody_measured_of_a_topic_is_as_with_its_processor_elsewhere():
    new = TopicFacts("new", processor="comfort_index")
    view = View([facts("iad1", topics=(COMFORT, new, TopicFacts("notes")))])
    assert view.world.topics["new"].service_s == 0.002
    assert view.world.topics["notes"].service_s == 0.001


def hears(name, *peers, **more):
    return TopicFacts(name, cpu_ms=100.0, peers=tuple([PeerRate(*each) for each in peers]), **more)


def test_what_topics_hear_of_each_other_are_flows_both_ways_together():
    one, two = hears("a", ("b", 2.0, "iad2")), hears("b", ("a", 0.5, "iad1"), ("b", 9.0, "iad2"))
    delays = (Delay("iad2", 4.0, 9.0),)
    view = View([facts("iad1", topics=(one,), delays=delays), facts("iad2", topics=(two,))])
    a, b = (Unit("processor", name) for name in "ab")
    assert view.world.peers == {a: {b: 2.5}, b: {a: 2.5}}
    assert view.world.load_of(a) == pytest.approx(0.2)
    assert view.price.total() == pytest.approx(2.5 * 0.004)
    assert view.price.at(a, 1) == 0.0
    assert view.unseen == {}


def test_a_peer_that_no_master_told_is_a_source_where_its_messages_came_from():
    own = hears("a", ("b", 2.0, "iad2"), ("c", 1.0, "iad9"), ("d", 1.0))
    view = View([facts("iad1", topics=(own,)), facts("iad2")])
    assert view.world.topics["a"].publishers == {"@iad2": 2.0, "@iad1": 2.0}
    assert view.unseen == {"a": ["b", "c", "d"]}


def test_messages_wait_as_in_queues_m_d_1_one_a_core():
    busy = TopicFacts("a", (Source("iad1", 10.0),), cpu_ms=90.0)
    view = View([facts("iad1", topics=(busy,), compute=1.0)])
    # Pollaczek-Khinchine: 10 messages a second wait r s / 2 (1 - r) each.
    assert view.price.total() == pytest.approx(10.0 * 0.9 * 0.09 / (2 * 0.1))
    half = View([facts("iad1", topics=(busy,), compute=2.0)])
    assert half.price.total() == pytest.approx(2 * 5.0 * 0.45 * 0.09 / (2 * 0.55))


def test_a_load_that_reaches_the_cores_is_not_let_in_and_limits_say_so_first():
    unit = Unit("processor", "a")
    for rate, says in (
        (10.0, "would have a load of 1, less than 1 is served"),
        (11.0, "needs 1.1 CPU-seconds a second, has 1"),
    ):
        busy = TopicFacts("a", (Source("iad1", rate),), cpu_ms=100.0)
        view = View([facts("iad1", topics=(busy,), compute=4.0), facts("iad2", compute=1.0)])
        assert view.price.reason(unit, 1) == says


def test_what_a_node_exchanges_with_masters_makes_the_price_of_its_home():
    node = HomeFacts(
        "node/n1",
        {"iad1": 2.0, "iad2": 5.0},
        exchanges=(Source("iad1", 1.0), Source("iad2", 3.0), Source("iad9", 2.0)),
    )
    delays = (Delay("iad2", 4.0, 9.0),)
    view = View([facts("iad1", homes=(node,), delays=delays), facts("iad2", opening_cost=0.5)])
    rows = {row.master: row for row in view.price.why(Unit("home", "node/n1"))}
    assert rows["iad1"].client_s == pytest.approx(6 * 0.002)
    assert rows["iad1"].peers_s == pytest.approx(3 * 0.004)
    assert rows["iad2"].client_s == pytest.approx(6 * 0.005)
    assert rows["iad2"].peers_s == pytest.approx(3 * 0.004)  # with iad9 by way of iad1
    assert rows["iad2"].opening_s == 0.5
    assert view.price.total() == pytest.approx(rows["iad1"].price)
    assert view.units() == [Unit("home", "node/n1")]


LOG = HomeFacts(
    "client/app/log:1",
    {"iad1": 20.0, "iad2": 1.0},
    hears=("comfort",),
    exchanges=(Source("iad2", 3.0), Source("iad1", 0.5)),
)
HOME = Unit("home", LOG.name)


def seen(*homes, **more):
    delays = (Delay("iad2", 4.0, 9.0), Delay("iad3", 9.0, 9.0))
    iad2 = facts("iad2", topics=(COMFORT,), delays=(Delay("iad3", 9.0, 9.0),))
    return View([facts("iad1", homes=homes, delays=delays, **more), iad2, facts("iad3")])


def test_a_subscription_has_a_price_where_its_client_would_follow_and_is_out_of_reach_elsewhere():
    view = seen(LOG)
    assert view.unit(LOG.name) == view.unit(f"home:{LOG.name}") == HOME
    rows = {row.master: row for row in view.price.why(HOME)}
    # Three alerts a second and two outputs from iad2, and one alert each two seconds from iad1.
    assert rows["iad1"].client_s == pytest.approx(5.5 * 0.020)
    assert rows["iad1"].peers_s == pytest.approx(5 * 0.004)
    assert rows["iad2"].client_s == pytest.approx(5.5 * 0.001)
    assert rows["iad2"].peers_s == pytest.approx(0.5 * 0.004)
    assert rows["iad3"].reason == "is out of the client's reach"


def test_a_subscription_drifts_by_price_and_not_for_less_than_a_move_costs():
    view = seen(LOG)
    gain = 5.5 * (0.020 - 0.001) + 4.5 * 0.004
    move = Drift(view.price, lambda _: gain - 0.001).wanted(HOME)
    assert (move.target, move.reason) == ("iad2", "drift")
    assert move.gain == pytest.approx(gain)
    assert Drift(view.price, lambda _: gain + 0.001).wanted(HOME) is None
    before = view.price.total()
    view.placement.move(HOME, view.master("iad2"))
    assert before - view.price.total() == pytest.approx(gain)


def test_a_subscription_is_drained_only_to_masters_that_its_client_named():
    near = HomeFacts(LOG.name, {"iad1": 0.0, "iad3": 50.0}, exchanges=(Source("iad2", 3.0),))
    move = Drift(seen(near, mode="draining").price, lambda _: 0.0).wanted(HOME)
    assert (move.target, move.reason) == ("iad3", "drain")
    alone = HomeFacts(LOG.name, {"iad1": 0.0})
    assert Drift(seen(alone, mode="draining").price, lambda _: 0.0).wanted(HOME) is None


def test_a_pinned_subscription_stays_and_one_that_names_a_topic_is_among_its_subscribers():
    view = seen(LOG, pins=(pin(LOG.name, "iad1", "home"),))
    assert Drift(view.price, lambda _: 0.0).wanted(HOME) is None
    # The topic's messages come from iad2 and go to iad1, by two subscribers.
    view = seen(LOG, listeners=(Listeners("comfort", 1),))
    assert view.world.topics["comfort"].subscribers == {LOG.name, "@iad1"}
    prices = {row.master: row.price for row in view.price.why(UNIT)}
    assert prices["iad1"] == pytest.approx(prices["iad2"]) == 2 * 2 * 0.004


def test_rates_are_those_of_the_last_minute_and_begin_anew_with_a_count_that_fell():
    rates = Rates(window_s=60.0)
    assert rates.per_s("a") is None
    rates.count({"a": 5}, 0.0)
    assert rates.per_s("a") is None
    rates.count({"a": 25}, 10.0)
    assert rates.per_s("a") == 2.0
    rates.count({"a": 25, "b": 7}, 100.0)
    assert rates.per_s("b") is None
    assert rates.per_s("a") == 0.0
    rates.count({"a": 60}, 170.0)
    assert rates.per_s("a") == 0.5
    rates.count({"a": 7}, 180.0)
    assert rates.per_s("a") == 7 / 80.0


def busy(name, rate, *, cpu_ms=1.0, slo=None):
    return TopicFacts(name, (Source("iad1", rate),), cpu_ms=cpu_ms, slo=slo)


def test_what_planners_put_together_fits_together():
    """With 8 % of headroom, of which chance needs a hundredth at this rate, it did not."""
    goal = Slo(90.0, 60.0)
    a, b = busy("a", 360.0, cpu_ms=1.3, slo=goal), busy("b", 360.0, cpu_ms=1.3, slo=goal)
    view = View([facts("iad1", topics=(a,)), facts("iad2", topics=(b,))])
    (move,) = Packing(untrained(1)).plan(view.placement)
    assert [row.reason for row in view.price.why(move.unit)] == ["", ""]
    placer = Placer(str(move.source), drift=False, move_cost=0.0)
    assert placer.apply(view, [move], ()) == [move]


def test_a_topic_without_an_objective_has_none_to_keep_and_takes_its_time_from_others():
    slow = busy("slow", 2.0, cpu_ms=380.0)

    def reason(other, cores):
        view = View([facts("iad1", topics=(slow,)), facts("iad2", topics=(other,), cores=cores)])
        (row,) = [row for row in view.price.why(Unit("processor", "slow")) if not row.here]
        return row.reason

    goal = busy("goal", 1.0, slo=Slo(90.0, 20.0))
    assert reason(busy("goal", 1.0), 1) == ""
    assert reason(goal, 4) == ""
    assert "would miss its objective" in reason(goal, 1)


def test_messages_from_masters_that_are_not_seen_count_at_the_topics_own():
    sources = (Source("iad2", 2.0), Source("gone", 3.0))
    told = TopicFacts("comfort", sources)
    seen = View([facts("iad1", topics=(told,)), facts("iad2")]).world
    assert seen.topics["comfort"].publishers == {"@iad1": 3.0, "@iad2": 2.0}
    told = TopicFacts("comfort", sources, per_s=9.0)  # of more sources than are told
    seen = View([facts("iad1", topics=(told,)), facts("iad2")]).world
    assert seen.topics["comfort"].publishers == {"@iad1": 7.0, "@iad2": 2.0}
    told = TopicFacts("comfort", sources, per_s=5.0)
    seen = View([facts("gone"), facts("iad2"), facts("iad1", topics=(told,))]).world
    assert seen.topics["comfort"].publishers == {"@gone": 3.0, "@iad2": 2.0}


def test_no_home_takes_the_name_of_what_stands_for_a_masters_subscribers():
    taken = HomeFacts("@iad2", {"iad1": 0.0, "iad3": 0.0})
    view = View(
        [
            facts("iad1", topics=(TopicFacts("comfort"),)),
            facts("iad2", listeners=(Listeners("comfort", 1),)),
            facts("iad3", homes=(taken,)),
        ]
    )
    assert view.where(Unit("home", "@iad2")) == "iad2"


def crowded(delegate="iad3", **more):
    """Two topics at a master with room for one; another one that has none."""
    topics = tuple([busy(name, 1.0) for name in "ab"])
    return View(
        [
            facts("iad1", topics=topics, most_processors=1, delegate=delegate),
            facts("iad2", **{"most_processors": 0, **more}),
            facts("iad3"),
        ]
    )


def test_what_no_other_master_has_room_for_goes_to_the_delegate():
    view = crowded()
    unit = Unit("processor", "a")
    drift = Drift(view.price, lambda _: 0.01)
    assert drift.wanted(unit).target == "iad3"
    # Where there is room at another master it goes there, however far that is.
    roomy = Drift(crowded(most_processors=1).price, lambda _: 0.01)
    assert roomy.wanted(unit).target == "iad2"
    view.placement.move(unit, 2)
    assert (view.delegated(), view.cost() < 1.0) == ([unit], True)
    assert drift.wanted(unit) is None
    assert drift.wanted(Unit("processor", "b")) is None
    # And it comes back where there is room again.
    view.placement.move(Unit("processor", "b"), 2)
    assert drift.wanted(unit).target == "iad1"


def test_a_delegate_that_nobody_hears_takes_nothing():
    assert crowded("iad9").delegate == ""
    view = crowded("")
    view.placement.remove(Unit("processor", "b"))
    view.placement.move(Unit("processor", "a"), 2)
    assert view.delegated() == []


def test_a_pinned_topic_is_not_delegated():
    told = [facts("iad1", delegate="iad2"), facts("iad2", topics=(busy("a", 1.0),))]
    assert View(told).delegated() == [Unit("processor", "a")]
    told[1] = facts("iad2", topics=(busy("a", 1.0),), pins=(pin("a", "iad2"),))
    assert View(told).delegated() == []
