"""What masters tell each other: what they have and hear, what they can, what is not believed."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from agent.master.requests.request_plane import RequestOrigin
from agent.placement.membership.gossip import MAX_KNOWN
from agent.placement.world import Unit
from agent.wire.messages import Slo
from agent.wire.placement import (
    MAX_TOLD_MASTERS,
    GrantTold,
    Listeners,
    PeerRate,
    PinUnit,
    PlacementFacts,
    SameFacts,
    SetPlacementMode,
    ShowPlacement,
    Source,
)
from agent.wire.principals import Sender
from agent.wire.topics import Clone, Topic, TopicStatus
from tests.master import placement_rig
from tests.master.placement_rig import ANYONE, COMFORT, NAMES, World, known

world = placement_rig.world


def test_masters_know_each_others_limits_delays_and_units(world):
    world[2].create("comfort", slo=Slo(90.0, 1_000.0), processor="comfort_index")
    world.run(20.0)
    told = known(world[1])
    assert [*told] == [*NAMES]
    assert {each.iad: round(each.p50_ms, 3) for each in told["iad2"].facts.delays} == {
        "iad1": 10.0, "iad3": 30.0,
    }  # fmt: skip
    (topic,) = told["iad2"].facts.topics
    assert (topic.name, topic.processor, topic.slo) == ("comfort", "comfort_index", Slo(90.0, 1e3))
    assert told["iad3"].facts.most_processors == 32
    assert told["iad1"].facts.compute >= 1.0


def test_a_partners_short_messages_take_a_twentieth_of_a_masters_time(world, monkeypatch):
    """Each has all pins of that partner compared with all units here."""
    world[1].create("comfort")
    world.run(20.0)
    plane, looked = world[1].plane, []

    def units():
        looked.append(world.now)
        world.now += 0.15
        return []

    monkeypatch.setattr(plane, "_units_here", units)
    heard = plane.facts._gossip._heard["iad2"]
    same = SameFacts("iad2", heard.facts.epoch, heard.facts.number, 5.0, heard.told_as)
    for _ in range(100):
        world.deliver("iad2", "iad1", same)
    assert 1 <= len(looked) <= 4


def test_masters_that_have_nothing_to_place_say_nothing(world):
    sent = []
    for site in world.sites.values():
        site.send = lambda _iad, message: sent.append(message)
    world.run(600.0)
    assert sent == []


def test_an_operators_look_wakes_the_others(world):
    assert all(each.silent for iad, each in known(world[1]).items() if iad != "iad1")
    world.run(1.0)
    assert not any(each.silent for each in known(world[1]).values())


def test_a_master_that_is_silent_takes_no_units(world):
    world[1].create("comfort")
    world.run(20.0)
    world[2].up = False
    world.run(16.0)
    assert known(world[1])["iad2"].silent
    reply = world[1].ask(PinUnit("p", COMFORT, "iad2"))
    assert (reply.ok, reply.message) == (False, "master iad2 is silent, and takes no units")


def test_a_master_that_never_said_anything_is_named_and_takes_no_units(tmp_path):
    world = World(tmp_path)
    world[3].up = False
    world[1].create("comfort")
    world.run(20.0)
    told = known(world[1])
    assert [iad for iad, each in told.items() if each.silent] == ["iad3"]
    reply = world[1].ask(PinUnit("p", COMFORT, "iad3"))
    assert reply.message == "master iad3 is silent, and takes no units"
    world[3].up = True
    world.run(20.0)
    assert not known(world[1])["iad3"].silent
    for site in world.sites.values():
        site.state.close()


def test_facts_of_strangers_and_of_others_in_a_masters_name_do_not_count(world):
    told = PlacementFacts("iad2", 99, 99, 5.0, cores=64)
    for sender in (Sender("iad", "iad3"), Sender("client", "iad2"), Sender("node", "iad2")):
        world[1].handlers[PlacementFacts](RequestOrigin(b"x", b"M", sender), told, world.now)
    stranger = PlacementFacts("iad9", 99, 99, 5.0)
    origin = RequestOrigin(b"x", b"M", ANYONE)
    world[1].handlers[PlacementFacts](origin, stranger, world.now)
    assert world[1].replies == []
    assert "iad9" not in known(world[1])
    assert known(world[1])["iad2"].facts.cores != 64


def test_what_a_clone_hears_of_peers_is_told_beside_its_sources(world):
    site = world[1]
    clone = Clone("iad2", leaves=True, peers=("clone-b",))
    site.kept["clone-a"] = TopicStatus(Topic("clone-a", processor="p", clone=clone), "ready")
    site.arrivals["clone-a"] = Counter({"iad2": 0})
    site.peer_arrivals["clone-a"] = Counter({("clone-b", "iad3"): 0})
    for _ in range(20):
        site.arrivals["clone-a"]["iad2"] += 5
        site.peer_arrivals["clone-a"]["clone-b", "iad3"] += 10
        world.run(5.0)
    (told,) = site.plane.facts.own().topics
    assert told.sources == (Source("iad2", 1.0),)
    assert told.peers == (PeerRate("clone-b", 2.0, "iad3"),)
    unit = Unit("processor", "clone-a")
    view = site.plane.facts.view(world.now)
    assert view.world.processed("clone-a") == 3.0
    assert view.where(unit) == "iad1"


@pytest.mark.parametrize("name", ["clone.c", "no name of a topic"])
def test_a_peer_that_nobody_is_told_of_counts_as_a_source(world, name):
    site = world[1]
    clone = Clone("iad1", leaves=True, peers_where=())
    site.kept["clone-a"] = TopicStatus(Topic("clone-a", processor="p", clone=clone), "ready")
    site.arrivals["clone-a"] = Counter({"iad1": 0})
    site.peer_arrivals["clone-a"] = Counter({(name, "iad1"): 0})
    for _ in range(20):
        site.arrivals["clone-a"]["iad1"] += 5
        site.peer_arrivals["clone-a"][name, "iad1"] += 10
        world.run(5.0)
    (told,) = site.plane.facts.own().topics
    assert (told.sources, told.peers) == ((Source("iad1", 3.0),), ())
    assert known(world[2])["iad1"].facts.topics == (told,)


def test_of_a_clone_that_stays_nobody_is_told_and_it_is_not_drained(world):
    site = world[1]
    clone = Clone("iad1", peers=("clone-b",))
    status = TopicStatus(Topic("clone.iad1.n1", processor="p", clone=clone), "ready", cpu_ms=100.0)
    site.kept["clone.iad1.n1"] = status
    site.arrivals["clone.iad1.n1"] = Counter({"iad1": 0})
    before = site.plane.facts.own().compute
    for _ in range(20):
        kept = site.kept["clone.iad1.n1"]
        site.kept["clone.iad1.n1"] = replace(kept, processed=kept.processed + 10)
        world.run(5.0)
        site.plane.facts._measured.count(world.now)
    told = site.plane.facts.own()
    assert told.topics == ()
    assert told.listeners == (Listeners("clone-b", 1),)
    assert told.compute == pytest.approx(before - 0.2)
    reply = site.ask(SetPlacementMode("d", "iad1", "draining"))
    assert reply.message == "iad1 is empty"
    world.run(30.0)
    assert site.begun() == []


def test_a_topic_of_more_sources_than_are_told_tells_what_all_give(world):
    site = world[1]
    site.create("comfort")
    names = [f"iad{number}" for number in range(11, 31)]
    site.arrivals["comfort"] = Counter(dict.fromkeys(names, 0))
    world.run(10.0)
    for _ in range(20):
        site.arrivals["comfort"].update(dict.fromkeys(names, 50))
        world.run(5.0)
    (told,) = site.plane.facts.own().topics
    assert len(told.sources) == 8
    assert told.per_s == pytest.approx(sum(each.per_s for each in told.sources) * 20 / 8)


def test_facts_of_a_stranger_do_not_come_with_a_grant(world):
    told = PlacementFacts("iad9", 99, 99, 5.0, cores=64)
    answer = GrantTold("iad9", 1, 1, "ask", granted=True, facts=told)
    world[1].handlers[GrantTold]("iad9", answer, world.now)
    assert "iad9" not in known(world[1])


def test_a_report_names_as_many_masters_as_it_may(world):
    gossip = world[1].plane.facts._gossip
    for number in range(MAX_KNOWN):
        gossip.heard(PlacementFacts(f"m{number}", 1, 1, 5.0), world.now)
    report = world[1].ask(ShowPlacement("s"))
    assert len(report.known) == MAX_TOLD_MASTERS
    assert report.known[0].facts.iad == "iad1"
