"""A master's place in the overlay: what the configuration may say, and what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.master.push.place import partners_of, place_of, publishers
from agent.overlay.scot import BrokerId
from agent.wire.config import ConfigError, parse
from agent.wire.market import Member
from agent.wire.master_config import MasterConfig, MasterPlacement, PoolMember
from agent.wire.predicate_language import read_filter

SOCKETS = {"public": "ipc:///run/x/public", "operator": "ipc:///run/x/operator"}


def neighbour(iad, vertex, cluster):
    address = "tcp://127.0.0.1:5800"
    return {"iad": iad, "vertex": vertex, "cluster": cluster, "address": address}


FOUR = {
    "vertex": "a",
    "cluster": 0,
    "links": [["a", "b"]],
    "clusters": 2,
    "neighbour": [neighbour("iad2", "b", 0), neighbour("iad3", "a", 1)],
}


def config(**overlay):
    table = {"iad": {"name": "iad1"}, "sockets": SOCKETS, "overlay": overlay}
    return parse(table, MasterConfig, "test")


def place(**overlay):
    return place_of(config(**overlay))


def test_without_an_overlay_there_is_one_broker():
    alone = place()
    assert (alone.broker, alone.scot.order, alone.neighbours) == (BrokerId("iad1", 0), 1, {})
    assert alone.announced == {"alerts": read_filter('iad = "iad1"')}


@pytest.mark.parametrize(
    ("overlay", "pool", "known"),
    [
        ({}, (), {"iad1"}),
        (FOUR, (), set()),
        (FOUR, ("iad1", "iad2"), set()),
        (FOUR, ("iad1", "iad2", "iad4"), {"iad1", "iad2", "iad3", "iad4"}),
    ],
)
def test_the_publishers_are_known_once_all_brokers_are(overlay, pool, known):
    members = tuple(Member(iad, "tcp://127.0.0.1:5700", ("b1",)) for iad in pool)
    found = replace(config(**overlay), pool=members)
    assert publishers(found, place(**overlay)) == known


def test_neighbours_are_known_by_their_place():
    found = place(**FOUR)
    assert (found.broker, found.scot.order) == (BrokerId("a", 0), 4)
    assert {broker: each.iad for broker, each in found.neighbours.items()} == {
        BrokerId("b", 0): "iad2",
        BrokerId("a", 1): "iad3",
    }


def test_with_advertisements_losses_and_topics_are_announced_too():
    texts = ['area under "b1"', 'metric = "co2"']
    announced = place(advertise=[{"filter": text} for text in texts]).announced
    assert announced == {
        "alerts-1": read_filter(texts[0]),
        "alerts-2": read_filter(texts[1]),
        "besides": read_filter(
            'iad = "iad1" and kind = "lost" '
            'or iad = "iad1" and kind in ("input", "output", "trouble") and topic present'
        ),
    }


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"links": [["a", "b"], ["b", "a"]]}, "overlay: "),
        ({"vertex": "c"}, "overlay: the overlay has no vertex 'c'"),
        ({"cluster": 2}, "overlay: the clusters are numbered 0 to 1: there is no 2"),
        (
            {"neighbour": FOUR["neighbour"][:1]},
            "vertex a, cluster 1 of the neighbours of vertex a, cluster 0 are missing",
        ),
        (
            {"neighbour": [*FOUR["neighbour"], neighbour("iad4", "b", 1)]},
            "a, cluster 0; its neighbours are vertex a, cluster 1; vertex b, cluster 0",
        ),
        ({"neighbour": [*FOUR["neighbour"], neighbour("iad2", "b", 0)]}, "stands there twice"),
        ({"neighbour": [neighbour("iad1", "b", 0)]}, "stands there twice"),
        ({"advertise": [{"filter": "value >"}]}, "overlay.advertise.filter 'value >': at"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change, line):
    with pytest.raises(ConfigError) as refused:
        place(**FOUR | change)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_example_on_the_page_can_be_used():
    page = (Path(__file__).parents[3] / "docs" / "use" / "push.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found = place_of(parse(tomllib.loads(example), MasterConfig, "push.md"))
    assert {each.iad for each in found.neighbours.values()} == {"iad2", "iad3"}


def test_an_address_beyond_this_host_needs_keys():
    far = FOUR | {"neighbour": [FOUR["neighbour"][0] | {"address": "tcp://far:5800"}]}
    with pytest.raises(ConfigError, match=r"overlay.neighbour.address of iad2 = .* without keys"):
        place(**far)


def partners(*, pool=(), **placement):
    members = [PoolMember(iad, f"ipc:///run/x/{iad}", ("b1",)) for iad in pool]
    given = replace(config(**FOUR), pool=tuple(members), placement=MasterPlacement(**placement))
    return {iad: address for iad, (address, _) in partners_of(given).items()}


def test_units_move_within_the_pool_and_to_neighbours_that_are_named():
    near = "tcp://127.0.0.1:5800"
    assert partners() == {}
    assert partners(pool=("iad1", "iad9")) == {"iad9": "ipc:///run/x/iad9"}
    both = {"iad9": "ipc:///run/x/iad9", "iad2": near}
    assert partners(pool=("iad1", "iad9"), partners=("iad2", "iad9")) == both
    assert partners(pool=("iad1", "iad9"), partners=("iad2",), alone=True) == {}
    with pytest.raises(ConfigError, match=r"^placement.partners: iad8 is no neighbour in the over"):
        partners(partners=("iad8",))


def test_the_delegate_is_a_master_that_can_be_known():
    pool = ("iad1", "iad9")
    for name in pool:
        assert partners(pool=pool, delegate=name)
    with pytest.raises(ConfigError, match=r"^placement.delegate: iad7 is no master of the pool"):
        partners(pool=pool, delegate="iad7")
    assert partners(pool=pool, delegate="iad7", bootstrap=("ipc:///run/b",))
