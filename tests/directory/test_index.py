"""The index of areas: found are the IADs that offer what is asked, below or above it."""

from hypothesis import given
from hypothesis import strategies as st

from agent.directory.index import AreaIndex, places_of
from agent.wire import directory as d
from agent.wire.areas import overlaps

# "-" and "." sort before "/", "0" after it.
PLACES = ("a", "a/b", "a/b/c", "a/b/c/d", "a/bb", "a/b-c", "a/b.c", "a/b0", "a-b", "a0", "d")
offerings = st.lists(
    st.builds(
        d.Offering,
        st.sampled_from(["temperature", "humidity"]),
        st.lists(st.sampled_from(PLACES), min_size=1, max_size=5).map(tuple),
    ),
    max_size=3,
).map(tuple)


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), offerings), max_size=12),
    st.lists(st.sampled_from((*PLACES, "a/b/c/e", "d/e", "e")), min_size=1, max_size=4),
)
def test_an_index_is_what_its_entries_say_and_empty_without_them(changes, asked):
    index, held = AreaIndex(), {}
    for name, after in [*changes, *((name, ()) for name in "xyz")]:
        index.replace(name, held.pop(name, ()), after)
        if after:
            held[name] = after
        areas = {iad: areas_of(offered, "temperature") for iad, offered in held.items()}
        for wanted in (asked, *((area,) for area in asked)):
            found, uncovered = index.find("temperature", wanted)
            assert found == {
                iad: matched
                for iad, offered in areas.items()
                if (matched := tuple(a for a in offered if any(overlaps(a, w) for w in wanted)))
            }
            assert list(uncovered) == [
                area
                for area in dict.fromkeys(wanted)
                if not any(overlaps(area, one) for found in areas.values() for one in found)
            ]
        assert index.places == sum(places_of(offered, 1_000) for offered in held.values())
        for iad, offered in held.items():
            assert index.areas(iad, offered) == areas_of(offered, "temperature", "humidity")
    assert index._capabilities == {}


def areas_of(offerings, *capabilities):
    return tuple(sorted({a for o in offerings if o.capability in capabilities for a in o.areas}))


def test_places_are_the_areas_and_those_above_them_for_each_capability():
    offered = (d.Offering("t", ("a/b/c", "a/b/d", "a/b", "a/b/c")), d.Offering("h", ("a/b/c",)))
    # Of t: itself three times, above them a and a/b. Of h: a/b/c, a/b and a.
    assert places_of(offered, 100) == 8
    assert places_of(offered, 8) == 8
    assert places_of(offered, 7) == 8
    deep = d.Offering("t", tuple("/".join([f"x{n}"] * 16) for n in range(1_000)))
    assert places_of((deep,), 100) == 101


class Counting(dict):
    """A dict that counts how often it is looked at."""

    looks = 0

    def get(self, *args):
        self.looks += 1
        return super().get(*args)


def test_a_change_of_one_area_looks_at_the_areas_above_it_alone():
    areas = tuple(f"c/b{n // 64}/f{n // 8}/r{n}" for n in range(1_024))
    index = AreaIndex()
    before = (d.Offering("temperature", areas),)
    index.replace("iad1", (), before)
    offered = index._capabilities["temperature"]
    offered.below = Counting(offered.below)
    after = (d.Offering("temperature", (*areas[:-1], "c/b99/f9/r9")),)
    index.replace("iad1", before, after)
    assert 0 < offered.below.looks <= 8
    assert index.find("temperature", ["c/b99", areas[-1]]) == (
        {"iad1": ("c/b99/f9/r9",)},
        (areas[-1],),
    )
