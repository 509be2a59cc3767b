"""The overlay in an inventory: what becomes of it at each master, and what is wrong with one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from agent.master.push.place import partners_of, place_of
from agent.overlay.scot import BrokerId
from agent.wire.overlay_config import MasterOverlay, OverlayAdvertisement, OverlayNeighbour
from fleet.inventory.files import files_of, master_config
from fleet.inventory.problems import problems, warnings
from fleet.inventory.selection import one_host
from tests.examples import examples
from tests.fleet.inventory.inventories import PLAIN, read, sound
from tests.fleet.inventory.test_files import Numbered


def placed(overlay: str, **places: str) -> str:
    """PLAIN with an overlay and, by IAD, what stands in its table `[iad.overlay]`. iad3 and iad4
    only have a master."""
    text = PLAIN
    for number in (3, 4):
        if (name := f"iad{number}") in places:
            text += f'[[iad]]\nname = "{name}"\nmaster.address = "10.{number}.0.10"\n'
    for iad, place in places.items():
        text = text.replace(f'name = "{iad}"\n', f'name = "{iad}"\noverlay = {{ {place} }}\n')
    return text + (f"[overlay]\n{overlay}\n" if overlay else "")


LINKS = 'links = [["a", "b"]]\nclusters = 2\n'
FOUR = {
    "iad1": 'vertex = "a", advertise = [{ filter = "value > 3" }]',
    "iad2": 'vertex = "b"',
    "iad3": 'vertex = "a", cluster = 1',
    "iad4": 'vertex = "b", cluster = 1',
}


def test_each_master_is_told_its_place_and_its_neighbours() -> None:
    fleet = read(placed(f'{LINKS}routing = "snr"', **FOUR))
    assert problems(fleet) == []
    config = master_config(fleet, fleet.iad[0])
    assert config.overlay == MasterOverlay(
        vertex="a",
        cluster=0,
        links=(("a", "b"),),
        clusters=2,
        routing="snr",
        neighbour=(
            OverlayNeighbour("iad2", "b", 0, "tcp://10.2.0.10:5700", "keys/iad-iad2.public"),
            OverlayNeighbour("iad3", "a", 1, "tcp://10.3.0.10:5700", "keys/iad-iad3.public"),
        ),
        advertise=(OverlayAdvertisement("value > 3"),),
    )
    assert place_of(config).broker == BrokerId("a", 0)


def test_neighbours_outside_the_pool_have_their_keys_there_too() -> None:
    fleet = read(placed(LINKS, **FOUR))
    found = files_of(fleet, one_host(fleet, "iad1/master"), Numbered(fleet))
    assert {f.path for f in found if f.path.endswith(".public")} == {
        "keys/iad-iad2.public",
        "keys/iad-iad3.public",
    }


@given(sound())
@settings(deadline=None, max_examples=examples(50))
def test_every_place_of_a_sound_inventory_is_one_that_its_master_takes(fleet) -> None:
    places = [place_of(master_config(fleet, iad)) for iad in fleet.iad if iad.overlay]
    assert len({(place.broker, place.scot.fingerprint) for place in places}) == len(places)
    for place in places:
        assert place.scot.order == len(places)
    without = [iad.name for iad in fleet.iad if iad.overlay is None]
    told = [line for line in warnings(fleet) if "no place in the overlay" in line]
    assert len(told) == (len(without) if fleet.overlay else 0)


@pytest.mark.parametrize(
    ("overlay", "places", "says"),
    [
        (
            "",
            {"iad1": 'vertex = "a"'},
            "iad1 has a place, but there is no overlay: write [overlay]",
        ),
        (LINKS, {}, "overlay: no IAD has a place: write [iad.overlay], with its vertex and"),
        (
            'links = [["a", "b"], ["b", "a"]]',
            FOUR,
            "overlay: ",
        ),
        (LINKS, FOUR | {"iad2": 'vertex = "c"'}, "iad2: the overlay has no vertex 'c'"),
        (LINKS, FOUR | {"iad2": 'vertex = "b", cluster = 2'}, "iad2: the clusters are numbered 0"),
        (
            LINKS,
            FOUR | {"iad4": 'vertex = "a", cluster = 1'},
            "iad3 and iad4 are both at vertex a, cluster 1: a place has one IAD",
        ),
        (
            LINKS,
            {"iad1": 'vertex = "a"', "iad2": 'vertex = "b"', "iad4": 'vertex = "b", cluster = 1'},
            "overlay: no IAD is at vertex a, cluster 1; every place needs one",
        ),
        (
            "clusters = 9",
            {"iad1": 'vertex = "a"'},
            "vertex a, cluster 1; vertex a, cluster 2; vertex a, cluster 3, nor at 5 others;",
        ),
        (
            LINKS,
            FOUR | {"iad2": 'vertex = "b", advertise = [{ filter = "value >" }]'},
            "iad2: overlay.advertise.filter 'value >': at character 8: expected",
        ),
    ],
)
def test_one_line_says_what_is_wrong(overlay: str, places: dict[str, str], says: str) -> None:
    found = problems(read(placed(overlay, **places)))
    assert any(says in line for line in found), found
    assert len(found) <= 2


def test_who_has_no_place_is_told_so() -> None:
    fleet = read(placed("", iad3='vertex = "x"') + "[overlay]\n")
    assert problems(fleet) == []
    assert "iad1 has no place in the overlay: its alerts stay in it" in warnings(fleet)


def test_partners_are_neighbours_of_each_master_that_names_them() -> None:
    """The fleet's list is the same for all: each takes those that it can reach."""
    common = '[placement]\npartners = ["iad1", "iad3", "iad4"]\n'
    fleet = read(placed(LINKS, **FOUR) + common)
    assert problems(fleet) == []
    partners = [master_config(fleet, iad).placement.partners for iad in fleet.iad]
    assert partners == [("iad3",), ("iad1", "iad4"), ("iad1", "iad4"), ("iad3",)]
    for iad in fleet.iad:
        assert set(partners_of(master_config(fleet, iad))) >= set(
            master_config(fleet, iad).placement.partners
        )
    own = 'name = "iad3"\nmaster.placement.partners = ["iad4"]\n'
    fleet = read(placed(LINKS, **FOUR).replace('name = "iad3"\n', own) + common)
    assert problems(fleet) == []
    assert master_config(fleet, fleet.iad[2]).placement.partners == ("iad4",)


def test_partners_that_cannot_be_reached_are_named() -> None:
    own = 'name = "iad3"\nmaster.placement.partners = ["{}"]\n'
    text = placed(LINKS, **FOUR)
    for other in ("iad2", "iad3", "iad5"):
        (line,) = problems(read(text.replace('name = "iad3"\n', own.format(other))))
        assert line.startswith(
            f"iad3/master: placement.partners has {other}, which is neither in its pool nor its "
            "neighbour in the overlay; "
        )
    (line,) = problems(read(text + '[placement]\npartners = ["iad9"]\n'))
    assert line.startswith("placement.partners has iad9, which is no IAD; ")
