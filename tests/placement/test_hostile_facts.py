"""Whatever masters tell, a view is made of it, and the operator's report can be read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.placement.admission import Admission
from agent.placement.cost_history import CostHistory
from agent.placement.placer import Placer
from agent.placement.view import View
from agent.placement.world import PlacementError, Unit
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Slo
from agent.wire.placement import (
    Delay,
    HomeFacts,
    Listeners,
    PeerRate,
    PinnedUnit,
    PlacementFacts,
    PlacementReport,
    Source,
    TopicFacts,
    UnitName,
)
from tests.examples import examples

OBJECTIVE = Slo(99.0, 500.0)
OWN = PlacementFacts(
    "iad1", 1, 1, 5.0, cores=4,
    topics=(TopicFacts("t1", (Source("iad2", 2.0),), "mean", 1.0, slo=OBJECTIVE),),
    homes=(HomeFacts("h1", {"iad1": 1.0, "iad2": 2.0}),),
    listeners=(Listeners("t1", 3),),
)  # fmt: skip

iads = st.sampled_from(["iad1", "iad2", "iad3", "nobody"])
topics = st.sampled_from(["t1", "t2", "@iad1"])
homes = st.sampled_from(["h1", "h2", "@iad2#1", "t1"])
amounts = st.sampled_from([0.0, 5e-324, 1e-9, 1.0, 100.0, 1e9, 1e18])
counts = st.sampled_from([0, 1, 40, 2**53 - 1])
maybe = st.none() | amounts
objectives = st.sampled_from(
    [None, OBJECTIVE, Slo(99.9999, 1e-300), Slo(99.0, 5e-324), Slo(0.001, 3_600_000.0)]
)
units = st.builds(UnitName, st.sampled_from(["home", "processor", "clone"]), topics | homes)


def several(of):
    return st.lists(of, max_size=3).map(tuple)


sources = several(st.builds(Source, iads, amounts))
told_topics = st.builds(
    TopicFacts, topics, sources, st.sampled_from(["", "mean"]), maybe, maybe, amounts, objectives,
    maybe, several(st.builds(PeerRate, topics, amounts, iads)),
)  # fmt: skip
told_homes = st.builds(
    HomeFacts, homes, st.dictionaries(iads, amounts, max_size=3), amounts,
    st.dictionaries(topics, amounts, max_size=2), several(topics), sources,
)  # fmt: skip


def told(iad):
    return st.builds(
        PlacementFacts, st.just(iad), counts, counts, st.sampled_from([5e-324, 5.0, 86_400.0]),
        cores=st.sampled_from([1, 4, 65_536]), mode=st.sampled_from(["open", "frozen", "draining"]),
        compute=maybe, storage_bytes=maybe, most_processors=st.none() | counts,
        opening_cost=amounts, topics=several(told_topics), homes=several(told_homes),
        listeners=several(st.builds(Listeners, topics, counts)),
        delays=several(st.builds(Delay, iads, amounts, amounts, amounts)),
        pins=several(st.builds(PinnedUnit, units, iads)), delegate=st.just("") | iads,
    )  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(told("iad2"), told("iad3"))
def test_whatever_masters_tell_a_view_is_made_and_what_is_asked_of_it_is_refused_in_words(
    one, other
):
    placer, history = Placer("iad1", drift=True, move_cost=0.01), CostHistory()
    placer.heard(one, [Unit("processor", "t1"), Unit("home", "h1")])
    view = View([OWN, one, other])
    try:
        history.take(view.cost(), 0.0)
        for unit in view.units():
            view.no_room(unit)
            view.infeasible(unit)
        Admission("iad1", 1, placer, 0.0).next_move(view, (), 1_000.0)
        placer.admits(view, Unit("processor", "t2"), "iad2", 1_000.0)
        placer.arrived(view, Unit("processor", "t1"))
    except PlacementError:
        return
    readable(history)


def test_an_objective_that_is_no_time_in_seconds_stops_no_other_unit():
    """No view was made: nothing could be moved, pinned or drained, at any master that heard it."""
    topic = TopicFacts("t2", slo=Slo(99.0, 5e-324))
    view = View([OWN, PlacementFacts("iad2", 1, 1, 5.0, topics=(topic,))])
    assert view.where(Unit("processor", "t2")) == "iad2"
    view.check_pin(Unit("processor", "t1"), "iad2")


def readable(history):
    report = PlacementReport("r", ok=True, iad="iad1", costs=history.told(0.0))
    assert Decoder(PlacementReport).decode(encode(report))[0] == report


@pytest.mark.parametrize("cost", [1e18, 1.1e18, 1e300, float("inf")])
def test_an_operator_can_read_whatever_the_placement_costs(cost):
    history = CostHistory()
    history.take(cost, 0.0)
    readable(history)


def test_a_master_of_more_cores_than_the_model_knows_is_taken_for_one_of_as_many():
    view = View([OWN, PlacementFacts("iad2", 1, 1, 5.0, cores=65_536)])
    assert view.infeasible(Unit("processor", "t1")) == ""
